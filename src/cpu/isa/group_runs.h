// Calls the code of runs (cpu/group_runs.h) on blocks of a group.
#pragma once

#include <array>
#include <vector>

#include "cpu/group_runs.h"
#include "cpu/isa.h"
#include "cpu/isa/cast.h"
#include "cpu/isa/positions.h"

namespace facula::cpu::FACULA_ISA {

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
constexpr emit::Level kRunLevel = emit::Level::Avx512;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
constexpr emit::Level kRunLevel = emit::Level::Avx2;
#else
constexpr emit::Level kRunLevel = emit::Level::None;
#endif

/// A run with its arguments, of one thread.
class RunCaller {
 public:
  /// One for each run; `number` gives the copies of a number that a step's input is.
  template <class NumberOf>
  static std::vector<RunCaller> all(const Group& group, const GroupRuns& runs, NumberOf number) {
    std::vector<RunCaller> callers;
    for (const GroupRun& run : runs.runs) {
      RunCaller& caller = callers.emplace_back(RunCaller(group, run));
      for (size_t k = 0; k < run.arguments.size(); ++k) {
        const GroupRun::Argument& a = run.arguments[k];
        if (a.kind == Kind::Number) caller.arguments_[k] = number(a.value, a.input)->bytes;
        if (a.kind == Kind::Params) caller.arguments_[k] = group.steps[a.value].params;
      }
    }
    return callers;
  }

  /// Over `count` elements of a block; `now` is where that of every value is.
  void run(const std::vector<char*>& now, int64_t count) {
    find_elements(now);
    call_run(*run_, count, arguments_.data());
  }

  /// Over whole rows: one by one where something is a number for each, or a row for all of them (`is_row`).
  template <class IsRow>
  void run_rows(const std::vector<char*>& now, int64_t rows, IsRow is_row) {
    find_elements(now);
    const auto differs = [&](const GroupRun::Argument& a) {
      return a.kind == Kind::OfRows || (a.kind == Kind::Elements && is_row(a.value));
    };
    const int64_t row = group_->row;
    if (std::ranges::none_of(run_->arguments, differs)) return call_run(*run_, rows * row, arguments_.data());
    numbers_.resize(run_->arguments.size());
    for (int64_t r = 0; r < rows; ++r) {
      for (size_t k = 0; k < arguments_.size(); ++k) {
        const GroupRun::Argument& a = run_->arguments[k];
        if (a.kind != Kind::OfRows) continue;
        const DType dtype = group_->values[a.value].dtype;
        cast(run_->compute, dtype, 1, numbers_[k].data(), now[a.value] + r * item_size(dtype));
        arguments_[k] = numbers_[k].data();
      }
      call_run(*run_, row, arguments_.data());
      for (size_t k = 0; k < arguments_.size(); ++k) {
        const GroupRun::Argument& a = run_->arguments[k];
        if (a.item && !differs(a)) arguments_[k] = static_cast<const char*>(arguments_[k]) + row * a.item;
      }
    }
  }

 private:
  using Kind = GroupRun::Argument::Kind;

  RunCaller(const Group& group, const GroupRun& run) : group_(&group), run_(&run), arguments_(run.arguments.size()) {}

  void find_elements(const std::vector<char*>& now) {
    for (size_t k = 0; k < arguments_.size(); ++k)
      if (run_->arguments[k].item) arguments_[k] = now[run_->arguments[k].value];
  }

  const Group* group_;
  const GroupRun* run_;
  std::vector<const void*> arguments_;
  std::vector<std::array<char, 16>> numbers_;  // of the row
};

}  // namespace facula::cpu::FACULA_ISA

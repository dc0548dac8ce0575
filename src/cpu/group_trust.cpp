#include "cpu/group_trust.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "ops/kernel_table.h"

namespace facula::cpu {
namespace {

constexpr int64_t kTried = 64;  // elements, whole vectors
constexpr uint16_t kLoops = 256;

/// The operands and parameters of a trial, and what comes out.
template <class T>
struct Trial {
  alignas(64) T in[kMaxInputs][kTried];
  alignas(64) T by_loop[kTried], by_code[kTried];
  alignas(16) T params[kMaxParams];

  Trial() {
    uint64_t state = 0x9e3779b97f4a7c15;
    const auto next = [&state] {  // from -2 to 2, with all digits
      state = state * 6364136223846793005u + 1442695040888963407u;
      return static_cast<T>(static_cast<double>(static_cast<int64_t>(state)) / static_cast<double>(int64_t{1} << 62));
    };
    for (auto& operand : in)
      for (T& element : operand) element = next();
    for (T& param : params) param = next();
  }
  bool agrees() const {
    for (size_t i = 0; i < kTried; ++i) {
      const bool both_nan = by_loop[i] != by_loop[i] && by_code[i] != by_code[i];
      if (!both_nan && std::memcmp(&by_loop[i], &by_code[i], sizeof(T)) != 0) return false;
    }
    return true;
  }
};

std::shared_ptr<const emit::Code> code_of(const emit::Rule& rule, DType compute, emit::Level level, bool plain) {
  emit::StepGraph p(compute);
  emit::NodeId in[kMaxInputs], params[kMaxParams];
  for (uint16_t k = 0; k < kMaxInputs; ++k) in[k] = p.load(k, compute);
  for (uint16_t k = 0; k < rule.params; ++k)
    params[k] = p.number(kMaxInputs, static_cast<uint16_t>(k * item_size(compute)));
  p.store(kMaxInputs + 1, compute, plain ? rule.make_plain(p, in) : rule.make(p, in, params));
  std::vector<uint8_t> bytes;
  return emit::translate(p, level, bytes) ? emit::Code::make(bytes) : nullptr;
}

template <class T>
bool try_out(const emit::Rule& rule, DType compute, emit::Level level, bool plain) {
  const LoopFn loop = loop_table[rule.loop][index(compute)];
  const auto code = code_of(rule, compute, level, plain);
  if (!loop || !code) return false;
  Trial<T> trial;
  if (plain) trial.params[0] = 1;
  LoopInput in[kMaxInputs];
  const void* arguments[kMaxInputs + 2] = {};
  for (size_t k = 0; k < kMaxInputs; ++k) arguments[k] = in[k].data = trial.in[k];
  arguments[kMaxInputs] = trial.params;
  arguments[kMaxInputs + 1] = trial.by_code;
  loop(kTried, trial.by_loop, in, trial.params);
  reinterpret_cast<emit::RunFn>(reinterpret_cast<uintptr_t>(code->at(0)))(kTried, arguments);
  return trial.agrees();
}

}  // namespace

bool is_as_its_loop(const emit::Rule& rule, DType compute, emit::Level level) {
  // comparisons, logic and choices round nothing; nor do conversions, which have no loop
  if (rule.form != emit::Rule::Form::Number || rule.loop >= kLoops || compute == DType::Bool) return true;
  enum : uint8_t { kUnknown, kYes, kNo };
  static std::array<std::array<std::atomic<uint8_t>, 4>, kLoops> known{};
  const size_t which = (compute == DType::Float64 ? 2 : 0) + (level == emit::Level::Avx512 ? 1 : 0);
  std::atomic<uint8_t>& answer = known[rule.loop][which];
  if (answer.load(std::memory_order_relaxed) == kUnknown) {
    const auto agrees = [&](bool plain) {
      return compute == DType::Float64 ? try_out<double>(rule, compute, level, plain)
                                       : try_out<float>(rule, compute, level, plain);
    };
    const bool yes = agrees(false) && (!rule.make_plain || agrees(true));
    answer.store(yes ? kYes : kNo, std::memory_order_relaxed);
  }
  return answer.load(std::memory_order_relaxed) == kYes;
}

}  // namespace facula::cpu

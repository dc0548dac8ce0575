#include "cpu/group_runs.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "cpu/group_trust.h"

namespace facula::cpu {
namespace {

using emit::Level;
using emit::Rule;
using Form = Rule::Form;
using Kind = GroupRun::Argument::Kind;

constexpr size_t kMostArguments = 64;
constexpr int kNotMade = -1;

// Conversions, which rounding the result does.
const Rule kConversion{0, Form::Number, 0,
                       [](emit::StepGraph&, const emit::NodeId* in, const emit::NodeId*) { return in[0]; }};
const Rule kConversionToTruth{0, Form::Test, 0, [](emit::StepGraph& p, const emit::NodeId* in, const emit::NodeId*) {
                                return p.truth_of(in[0]);
                              }};

const Rule* rule_of(const Group& group, const GroupStep& step) {
  if (step.rows || step.fold || step.per_row || step.outs != 1) return nullptr;
  if (!step.copies) return emit::rule_of(step.loop, step.compute);
  return group.values[step.out[0]].dtype == DType::Bool ? &kConversionToTruth : &kConversion;
}

/// Whether the only parameter of a step is the number 1, which then need not be read.
bool is_plain(const Rule& rule, const GroupStep& step) {
  if (!rule.make_plain) return false;
  if (step.compute == DType::Float64) {
    double value;
    std::memcpy(&value, step.params, sizeof value);
    return value == 1;
  }
  float value;
  std::memcpy(&value, step.params, sizeof value);
  return value == 1;
}

/// Makes the graph of one run.
class RunBuilder {
 public:
  RunBuilder(const Group& group, const std::vector<Held>& held, DType compute)
      : group_(group), held_(held), graph_(compute), numbers_(group.values.size(), kNotMade), truths_(numbers_) {
    run_.compute = compute;
  }

  /// Whether a step can be part of the run, given that those before it are.
  static bool takes(const Group& group, const std::vector<Held>& held, size_t s, DType compute) {
    const GroupStep& step = group.steps[s];
    const Rule* rule = rule_of(group, step);
    if (!rule || (!step.copies && step.compute != compute && step.compute != DType::Bool)) return false;
    const GroupValue& out = group.values[step.out[0]];
    const bool gives_truth = rule->form == Form::Test || rule->form == Form::Logic;
    if (out.per_row || (out.dtype == DType::Bool) != gives_truth) return false;
    if (!gives_truth && !emit::can_store(out.dtype, compute)) return false;
    if (is_half(out.dtype) && multiplies_numbers(held, step, *rule)) return false;
    for (size_t k = 0; k < step.inputs; ++k)
      if (!takes_input(group, held, step, *rule, k, compute)) return false;
    return true;
  }

  void add(size_t s) {
    const GroupStep& step = group_.steps[s];
    const Rule& rule = *rule_of(group_, step);
    emit::NodeId in[kMaxInputs], params[kMaxParams];
    for (size_t k = 0; k < step.inputs; ++k) in[k] = reads_truth(rule, k) ? truth(step.in[k]) : number(s, k);
    const GroupValue& out = group_.values[step.out[0]];
    if (is_plain(rule, step)) {
      set(step.out[0], rule.make_plain(graph_, in));
    } else {
      if (rule.params) argument({Kind::Params, 0, static_cast<uint16_t>(s)});
      const auto last = static_cast<uint16_t>(run_.arguments.size() - 1);
      for (uint16_t k = 0; k < rule.params; ++k)
        params[k] = graph_.number(last, static_cast<uint16_t>(k * item_size(step.compute)));
      set(step.out[0], rule.make(graph_, in, params));
    }
    const bool rounds = out.dtype != DType::Bool && !(rule.keeps_digits && dtype_of(step.in[0]) == out.dtype);
    if (rounds) numbers_[step.out[0]] = graph_.narrowed(out.dtype, static_cast<emit::NodeId>(numbers_[step.out[0]]));
  }

  void store(uint16_t value) {
    const DType dtype = dtype_of(value);
    const auto item = static_cast<uint8_t>(item_size(dtype));
    const uint16_t to = argument({Kind::Stored, 0, value, item});
    const int made = dtype == DType::Bool ? truths_[value] : numbers_[value];
    graph_.store(to, dtype, static_cast<emit::NodeId>(made));
  }

  bool fits() const { return run_.arguments.size() <= kMostArguments; }
  const emit::StepGraph& graph() const { return graph_; }
  GroupRun run() { return run_; }

 private:
  static bool reads_truth(const Rule& rule, size_t k) {
    return rule.form == Form::Logic || (rule.form == Form::Where && k == 0);
  }
  /// Loops over float16 and bfloat16 (half.cpp) multiply numbers once, before they go through elements: that product is
  /// rounded.
  static bool multiplies_numbers(const std::vector<Held>& held, const GroupStep& step, const Rule& rule) {
    for (size_t k = 0; k < step.inputs; ++k)
      if (rule.factors >> k & 1 && held[step.in[k]] != Held::Number && held[step.in[k]] != Held::OfRows) return false;
    return rule.factors != 0;
  }
  static bool takes_input(const Group& group, const std::vector<Held>& held, const GroupStep& step, const Rule& rule,
                          size_t k, DType compute) {
    const uint16_t v = step.in[k];
    const DType dtype = group.values[v].dtype;
    if (held[v] == Held::Unfit) return false;
    if (held[v] == Held::Number || held[v] == Held::OfRows) return !reads_truth(rule, k) && step.compute != DType::Bool;
    return emit::can_load(dtype, compute) && (dtype == DType::Bool || step.compute != DType::Bool);
  }

  DType dtype_of(uint16_t value) const { return group_.values[value].dtype; }
  uint16_t argument(GroupRun::Argument a) {
    run_.arguments.push_back(a);
    return static_cast<uint16_t>(run_.arguments.size() - 1);
  }
  void set(uint16_t value, emit::NodeId made) { (dtype_of(value) == DType::Bool ? truths_ : numbers_)[value] = made; }

  /// An input as a number. Those that are numbers for all elements are read in the compute dtype.
  emit::NodeId number(size_t s, size_t k) {
    const uint16_t v = group_.steps[s].in[k];
    if (numbers_[v] == kNotMade) {
      const bool one = held_[v] == Held::Number || held_[v] == Held::OfRows;
      if (one) {
        const Kind kind = held_[v] == Held::Number ? Kind::Number : Kind::OfRows;
        numbers_[v] = graph_.number(
            argument({kind, static_cast<uint8_t>(k), kind == Kind::Number ? static_cast<uint16_t>(s) : v}), 0);
      } else if (dtype_of(v) == DType::Bool) {
        numbers_[v] = graph_.number_of(truth(v));
      } else {
        numbers_[v] = load(v);
      }
    }
    return static_cast<emit::NodeId>(numbers_[v]);
  }
  emit::NodeId truth(uint16_t v) {
    if (truths_[v] == kNotMade) {
      if (dtype_of(v) == DType::Bool) truths_[v] = graph_.truth_of_bytes(load(v));
      else truths_[v] = graph_.truth_of(numbers_[v] == kNotMade ? load(v) : static_cast<emit::NodeId>(numbers_[v]));
    }
    return static_cast<emit::NodeId>(truths_[v]);
  }
  emit::NodeId load(uint16_t v) {
    const auto item = static_cast<uint8_t>(item_size(dtype_of(v)));
    return graph_.load(argument({Kind::Elements, 0, v, item}), dtype_of(v));
  }

  const Group& group_;
  const std::vector<Held>& held_;
  emit::StepGraph graph_;
  std::vector<int> numbers_, truths_;  // by value
  GroupRun run_;
};

/// Splits a group into runs and translates them.
class Splitter {
 public:
  Splitter(const Group& group, const std::vector<Held>& held, Level level)
      : group_(group), held_(held), level_(level), last_(group.values.size(), 0) {
    for (size_t s = 0; s < group.steps.size(); ++s)
      for (size_t k = 0; k < group.steps[s].inputs; ++k) last_[group.steps[s].in[k]] = s;
  }

  std::shared_ptr<const GroupRuns> split() {
    auto result = std::make_shared<GroupRuns>();
    result->inside.resize(group_.values.size());
    std::vector<uint8_t> code;
    std::vector<size_t> places;
    for (size_t s = 0; s < group_.steps.size();) {
      const size_t end = end_of(s);
      const size_t taken = end - s > 1 ? translate(s, end, *result, code, places) : 0;
      s = taken ? taken : std::max(end, s + 1);
    }
    if (result->runs.empty() || !(result->code = emit::Code::make(code))) return nullptr;
    for (size_t i = 0; i < places.size(); ++i)
      result->runs[i].code = reinterpret_cast<emit::RunFn>(reinterpret_cast<uintptr_t>(result->code->at(places[i])));
    return result;
  }

 private:
  /// The dtype of the first step from one on that says what a run computes in.
  DType compute_of(size_t s) const {
    for (; s < group_.steps.size() && rule_of(group_, group_.steps[s]); ++s) {
      const GroupStep& step = group_.steps[s];
      const bool is_double =
          group_.values[step.in[0]].dtype == DType::Float64 || group_.values[step.out[0]].dtype == DType::Float64;
      if (step.copies && is_double) return DType::Float64;
      if (!step.copies && step.compute != DType::Bool) return step.compute;
    }
    return DType::Float32;
  }
  size_t end_of(size_t s) const {
    const DType compute = compute_of(s);
    while (s < group_.steps.size() && RunBuilder::takes(group_, held_, s, compute) && is_trusted(s)) ++s;
    return s;
  }
  bool is_trusted(size_t s) const {
    const GroupStep& step = group_.steps[s];
    return step.copies || is_as_its_loop(*rule_of(group_, step), step.compute, level_);
  }
  bool is_wanted(uint16_t value, size_t end) const { return group_.values[value].data || last_[value] >= end; }

  /// Where the run ends that begins with a step: earlier than requested where registers do not suffice; 0 where none
  /// is.
  size_t translate(size_t first, size_t end, GroupRuns& result, std::vector<uint8_t>& code,
                   std::vector<size_t>& places) {
    for (; end - first > 1; end = first + (end - first) * 3 / 4) {
      RunBuilder builder(group_, held_, compute_of(first));
      for (size_t s = first; s < end; ++s) {
        builder.add(s);
        if (is_wanted(group_.steps[s].out[0], end)) builder.store(group_.steps[s].out[0]);
      }
      while (code.size() % 64) code.push_back(0xcc);
      const size_t place = code.size();
      if (!builder.fits() || !emit::translate(builder.graph(), level_, code)) continue;
      places.push_back(place);
      GroupRun& run = result.runs.emplace_back(builder.run());
      run.first = first;
      run.end = end;
      run.lanes = level_ == Level::Avx512 ? 0 : emit::lanes_of(run.compute);
      for (size_t s = first; s < end; ++s)
        result.inside[group_.steps[s].out[0]] = !is_wanted(group_.steps[s].out[0], end);
      return end;
    }
    return 0;
  }

  const Group& group_;
  const std::vector<Held>& held_;
  Level level_;
  std::vector<size_t> last_;  // by value: the last step that reads it
};

// ---- The cache

/// What code depends on: everything of a group but numbers and addresses.
class Key {
 public:
  Key(const Group& group, const std::vector<Held>& held, Level level) : words(of_thread) {
    words.clear();
    words.push_back(group.values.size() << 8 | static_cast<uint64_t>(level));
    put_values(group, held);
    for (const GroupStep& step : group.steps) put_step(group, step);
  }
  uint64_t hash() const {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
    uint64_t even = words.size(), odd = 0;  // two chains, which do not wait for each other
    for (size_t i = 0; i + 1 < words.size(); i += 2) {
      even = (std::rotl(even, 23) ^ words[i]) * kOdd;
      odd = (std::rotl(odd, 29) ^ words[i + 1]) * kOdd;
    }
    even = (even ^ words.back()) * kOdd;
    return even ^ std::rotl(odd, 32) ^ even >> 29;
  }
  std::vector<uint64_t>& words;

 private:
  static inline thread_local std::vector<uint64_t> of_thread;

  /// Four to a word.
  void put_values(const Group& group, const std::vector<Held>& held) {
    for (size_t i = 0; i < group.values.size(); ++i) {
      const GroupValue& v = group.values[i];
      const bool written = v.data && v.kind == GroupValue::Kind::Result;
      const auto how = static_cast<uint64_t>(held[i]) | uint64_t{v.per_row} << 2 | uint64_t{written} << 3;
      const uint64_t value = static_cast<uint64_t>(v.dtype) << 4 | how;
      if (i % 4 == 0) words.push_back(value);
      else words.back() |= value << i % 4 * 16;
    }
  }
  void put_step(const Group& group, const GroupStep& step) {
    const Rule* rule = rule_of(group, step);
    const uint64_t kind = !rule ? 0 : step.copies ? 1 : is_plain(*rule, step) ? 2 : 3;
    const uint64_t loop = rule && !step.copies ? step.loop | static_cast<uint64_t>(step.compute) << 16 : 0;
    words.push_back(loop | kind << 32 | uint64_t{step.inputs} << 40 | uint64_t{step.outs} << 48);
    uint64_t values = step.out[0];
    for (size_t k = 0; k < step.inputs; ++k) values |= uint64_t{step.in[k]} << 16 * (k + 1);
    words.push_back(values);
    for (size_t k = 1; k < step.outs; ++k) words.push_back(step.out[k]);
  }
};

struct Cache {
  static constexpr size_t kMost = 1024;  // then all are forgotten
  struct Known {
    std::vector<uint64_t> key;
    std::shared_ptr<const GroupRuns> runs;
  };
  std::mutex lock;
  std::unordered_map<uint64_t, Known> known;  // of two keys with one hash the last
};

Cache& cache() {
  static auto* const all = new Cache;  // threads may run groups while the program ends
  return *all;
}

bool is_off() {
  static const char* const setting = std::getenv("FACULA_COMPILE_EMIT");
  return setting && *setting == '0';
}

}  // namespace

std::shared_ptr<const GroupRuns> runs_of(const Group& group, const std::vector<Held>& held, Level level) {
  if (level == Level::None || group.steps.size() < 2 || is_off()) return nullptr;
  const Key key(group, held, level);
  const uint64_t hash = key.hash();
  Cache& c = cache();
  std::lock_guard guard(c.lock);
  const auto found = c.known.find(hash);
  if (found != c.known.end() && found->second.key == key.words) return found->second.runs;
  if (c.known.size() >= Cache::kMost) c.known.clear();
  Cache::Known& known = c.known[hash];
  known = {key.words, Splitter(group, held, level).split()};
  return known.runs;
}

void call_run(const GroupRun& run, int64_t n, const void* const* arguments) {
  const int64_t rest = run.lanes ? n % run.lanes : 0, whole = n - rest;
  if (whole) run.code(whole, arguments);
  if (!rest) return;
  constexpr size_t kBuffer = emit::kCodeBytes;
  alignas(kBuffer) char buffers[kMostArguments][kBuffer];
  const void* at[kMostArguments];
  for (size_t k = 0; k < run.arguments.size(); ++k) {
    const GroupRun::Argument& a = run.arguments[k];
    at[k] = a.item ? buffers[k] : arguments[k];
    if (a.kind != Kind::Elements) continue;
    std::memset(buffers[k], 0, kBuffer);
    std::memcpy(buffers[k], static_cast<const char*>(arguments[k]) + whole * a.item,
                static_cast<size_t>(rest * a.item));
  }
  run.code(run.lanes, at);
  for (size_t k = 0; k < run.arguments.size(); ++k) {
    const GroupRun::Argument& a = run.arguments[k];
    if (a.kind != Kind::Stored) continue;
    char* to = static_cast<char*>(const_cast<void*>(arguments[k]));
    std::memcpy(to + whole * a.item, buffers[k], static_cast<size_t>(rest * a.item));
  }
}

}  // namespace facula::cpu

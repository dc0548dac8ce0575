#include "region/deferred.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "core/kernel.h"
#include "core/recipe.h"
#include "observe/observer.h"
#include "program/boxed.h"
#include "program/inner.h"

namespace facula::region {
namespace {

/// Ops whose results have no values: whoever makes them writes into them.
constexpr std::string_view kWithoutValues[] = {"empty",          "empty_like", "empty_strided",
                                               "empty_permuted", "new_empty",  "new_empty_strided"};
/// Ops that choose the layout of their results by what they have met before.
constexpr std::string_view kChooseLayouts[] = {"convolution", "convolution_weight"};

/// Recipes that wait for each other run inside each other, so a chain has an end.
constexpr int kLongestChain = 48;

std::atomic<uint64_t> deferred_ops{0}, made_ops{0}, ops_at_once{0};
bool every_op = false;
uint64_t seed = 0;
std::atomic<uint64_t> ops_seen{0};

/// Whether the next op is one that waits: a hash of its number.
bool is_chosen() {
  if (every_op) return true;
  uint64_t x = seed * 0x9e3779b97f4a7c15u + ops_seen.fetch_add(1, std::memory_order_relaxed) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (x ^ (x >> 31)) & 1;
}

/// An op as if nothing around it were set: its call is below autocast, vmap and autograd.
class Bare {
 public:
  Bare() : modes_(std::exchange(thread_state.modes, 0u)) {}
  ~Bare() { thread_state.modes = modes_; }
  Bare(const Bare&) = delete;

 private:
  Unwatched unwatched_;
  GradMode no_grad_{false};
  uint32_t modes_;
};

// Warnings are given at the call.
thread_local std::vector<std::string>* noted_warnings = nullptr;
void (*warn_program)(const char* text) = nullptr;
void note_warning(const char* text) {
  if (noted_warnings) noted_warnings->emplace_back(text);
  else warn_program(text);
}
class NotedWarnings {
 public:
  NotedWarnings() : before_(std::exchange(noted_warnings, &texts)) {}
  ~NotedWarnings() { noted_warnings = before_; }
  NotedWarnings(const NotedWarnings&) = delete;
  std::vector<std::string> texts;

 private:
  std::vector<std::string>* before_;
};

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool can_wait(const BoxedOp& op) {
  const auto is_plain = [](const BoxedType& r) { return r.base == BoxedType::Base::Tensor && !r.list; };
  return !op.has_effects() && !op.may_alias && std::all_of(op.results.begin(), op.results.end(), is_plain) &&
         !is_one_of(op.name, kWithoutValues) && !is_one_of(op.name, kChooseLayouts);
}

/// The row of an op that can wait; null for others.
const BoxedOp* waiting_row(uint16_t id) {
  static auto* rows = new std::array<std::atomic<const BoxedOp*>, 1 << 16>{};
  static const BoxedOp none;
  std::atomic<const BoxedOp*>& known = (*rows)[id];
  const BoxedOp* row = known.load(std::memory_order_acquire);
  if (!row) {
    row = find_boxed(id, OpForm::Function);
    if (!row || !can_wait(*row)) row = &none;
    known.store(row, std::memory_order_release);
  }
  return row == &none ? nullptr : row;
}

/// Calls f(const Tensor&) for the tensors among values that are defined.
template <class F>
void each_tensor(const std::vector<Value>& values, F&& f) {
  for (const Value& v : values) {
    if (v.is_tensor()) f(v.tensor());
    if (v.kind() != Value::Kind::Tensors) continue;
    for (const Tensor& t : v.tensors())
      if (t.defined()) f(t);
  }
}
/// The values with f(const Tensor&) in place of every tensor; one that comes twice stays one.
template <class F>
std::vector<Value> replaced(const std::vector<Value>& values, F&& f) {
  std::vector<std::pair<const TensorImpl*, Tensor>> made;
  auto replace = [&](const Tensor& t) {
    if (!t.defined()) return t;
    for (const auto& [before, after] : made)
      if (before == t.impl()) return after;
    made.emplace_back(t.impl(), f(t));
    return made.back().second;
  };
  std::vector<Value> result = values;
  for (Value& v : result) {
    if (v.is_tensor()) v = replace(v.tensor());
    else if (v.kind() == Value::Kind::Tensors) {
      std::vector<Tensor> list;
      for (const Tensor& t : v.tensors()) list.push_back(replace(t));
      v = std::move(list);
    }
  }
  return result;
}

std::vector<Value> call(const BoxedOp& op, const std::vector<Value>& arguments) {
  std::vector<const Value*> given;
  for (const Value& v : arguments) given.push_back(&v);
  std::vector<Value> made(op.results.size());
  op.call(given.data(), made.data());
  return made;
}

/// Whether nobody else holds the bytes of a fresh result, which fill its storage.
bool is_alone(const Tensor& t) {
  const Extent extent = byte_extent(t);
  const Storage* s = t.storage();
  return s->refs.load() == 1 && t.impl()->data == s->data && extent.low == 0 &&
         static_cast<int64_t>(s->nbytes) == extent.high;
}

class OpRecipe final : public Recipe {
 public:
  /// `expected`: what the op gave at the call.
  OpRecipe(const BoxedOp& op, std::vector<Value> arguments, std::vector<Value> expected, int depth)
      : op_(op), arguments_(std::move(arguments)), expected_(std::move(expected)), depth_(depth) {
    each_tensor(arguments_, [this](const Tensor& t) { read_.push_back(t.storage()); });
    for (size_t i = 0; i < expected_.size(); ++i)
      if (expected_[i].tensor().defined()) place_.push_back(i);
  }
  int depth() const { return depth_; }

  /// Puts tensors that wait for this recipe into the place of the results.
  void promise(const Ref<Recipe>& self, List<ResultSlot> results) {
    for (size_t i : place_) {  // another thread may run the recipe from the first one on
      const Tensor& t = expected_[i].tensor();
      results[i].as<Tensor>() = defer(self, t.sizes(), t.strides(), t.dtype());
    }
    for (Storage* s : read_) read_late(s);
  }
  /// What result `which` will be.
  const Tensor& expected(size_t which) const { return expected_[place_[which]].tensor(); }

  bool reads(const Storage* storage) const override {
    return std::find(read_.begin(), read_.end(), storage) != read_.end();
  }

  void make(size_t) override {
    const Bare bare;
    const NotedWarnings given_before;
    const std::vector<Value> made = call(op_, arguments_);
    made_ops.fetch_add(1, std::memory_order_relaxed);
    for (size_t which = 0; which < place_.size(); ++which) {
      const Tensor& t = made[place_[which]].tensor();
      const Tensor& before = expected(which);
      const bool alike = t.defined() && is_alone(t) && t.sizes() == before.sizes() && t.strides() == before.strides() &&
                         t.dtype() == before.dtype() && !(t.flags() & (kConjugate | kNotAsPromised));
      FACULA_CHECK(alike && std::memcmp(t.data(), before.data(), before.storage()->nbytes) == 0, ErrorKind::Runtime,
                   "defer: ", op_.key(), " gave another result ", which,
                   " than at its call: what it reads has changed, or it is not the same function twice, got shape ",
                   before.sizes());
      put(which, t);
    }
  }

 private:
  const BoxedOp& op_;
  std::vector<Value> arguments_;
  std::vector<Value> expected_;
  std::vector<size_t> place_;   // of this recipe's results among those of the op
  std::vector<Storage*> read_;  // of the arguments, which keep them
  int depth_;
};

/// Whether a value stands for the number: there are none for integers beyond those of int64.
bool has_value(const Argument& a) {
  const auto fits = [](const Scalar& s) { return !s.is_integral() || s.dtype() == DType::Int64; };
  switch (a.kind()) {
    case Argument::Kind::Scalar: return fits(a.as<Scalar>());
    case Argument::Kind::OptScalar: return fits(a.as<std::optional<Scalar>>().value_or(Scalar()));
    case Argument::Kind::Operand: return a.as<Operand>().is_tensor() || fits(a.as<Operand>().scalar());
    default: return true;
  }
}
/// Whether a recipe can keep the argument.
bool can_be_held(const Tensor& t) {
  constexpr uint32_t kOtherwise = kBatched | kPythonDispatch | kPrivateLayout | kSparse;
  return !(t.flags() & kOtherwise) && t.is_cpu() && can_be_read_late(t.storage());
}

/// The argument with bytes, now: where it has none yet, those that it will have.
Tensor foreseen(const Tensor& t, int& depth) {
  size_t which = 0;
  const Ref<Recipe> behind = recipe_of(t, which);
  const auto* op = dynamic_cast<const OpRecipe*>(behind.get());
  if (!op) {
    materialize_bytes(t);
    return alias(t);
  }
  depth = std::max(depth, op->depth());
  Tensor seen =
      tensor_on_storage(op->expected(which).storage(), t.dtype(), t.storage_offset(), t.sizes(), t.strides(), "defer");
  seen.impl()->flags |= t.flags() & kConjugate;
  return seen;
}

enum class Fate : uint8_t { Waits, Given, RunsAtOnce };
/// What becomes of a call that gave `made` of `arguments`.
Fate fate_of(const std::vector<Value>& made, const std::vector<Value>& arguments) {
  Fate fate = Fate::Waits;
  each_tensor(made, [&](const Tensor& t) {
    each_tensor(arguments, [&](const Tensor& a) {
      if (a.storage() == t.storage()) fate = Fate::RunsAtOnce;  // it shows an argument
    });
    const bool plain = !(t.flags() & (kConjugate | kNotAsPromised)) && t.is_cpu() && t.is_dense() && t.numel() > 0;
    if (fate == Fate::Waits && !(plain && is_alone(t))) fate = Fate::Given;
  });
  return fate;
}

bool put_off(const OpCall& call) {
  if (call.form != OpForm::Function || are_ops_seen()) return false;
  const BoxedOp* op = waiting_row(call.op);
  if (!op || !is_chosen() || call.arguments.size() != op->arguments.size()) return false;
  std::vector<Value> arguments;
  bool holds_all = true;
  for (const Argument& a : call.arguments) {
    arguments.push_back(value_of(a));
    holds_all = holds_all && has_value(a);
  }
  each_tensor(arguments, [&](const Tensor& t) { holds_all = holds_all && can_be_held(t); });
  if (!holds_all) return false;
  static std::once_flag noting;
  std::call_once(noting, [] {
    if (host.warn) warn_program = std::exchange(host.warn, note_warning);
  });
  std::vector<std::string> warnings;
  std::vector<Value> made;
  int depth = 0;
  Fate fate = Fate::RunsAtOnce;
  try {
    const Bare bare;
    NotedWarnings noted;
    const std::vector<Value> seen = replaced(arguments, [&](const Tensor& t) { return foreseen(t, depth); });
    made = region::call(*op, seen);
    fate = fate_of(made, seen);
    if (depth >= kLongestChain && fate == Fate::Waits) fate = Fate::Given;
    arguments = replaced(arguments, alias);
    warnings = std::move(noted.texts);
  } catch (const Error&) {  // the op itself says what is wrong
  }
  (fate == Fate::Waits ? deferred_ops : ops_at_once).fetch_add(1, std::memory_order_relaxed);
  if (fate == Fate::RunsAtOnce) return false;
  if (fate == Fate::Given) {
    for (size_t i = 0; i < made.size(); ++i) call.results[i].as<Tensor>() = made[i].tensor();
  } else {
    const auto recipe = Ref<OpRecipe>::adopt(new OpRecipe(*op, std::move(arguments), std::move(made), depth + 1));
    recipe->promise(Ref<Recipe>::share(recipe.get()), call.results);
  }
  for (const std::string& text : warnings) warn_program(text.c_str());
  return true;
}

}  // namespace

void start_deferral() {
  const char* policy = std::getenv("FACULA_DEFER");
  if (!policy || !*policy) return;
  every_op = std::strcmp(policy, "all") == 0;
  const char* end = policy + std::strlen(policy);
  const bool number = !every_op && std::from_chars(policy, end, seed).ptr == end;
  FACULA_CHECK(every_op || number, ErrorKind::Value, "FACULA_DEFER: 'all' or a number is expected, got '", policy, "'");
  defer_op = put_off;
  set_watch_everywhere(kWatchDeferral, true);
}

Deferrals count_deferrals() { return {deferred_ops.load(), made_ops.load(), ops_at_once.load()}; }

}  // namespace facula::region

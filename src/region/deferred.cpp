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

/// Ops that may refuse what the elements of an argument are, or whose sizes depend on them.
constexpr std::string_view kRefuseValues[] = {
    "_assert",
};
/// Ops whose results have no values: whoever makes them writes into them.
constexpr std::string_view kWithoutValues[] = {"empty",          "empty_like", "empty_strided",
                                               "empty_permuted", "new_empty",  "new_empty_strided"};
/// Ops whose results may get a private layout, which others then keep: another order of sums.
constexpr std::string_view kChooseLayouts[] = {"convolution"};

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

// Warnings are given at the call. An op that waits gives them when it runs on meta tensors.
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
         !is_one_of(op.name, kRefuseValues) && !is_one_of(op.name, kWithoutValues) &&
         !is_one_of(op.name, kChooseLayouts);
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

/// What a result will be.
struct Promise {
  Dims sizes, strides;
  DType dtype = DType::Float32;
  bool defined = false;

  bool operator==(const Promise&) const = default;
  static Promise of(const Tensor& t) {
    if (!t.defined()) return {};
    return {Dims(t.sizes()), Dims(t.strides()), t.dtype(), true};
  }
};

std::vector<Value> call(const BoxedOp& op, const std::vector<Value>& arguments) {
  std::vector<const Value*> given;
  for (const Value& v : arguments) given.push_back(&v);
  std::vector<Value> made(op.results.size());
  op.call(given.data(), made.data());
  return made;
}

class OpRecipe final : public Recipe {
 public:
  OpRecipe(const BoxedOp& op, std::vector<Value> arguments, int depth)
      : op_(op), arguments_(std::move(arguments)), depth_(depth) {
    each_tensor(arguments_, [this](const Tensor& t) { read_.push_back(t.storage()); });
  }
  int depth() const { return depth_; }

  /// The result that is to be given to the program.
  Tensor promise(const Ref<Recipe>& self, const Promise& p) {
    number_.push_back(p.defined ? static_cast<int>(count()) : -1);
    promised_.push_back(p);
    return p.defined ? defer(self, p.sizes, p.strides, p.dtype) : Tensor();
  }
  void ask_for_arguments() const {
    for (Storage* s : read_) read_late(s);
  }

  bool reads(const Storage* storage) const override {
    return std::find(read_.begin(), read_.end(), storage) != read_.end();
  }

  void make(size_t) override {
    const Bare bare;
    const NotedWarnings given_before;
    const std::vector<Value> made = call(op_, arguments_);
    made_ops.fetch_add(1, std::memory_order_relaxed);
    for (size_t i = 0; i < made.size(); ++i) {
      const Tensor& t = made[i].tensor();
      materialize_layout(t);
      FACULA_CHECK(Promise::of(t) == promised_[i], ErrorKind::Runtime, "defer: ", op_.key(), " promised result ", i,
                   " of ", described(promised_[i]), ", got ", described(Promise::of(t)));
      if (number_[i] >= 0) put(static_cast<size_t>(number_[i]), alone(t));
    }
  }

 private:
  static std::string described(const Promise& p) {
    std::ostringstream text;
    if (!p.defined) return "nothing";
    text << p.dtype << " of sizes " << p.sizes << " and strides " << p.strides;
    return text.str();
  }
  /// The result on bytes that nobody else has, no more than it needs.
  static Tensor alone(const Tensor& t) {
    const Extent extent = byte_extent(t);
    const Storage* s = t.storage();
    const bool own = s->refs.load() == 1 && t.impl()->data == s->data && extent.low == 0 &&
                     static_cast<int64_t>(s->nbytes) == extent.high;
    if (own) return t;
    Tensor copy = empty_strided(t.sizes(), t.strides(), t.dtype());
    copy_elements(copy, t);
    return copy;
  }

  const BoxedOp& op_;
  std::vector<Value> arguments_;
  std::vector<Storage*> read_;  // of the arguments, which keep them
  std::vector<Promise> promised_;
  std::vector<int> number_;  // of the results as those of this recipe; -1: undefined
  int depth_;
};

/// Whether a recipe can keep the argument.
bool can_be_kept(const Tensor& t) {
  constexpr uint32_t kOtherwise = kBatched | kPythonDispatch | kPrivateLayout | kSparse;
  return !(t.flags() & kOtherwise) && t.is_cpu() && can_be_read_late(t.storage());
}
int depth_of(const Tensor& t) {
  const Ref<Recipe> behind = recipe_of(t);
  const auto* op = dynamic_cast<const OpRecipe*>(behind.get());
  return op ? op->depth() : 0;
}

/// What the op gives on meta tensors; nothing where it gives none that can wait.
std::vector<Promise> promises_of(const BoxedOp& op, const std::vector<Value>& arguments) {
  std::vector<std::pair<const Storage*, Ref<Storage>>> storages;
  const auto storage_like = [&](Storage* s) {
    for (const auto& [before, after] : storages)
      if (before == s) return after;
    storages.emplace_back(s, Ref<Storage>::adopt(make_storage(s->nbytes, Device{DeviceType::Meta, 0})));
    return storages.back().second;
  };
  const auto on_meta = [&](const Tensor& t) {
    const Tensor made = tensor_on_storage(storage_like(t.storage()).get(), t.dtype(), t.storage_offset(), t.sizes(),
                                          t.strides(), "defer");
    made.impl()->flags |= t.flags() & kConjugate;
    return made;
  };
  std::vector<Value> given = replaced(arguments, on_meta);
  for (size_t i = 0; i < given.size(); ++i) {
    if (op.arguments[i].type.base != BoxedType::Base::Device) continue;
    if (!given[i].is_none() && !given[i].to_device().is_cpu()) return {};
    given[i] = Device{DeviceType::Meta, 0};
  }
  std::vector<Promise> promises;
  const std::vector<Value> made = call(op, given);
  for (size_t i = 0; i < made.size(); ++i) {
    const Tensor& t = made[i].tensor();
    promises.push_back(Promise::of(t));
    if (!t.defined()) continue;
    for (const auto& [before, after] : storages)
      if (after.get() == t.storage()) return {};  // it shows an argument
    for (size_t j = 0; j < i; ++j)
      if (made[j].tensor().defined() && made[j].tensor().storage() == t.storage()) return {};
    const bool plain = !(t.flags() & (kConjugate | kNotAsPromised)) && t.is_meta() && t.is_dense() && t.numel() > 0;
    if (!plain) return {};
  }
  return promises;
}

bool put_off(const OpCall& call) {
  if (call.form != OpForm::Function || are_ops_seen()) return false;
  const BoxedOp* op = waiting_row(call.op);
  if (!op || !is_chosen() || call.arguments.size() != op->arguments.size()) return false;
  ops_at_once.fetch_add(1, std::memory_order_relaxed);
  std::vector<Value> arguments;
  for (const Argument& a : call.arguments) arguments.push_back(value_of(a));
  bool kept = true;
  int depth = 0;
  each_tensor(arguments, [&](const Tensor& t) {
    kept = kept && can_be_kept(t);
    if (t.flags() & kDeferred) depth = std::max(depth, depth_of(t));
  });
  if (!kept || depth >= kLongestChain) return false;
  static std::once_flag noting;
  std::call_once(noting, [] {
    if (host.warn) warn_program = std::exchange(host.warn, note_warning);
  });
  NotedWarnings warnings;
  std::vector<Promise> promises;
  {
    const Bare bare;
    try {
      promises = promises_of(*op, arguments);
    } catch (const Error&) {  // the op itself says what is wrong
    }
    if (promises.empty()) return false;
    arguments = replaced(arguments, alias);
  }
  const auto recipe = Ref<OpRecipe>::adopt(new OpRecipe(*op, std::move(arguments), depth + 1));
  const auto shared = Ref<Recipe>::share(recipe.get());
  std::vector<Tensor> results;
  for (const Promise& p : promises) results.push_back(recipe->promise(shared, p));
  recipe->ask_for_arguments();
  for (size_t i = 0; i < results.size(); ++i) call.results[i].as<Tensor>() = std::move(results[i]);
  ops_at_once.fetch_sub(1, std::memory_order_relaxed);
  deferred_ops.fetch_add(1, std::memory_order_relaxed);
  noted_warnings = nullptr;
  for (const std::string& text : warnings.texts) warn_program(text.c_str());
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

#include "distributed/reducer.h"

#include <algorithm>
#include <chrono>

#include "autograd/engine.h"
#include "functions.h"
#include "ops/contiguous.h"

namespace facula::distributed {
namespace {

int64_t nanoseconds() { return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count(); }

bool holds(const Tensor& storage, const Tensor& grad) {
  return storage.defined() && grad.defined() && grad.storage() == storage.storage();
}

/// Of gradients: the parameter's own where its elements fill memory without gaps.
std::vector<int64_t> strides_for(const Tensor& parameter) {
  materialize(parameter);
  if (parameter.is_dense()) return {parameter.strides().begin(), parameter.strides().end()};
  std::vector<int64_t> strides(static_cast<size_t>(parameter.dim()));
  int64_t step = 1;
  for (int64_t d = parameter.dim() - 1; d >= 0; --d) {
    strides[static_cast<size_t>(d)] = step;
    step *= std::max<int64_t>(parameter.size(d), 1);
  }
  return strides;
}

IntList list(const std::vector<int64_t>& v) { return {v.data(), v.size()}; }

}  // namespace

struct Reducer::Hook final : TensorHook {
  Hook(std::weak_ptr<Reducer> r, int n) : reducer(std::move(r)), number(n) {}
  Tensor call(const Tensor&) override {
    if (const auto alive = reducer.lock()) alive->came(number);
    return {};
  }
  std::weak_ptr<Reducer> reducer;
  int number;
};

/// What waits for the end of a pass: when the pass fails, it is dropped without having been called.
struct Reducer::Pass {
  explicit Pass(std::shared_ptr<Reducer> r) : reducer(std::move(r)) {}
  Pass(const Pass&) = delete;
  ~Pass() {
    if (!ended) reducer->abandon_pass();
  }
  std::shared_ptr<Reducer> reducer;
  bool ended = false;
};

Reducer::Reducer(const std::vector<Parameter>& parameters, std::shared_ptr<World> world, std::shared_ptr<Group> group,
                 double timeout, Hooks hooks)
    : world_(std::move(world)),
      group_(std::move(group)),
      timeout_(timeout),
      hooks_(std::move(hooks)),
      divisor_(group_->size()) {
  for (const auto& [name, tensor] : parameters) {
    Slot& slot = slots_.emplace_back();
    slot.name = name;
    slot.parameter = tensor;
  }
}

void Reducer::watch() {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Ref<Node> node = gradient_edge(slots_[i].parameter.impl()).node;
    FACULA_CHECK(node && node->is_accumulator, ErrorKind::Runtime,
                 "DistributedDataParallel: parameters are leaves that require a gradient, got ", slots_[i].name);
    auto& hooks = static_cast<AccumulateGrad&>(*node).after_accumulate;
    const auto is_dead = [](const std::shared_ptr<TensorHook>& hook) {
      const auto* own = dynamic_cast<const Hook*>(hook.get());
      return own && own->reducer.expired();
    };
    if (const auto all = hooks.all(); std::any_of(all.begin(), all.end(), is_dead)) {
      for (auto& hook : hooks.take())
        if (!is_dead(hook)) hooks.add(std::move(hook));
    }
    hooks.add(std::make_shared<Hook>(weak_from_this(), static_cast<int>(i)));
  }
}

// ---- buckets

void Reducer::set_buckets(const std::vector<std::vector<int>>& buckets) {
  const std::scoped_lock lock(mutex_);
  FACULA_CHECK(!running_, ErrorKind::Runtime,
               "DistributedDataParallel: buckets cannot be changed during a backward pass");
  buckets_.clear();
  for (const std::vector<int>& numbers : buckets) {
    Bucket& bucket = buckets_.emplace_back();
    bucket.numbers = numbers;
    for (size_t position = 0; position < numbers.size(); ++position) {
      Slot& slot = slots_.at(static_cast<size_t>(numbers[position]));
      slot.strides = strides_for(slot.parameter);
      slot.offset = bucket.numel;
      slot.bucket = buckets_.size() - 1;
      slot.position = position;
      bucket.numel += slot.parameter.numel();
    }
  }
}

Tensor Reducer::view(const Bucket& bucket, const Slot& slot) const {
  return make_view(bucket.storage, slot.parameter.sizes(), list(slot.strides), slot.offset, false);
}

Tensor Reducer::flags(const Bucket& bucket) {
  const auto count = static_cast<int64_t>(bucket.numbers.size());
  return make_view(bucket.storage, {count}, {1}, bucket.numel, false);
}

std::vector<Tensor> Reducer::gradients(size_t number) {
  const Bucket& bucket = buckets_.at(number);
  std::vector<Tensor> views;
  for (int n : bucket.numbers) views.push_back(view(bucket, slots_[static_cast<size_t>(n)]));
  return views;
}

bool Reducer::all_used(const Bucket& bucket) const {
  return std::all_of(bucket.numbers.begin(), bucket.numbers.end(),
                     [this](int n) { return slots_[static_cast<size_t>(n)].used; });
}

/// Takes a storage that nobody else looks at: a gradient of an earlier pass that somebody keeps stays as it is.
void Reducer::begin(Bucket& bucket) {
  int32_t ours = 1;
  bucket.left = 0;
  for (int n : bucket.numbers) {
    Slot& slot = slots_[static_cast<size_t>(n)];
    if (holds(bucket.storage, grad_of(slot.parameter))) ++ours;
    slot.left = slot.expected;
    slot.used = false;
    bucket.left += slot.expected;
  }
  if (bucket.storage.defined() && bucket.storage.storage()->refs.load() > ours) bucket.storage = {};
  if (!bucket.storage.defined()) {
    const Tensor& first = slots_[static_cast<size_t>(bucket.numbers.front())].parameter;
    const auto count = bucket.numel + static_cast<int64_t>(bucket.numbers.size());
    bucket.storage = empty({count}, first.dtype(), first.device());
  }
  fill_(flags(bucket), Scalar(1));
}

/// Copies the parameter's gradient, scaled, into its place, which becomes the gradient.
void Reducer::put(Bucket& bucket, Slot& slot) {
  const Tensor grad = grad_of(slot.parameter);
  if (holds(bucket.storage, grad)) {
    if (scale_ != 1) mul_(grad, Scalar(scale_));
    return;
  }
  const Tensor place = view(bucket, slot);
  if (scale_ == 1) copy_(place, grad);
  else mul_out(place, grad, Scalar(scale_));
  set_grad_of(slot.parameter, place);
}

/// Puts in what a parameter without a gradient in this pass has: what it had before, or nothing. Gradients that were
/// not averaged are like those of this pass.
void Reducer::leave_out(Slot& slot) {
  Bucket& bucket = buckets_[slot.bucket];
  bucket.left -= slot.left;
  slot.left = 0;
  const Tensor had = grad_of(slot.parameter);
  if (slot.accumulated && had.defined()) {
    slot.used = true;
    put(bucket, slot);
    return;
  }
  const auto position = static_cast<int64_t>(slot.position);
  fill_(make_view(bucket.storage, {}, {}, bucket.numel + position, false), Scalar(0));
  if (had.defined()) mul_out(view(bucket, slot), had, Scalar(scale_));
  else zero_(view(bucket, slot));
}

// ---- a backward pass

void Reducer::came(int number) {
  if (removed_) return;
  const std::scoped_lock lock(mutex_);
  Slot& slot = slots_[static_cast<size_t>(number)];
  if (!enabled_) {
    slot.accumulated = true;
    return;
  }
  const GradMode off(false);
  if (!running_) begin_pass();
  if (!slot.ordered) {
    slot.ordered = true;
    order_.push_back(number);
  }
  slot.used = true;
  --slot.left;
  if (counting_) {
    ++slot.came;
    return;
  }
  FACULA_CHECK(slot.left >= 0, ErrorKind::Runtime, "DistributedDataParallel: ", slot.name,
               " got a gradient again after it had been averaged, in one backward pass: a reentrant checkpoint uses it "
               "twice (use_reentrant=False or static_graph=True helps), got ",
               slot.expected - slot.left, " gradients");
  Bucket& bucket = buckets_[slot.bucket];
  if (slot.left == 0) put(bucket, slot);
  if (--bucket.left == 0) launch_ready();
}

void Reducer::begin_pass() {
  const auto pass = std::make_shared<Pass>(shared_from_this());
  call_after_pass([pass] {
    pass->ended = true;
    pass->reducer->end_pass();
  });
  running_ = true;
  now_ = {.first = nanoseconds()};
  scale_ = hooked_ ? 1 : 1 / divisor_;
  counting_ = static_ && !counted_;
  next_ = 0;
  site_ = hooks_.site();
  for (Bucket& bucket : buckets_) begin(bucket);
  if (!counting_ && !pass_is_nested()) leave_out_unreached();
}

void Reducer::leave_out_unreached() {
  std::vector<Ref<Node>> owned;
  std::vector<Node*> nodes;
  for (const Slot& slot : slots_) {
    owned.push_back(gradient_edge(slot.parameter.impl()).node);
    nodes.push_back(owned.back().get());
  }
  const std::vector<bool> reached = which_reached(nodes);
  if (std::find(reached.begin(), reached.end(), false) == reached.end()) return;
  for (size_t i = 0; i < slots_.size(); ++i)
    if (!reached[i]) leave_out(slots_[i]);
  launch_ready();
}

/// In the order of the buckets, the same in every process.
void Reducer::launch_ready() {
  while (next_ < buckets_.size() && buckets_[next_].left == 0) launch(next_++);
}

void Reducer::launch(size_t number) {
  Bucket& bucket = buckets_[number];
  if (!now_.summing) now_.summing = nanoseconds();
  bucket.by_program = hooked_ || (watching() & kWatchObservers);  // which observers follow
  if (bucket.by_program) {
    hooks_.launch(number, bucket.storage);
    return;
  }
  Call call{.kind = Kind::AllReduce, .name = "all_reduce", .out = {bucket.storage}};
  call.timeout = timeout_;
  call.site = site_;
  bucket.op = world_->submit(group_, std::move(call));
}

void Reducer::land(size_t number) {
  Bucket& bucket = buckets_[number];
  if (bucket.by_program) {
    hooks_.land(number, all_used(bucket));
  } else {
    const Interruptible interruptible;
    world_->wait(*bucket.op);
  }
}

void Reducer::end_pass() {
  const std::scoped_lock lock(mutex_);
  const GradMode off(false);
  try {
    finish();
  } catch (const DistError&) {
    reset(true);
    hooks_.failed();
    throw;
  } catch (...) {
    reset(true);
    throw;
  }
  reset(false);
}

Reducer::Times Reducer::times() {
  const std::scoped_lock lock(mutex_);
  return done_;
}

void Reducer::finish() {
  now_.last = nanoseconds();
  for (Slot& slot : slots_) {
    if (counting_ && slot.used) put(buckets_[slot.bucket], slot);
    else if (slot.left > 0) leave_out(slot);
  }
  if (counting_) count_first_pass();
  launch_ready();
  for (size_t i = 0; i < buckets_.size(); ++i) {
    land(i);
    give_gradients(buckets_[i]);
  }
  now_.summed = nanoseconds();
  done_ = now_;
}

void Reducer::count_first_pass() {
  for (Slot& slot : slots_) slot.expected = std::max(slot.came, 1);
  for (Bucket& bucket : buckets_) bucket.left = 0;
  counted_ = true;
}

/// Parameters that only other processes have used get their gradients, too.
void Reducer::give_gradients(Bucket& bucket) {
  if (all_used(bucket)) return;
  const Tensor anywhere = ops::on_host(gt(flags(bucket), Scalar(0)));
  for (size_t i = 0; i < bucket.numbers.size(); ++i) {
    const Slot& slot = slots_[static_cast<size_t>(bucket.numbers[i])];
    if (anywhere.data<bool>()[i] && !slot.used) set_grad_of(slot.parameter, view(bucket, slot));
  }
}

void Reducer::reset(bool failed) {
  running_ = false;
  ++passes_;
  for (Slot& slot : slots_) slot.accumulated = false;
  for (Bucket& bucket : buckets_) {
    bucket.op = nullptr;
    if (failed) bucket.storage = {};
  }
}

void Reducer::abandon_pass() {
  const std::scoped_lock lock(mutex_);
  reset(true);
}

// ---- for others

std::vector<int> Reducer::order() {
  const std::scoped_lock lock(mutex_);
  return order_;
}

void Reducer::shadow() {
  const std::scoped_lock lock(mutex_);
  const GradMode off(false);
  ++passes_;
  site_ = hooks_.site();
  for (size_t i = 0; i < buckets_.size(); ++i) {
    begin(buckets_[i]);
    zero_(buckets_[i].storage);
    launch(i);
  }
  for (size_t i = 0; i < buckets_.size(); ++i) {
    land(i);
    buckets_[i].op = nullptr;
  }
}

}  // namespace facula::distributed

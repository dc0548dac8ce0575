// Policy: one lock guards what storages, tensors and recipes know of each other. It is held for a few loads and stores
// and never while a recipe runs or the interpreter's lock is waited for. A tensor is put right in this order: its
// address, its flag, `listed`. Who reads the flag and then the address sees both or neither.
#include <pthread.h>

#include <condition_variable>
#include <mutex>

#include "core/backend.h"
#include "core/budget_hooks.h"
#include "core/checked.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/recipe.h"
#include "core/region_copies.h"
#include "core/storage_bytes.h"

namespace facula {
namespace {

/// Read by can_be_read_late() on other threads.
void set_release(Storage* s, void (*release)(Storage*)) {
  __atomic_store_n(&s->release_data, release, __ATOMIC_RELAXED);
}

/// Behind the header of a deferred or reclaimable storage, in its block.
struct Waiting {
  size_t which = 0;                 // result of the recipe
  int64_t saved = 0;                // references of the tensors that are SavedHold's
  TensorImpl* first = nullptr;      // a tensor on the storage: most have one
  std::vector<TensorImpl*> others;  // that are on it

  void list(TensorImpl* impl) {
    if (first) others.push_back(impl);
    else first = impl;
  }
  void unlist(TensorImpl* impl) {
    if (first == impl) first = nullptr;
    else std::erase(others, impl);
  }
  template <class F>
  void each(F f) {
    if (first) f(first);
    for (TensorImpl* impl : others) f(impl);
  }
};
static_assert(kStorageHeader + sizeof(Waiting) <= 128);
constexpr uint32_t kDeferredHeader = kStorageHeader + sizeof(Waiting);

Waiting& waiting_of(Storage* s) { return *reinterpret_cast<Waiting*>(reinterpret_cast<char*>(s) + kStorageHeader); }
Recipe* recipe_behind(Storage* s) { return static_cast<Recipe*>(s->context); }

struct Deferrals {
  std::mutex lock;
  std::condition_variable done;  // a recipe has run
  Recipe* first = nullptr;       // of those that wait
  uint32_t fork = 0;             // recipes that ran in other threads before a fork do not run here
};
Deferrals& deferrals() {
  static Deferrals* instance = new Deferrals;
  return *instance;
}
[[maybe_unused]] const int watched_forks =
    pthread_atfork([] { deferrals().lock.lock(); }, [] { deferrals().lock.unlock(); },
                   [] {
                     std::construct_at(&deferrals().lock);
                     std::construct_at(&deferrals().done);
                     ++deferrals().fork;
                   });

using Lock = std::unique_lock<std::mutex>;

thread_local constinit int running = 0;  // recipes that this thread runs, one inside the other

void put_right(TensorImpl* impl, bool reclaimable = false) {
  if (is_nowhere(impl->data))
    std::atomic_ref(impl->data).store(impl->storage->data + (impl->data - kNowhere), std::memory_order_release);
  if (reclaimable) std::atomic_ref(impl->flags).fetch_or(kMayWait, std::memory_order_relaxed);
  std::atomic_ref(impl->flags).fetch_and(~uint32_t{kDeferred}, std::memory_order_release);
  std::atomic_ref(impl->listed).store(reclaimable, std::memory_order_release);
}

void release_reclaimable(Storage* s);
bool is_reclaimable_storage(const Storage* s) { return s->release_data == release_reclaimable; }

/// Whether all that holds the storage are tensors that SavedHolds hold. Called with the lock held, under which they are
/// given out.
bool is_only_saved(Storage* s) {
  Waiting& waiting = waiting_of(s);
  int64_t holders = 0, listed = 0;
  bool has_object = false;  // a weak reference may bring it back
  waiting.each([&](TensorImpl* impl) {
    holders += impl->refs.load();
    ++listed;
    has_object = has_object || impl->pyobj;
  });
  return !has_object && holders == waiting.saved && s->refs.load() == listed;
}

}  // namespace

bool (*copy_begins)(const Tensor& self, const Tensor& source) = nullptr;

/// What recipes keep to themselves. All but run() are called with the lock held.
struct Deferral {
  static size_t add(Recipe& r, Storage* s) {
    r.results_.push_back(s);
    r.reclaimable_.push_back(nullptr);
    if (r.waiting_++ == 0) {
      r.after_ = std::exchange(deferrals().first, &r);
      if (r.after_) r.after_->before_ = &r;
    }
    return r.results_.size() - 1;
  }
  /// The result has its bytes for good, or died.
  static void forget(Recipe& r, size_t which) {
    r.results_[which] = r.reclaimable_[which] = nullptr;
    if (--r.waiting_ > 0) return;
    (r.before_ ? r.before_->after_ : deferrals().first) = r.after_;
    if (r.after_) r.after_->before_ = r.before_;
    r.before_ = r.after_ = nullptr;
  }
  /// Whoever reads the storage late, but `except`. `here`: one that runs on this thread does, which reads it now.
  static Recipe* reader_of(const Storage* s, const Recipe* except, bool& here) {
    for (Recipe* r = deferrals().first; r; r = r->after_) {
      if (r == except || !r->reads(s)) continue;
      if (!r->run_.on || r->run_.fork != deferrals().fork || r->run_.thread != std::this_thread::get_id()) return r;
      here = true;
    }
    return nullptr;
  }
  /// Calls f() when no other thread runs the recipe.
  static void run_alone(Recipe& r, const std::function<void()>& f) {
    Lock lock(deferrals().lock);
    while (r.run_.on && r.run_.fork == deferrals().fork) {
      lock.unlock();
      const LockRelease others_go_on(true);
      lock.lock();
      while (r.run_.on) deferrals().done.wait(lock);
      lock.unlock();
      lock.lock();
    }
    r.run_ = {std::this_thread::get_id(), deferrals().fork, true};
    lock.unlock();
    const Running running(r);
    f();
  }
  /// The result has bytes that may be let go.
  static void keep(Recipe& r, size_t which) { r.reclaimable_[which] = std::exchange(r.results_[which], nullptr); }
  static Storage* reclaimable(const Recipe& r, size_t which) {
    return which < r.reclaimable_.size() ? r.reclaimable_[which] : nullptr;
  }
  /// It waits again.
  static void wait(Recipe& r, size_t which) { r.results_[which] = std::exchange(r.reclaimable_[which], nullptr); }
  /// Runs the recipe until result `which` is not wanted any more. Waits for another thread that runs it.
  static void run(const Ref<Recipe>& r, size_t which) {
    Lock lock(deferrals().lock);
    while (r->results_[which]) {
      if (r->run_.on && r->run_.fork == deferrals().fork) {
        FACULA_CHECK(r->run_.thread != std::this_thread::get_id(), ErrorKind::Runtime,
                     "defer: a recipe needs its own result ", which);
        lock.unlock();
        const LockRelease others_go_on(true);
        lock.lock();
        while (r->results_[which] && r->run_.on) deferrals().done.wait(lock);
        lock.unlock();  // before the interpreter's lock is waited for
      } else {
        r->run_ = {std::this_thread::get_id(), deferrals().fork, true};
        lock.unlock();
        const Running running(*r);
        r->make(which);
        FACULA_CHECK(!r->is_wanted(which), ErrorKind::Runtime, "defer: a recipe did not make its result ", which);
      }
      lock.lock();
    }
  }

 private:
  struct Running {
    explicit Running(Recipe& r) : recipe(r) { ++running; }
    ~Running() {
      --running;
      const Lock lock(deferrals().lock);
      recipe.run_.on = false;
      deferrals().done.notify_all();
    }
    Running(const Running&) = delete;
    Recipe& recipe;
  };
};

namespace {

/// Called with the lock held.
void give(Storage* s, char* data, bool keep) {
  std::atomic_ref(s->data).store(data, std::memory_order_release);
  Waiting& waiting = waiting_of(s);
  if (keep) {
    s->asks.fetch_or(kMadeAgain, std::memory_order_release);
    set_release(s, release_reclaimable);
  } else {
    set_release(s, release_allocated);
    s->context = nullptr;
  }
  waiting.each([&](TensorImpl* impl) { put_right(impl, keep); });
  if (!keep) std::destroy_at(&waiting);
}

/// Makes a reclaimable storage a plain one, with the lock held; gives the reference to the recipe that it had.
Ref<Recipe> make_plain(Storage* s) {
  Ref<Recipe> recipe = Ref<Recipe>::adopt(recipe_behind(s));
  Waiting& waiting = waiting_of(s);
  Deferral::forget(*recipe, waiting.which);
  set_release(s, release_allocated);
  s->context = nullptr;
  waiting.each([](TensorImpl* impl) {
    std::atomic_ref(impl->flags).fetch_and(~kMayWait, std::memory_order_relaxed);
    std::atomic_ref(impl->listed).store(false, std::memory_order_release);
  });
  std::destroy_at(&waiting);
  s->asks.fetch_and(static_cast<uint8_t>(~kMadeAgain), std::memory_order_release);
  return recipe;
}

/// Of a reclaimable storage that dies.
void release_reclaimable(Storage* s) {
  Ref<Recipe> recipe;
  {
    const Lock lock(deferrals().lock);
    if (is_reclaimable_storage(s)) recipe = make_plain(s);
  }
  release_allocated(s);
}

/// Of a storage that dies: without bytes, if another thread is not just giving it some.
void release_deferred(Storage* s) {
  Ref<Recipe> recipe;
  size_t which = 0;
  {
    const Lock lock(deferrals().lock);
    if (s->is_deferred()) {
      recipe = Ref<Recipe>::adopt(recipe_behind(s));
      which = waiting_of(s).which;
      Deferral::forget(*recipe, which);
      std::destroy_at(&waiting_of(s));
    }
  }
  if (recipe) recipe->dropped(which);
  else s->release_data(s);
}

}  // namespace

size_t Recipe::count() const {
  const Lock lock(deferrals().lock);
  return results_.size();
}

bool Recipe::is_reclaimable(size_t which) const {
  const Lock lock(deferrals().lock);
  return Deferral::reclaimable(*this, which) != nullptr;
}

bool Recipe::is_of_use() const {
  const Lock lock(deferrals().lock);
  return waiting_ > 0;
}

bool Recipe::only_saved(size_t which) const {
  const Lock lock(deferrals().lock);
  return which < results_.size() && results_[which] && is_only_saved(results_[which]);
}

void Recipe::make_result(size_t which) {
  const Ref<Recipe> self = Ref<Recipe>::share(this);
  if (is_wanted(which)) Deferral::run(self, which);
}

void Recipe::keep_for_good() {
  std::vector<Ref<Recipe>> held;  // by the storages: they die without the lock
  const Lock lock(deferrals().lock);
  for (size_t i = 0; i < reclaimable_.size(); ++i)
    if (reclaimable_[i]) held.push_back(make_plain(reclaimable_[i]));
}

size_t Recipe::let_go(size_t which) {
  char* data = nullptr;
  Storage* s = nullptr;
  {
    const Lock lock(deferrals().lock);
    s = Deferral::reclaimable(*this, which);
    const bool plain = s && s->exposures.load() == 0 && s->identity.load() == 0 && s->resizable;
    if (!plain || (s->asks.load() & ~kMadeAgain) || !is_only_saved(s)) return 0;
    data = s->data;
    waiting_of(s).each([&](TensorImpl* impl) {
      impl->data = kNowhere + (impl->data - data);
      impl->flags |= kDeferred;
    });
    s->data = kNowhere;
    set_release(s, release_deferred);
    s->asks.fetch_and(static_cast<uint8_t>(~kMadeAgain));
    Deferral::wait(*this, which);
  }
  const size_t bytes = s->nbytes;
  backend_of(DeviceType::CPU).allocator.release(data, bytes, kCPU);
  return bytes;
}

bool Recipe::is_wanted(size_t which) const {
  const Lock lock(deferrals().lock);
  return which < results_.size() && results_[which] != nullptr;
}

void Recipe::make_wanted() {
  const Ref<Recipe> self = Ref<Recipe>::share(this);
  for (size_t i = 0; i < count(); ++i) Deferral::run(self, i);
}

Tensor Recipe::put_and_share(size_t which, const Tensor& from) {
  Ref<Storage> shared;
  give_bytes(which, from, false, &shared);
  return shared ? tensor_on_storage(shared.get(), from.dtype(), 0, from.sizes(), from.strides(), "defer") : Tensor();
}

void Recipe::give_bytes(size_t which, const Tensor& from, bool keep, Ref<Storage>* shared) {
  Storage* source = from.storage();
  FACULA_CHECK(source->refs.load() == 1 && !source->device.is_meta() && !source->is_deferred(), ErrorKind::Runtime,
               "defer: bytes that nobody else holds are expected, got a tensor of shape ", from.sizes());
  char* data = take_bytes(source);
  const size_t bytes = source->nbytes;
  Storage* target = nullptr;
  Ref<Recipe> held;
  {
    const Lock lock(deferrals().lock);
    target = which < results_.size() ? results_[which] : nullptr;
    if (target && target->nbytes == bytes && target->device == source->device) {
      const bool saved = waiting_of(target).saved > 0;  // then the storage lives as long as the lock is held
      if (shared && saved) *shared = Ref<Storage>::share(target);
      give(target, data, keep);
      if (keep) {
        Deferral::keep(*this, which);
      } else {
        Deferral::forget(*this, which);
        held = Ref<Recipe>::adopt(this);  // the storage's
      }
      data = nullptr;
    }
  }
  if (data) backend_of(source->device.type).allocator.release(data, bytes, source->device);
  FACULA_CHECK(!target || !data, ErrorKind::Runtime, "defer: as many bytes as were promised are expected, got ", bytes,
               " for result ", which);
}

Tensor defer(const Ref<Recipe>& recipe, IntList sizes, IntList strides, DType dtype, Device device) {
  const int64_t count = count_elements(sizes, "defer");
  FACULA_CHECK(count > 0, ErrorKind::Runtime, "defer: a tensor with elements is expected, got shape ", sizes);
  const Checked places = places_of(sizes, strides, 0).high + 1;
  TensorImpl* impl = new_impl();
  Tensor tensor = Tensor::adopt(impl);
  auto* s = static_cast<Storage*>(small_allocate(kDeferredHeader));
  init_storage(s, byte_count(places, item_size(dtype), "defer", sizes), device);
  s->header_bytes = kDeferredHeader;
  s->data = kNowhere;
  set_release(s, release_deferred);
  s->context = recipe.get();
  Waiting* waiting = new (&waiting_of(s)) Waiting;
  impl->storage = s;
  impl->data = kNowhere;
  impl->dtype = dtype;
  impl->ndim = 0;
  impl->flags = kDeferred | inference_flag();
  {
    const Lock lock(deferrals().lock);
    waiting->which = Deferral::add(*recipe, s);
    Ref<Recipe>(recipe).detach();  // the storage's
    waiting->list(impl);
    impl->listed = true;
  }
  set_sizes(impl, sizes, strides);
  return tensor;
}

void list_deferred(TensorImpl* impl) {
  const Lock lock(deferrals().lock);
  if (!impl->storage->is_deferred()) return put_right(impl);
  if (impl->listed) return;
  waiting_of(impl->storage).list(impl);
  impl->flags |= kDeferred;
  impl->listed = true;
}

void unlist_deferred(TensorImpl* impl) {
  const Lock lock(deferrals().lock);
  if (!impl->listed) return;
  waiting_of(impl->storage).unlist(impl);
  impl->listed = false;
}

void materialize_bytes_now(const Tensor& t) {
  Storage* s = t.storage();
  Ref<Recipe> recipe;
  size_t which = 0;
  {
    const Lock lock(deferrals().lock);
    if (!s->is_deferred()) return put_right(t.impl(), is_reclaimable_storage(s));  // another thread was faster
    recipe = Ref<Recipe>::share(recipe_behind(s));
    which = waiting_of(s).which;
  }
  Deferral::run(recipe, which);
}

Ref<Recipe> recipe_of(const Tensor& t, size_t& which) {
  const Lock lock(deferrals().lock);
  if (!t.storage()->is_deferred()) return {};
  which = waiting_of(t.storage()).which;
  return Ref<Recipe>::share(recipe_behind(t.storage()));
}

void Recipe::run_alone(const std::function<void()>& f) {
  const Ref<Recipe> self = Ref<Recipe>::share(this);
  Deferral::run_alone(*this, f);
}

namespace {

/// Nothing of the recipe waits, or may wait again.
void make_for_good(const Ref<Recipe>& recipe) {
  for (size_t i = 0; i < recipe->count(); ++i) Deferral::run(recipe, i);
  recipe->keep_for_good();
}

}  // namespace

void run_readers(Storage* s, const Recipe* except) {
  for (;;) {
    Ref<Recipe> reader;
    bool here = false;
    {
      const Lock lock(deferrals().lock);
      reader = Ref<Recipe>::share(Deferral::reader_of(s, except, here));
      if (!reader && !except && !here) s->asks.fetch_and(static_cast<uint8_t>(~kReadLate));
    }
    if (!reader) return;
    make_for_good(reader);
  }
}

void run_waiting() {
  if (running > 0) return;
  for (;;) {
    Ref<Recipe> next;
    {
      const Lock lock(deferrals().lock);
      next = Ref<Recipe>::share(deferrals().first);
    }
    if (!next) return;
    make_for_good(next);
  }
}

void settings_will_change() {
  run_waiting();
  if (budget_hooks.settings_change) budget_hooks.settings_change();
}

void materialize_storage(Storage* s) {
  if (s->is_deferred()) {
    Ref<Recipe> recipe;
    size_t which = 0;
    {
      const Lock lock(deferrals().lock);
      if (s->is_deferred()) {
        recipe = Ref<Recipe>::share(recipe_behind(s));
        which = waiting_of(s).which;
      }
    }
    if (recipe) Deferral::run(recipe, which);
  }
  make_permanent(s);
  const uint8_t asks = s->asks.load();
  if (asks & kReadLate) run_readers(s);
  if (asks & kReadAgain) budget_hooks.will_change(s);
  leave_cell(s);
}

void make_permanent(Storage* s) {
  if (!(s->asks.load() & kMadeAgain)) return;
  Ref<Recipe> recipe;
  const Lock lock(deferrals().lock);
  if (is_reclaimable_storage(s)) recipe = make_plain(s);
}

SavedHold::SavedHold(const Tensor& tensor) : tensor_(tensor), storage_(tensor.storage()) {
  const Lock lock(deferrals().lock);
  counted_ = tensor.impl()->listed && (storage_->is_deferred() || is_reclaimable_storage(storage_));
  if (counted_) ++waiting_of(storage_).saved;
}

SavedHold::~SavedHold() {
  const Lock lock(deferrals().lock);
  const bool still = counted_ && tensor_.storage() == storage_ && tensor_.impl()->listed;
  if (still) --waiting_of(storage_).saved;
}

Tensor SavedHold::get() const {
  const Lock lock(deferrals().lock);
  return tensor_;
}

}  // namespace facula

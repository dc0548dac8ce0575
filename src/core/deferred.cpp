// Policy: one lock guards what storages, tensors and recipes know of each other. It is held for a few loads and stores
// and never while a recipe runs or the interpreter's lock is waited for. A tensor is put right in this order: its
// address, its flag, `listed`. Who reads the flag and then the address sees both or neither.
#include <pthread.h>

#include <condition_variable>
#include <mutex>

#include "core/backend.h"
#include "core/checked.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/recipe.h"
#include "core/region_copies.h"
#include "core/storage_bytes.h"

namespace facula {
namespace {

/// Behind the header of a deferred storage, in its block.
struct Waiting {
  size_t which = 0;                 // result of the recipe
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
};
static_assert(kStorageHeader + sizeof(Waiting) <= 128);
constexpr uint32_t kDeferredHeader = kStorageHeader + sizeof(Waiting);

Waiting& waiting_of(Storage* s) { return *reinterpret_cast<Waiting*>(reinterpret_cast<char*>(s) + kStorageHeader); }
Recipe* recipe_behind(Storage* s) { return static_cast<Recipe*>(s->context); }

struct Doors {
  std::mutex lock;
  std::condition_variable done;  // a recipe has run
  Recipe* first = nullptr;       // of those that wait
  uint32_t fork = 0;             // recipes that ran in other threads before a fork do not run here
};
Doors& doors() {
  static Doors* instance = new Doors;
  return *instance;
}
[[maybe_unused]] const int watched_forks = pthread_atfork([] { doors().lock.lock(); }, [] { doors().lock.unlock(); },
                                                          [] {
                                                            std::construct_at(&doors().lock);
                                                            std::construct_at(&doors().done);
                                                            ++doors().fork;
                                                          });

using Lock = std::unique_lock<std::mutex>;

void put_right(TensorImpl* impl) {
  if (is_nowhere(impl->data))
    std::atomic_ref(impl->data).store(impl->storage->data + (impl->data - kNowhere), std::memory_order_release);
  std::atomic_ref(impl->flags).fetch_and(~uint32_t{kDeferred}, std::memory_order_release);
  std::atomic_ref(impl->listed).store(false, std::memory_order_release);
}

}  // namespace

bool (*copy_begins)(const Tensor& self, const Tensor& source) = nullptr;

/// What recipes keep to themselves. All but run() are called with the lock held.
struct Deferral {
  static size_t add(Recipe& r, Storage* s) {
    r.results_.push_back(s);
    if (r.waiting_++ == 0) {
      r.after_ = std::exchange(doors().first, &r);
      if (r.after_) r.after_->before_ = &r;
    }
    return r.results_.size() - 1;
  }
  /// The result has its bytes, or died.
  static void forget(Recipe& r, size_t which) {
    r.results_[which] = nullptr;
    if (--r.waiting_ > 0) return;
    (r.before_ ? r.before_->after_ : doors().first) = r.after_;
    if (r.after_) r.after_->before_ = r.before_;
    r.before_ = r.after_ = nullptr;
  }
  /// Whoever reads the storage late, but `except`. `here`: one that runs on this thread does, which reads it now.
  static Recipe* reader_of(const Storage* s, const Recipe* except, bool& here) {
    for (Recipe* r = doors().first; r; r = r->after_) {
      if (r == except || !r->reads(s)) continue;
      if (!r->run_.on || r->run_.fork != doors().fork || r->run_.thread != std::this_thread::get_id()) return r;
      here = true;
    }
    return nullptr;
  }
  /// Calls f() when no other thread runs the recipe.
  static void run_alone(Recipe& r, const std::function<void()>& f) {
    Lock lock(doors().lock);
    while (r.run_.on && r.run_.fork == doors().fork) {
      lock.unlock();
      const LockRelease others_go_on(true);
      lock.lock();
      while (r.run_.on) doors().done.wait(lock);
      lock.unlock();
      lock.lock();
    }
    r.run_ = {std::this_thread::get_id(), doors().fork, true};
    lock.unlock();
    const Running running(r);
    f();
  }
  /// Runs the recipe until result `which` is not wanted any more. Waits for another thread that runs it.
  static void run(const Ref<Recipe>& r, size_t which) {
    Lock lock(doors().lock);
    while (r->results_[which]) {
      if (r->run_.on && r->run_.fork == doors().fork) {
        FACULA_CHECK(r->run_.thread != std::this_thread::get_id(), ErrorKind::Runtime,
                     "defer: a recipe needs its own result ", which);
        lock.unlock();
        const LockRelease others_go_on(true);
        lock.lock();
        while (r->results_[which] && r->run_.on) doors().done.wait(lock);
        lock.unlock();  // before the interpreter's lock is waited for
      } else {
        r->run_ = {std::this_thread::get_id(), doors().fork, true};
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
    explicit Running(Recipe& r) : recipe(r) {}
    ~Running() {
      const Lock lock(doors().lock);
      recipe.run_.on = false;
      doors().done.notify_all();
    }
    Running(const Running&) = delete;
    Recipe& recipe;
  };
};

namespace {

/// Called with the lock held.
void give(Storage* s, char* data) {
  std::atomic_ref(s->data).store(data, std::memory_order_release);
  __atomic_store_n(&s->release_data, &release_allocated, __ATOMIC_RELAXED);  // read by can_be_read_late()
  s->context = nullptr;
  Waiting& waiting = waiting_of(s);
  if (waiting.first) put_right(waiting.first);
  for (TensorImpl* impl : waiting.others) put_right(impl);
  std::destroy_at(&waiting);
}

/// Of a storage that dies: without bytes, if another thread is not just giving it some.
void release_deferred(Storage* s) {
  Ref<Recipe> recipe;
  size_t which = 0;
  {
    const Lock lock(doors().lock);
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
  const Lock lock(doors().lock);
  return results_.size();
}

bool Recipe::is_wanted(size_t which) const {
  const Lock lock(doors().lock);
  return which < results_.size() && results_[which] != nullptr;
}

void Recipe::make_wanted() {
  const Ref<Recipe> self = Ref<Recipe>::share(this);
  for (size_t i = 0; i < count(); ++i) Deferral::run(self, i);
}

void Recipe::put(size_t which, const Tensor& from) {
  Storage* source = from.storage();
  FACULA_CHECK(source->refs.load() == 1 && !source->device.is_meta() && !source->is_deferred(), ErrorKind::Runtime,
               "defer: bytes that nobody else holds are expected, got a tensor of shape ", from.sizes());
  char* data = take_bytes(source);
  const size_t bytes = source->nbytes;
  Storage* target = nullptr;
  Ref<Recipe> held;
  {
    const Lock lock(doors().lock);
    target = which < results_.size() ? results_[which] : nullptr;
    if (target && target->nbytes == bytes && target->device == source->device) {
      give(target, data);
      Deferral::forget(*this, which);
      held = Ref<Recipe>::adopt(this);  // the storage's
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
  s->release_data = release_deferred;
  s->context = recipe.get();
  Waiting* waiting = new (&waiting_of(s)) Waiting;
  impl->storage = s;
  impl->data = kNowhere;
  impl->dtype = dtype;
  impl->ndim = 0;
  impl->flags = kDeferred | inference_flag();
  {
    const Lock lock(doors().lock);
    waiting->which = Deferral::add(*recipe, s);
    Ref<Recipe>(recipe).detach();  // the storage's
    waiting->list(impl);
    impl->listed = true;
  }
  set_sizes(impl, sizes, strides);
  return tensor;
}

void list_deferred(TensorImpl* impl) {
  const Lock lock(doors().lock);
  if (!impl->storage->is_deferred()) return put_right(impl);
  if (impl->listed) return;
  waiting_of(impl->storage).list(impl);
  impl->flags |= kDeferred;
  impl->listed = true;
}

void unlist_deferred(TensorImpl* impl) {
  const Lock lock(doors().lock);
  if (!impl->listed) return;
  waiting_of(impl->storage).unlist(impl);
  impl->listed = false;
}

void materialize_bytes_now(const Tensor& t) {
  Storage* s = t.storage();
  Ref<Recipe> recipe;
  size_t which = 0;
  {
    const Lock lock(doors().lock);
    if (!s->is_deferred()) return put_right(t.impl());  // another thread was faster
    recipe = Ref<Recipe>::share(recipe_behind(s));
    which = waiting_of(s).which;
  }
  Deferral::run(recipe, which);
}

Ref<Recipe> recipe_of(const Tensor& t, size_t& which) {
  const Lock lock(doors().lock);
  if (!t.storage()->is_deferred()) return {};
  which = waiting_of(t.storage()).which;
  return Ref<Recipe>::share(recipe_behind(t.storage()));
}

void Recipe::run_alone(const std::function<void()>& f) {
  const Ref<Recipe> self = Ref<Recipe>::share(this);
  Deferral::run_alone(*this, f);
}

void run_readers(Storage* s, const Recipe* except) {
  for (;;) {
    Ref<Recipe> reader;
    bool here = false;
    {
      const Lock lock(doors().lock);
      reader = Ref<Recipe>::share(Deferral::reader_of(s, except, here));
      if (!reader && !except && !here) s->asks.fetch_and(static_cast<uint8_t>(~kReadLate));
    }
    if (!reader) return;
    for (size_t i = 0; i < reader->count(); ++i) Deferral::run(reader, i);
  }
}

void run_waiting() {
  for (;;) {
    Ref<Recipe> next;
    {
      const Lock lock(doors().lock);
      next = Ref<Recipe>::share(doors().first);
    }
    if (!next) return;
    for (size_t i = 0; i < next->count(); ++i) Deferral::run(next, i);
  }
}

void settle_storage(Storage* s) {
  if (s->is_deferred()) {
    Ref<Recipe> recipe;
    size_t which = 0;
    {
      const Lock lock(doors().lock);
      if (s->is_deferred()) {
        recipe = Ref<Recipe>::share(recipe_behind(s));
        which = waiting_of(s).which;
      }
    }
    if (recipe) Deferral::run(recipe, which);
  }
  if (s->asks.load() & kReadLate) run_readers(s);
}

}  // namespace facula

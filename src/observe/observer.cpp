#include "observe/observer.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <thread>

#include "core/host.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "observe/callbacks.h"
#include "observe/everything.h"

namespace facula {
namespace {

using Observers = std::vector<Observer*>;

// Observers may remove any observer, also themselves, while they are notified, and add others. The lists that are gone
// through then do not change: those of a thread get holes, which are closed after the last notification, and those of
// all threads are replaced.
struct ThreadObservers {
  Observers list;  // null: removed during a notification
  int notifying = 0;

  size_t remove(Observer* observer) {
    if (!notifying) return std::erase(list, observer);
    const auto found = std::ranges::count(list, observer);
    std::ranges::replace(list, observer, nullptr);
    return static_cast<size_t>(found);
  }
  bool empty() const {
    return std::ranges::none_of(list, [](const Observer* o) { return o != nullptr; });
  }
};
thread_local ThreadObservers thread_observers;

class Notifying {
 public:
  Notifying() { ++thread_observers.notifying; }
  ~Notifying() {
    if (--thread_observers.notifying == 0) std::erase(thread_observers.list, nullptr);
  }
  Notifying(const Notifying&) = delete;
};

// Observers of all threads: a list whose length never changes, and how many threads go through it. Who changes it
// makes another one and waits until nobody goes through those before, so that no notification comes after
// remove_observer().
struct Listing {
  Observers observers;  // null: removed in a callback
  std::atomic<int> readers{0};
};
struct ProcessObservers {
  std::mutex lock;              // of the lists, not of what they hold; held for a few instructions
  std::list<Listing> lists{1};  // the last one counts
};
ProcessObservers& process() {
  static ProcessObservers* instance = new ProcessObservers;
  return *instance;
}
thread_local int reading = 0;  // lists that this thread goes through

class Reading {
 public:
  Reading() {
    std::lock_guard guard(process().lock);
    list_ = &process().lists.back();
    list_->readers.fetch_add(1, std::memory_order_relaxed);
    ++reading;
  }
  ~Reading() {
    --reading;
    list_->readers.fetch_sub(1, std::memory_order_release);
  }
  Reading(const Reading&) = delete;
  Observers& observers() const { return list_->observers; }

 private:
  Listing* list_;
};

/// Whether nobody goes through an earlier list than the last.
bool only_last_is_read(ProcessObservers& all) {
  std::lock_guard guard(all.lock);
  std::erase_if(all.lists, [&](const Listing& l) {
    return &l != &all.lists.back() && l.readers.load(std::memory_order_acquire) == 0;
  });
  return all.lists.size() == 1;
}

/// `change` gets the observers as they will be. In a callback nobody is waited for: this thread goes through a list
/// itself, and another one that does may wait for this one. No new notification of `gone` begins.
template <class Change>
void change_process_list(const Observer* gone, Change&& change) {
  ProcessObservers& all = process();
  {
    std::lock_guard guard(all.lock);
    Listing& fresh = all.lists.emplace_back();
    fresh.observers = std::prev(all.lists.end(), 2)->observers;
    std::erase(fresh.observers, nullptr);
    change(fresh.observers);
    for (Listing& before : all.lists) {
      for (Observer*& observer : before.observers) {
        if (observer == gone) std::atomic_ref(observer).store(nullptr);
      }
    }
  }
  while (!reading && !only_last_is_read(all)) std::this_thread::yield();
}

/// Who was Unwatched while the last observer went has its bits back.
void forget_bits() {
  std::lock_guard guard(process().lock);
  if (thread_observers.empty()) set_watch(kWatchThread | kWatchThreadMemory, false);
  if (process().lists.back().observers.empty()) set_watch(kWatchProcess | kWatchProcessMemory, false);
}

template <class F>
void notify(F&& f) {
  if (__builtin_expect((watching() & kUnknownThread) != 0, 0)) know_this_thread();
  const uint32_t watch = watching();
  if (!(watch & kWatchObservers)) return;
  bool nobody = false;
  if (watch & kWatchThread) {
    Notifying now;
    Observers& list = thread_observers.list;
    nobody = list.empty();
    for (size_t i = 0, count = list.size(); i < count; ++i) {  // added ones: from the next time on
      if (list[i]) f(*list[i]);
    }
  }
  if (watch & kWatchProcess) {
    Reading list;
    nobody |= list.observers().empty();
    for (Observer*& entry : list.observers()) {
      if (Observer* observer = std::atomic_ref(entry).load()) f(*observer);
    }
  }
  if (__builtin_expect(nobody, 0)) forget_bits();
}

uint32_t flags_of(const OpCall& call) {
  uint32_t flags = 0;
  for (const Argument& argument : call.arguments) flags |= argument.flags();
  return flags;
}

/// What a kernel is given has bytes; a view is made without.
void give_bytes(const OpCall& call) {
  if (call.form == OpForm::Function && call.info().is_view) return;
  for (const Argument& argument : call.arguments) argument.each_tensor([](const Tensor& t) { materialize_bytes(t); });
}

void storage_changed(Storage* storage, int64_t bytes) {
  notify([&](Observer& o) { o.memory_changes({storage, bytes}); });
}

void kernel_noted(const char* name) {
  if (name) notify_kernel_begins(name);
  else notify_kernel_ends();
}

void piece_noted(bool begins) { begins ? notify_work_begins() : notify_work_ends(); }

bool follows_memory(const Observers& list) {
  return std::ranges::any_of(list, [](const Observer* o) { return o && o->follows_memory; });
}

}  // namespace

void add_observer(Observer* observer, Watched threads) {
  static std::once_flag installed;
  std::call_once(installed, [] {
    on_kernel = kernel_noted;
    on_piece = piece_noted;
    on_storage_change = storage_changed;
  });
  if (threads == Watched::ThisThread) {
    thread_observers.list.push_back(observer);
    set_watch(kWatchThread | (observer->follows_memory ? kWatchThreadMemory : 0u), true);
  } else {
    change_process_list(nullptr, [&](Observers& list) {
      list.push_back(observer);
      set_watch_everywhere(kWatchProcess | (observer->follows_memory ? kWatchProcessMemory : 0u), true);
    });
  }
}

void remove_observer(Observer* observer, Watched threads) {
  size_t removed = 0;
  if (threads == Watched::ThisThread) {
    removed = thread_observers.remove(observer);
    if (thread_observers.empty()) set_watch(kWatchThread, false);
    if (!follows_memory(thread_observers.list)) set_watch(kWatchThreadMemory, false);
  } else {
    change_process_list(observer, [&](Observers& list) {
      removed = std::erase(list, observer);
      if (list.empty()) set_watch_everywhere(kWatchProcess, false);
      if (!follows_memory(list)) set_watch_everywhere(kWatchProcessMemory, false);
    });
  }
  FACULA_CHECK(removed > 0, ErrorKind::Runtime, "remove_observer: expected an observer that was added, got another");
}

bool in_observer() { return reading > 0 || thread_observers.notifying > 0; }

bool (*run_sparse)(const OpCall& call) = nullptr;
RegionHooks region_hooks;
CellHooks cell_hooks;
bool (*defer_op)(const OpCall& call) = nullptr;
bool (*everything_waits)() = nullptr;

OpScope::OpScope(uint16_t op, OpForm form, List<Argument> arguments, List<ResultSlot> results)
    : call_{op, form, arguments, results} {
  notify([this](Observer& o) { o.op_begins(call_); });
  if (form == OpForm::Composite) return;
  try {
    const uint32_t flags = flags_of(call_);
    const bool wants_dispatch = (watching() & kWatchDispatch) || (flags & kPythonDispatch);
    if (host.dispatch && wants_dispatch) replaced_ = host.dispatch(call_);
    if (!replaced_ && (flags & kSparse)) replaced_ = run_sparse(call_);
    if (__builtin_expect((watching() & kWatchRegion) != 0, 0) && !replaced_) {
      in_region_ = true;
      replaced_ = region_hooks.op_begins(call_);
    }
    if (__builtin_expect((watching() & kWatchDeferral) != 0, 0) && !replaced_) replaced_ = defer_op(call_);
    const bool others_ran = watching() & (kWatchDispatch | kWatchRegion | kWatchDeferral);
    if (!replaced_ && ((others_ran ? flags_of(call_) : flags) & kDeferred)) give_bytes(call_);
    if (__builtin_expect((watching() & kWatchBudget) != 0, 0) && !replaced_) {
      in_cells_ = true;
      cell_hooks.op_begins(call_);
    }
  } catch (...) {
    finish(true);
    throw;
  }
}

void OpScope::finish(bool failed) {
  done_ = true;
  if (__builtin_expect(in_cells_, 0)) cell_hooks.op_ends(call_, failed);
  if (__builtin_expect(in_region_, 0)) region_hooks.op_ends(call_, failed);
  notify([&](Observer& o) { o.op_ends(call_, failed); });
}

void notify_node_begins(const Node& node) {
  notify([&](Observer& o) { o.node_begins(node); });
}
void notify_node_ends(const Node& node) {
  notify([&](Observer& o) { o.node_ends(node); });
}
void notify_node_made(const Node& node) {
  notify([&](Observer& o) { o.node_made(node); });
}
void notify_kernel_begins(const char* name) {
  notify([&](Observer& o) { o.kernel_begins(name); });
}
void notify_kernel_ends() {
  notify([](Observer& o) { o.kernel_ends(); });
}
void notify_work_begins() {
  notify([](Observer& o) { o.work_begins(); });
}
void notify_work_ends() {
  notify([](Observer& o) { o.work_ends(); });
}
void notify_range_begins(std::string_view name) {
  notify([&](Observer& o) { o.range_begins(name); });
}
void notify_range_ends() {
  notify([](Observer& o) { o.range_ends(); });
}

}  // namespace facula

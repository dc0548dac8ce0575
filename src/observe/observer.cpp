#include "observe/observer.h"

#include <algorithm>
#include <mutex>
#include <thread>

#include "core/host.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace facula {
namespace {

using Observers = std::vector<Observer*>;

thread_local Observers thread_observers;

// Observers of all threads. A thread that tells them something holds the list for that long; the lock is shared, and
// exclusive only where the list changes, so that nobody is told anything after remove_observer().
struct ProcessObservers {
  std::mutex writers;
  std::atomic<int> readers{0};
  std::atomic<bool> changing{false};
  Observers list;
};
ProcessObservers& process() {
  static ProcessObservers* instance = new ProcessObservers;
  return *instance;
}

class Reading {
 public:
  Reading() {
    for (;;) {
      process().readers.fetch_add(1, std::memory_order_seq_cst);
      if (!process().changing.load(std::memory_order_seq_cst)) return;
      process().readers.fetch_sub(1, std::memory_order_seq_cst);
      std::lock_guard wait(process().writers);
    }
  }
  ~Reading() { process().readers.fetch_sub(1, std::memory_order_release); }
  Reading(const Reading&) = delete;
};

template <class Change>
void change_process_list(Change&& change) {
  std::lock_guard guard(process().writers);
  process().changing.store(true, std::memory_order_seq_cst);
  while (process().readers.load(std::memory_order_acquire) > 0) std::this_thread::yield();
  change(process());
  process().changing.store(false, std::memory_order_seq_cst);
}

template <class F>
void tell(F&& f) {
  if (__builtin_expect((watching() & kUnknownThread) != 0, 0)) know_this_thread();
  const uint32_t watch = watching();
  if (!(watch & kWatchObservers)) return;
  if (watch & kWatchThread) {
    for (Observer* observer : thread_observers) f(*observer);
  }
  if (watch & kWatchProcess) {
    Reading list;
    for (Observer* observer : process().list) f(*observer);
  }
}

bool has_flags(const OpCall& call, uint32_t flags) {
  bool found = false;
  for (const Argument& argument : call.arguments) found |= (argument.flags() & flags) != 0;
  return found;
}

bool wants_dispatch(const OpCall& call) { return (watching() & kWatchDispatch) || has_flags(call, kPythonDispatch); }

void storage_changed(Storage* storage, int64_t bytes) {
  tell([&](Observer& o) { o.memory_changes({storage, bytes}); });
}

void kernel_noted(const char* name) {
  if (name) tell_kernel_begins(name);
  else tell_kernel_ends();
}

void piece_noted(bool begins) { begins ? tell_work_begins() : tell_work_ends(); }

bool follows_memory(const Observers& list) {
  return std::any_of(list.begin(), list.end(), [](const Observer* o) { return o->follows_memory; });
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
    thread_observers.push_back(observer);
    set_watch(kWatchThread | (observer->follows_memory ? kWatchThreadMemory : 0u), true);
  } else {
    change_process_list([&](ProcessObservers& p) { p.list.push_back(observer); });
    set_watch_everywhere(kWatchProcess | (observer->follows_memory ? kWatchProcessMemory : 0u), true);
  }
}

void remove_observer(Observer* observer, Watched threads) {
  size_t removed = 0;
  if (threads == Watched::ThisThread) {
    removed = std::erase(thread_observers, observer);
    if (thread_observers.empty()) set_watch(kWatchThread, false);
    if (!follows_memory(thread_observers)) set_watch(kWatchThreadMemory, false);
  } else {
    change_process_list([&](ProcessObservers& p) {
      removed = std::erase(p.list, observer);
      if (p.list.empty()) set_watch_everywhere(kWatchProcess, false);
      if (!follows_memory(p.list)) set_watch_everywhere(kWatchProcessMemory, false);
    });
  }
  FACULA_CHECK(removed > 0, ErrorKind::Runtime, "remove_observer: expected an observer that was added, got another");
}

bool (*run_sparse)(const OpCall& call) = nullptr;

OpScope::OpScope(uint16_t op, OpForm form, List<Argument> arguments, List<ResultSlot> results)
    : call_{op, form, arguments, results} {
  tell([this](Observer& o) { o.op_begins(call_); });
  if (form == OpForm::Composite) return;
  try {
    if (host.dispatch && wants_dispatch(call_)) replaced_ = host.dispatch(call_);
    if (!replaced_ && has_flags(call_, kSparse)) replaced_ = run_sparse(call_);
  } catch (...) {
    finish(true);
    throw;
  }
}

void OpScope::finish(bool failed) {
  done_ = true;
  tell([&](Observer& o) { o.op_ends(call_, failed); });
}

void tell_node_begins(const Node& node) {
  tell([&](Observer& o) { o.node_begins(node); });
}
void tell_node_ends(const Node& node) {
  tell([&](Observer& o) { o.node_ends(node); });
}
void tell_node_made(const Node& node) {
  tell([&](Observer& o) { o.node_made(node); });
}
void tell_kernel_begins(const char* name) {
  tell([&](Observer& o) { o.kernel_begins(name); });
}
void tell_kernel_ends() {
  tell([](Observer& o) { o.kernel_ends(); });
}
void tell_work_begins() {
  tell([](Observer& o) { o.work_begins(); });
}
void tell_work_ends() {
  tell([](Observer& o) { o.work_ends(); });
}
void tell_range_begins(std::string_view name) {
  tell([&](Observer& o) { o.range_begins(name); });
}
void tell_range_ends() {
  tell([](Observer& o) { o.range_ends(); });
}

}  // namespace facula

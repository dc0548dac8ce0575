// Holds what a thread's ops must check besides their tensors. `watch` guards every op, next to the tensor flags: when
// it is zero, nobody observes and no op checks further. The other modes are tested only where they matter.
#pragma once

#include <atomic>
#include <cstdint>

namespace facula {

enum Mode : uint32_t {
  kModeAutocast = 1u << 2,      // of the CPU's tensors
  kModeAutocastCuda = 1u << 3,  // of those on CUDA devices
  kModeAnomaly = 1u << 4,
  kModePython = 1u << 5,  // __torch_function__ modes
  kModeInference = 1u << 6,
  kModeSavedHooks = 1u << 7,  // saved_tensors_hooks of this thread
  kModeVmap = 1u << 8,        // a vmap runs, so that random numbers may be each example's own
};

/// Who watches the ops of a thread (src/observe).
enum Watch : uint32_t {
  kWatchThread = 1u << 0,         // observers of this thread
  kWatchProcess = 1u << 1,        // observers of all threads
  kWatchDispatch = 1u << 2,       // __torch_dispatch__ modes
  kWatchThreadMemory = 1u << 3,   // an observer of this thread follows storages
  kWatchProcessMemory = 1u << 4,  // an observer of all threads does
  kWatchRegion = 1u << 5,         // a compiled function runs (src/region)
  kWatchDeferral = 1u << 6,       // every op waits that can (src/region/deferred.h)
  kWatchBudget = 1u << 7,         // a memory budget is on (src/budget)
  kUnknownThread = 1u << 31,      // it has not met an op yet
};

constexpr uint32_t kWatchObservers = kWatchThread | kWatchProcess;
constexpr uint32_t kWatchMemory = kWatchThreadMemory | kWatchProcessMemory;

struct ThreadState {
  uint32_t modes = 0;
  std::atomic<uint32_t> watch{kUnknownThread};  // bits of Watch; other threads set and clear those of the process
  bool grad_enabled = true;
  bool forward_grad_enabled = true;
  uint16_t compiled = 0;  // the number of the compiled function that runs, which nodes remember; 0: none
};

// initial-exec: a plain load from the thread pointer instead of a call.
extern thread_local constinit ThreadState thread_state __attribute__((tls_model("initial-exec")));

/// Bits of Watch of the calling thread.
inline uint32_t watching() { return thread_state.watch.load(std::memory_order_relaxed); }

/// Whether anybody may look at single ops; a compiled function, which gives what eager execution gives, does not, nor
/// does a memory budget.
inline bool are_ops_seen() { return (watching() & ~(kWatchRegion | kWatchDeferral | kWatchBudget)) != 0; }

/// Sets or clears bits of the calling thread's `watch`.
inline void set_watch(uint32_t bits, bool on) {
  if (on) thread_state.watch.fetch_or(bits, std::memory_order_relaxed);
  else thread_state.watch.fetch_and(~bits, std::memory_order_relaxed);
}

/// Sets or clears bits of every thread's `watch`, also of threads that begin later.
void set_watch_everywhere(uint32_t bits, bool on);
/// A thread is known from its first op on, to its end: takes over what watches all threads.
void know_this_thread();
/// Around fork(). The third is for the child, while the lock is held: only the forking thread lives on there.
void threads_lock();
void threads_unlock();
void threads_forget_others();

/// Nobody watches while it lives: for what watchers do themselves.
class Unwatched {
 public:
  Unwatched() : before_(thread_state.watch.exchange(0, std::memory_order_relaxed)) {}
  ~Unwatched() { thread_state.watch.fetch_or(before_, std::memory_order_relaxed); }
  Unwatched(const Unwatched&) = delete;

 private:
  uint32_t before_;
};

class GradMode {
 public:
  static bool enabled() { return thread_state.grad_enabled; }
  explicit GradMode(bool enabled) : before_(thread_state.grad_enabled) { thread_state.grad_enabled = enabled; }
  ~GradMode() { thread_state.grad_enabled = before_; }
  GradMode(const GradMode&) = delete;

 private:
  bool before_;
};

}  // namespace facula

#include "core/asking.h"

#include <pthread.h>

#include <atomic>
#include <memory>
#include <shared_mutex>
#include <utility>

#include "core/parallel.h"

namespace facula {
namespace {

// Whoever forks takes it alone: then no mutex is held around a loop, and the child finds them all open. Never
// destroyed.
std::shared_mutex& fork_gate() {
  static auto* gate = [] {
    // the child makes it anew: it counts threads that wait for it, and those do not live there
    pthread_atfork([] { fork_gate().lock(); }, [] { fork_gate().unlock(); }, [] { std::construct_at(&fork_gate()); });
    return new std::shared_mutex;
  }();
  return *gate;
}

thread_local HeldAroundLoops* held = nullptr;
std::atomic<int> interval{200};

}  // namespace

HeldAroundLoops::HeldAroundLoops(std::mutex& mutex) : mutex_(mutex) {
  close();
  held = this;
}
HeldAroundLoops::~HeldAroundLoops() {
  held = nullptr;
  open();
}
void HeldAroundLoops::close() {
  fork_gate().lock_shared();
  mutex_.lock();
}
void HeldAroundLoops::open() {
  mutex_.unlock();
  fork_gate().unlock_shared();
}

Opened::Opened() : held_(std::exchange(held, nullptr)) {
  if (held_) held_->open();
}
Opened::~Opened() {
  if (held_) held_->close();
  held = held_;
}

void LongWork::ask() {
  left_ = kBetween;
  if (!host.check_interrupt || Uninterrupted::depth || in_parallel_region()) return;
  if (std::chrono::steady_clock::now() - last_ < std::chrono::milliseconds(ask_interval())) return;
  const Opened meanwhile;
  host.check_interrupt();
  last_ = std::chrono::steady_clock::now();
}

void set_ask_interval(int milliseconds) { interval.store(milliseconds, std::memory_order_relaxed); }
int ask_interval() { return interval.load(std::memory_order_relaxed); }

}  // namespace facula

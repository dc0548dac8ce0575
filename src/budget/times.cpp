#include "budget/times.h"

#include <algorithm>
#include <utility>

#include "core/device_clock.h"

namespace facula::budget {

namespace {
void lower(std::atomic<uint64_t>& least, uint64_t ns) {
  uint64_t known = least.load(std::memory_order_relaxed);
  while (ns < known && !least.compare_exchange_weak(known, ns, std::memory_order_relaxed)) continue;
}
}  // namespace

void Times::add(uint64_t ns) { lower(least_, ns); }
void Times::note_shorter(uint64_t ns) { lower(least_shorter_, ns); }
uint64_t Times::shorter_ns() const {
  const uint64_t least = least_shorter_.load(std::memory_order_relaxed);
  return least == UINT64_MAX ? 0 : least;
}

void Times::add(Pending pending) {
  std::lock_guard guard(lock_);
  pending_.push_back(pending);
  pending_count_.store(static_cast<uint32_t>(pending_.size()), std::memory_order_relaxed);
}

void Times::read_pending() {
  const std::unique_lock guard(lock_, std::try_to_lock);
  if (!guard.owns_lock()) return;
  std::erase_if(pending_, [&](const Pending& p) {
    const ClockHooks& clock = clock_of(p.device);
    const uint64_t ns = clock.ns(p.time);
    if (ns == 0) return false;
    add(ns);
    clock.drop(p.time);
    return true;
  });
  pending_count_.store(static_cast<uint32_t>(pending_.size()), std::memory_order_relaxed);
}

uint64_t Times::ns() {
  if (pending_count_.load(std::memory_order_relaxed)) read_pending();
  const uint64_t least = least_.load(std::memory_order_relaxed);
  return least == UINT64_MAX ? 0 : least;
}

Stopwatch::Stopwatch(Device device) : device_(device) {
  const ClockHooks& clock = clock_of(device);
  if (clock.begin) time_ = clock.begin(device);
  else began_ = std::max<uint64_t>(thread_ns(), 1);
}

Stopwatch::~Stopwatch() {
  if (time_) clock_of(device_).drop(time_);
}

uint64_t Stopwatch::end(Times* times) {
  const uint64_t began = std::exchange(began_, 0);
  if (began) {
    const uint64_t took = std::max<uint64_t>(thread_ns() - began, 1);
    if (!times) return took;
    times->looks_.fetch_add(1, std::memory_order_relaxed);
    times->add(took);
    return took;
  }
  if (!time_ || !times || !clock_of(device_).end(time_)) return 0;
  times->looks_.fetch_add(1, std::memory_order_relaxed);
  times->add({device_, std::exchange(time_, nullptr)});
  return 0;
}

// A CPU writes 4 GB in a second after what it has read and computed; a GPU some hundred, and takes microseconds to
// begin.
uint64_t guessed_ns(Device device, size_t bytes) {
  constexpr size_t kOfCpu = 4, kOfDevice = 512, kToBegin = 5000;
  return device.is_cpu() ? bytes / kOfCpu : kToBegin + bytes / kOfDevice;
}

}  // namespace facula::budget

// Measures how long ops take. On the CPU the processor time of the thread counts. CUDA devices are measured by their
// own clock (core/device_clock.h), which is read when a time is needed and the device has passed it; until then the
// size of the results stands for the time.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/tensor.h"

namespace facula {
struct DeviceTime;
}

namespace facula::budget {

/// Keeps what calls of one op with the same sizes have taken. A look at a clock is a call of the system or two of the
/// driver: the first ones are measured, and the least counts, since other programs on the machine make single times
/// long.
class Times {
 public:
  static constexpr uint32_t kLooks = 6;

  bool are_wanted() const { return looks_.load(std::memory_order_relaxed) < kLooks; }
  /// The least; 0 where none is known yet. Does not wait, and may be called with the lock of cells.
  uint64_t ns();
  /// The least of runs that take less time than a call (together.h); 0 where none is known.
  uint64_t shorter_ns() const;
  void note_shorter(uint64_t ns);

 private:
  friend class Stopwatch;
  struct Pending {
    Device device;
    DeviceTime* time;
  };
  void add(uint64_t ns);
  void add(Pending pending);
  void read_pending();

  std::atomic<uint64_t> least_{UINT64_MAX}, least_shorter_{UINT64_MAX};
  std::atomic<uint32_t> looks_{0}, pending_count_{0};
  std::mutex lock_;
  std::vector<Pending> pending_;
};

/// Measures what this thread does on a device from its making to end().
class Stopwatch {
 public:
  explicit Stopwatch(Device device);
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  /// Ends once; what is known then, 0 for a device that has not come past it.
  uint64_t end(Times* times);

 private:
  Device device_;
  DeviceTime* time_ = nullptr;
  uint64_t began_ = 0;  // 0: the device has its own clock
};

/// For what was never measured: as long as it takes to write the bytes, and to begin.
uint64_t guessed_ns(Device device, size_t bytes);

/// Returns the time of the op that made a tensor's bytes, as far as it is known now; 0 where no cell has them. For
/// tests.
uint64_t time_of_maker(const Tensor& tensor);

/// Nanoseconds of the processor that this thread has had.
uint64_t thread_ns();

}  // namespace facula::budget

// Declares the counters that the two halves of the CPU allocator (core/small_block.cpp, cpu/allocator.cpp) share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

// AddressSanitizer wants to see every block: the allocator then only counts, and malloc serves.
#if defined(__SANITIZE_ADDRESS__)
#define FACULA_PLAIN_MALLOC 1
#else
#define FACULA_PLAIN_MALLOC 0
#endif

namespace facula::detail {

// A sum with its highest value, updated by any thread.
class Meter {
 public:
  void add(size_t amount) {
    const size_t now = current_.fetch_add(amount, std::memory_order_relaxed) + amount;
    size_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }
  void subtract(size_t amount) { current_.fetch_sub(amount, std::memory_order_relaxed); }
  size_t current() const { return current_.load(std::memory_order_relaxed); }
  size_t peak() const { return peak_.load(std::memory_order_relaxed); }
  // `peak` starts again at `current`, as the caller measures it.
  void restart(size_t current) { peak_.store(current, std::memory_order_relaxed); }

 private:
  std::atomic<size_t> current_{0};
  std::atomic<size_t> peak_{0};
};

struct Meters {
  Meter held;      // bytes out of the pools: with callers, or in the lists of a thread
  Meter blocks;    // the same in blocks
  Meter reserved;  // bytes in use or cached
  std::atomic<uint64_t> hits{0}, misses{0}, trims{0}, retries{0}, failures{0};
};

extern constinit Meters meters;  // in small_block.cpp

}  // namespace facula::detail

// Defines a lock that is held for a few instructions: never while an op or Python code runs, nor while something with a
// destructor of its own dies.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace facula {

class SpinLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

class Locked {
 public:
  explicit Locked(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;

 private:
  SpinLock& lock_;
};

/// A list that one thread may change while another goes through it: that one works on a copy.
template <class T>
class SharedList {
 public:
  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }
  void add(T item) {
    Locked guard(lock_);
    items_.push_back(std::move(item));
    count_.store(items_.size(), std::memory_order_release);
  }
  std::vector<T> all() const {
    Locked guard(lock_);
    return items_;
  }
  /// Empties the list.
  std::vector<T> take() {
    Locked guard(lock_);
    count_.store(0, std::memory_order_release);
    return std::move(items_);
  }
  /// `visit` every item in place until it returns something other than zero; it must not do more than look.
  template <class Visit>
  int visit(Visit&& visit) const {
    Locked guard(lock_);
    for (const T& item : items_) {
      if (int status = visit(item)) return status;
    }
    return 0;
  }

 private:
  mutable SpinLock lock_;
  std::atomic<size_t> count_ = 0;
  std::vector<T> items_;
};

}  // namespace facula

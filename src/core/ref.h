// Implements intrusive reference counting. A count of one is tested with a plain load, so the sole owner pays no locked
// instruction.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace facula {

class RefCount {
 public:
  explicit RefCount(int32_t initial = 1) : count_(initial) {}
  void increment() { count_.fetch_add(1, std::memory_order_relaxed); }
  /// True when this was the last reference.
  bool decrement() {
    if (count_.load(std::memory_order_acquire) == 1) return true;
    return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  /// Takes a reference unless the count has already reached zero (for weak references).
  bool increment_if_alive() {
    int32_t seen = count_.load(std::memory_order_relaxed);
    while (seen > 0) {
      if (count_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }
  /// As decrement(), but stores zero, so that increment_if_alive() fails from then on.
  bool decrement_to_zero() { return count_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  void set(int32_t count) { count_.store(count, std::memory_order_release); }
  int32_t load() const { return count_.load(std::memory_order_acquire); }

 private:
  std::atomic<int32_t> count_;
};

/// Owning pointer to a T that has `retain(T*)` and `release(T*)` found by argument-dependent lookup.
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  Ref(const Ref& other) : pointer_(other.pointer_) {
    if (pointer_) retain(pointer_);
  }
  Ref(Ref&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~Ref() {
    if (pointer_) release(pointer_);
  }

  /// Takes over a reference that the caller owns.
  static Ref adopt(T* pointer) {
    Ref ref;
    ref.pointer_ = pointer;
    return ref;
  }
  static Ref share(T* pointer) {
    if (pointer) retain(pointer);
    return adopt(pointer);
  }
  T* detach() { return std::exchange(pointer_, nullptr); }
  T* get() const { return pointer_; }
  T* operator->() const { return pointer_; }
  T& operator*() const { return *pointer_; }
  explicit operator bool() const { return pointer_ != nullptr; }
  bool operator==(const Ref&) const = default;

 private:
  T* pointer_ = nullptr;
};

}  // namespace facula

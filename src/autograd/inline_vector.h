// A vector that holds its first N elements in place.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace facula {

template <class T, uint32_t N>
class InlineVector {
 public:
  InlineVector() = default;
  InlineVector(const InlineVector&) = delete;
  InlineVector& operator=(const InlineVector&) = delete;
  ~InlineVector() {
    std::destroy_n(data_, size_);
    if (data_ != place()) std::allocator<T>().deallocate(data_, capacity_);
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (__builtin_expect(size_ == capacity_, 0)) grow();
    return *new (data_ + size_++) T(std::forward<Args>(args)...);
  }

 private:
  T* place() { return reinterpret_cast<T*>(bytes_); }
  [[gnu::noinline]] void grow() {
    uint32_t wanted = capacity_ * 2;
    T* fresh = std::allocator<T>().allocate(wanted);
    std::uninitialized_move_n(data_, size_, fresh);
    std::destroy_n(data_, size_);
    if (data_ != place()) std::allocator<T>().deallocate(data_, capacity_);
    data_ = fresh;
    capacity_ = wanted;
  }

  T* data_ = place();
  uint32_t size_ = 0;
  uint32_t capacity_ = N;
  alignas(T) unsigned char bytes_[N * sizeof(T)];
};

}  // namespace facula

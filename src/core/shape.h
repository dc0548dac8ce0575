// Defines shapes and strides: a small inline vector, a non-owning list, and pure functions over them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <vector>

#include "core/error.h"

namespace facula {

/// A view of consecutive values; as std::span, with brace initialization. A braced list lives as long as the expression
/// it is written in: right for an argument, wrong for a variable.
template <class T>
class List {
 public:
  List() = default;
  List(const T* data, size_t size) : data_(data), size_(size) {}
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Winit-list-lifetime"  // warns of every view of a braced list, arguments included
#endif
  List(std::initializer_list<T> values) : data_(values.begin()), size_(values.size()) {}
#pragma GCC diagnostic pop
  List(const std::vector<T>& values) : data_(values.data()), size_(values.size()) {}

  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T& operator[](size_t i) const { return data_[i]; }
  const T& back() const { return data_[size_ - 1]; }
  List slice(size_t from, size_t count) const { return {data_ + from, count}; }
  std::vector<T> vec() const { return {begin(), end()}; }
  bool operator==(const List& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

using IntList = List<int64_t>;
using FloatList = List<double>;

/// Copies a handful of numbers, forwards. Left alone, a compiler makes a call of memmove of such a loop, which costs
/// several times what a few numbers do.
[[gnu::always_inline]] inline void copy_few(const int64_t* from, size_t count, int64_t* to) {
  for (size_t i = 0; i < count; ++i) {
    to[i] = from[i];
    asm("" : "+r"(i));
  }
}

/// A vector of sizes or strides that holds up to eight dimensions inline.
class Dims {
 public:
  static constexpr size_t kInline = 8;
  Dims() = default;
  explicit Dims(size_t count, int64_t value = 0) { resize(count, value); }
  Dims(std::initializer_list<int64_t> values) { assign(values.begin(), values.size()); }
  Dims(IntList values) { assign(values.data(), values.size()); }
  Dims(const std::vector<int64_t>& values) { assign(values.data(), values.size()); }
  Dims(const Dims& other) { assign(other.data(), other.size()); }
  Dims(Dims&& other) noexcept { *this = std::move(other); }
  Dims& operator=(const Dims& other) {
    if (this != &other) assign(other.data(), other.size());
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept {
    if (other.heap_) {
      heap_ = std::move(other.heap_);
      capacity_ = other.capacity_;
      size_ = other.size_;
      other.size_ = 0;
      other.capacity_ = kInline;
    } else {
      assign(other.data(), other.size());
    }
    return *this;
  }

  int64_t* data() { return heap_ ? heap_.get() : inline_; }
  const int64_t* data() const { return heap_ ? heap_.get() : inline_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + size_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  int64_t& operator[](size_t i) { return data()[i]; }
  int64_t operator[](size_t i) const { return data()[i]; }
  int64_t& back() { return data()[size_ - 1]; }
  int64_t back() const { return data()[size_ - 1]; }
  operator IntList() const { return {data(), size_}; }

  void resize(size_t count, int64_t value = 0) {
    reserve(count);
    int64_t* to = data();
    for (size_t i = size_; i < count; ++i) {
      to[i] = value;
      asm("" : "+r"(i));
    }
    size_ = count;
  }
  void push_back(int64_t value) {
    reserve(size_ + 1);
    data()[size_++] = value;
  }
  void pop_back() { --size_; }
  void insert(size_t at, int64_t value) {
    push_back(0);
    int64_t* to = data();
    for (size_t i = size_ - 1; i > at; --i) {
      to[i] = to[i - 1];
      asm("" : "+r"(i));
    }
    to[at] = value;
  }
  void erase(size_t at) {
    --size_;
    copy_few(data() + at + 1, size_ - at, data() + at);
  }
  void clear() { size_ = 0; }
  bool operator==(const Dims& other) const { return IntList(*this) == IntList(other); }

 private:
  void assign(const int64_t* values, size_t count) {
    reserve(count);
    copy_few(values, count, data());
    size_ = count;
  }
  void reserve(size_t count) {
    if (__builtin_expect(count > capacity_, 0)) grow(count);
  }
  [[gnu::noinline, gnu::cold]] void grow(size_t count) {
    size_t wanted = std::max(count, capacity_ * 2);
    auto grown = std::make_unique<int64_t[]>(wanted);
    copy_few(data(), size_, grown.get());
    heap_ = std::move(grown);
    capacity_ = wanted;
  }

  size_t size_ = 0;
  size_t capacity_ = kInline;
  int64_t inline_[kInline];
  std::unique_ptr<int64_t[]> heap_;
};

enum class MemoryFormat : uint8_t { Contiguous, ChannelsLast, ChannelsLast3d, Preserve };
enum class Layout : uint8_t { Strided, SparseCoo, SparseCsr, SparseCsc, SparseBsr, SparseBsc };

std::ostream& operator<<(std::ostream& out, IntList list);  // (2, 3), and (2,), as Python writes a tuple
inline std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << IntList(dims); }
std::ostream& operator<<(std::ostream& out, MemoryFormat format);
std::ostream& operator<<(std::ostream& out, Layout layout);  // torch.sparse_coo

/// Orders dimensions by the strides of one or several operands, innermost first, as results keep the memory order of
/// their inputs. `strides[k]` are operand k's strides over `sizes`, zero where broadcast; equal ones keep the logical
/// order.
Dims dimension_order(IntList sizes, List<Dims> strides);
/// Strides without holes for dimensions in that order.
Dims dense_strides(IntList sizes, const Dims& order);
/// Number of elements; throws when it does not fit in 63 bits or a size is negative.
int64_t count_elements(IntList sizes, const char* op);
Dims contiguous_strides(IntList sizes);
/// Strides of a dense tensor in the given format (channels-last needs four dimensions, the 3d one five).
Dims strides_of(IntList sizes, MemoryFormat format, const char* op);
bool is_contiguous(IntList sizes, IntList strides);
bool is_contiguous(IntList sizes, IntList strides, MemoryFormat format);
/// Every element has its own place and the places leave no hole.
bool is_dense(IntList sizes, IntList strides);
/// Some memory location may belong to two elements.
bool may_self_overlap(IntList sizes, IntList strides);
/// Dense strides in the order of `strides` (what `empty_like` preserves); contiguous when the input is not dense.
Dims preserved_strides(IntList sizes, IntList strides);

/// The broadcast shape; throws naming `op` and both shapes.
Dims broadcast(IntList a, IntList b, const char* op);
/// Whether `from` can be expanded to `to`.
bool broadcasts_to(IntList from, IntList to);

/// A possibly negative dimension made valid; a 0-d tensor has a dimension 0. Throws IndexError naming `op`.
inline int64_t wrap_dim(int64_t dim, int64_t ndim, const char* op) {
  int64_t range = ndim == 0 ? 1 : ndim;
  if (__builtin_expect(dim < -range || dim >= range, 0)) {
    throw_error(ErrorKind::Index, op, ": dimension out of range, expected ", -range, " to ", range - 1, ", got ", dim);
  }
  return dim < 0 ? dim + range : dim;
}

/// The strides that show `sizes`/`strides` as `shape` without a copy; false when there are none.
bool view_strides(IntList sizes, IntList strides, IntList shape, Dims& out);
/// Replaces one -1 in `shape` by what `numel` implies; throws naming `op`.
Dims infer_shape(IntList shape, int64_t numel, const char* op);

}  // namespace facula

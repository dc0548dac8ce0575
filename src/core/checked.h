// Computes counts, sizes, strides, offsets and byte numbers that a caller can choose.
//
// A `Checked` is an int64 that remembers whether a step of its computation overflowed. A formula is written as on paper
// and read once, with get(). A number that does not fit in 64 bits then becomes an Error with the op's name, what was
// computed and what was received. The sizes and strides of a tensor with elements were checked when the tensor was
// made, so their products fit. Tensors without elements may have any strides, which refer to no memory; `wrapping_mul`
// is for those.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/storage.h"

namespace facula {

class Checked {
 public:
  constexpr Checked(int64_t value) : value_(value) {}

  friend constexpr Checked operator+(Checked a, Checked b) {
    Checked r(0);
    r.fits_ = a.fits_ & b.fits_ & !__builtin_add_overflow(a.value_, b.value_, &r.value_);
    return r;
  }
  friend constexpr Checked operator-(Checked a, Checked b) {
    Checked r(0);
    r.fits_ = a.fits_ & b.fits_ & !__builtin_sub_overflow(a.value_, b.value_, &r.value_);
    return r;
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    Checked r(0);
    r.fits_ = a.fits_ & b.fits_ & !__builtin_mul_overflow(a.value_, b.value_, &r.value_);
    return r;
  }
  constexpr Checked operator-() const { return Checked(0) - *this; }
  constexpr Checked& operator+=(Checked b) { return *this = *this + b; }
  constexpr Checked& operator-=(Checked b) { return *this = *this - b; }
  constexpr Checked& operator*=(Checked b) { return *this = *this * b; }

  constexpr bool fits() const { return fits_; }
  /// The number; throws "<op>: <what> must fit in 64 bits, got <got...>" where it has overflowed.
  template <class... Got>
  constexpr int64_t get(const char* op, const char* what, const Got&... got) const {
    FACULA_CHECK(fits_, ErrorKind::Runtime, op, ": ", what, " must fit in 64 bits, got ", got...);
    return value_;
  }
  /// The number, or `other` where it has overflowed.
  constexpr int64_t value_or(int64_t other) const { return fits_ ? value_ : other; }

 private:
  int64_t value_;
  bool fits_ = true;
};

/// The product of sizes; a zero makes it zero, however large the others are.
inline Checked product_of(IntList sizes) {
  Checked total = 1;
  bool zero = false;
  for (int64_t size : sizes) {
    zero |= size == 0;
    total *= size;
  }
  return zero ? Checked(0) : total;
}

/// A whole number of doubles' arithmetic as a count.
template <class... Got>
int64_t whole_count(double value, const char* op, const char* what, const Got&... got) {
  FACULA_CHECK(value >= -0x1p63 && value < 0x1p63, ErrorKind::Runtime, op, ": ", what, " must fit in 64 bits, got ",
               got...);
  return static_cast<int64_t>(value);
}

/// Bytes of `count` elements.
inline size_t byte_count(Checked count, int64_t item, const char* op, IntList sizes) {
  return static_cast<size_t>((count * item).get(op, "the number of bytes", "size ", sizes));
}

/// The lowest and the highest place that elements have, from `offset`; both are `offset` where there are no elements.
struct Places {
  Checked low, high;
};
inline Places places_of(IntList sizes, IntList strides, int64_t offset) {
  Places p{offset, offset};
  for (int64_t size : sizes)
    if (size == 0) return p;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    Checked& end = strides[i] < 0 ? p.low : p.high;
    end += (Checked(sizes[i]) - 1) * strides[i];
  }
  return p;
}

/// So many elements have a number of bytes in 64 bits, whatever their dtype.
constexpr int64_t kMostElements = INT64_MAX / 16;

/// Throws where sizes, strides and offset (in elements) reach outside of the storage.
void check_inside(const Storage* storage, DType dtype, int64_t offset, IntList sizes, IntList strides, const char* op);

/// A product modulo 2^64, for strides that name no place: of dimensions of size one, or of tensors without elements.
constexpr int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
constexpr int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace facula

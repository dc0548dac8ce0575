// Groups of element-wise steps: what one step gives to the next stays in a register. The host prints a struct `Group`
// behind this include (cuda/group_text.cpp): at<kWide, Index>(p, v) reads the v-th vector of kWide elements of every
// input, runs the steps on each element and writes the results.
#pragma once

#include "group_args.h"
#include "pointwise.cuh"

namespace facula::cuda {

/// The same number, of which the compiler cannot see where it came from. Every op rounds what it gives, but compilers
/// join a product and the sum that follows to one instruction, which rounds once; assemblers do so behind an empty
/// `asm` too. So a step reads its operands through a zero of its own: no instruction is made of parts of two steps, and
/// equal parts of two steps, whose products would have two uses, are not found to be equal.
template <class C>
FACULA_FN C apart(const C& x, UInt32 zero) {
  if constexpr (is_same_type<C, float>) return kernels::from_bits(kernels::bits(x) ^ zero);
  else if constexpr (is_same_type<C, double>) return kernels::from_bits(kernels::bits(x) ^ UInt64(zero));
  else if constexpr (is_complex_type<C>) return C{apart(x.re, zero), apart(x.im, zero)};
  else return x;
}

/// A number among the values, and the numbers from there on.
template <class C>
FACULA_FN const C* values_at(const GroupArgs& p, int offset) {
  return reinterpret_cast<const C*>(p.values + offset);
}

/// A step on one element, whose result becomes an O.
template <class Loop, class C, class R, class O>
FACULA_FN O step(const C& a, const C& b, const C& c, const C* parameters) {
  return convert<O>(element_of<Loop, C, R>(a, b, c, parameters));
}

/// Where element `i` of the first inputs lies, in bytes from their first ones.
template <int kDims, int kCount, class Index>
struct GroupOffsets {
  Int64 from[kCount] = {};
  FACULA_FN GroupOffsets(const GroupArgs& p, Int64 i) {
    Index rest = static_cast<Index>(i);
#pragma unroll
    for (int d = 0; d < kDims; ++d) {
      const Index size = static_cast<Index>(p.shape[d]), next = d + 1 < kDims ? rest / size : 0,
                  at = rest - next * size;
      for (int k = 0; k < kCount; ++k) from[k] += at * p.in[k].strides[d];
      rest = next;
    }
  }
};

// How kWide elements of an input are read that are neighbors in the innermost dimension.
template <class M, int kWide>
FACULA_FN Vector<M, kWide> read_in_order(const GroupInput& in, Int64 v) {
  return static_cast<const Vector<M, kWide>*>(in.data)[v];
}
/// One after the other, at a multiple of their size.
template <class M, int kWide>
FACULA_FN Vector<M, kWide> read_row(const GroupInput& in, Int64 from) {
  return *reinterpret_cast<const Vector<M, kWide>*>(static_cast<const char*>(in.data) + from);
}
/// All the same.
template <class M, int kWide>
FACULA_FN Vector<M, kWide> read_repeated(const GroupInput& in, Int64 from) {
  const M one = *reinterpret_cast<const M*>(static_cast<const char*>(in.data) + from);
  Vector<M, kWide> all;
#pragma unroll
  for (int j = 0; j < kWide; ++j) all.at[j] = one;
  return all;
}
template <class M, int kWide>
FACULA_FN Vector<M, kWide> read_apart(const GroupInput& in, Int64 from) {
  Vector<M, kWide> all;
#pragma unroll
  for (int j = 0; j < kWide; ++j)
    all.at[j] = *reinterpret_cast<const M*>(static_cast<const char*>(in.data) + from + j * in.strides[0]);
  return all;
}
template <class O, int kWide>
FACULA_FN void write(void* out, Int64 v, const Vector<O, kWide>& elements) {
  static_cast<Vector<O, kWide>*>(out)[v] = elements;
}

/// Elements that are left over when all inputs are read in order are done one by one.
template <class Group, int kWide, class Index>
__global__ __launch_bounds__(256) void group(GroupArgs p) {
  const Int64 vectors = p.numel / kWide;
#pragma unroll 1
  for (Int64 v = thread_number(); v < vectors; v += thread_count()) Group::template at<kWide, Index>(p, v);
  if constexpr (kWide > 1 && Group::kIsInOrder) {
    const Int64 i = vectors * kWide + thread_number();
    if (i < p.numel) Group::template at<1, Index>(p, i);
  }
}

}  // namespace facula::cuda

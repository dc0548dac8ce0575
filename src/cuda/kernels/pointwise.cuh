// Element-wise kernels around one loop body, `Loop`, that the host writes in front of them (pointwise.cpp): a struct
// with the number of `inputs` and run<C, R>(C a, C b, C c, const C* parameters), which gives an R. Loops over the grid
// are not unrolled: many threads keep memory busy, and unrolled code takes a third longer to compile.
#pragma once

#include "pointwise_args.h"
#include "vector.cuh"

namespace facula::cuda {

/// An element. The emulated device calls it, so that it is compiled once for all kernels around a loop.
template <class Loop, class C, class R>
#if defined(FACULA_EMULATED_KERNEL) && !defined(FACULA_EMULATED_INLINED)
__attribute__((noinline))
#else
FACULA_FN
#endif
R element_of(C a, C b, C c, const C* parameters) {
  return Loop::template run<C, R>(a, b, c, parameters);
}

/// All elements as what a loop computes with.
template <class C, class M, int n>
FACULA_FN Vector<C, n> computed(const Vector<M, n>& elements) {
  Vector<C, n> all;
  const Vector<Compute<M>, n> wide = widen_all(elements);
#pragma unroll
  for (int j = 0; j < n; ++j) all.at[j] = convert<C>(wide.at[j]);
  return all;
}

/// Any strides and dtypes; offsets are computed in Index.
template <class Loop, class C, class R, class Index>
__global__ __launch_bounds__(256) void pointwise_any(PointwiseArgs p) {
  const C* parameters = reinterpret_cast<const C*>(p.parameters);
  C numbers[kMostInputs];
  for (int k = 0; k < Loop::inputs; ++k)
    if (p.in[k].is_number) numbers[k] = *reinterpret_cast<const C*>(p.numbers[k]);
#pragma unroll 1
  for (Int64 i = thread_number(); i < p.numel; i += thread_count()) {
    Int64 to = 0, from[kMostInputs] = {};
    Index rest = static_cast<Index>(i);
    for (int d = 0; d < p.dims; ++d) {
      const Index size = static_cast<Index>(p.shape[d]), next = d + 1 < p.dims ? rest / size : 0,
                  at = rest - next * size;
      to += at * p.out.strides[d];
      for (int k = 0; k < Loop::inputs; ++k) from[k] += at * p.in[k].strides[d];
      rest = next;
    }
    C in[kMostInputs];
    for (int k = 0; k < Loop::inputs; ++k)
      in[k] =
          p.in[k].is_number ? numbers[k] : load_any<C>(static_cast<const char*>(p.in[k].data) + from[k], p.in[k].dtype);
    store_any<R>(static_cast<char*>(p.out.data) + to, p.out.dtype,
                 element_of<Loop, C, R>(in[0], in[1], in[2], parameters));
  }
}

/// Elements of type M one after the other and numbers, `kWide` at a time; the result is of type O. One input at least
/// is no number.
template <class Loop, class C, class R, class M, class O, int kWide>
__global__ __launch_bounds__(256) void pointwise_direct(PointwiseArgs p) {
  const C* parameters = reinterpret_cast<const C*>(p.parameters);
  const auto is_number = [&](int k) { return Loop::inputs > 1 && p.in[k].is_number; };
  Vector<C, kWide> x[kMostInputs];  // numbers stay there
  for (int k = 0; k < Loop::inputs; ++k)
    if (is_number(k))
      for (int j = 0; j < kWide; ++j) x[k].at[j] = *reinterpret_cast<const C*>(p.numbers[k]);
  const Int64 vectors = p.numel / kWide;
#pragma unroll 1
  for (Int64 v = thread_number(); v < vectors; v += thread_count()) {
    Vector<M, kWide> in[kMostInputs];
    for (int k = 0; k < Loop::inputs; ++k)
      if (!is_number(k)) in[k] = static_cast<const Vector<M, kWide>*>(p.in[k].data)[v];
    for (int k = 0; k < Loop::inputs; ++k)
      if (!is_number(k)) x[k] = computed<C>(in[k]);
    Vector<Compute<O>, kWide> out;
#pragma unroll
    for (int j = 0; j < kWide; ++j)
      out.at[j] = convert<Compute<O>>(element_of<Loop, C, R>(x[0].at[j], x[1].at[j], x[2].at[j], parameters));
    static_cast<Vector<O, kWide>*>(p.out.data)[v] = narrow_all<O>(out);
  }
  const Int64 i = vectors * kWide + thread_number();
  if (i >= p.numel) return;
  for (int k = 0; k < Loop::inputs; ++k)
    if (!is_number(k)) x[k].at[0] = convert<C>(static_cast<const M*>(p.in[k].data)[i]);
  static_cast<O*>(p.out.data)[i] = convert<O>(element_of<Loop, C, R>(x[0].at[0], x[1].at[0], x[2].at[0], parameters));
}

}  // namespace facula::cuda

// What the kernels of linear algebra share: parts of numbers, elements of matrices, lanes that share a column.
#pragma once

#include "block.cuh"
#include "linalg_args.h"

namespace facula::cuda {

template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<kernels::Complex<T>> {
  using type = T;
};
template <class T>
using Real = typename RealOf<T>::type;

template <class T>
FACULA_FN Real<T> real_part(T x) {
  if constexpr (is_complex_type<T>) return x.re;
  else return x;
}
template <class T>
FACULA_FN Real<T> imaginary_part(T x) {
  if constexpr (is_complex_type<T>) return x.im;
  else return Real<T>(0);
}
template <class T>
FACULA_FN T conjugate(T x) {
  if constexpr (is_complex_type<T>) return {x.re, -x.im};
  else return x;
}
template <class T>
FACULA_FN T conjugate_if(bool wanted, T x) {
  return wanted ? conjugate(x) : x;
}
template <class T>
FACULA_FN Real<T> squared_size(T x) {
  return real_part(x) * real_part(x) + imaginary_part(x) * imaginary_part(x);
}
/// The larger part: a size for scaling.
template <class T>
FACULA_FN Real<T> larger_part(T x) {
  const Real<T> re = kernels::abs(real_part(x)), im = kernels::abs(imaginary_part(x));
  return Max::merge(re, im);
}
template <class T>
FACULA_FN T number(Real<T> x) {
  return convert<T>(x);
}

template <class T>
FACULA_FN T* matrix_of(const MatrixBatch& a, Int64 i) {
  return static_cast<T*>(a.data) + i * a.batch;
}
/// Element (r, c) of the matrix that begins at `x`.
template <class T>
FACULA_FN T& element(T* x, const MatrixBatch& a, Int64 r, Int64 c) {
  return x[r * a.row + c * a.column];
}

// ---- threads

FACULA_FN int lane_number() { return int(threadIdx.x % 32); }
/// This warp among those of the block, and of the grid.
FACULA_FN int warp_of_block() { return int(threadIdx.x / 32); }
FACULA_FN int warps_of_block() { return int(blockDim.x / 32); }
FACULA_FN Int64 warp_number() { return thread_number() / 32; }
FACULA_FN Int64 warp_count() { return thread_count() / 32; }

}  // namespace facula::cuda

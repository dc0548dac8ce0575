// Calls LAPACK routines on batches of column-major matrices.
#pragma once

#include <limits>
#include <vector>

#include "core/checked.h"
#include "core/parallel.h"
#include "core/tensor.h"
#include "cpu/blas.h"
#include "cpu/small_matrix.h"

namespace facula::cpu {

/// A routine's name as a template argument.
template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&s)[N]) { std::copy_n(s, N, text); }
};

/// Calls the Fortran routine `name` for element type T; every argument is a pointer.
template <Name name, class T, class... Args>
void lapack_call(Args... args) {
  static auto* const f = blas::lapack<void(Args...), T>(name.text);
  f(args...);
}

/// The matrix `i` of a batch whose matrices (or vectors) have `size` elements each.
template <class T>
T* matrix_at(const Tensor& t, int64_t i, int64_t size) {
  return t.defined() ? t.data<T>() + i * size : nullptr;
}

inline int64_t batch_count(const Tensor& a) {
  const auto dims = static_cast<size_t>(std::max<int64_t>(a.dim() - 2, 0));
  return product_of(IntList(a.sizes().data(), dims)).value_or(0);  // more than fit are matrices without elements
}

/// A size of a matrix as an integer of the library.
inline blas::Int extent(const Tensor& t, int64_t d) {
  FACULA_CHECK(t.size(d) <= std::numeric_limits<blas::Int>::max() || t.numel() == 0, ErrorKind::Runtime,
               "linear algebra: sizes of the library have 32 bits, got shape ", t.sizes());
  return static_cast<blas::Int>(t.size(d));
}

/// Calls f(i) for every matrix; `work` is about how many operations each takes. Threads go to the batch, or to the
/// library where one matrix is very large: below a side of some 800, its threads make most factorizations slower.
template <class F>
void each_matrix(int64_t count, double work, F f) {
  constexpr double kLarge = 1 << 29;
  LockRelease release(work * static_cast<double>(count) >= 1 << 15);
  bool large = work >= kLarge;
  blas::set_threads(large && !in_parallel_region() ? num_threads() : 1);
  auto matrices = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) f(i);
  };
  if (large) sliced_for(0, count, 1, matrices);
  else
    parallel_for(0, count, std::max<int64_t>(1, kGrain * 4 / std::max<int64_t>(static_cast<int64_t>(work), 1)),
                 matrices);
}

/// Whether the matrices are real and so small that cpu/small_matrix.h has what they need.
inline bool is_small(const Tensor& a) {
  return is_floating(a.dtype()) && std::max(a.size(-1), a.size(-2)) <= kSmallMatrix && a.numel() > 0;
}

/// Calls f(first, how many) for groups of small matrices that are worked on together; `work` is of each.
template <class T, class F>
void each_small_group(int64_t count, double work, F f) {
  const int lanes = small_matrices<T>.together;
  each_matrix((count + lanes - 1) / lanes, work * lanes, [&](int64_t group) {
    f(group * lanes, static_cast<int>(std::min<int64_t>(lanes, count - group * lanes)));
  });
}

/// Calls f(TypeTag<T>) for the real ones of LAPACK's element types.
template <class F>
void visit_small(DType dtype, F f) {
  if (dtype == DType::Float32) f(TypeTag<float>{});
  else f(TypeTag<double>{});
}

/// Calls f(TypeTag<T>) for the four element types of LAPACK.
template <class F>
void visit_lapack(DType dtype, const char* op, F f) {
  switch (dtype) {
    case DType::Float32: return f(TypeTag<float>{});
    case DType::Float64: return f(TypeTag<double>{});
    case DType::Complex64: return f(TypeTag<std::complex<float>>{});
    case DType::Complex128: return f(TypeTag<std::complex<double>>{});
    default: throw_error(ErrorKind::Runtime, op, ": expected float32, float64, complex64 or complex128, got ", dtype);
  }
}

/// The size that a workspace query answered.
template <class T>
blas::Int workspace_size(const T& answer) {
  return std::max<blas::Int>(1, static_cast<blas::Int>(std::real(answer)));
}

}  // namespace facula::cpu

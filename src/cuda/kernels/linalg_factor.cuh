// Factorizations of panels (some columns) of matrices, one block for each matrix: Cholesky, LU, QR. The host puts
// panels together with products (cuda/linalg.cpp).
#pragma once

#include "linalg.cuh"

namespace facula::cuda {

/// x(r, c) -= x(r, k) * factor(c) for the columns after k up to `to` and the rows from first(c) on; a warp takes a
/// column.
template <class T, class First, class Factor>
FACULA_FN void subtract_outer(T* x, const MatrixBatch& a, Int64 k, Int64 to, Int64 rows, First first, Factor factor) {
  for (Int64 c = k + 1 + warp_of_block(); c < to; c += warps_of_block()) {
    const T f = factor(c);
    for (Int64 r = first(c) + lane_number(); r < rows; r += 32)
      element(x, a, r, c) = element(x, a, r, c) - element(x, a, r, k) * f;
  }
}

/// Columns of the lower factor. A matrix whose minor of order k is not positive gets info k, and is left.
template <class T>
__global__ __launch_bounds__(256) void cholesky_panel(MatrixBatch a, Int64 count, Int64 n, Panel panel, int* info) {
  for (Int64 i = blockIdx.x; i < count; i += gridDim.x) {
    T* x = matrix_of<T>(a, i);
    const bool left = info[i] != 0;
    __syncthreads();
    for (Int64 k = panel.from; k < panel.until && !left; ++k) {
      const Real<T> pivot = real_part(element(x, a, k, k));
      if (!(pivot > 0)) {
        __syncthreads();  // all have read the pivot
        if (threadIdx.x == 0) {
          info[i] = int(k + 1);
          element(x, a, k, k) = number<T>(pivot);
        }
        break;
      }
      const Real<T> root = kernels::sqrt(pivot);
      for (Int64 r = k + 1 + threadIdx.x; r < n; r += blockDim.x) element(x, a, r, k) = element(x, a, r, k) / root;
      __syncthreads();
      if (threadIdx.x == 0) element(x, a, k, k) = number<T>(root);
      subtract_outer(
          x, a, k, panel.until, n, [](Int64 c) { return c; }, [&](Int64 c) { return conjugate(element(x, a, c, k)); });
      __syncthreads();
    }
  }
}

// ---- LU

template <class R>
struct Candidate {
  R size;
  Int32 row;
};
/// The larger one; of equal ones that of the first row. NaN is never chosen.
struct PickPivot {
  template <class R>
  FACULA_FN static Candidate<R> merge(Candidate<R> a, Candidate<R> b) {
    return b.size > a.size || (b.size == a.size && b.row < a.row) ? b : a;
  }
};

/// The row of the element of column k whose parts are largest, from row k on.
template <class T>
FACULA_FN Int64 pivot_row(T* x, const MatrixBatch& a, Int64 k, Int64 rows, Candidate<Real<T>>* room) {
  Candidate<Real<T>> best{Real<T>(-1), Int32(k)};
  for (Int64 r = k + threadIdx.x; r < rows; r += blockDim.x) {
    const T e = element(x, a, r, k);
    const Candidate<Real<T>> other{kernels::abs(real_part(e)) + kernels::abs(imaginary_part(e)), Int32(r)};
    if (other.size > best.size) best = other;
  }
  return fold_block<PickPivot>(best, room).row;
}

template <class T>
FACULA_FN void exchange_in_panel(T* x, const MatrixBatch& a, Int64 k, Int64 other, Int64 from, Int64 to) {
  for (Int64 c = from + threadIdx.x; c < to && other != k; c += blockDim.x) {
    const T kept = element(x, a, k, c);
    element(x, a, k, c) = element(x, a, other, c);
    element(x, a, other, c) = kept;
  }
}

/// L and U of columns, and the exchanges of rows, which are made in these columns alone. Rows count from one; info is
/// the first column whose pivot is zero.
template <class T>
__global__ __launch_bounds__(256) void lu_panel(MatrixBatch a, Int64 count, Int64 rows, Panel panel, int* pivots,
                                                Int64 pivots_each, int* info) {
  FACULA_SHARED(Candidate<Real<T>>, room, kMostWarps);
  for (Int64 i = blockIdx.x; i < count; i += gridDim.x) {
    T* x = matrix_of<T>(a, i);
    for (Int64 k = panel.from; k < panel.until; ++k) {
      const Int64 other = pivot_row(x, a, k, rows, room);
      exchange_in_panel(x, a, k, other, panel.from, panel.to);
      __syncthreads();
      const T pivot = element(x, a, k, k);
      const bool zero = pivot == T{};
      if (threadIdx.x == 0) {
        pivots[i * pivots_each + k] = int(other + 1);
        if (zero && info[i] == 0) info[i] = int(k + 1);
      }
      if (zero) continue;  // and so is what is below
      for (Int64 r = k + 1 + threadIdx.x; r < rows; r += blockDim.x) element(x, a, r, k) = element(x, a, r, k) / pivot;
      __syncthreads();
      subtract_outer(
          x, a, k, panel.to, rows, [&](Int64) { return k + 1; }, [&](Int64 c) { return element(x, a, k, c); });
      __syncthreads();
    }
  }
}

/// Exchanges row k with row pivots[k], for k in [from, until) in that order or backwards; a thread takes a column.
template <class T>
__global__ __launch_bounds__(256) void exchange_rows(MatrixBatch a, Int64 count, Int64 columns, const int* pivots,
                                                     Int64 pivots_each, Int64 from, Int64 until, bool backward) {
  for (Int64 t = thread_number(); t < count * columns; t += thread_count()) {
    const Int64 i = t / columns, c = t - i * columns;
    T* x = matrix_of<T>(a, i);
    for (Int64 s = 0; s < until - from; ++s) {
      const Int64 k = backward ? until - 1 - s : from + s, other = pivots[i * pivots_each + k] - 1;
      if (other == k) continue;
      const T kept = element(x, a, k, c);
      element(x, a, k, c) = element(x, a, other, c);
      element(x, a, other, c) = kept;
    }
  }
}

// ---- QR

/// The reflector I - tau v v^H, v beginning with one, whose adjoint makes the column (first, rest) a multiple of the
/// first unit vector: `beta` times it.
template <class T>
struct Reflector {
  T tau, scale;  // of the rest, which becomes v's
  Real<T> beta;
};
template <class T>
FACULA_FN Reflector<T> reflector_of(T first, Real<T> rest) {
  const Real<T> re = real_part(first), im = imaginary_part(first);
  if (rest == 0 && im == 0) return {T{}, number<T>(1), re};
  const Real<T> beta = -kernels::copysign(kernels::hypot(kernels::hypot(re, im), rest), re);
  T tau = number<T>((beta - re) / beta);
  if constexpr (is_complex_type<T>) tau.im = -im / beta;
  return {tau, number<T>(1) / (first - number<T>(beta)), beta};
}

/// The length of rows [k + 1, rows) of column k: scaled, so that no square overflows.
template <class T>
FACULA_FN Real<T> length_below(T* x, const MatrixBatch& a, Int64 k, Int64 rows, Real<T>* room) {
  Real<T> most = 0;
  for (Int64 r = k + 1 + threadIdx.x; r < rows; r += blockDim.x)
    most = Max::merge(most, larger_part(element(x, a, r, k)));
  most = fold_block<Max>(most, room);
  if (most == 0 || !kernels::isfinite(most)) return most;
  Real<T> sum = 0;
  for (Int64 r = k + 1 + threadIdx.x; r < rows; r += blockDim.x) sum += squared_size(element(x, a, r, k) / most);
  return most * kernels::sqrt(fold_block<Add>(sum, room));
}

/// x = x - factor v (v^H x) for a column of `rows` elements from row k on, v in column k of the reflectors; by a warp.
template <class T>
FACULA_FN void reflect_column(T* x, Int64 step, const T* v, const MatrixBatch& a, Int64 k, Int64 rows, T factor,
                              bool conjugate_vector) {
  T sum{};
  for (Int64 r = k + lane_number(); r < rows; r += 32) {
    const T e = x[r * step];
    sum = sum + (r == k ? e : conjugate_if(!conjugate_vector, element(v, a, r, k)) * e);
  }
  sum = fold_warp<Add>(sum) * factor;
  for (Int64 r = k + lane_number(); r < rows; r += 32) {
    T& e = x[r * step];
    e = e - (r == k ? sum : conjugate_if(conjugate_vector, element(v, a, r, k)) * sum);
  }
  __syncwarp();
}

/// R above reflectors, and the factors of these, of columns.
template <class T>
__global__ __launch_bounds__(256) void qr_panel(MatrixBatch a, Int64 count, Int64 rows, Panel panel, T* tau,
                                                Int64 tau_each) {
  FACULA_SHARED(Real<T>, room, kMostWarps);
  for (Int64 i = blockIdx.x; i < count; i += gridDim.x) {
    T* x = matrix_of<T>(a, i);
    for (Int64 k = panel.from; k < panel.until; ++k) {
      const T first = element(x, a, k, k);
      const Reflector<T> h = reflector_of(first, length_below(x, a, k, rows, room));
      for (Int64 r = k + 1 + threadIdx.x; r < rows; r += blockDim.x)
        element(x, a, r, k) = element(x, a, r, k) * h.scale;
      __syncthreads();
      if (threadIdx.x == 0) {
        element(x, a, k, k) = number<T>(h.beta);
        tau[i * tau_each + k] = h.tau;
      }
      for (Int64 c = k + 1 + warp_of_block(); c < panel.to; c += warps_of_block())
        reflect_column(&element(x, a, 0, c), a.row, x, a, k, rows, conjugate(h.tau), false);
      __syncthreads();
    }
  }
}

/// Applies reflectors [panel.from, panel.until), columns of `v`, to columns of x; a warp takes a column.
template <class T>
__global__ __launch_bounds__(256) void reflect_columns(MatrixBatch v, const T* tau, Int64 tau_each, MatrixBatch x,
                                                       Int64 count, Int64 rows, Int64 columns, Panel panel,
                                                       Reflection how) {
  for (Int64 w = warp_number(); w < count * columns; w += warp_count()) {
    const Int64 i = w / columns, c = w - i * columns;
    const T* reflectors = matrix_of<const T>(v, i);
    T* column = &element(matrix_of<T>(x, i), x, 0, c);
    const Int64 until = how.of_identity && c + 1 < panel.until ? c + 1 : panel.until;
    for (Int64 s = 0; s < until - panel.from; ++s) {
      const Int64 k = how.backward ? until - 1 - s : panel.from + s;
      const T factor = conjugate_if(how.conjugate_factors, tau[i * tau_each + k]);
      reflect_column(column, x.row, reflectors, v, k, rows, factor, how.conjugate_vectors);
    }
  }
}

}  // namespace facula::cuda

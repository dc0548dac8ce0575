// Triangular systems, and what is read off LU factors.
#pragma once

#include "linalg.cuh"
#include "report.cuh"

namespace facula::cuda {

/// The columns of b become the solutions of a x = b for a triangular a; a warp takes kTogether of them, 32 rows at a
/// time: what is known is subtracted, then the rows are solved one after the other. b's strides are anything.
template <class T, bool lower, bool unit>
__global__ __launch_bounds__(256) void solve_triangle(MatrixBatch a, MatrixBatch b, Int64 count, Int64 n,
                                                      Int64 columns) {
  constexpr int kTogether = sizeof(T) <= 8 ? 4 : 2;
  const Int64 groups = (columns + kTogether - 1) / kTogether, bands = (n + 31) / 32;
  for (Int64 w = warp_number(); w < count * groups; w += warp_count()) {
    const Int64 i = w / groups, first = (w - i * groups) * kTogether;
    const T* m = matrix_of<const T>(a, i);
    T* columns_at[kTogether];
#pragma unroll
    for (int c = 0; c < kTogether; ++c)  // columns beyond the last are the last one
      columns_at[c] = &element(matrix_of<T>(b, i), b, 0, first + c < columns ? first + c : columns - 1);
    for (Int64 s = 0; s < bands; ++s) {
      const Int64 begin = (lower ? s : bands - 1 - s) * 32, end = begin + 32 < n ? begin + 32 : n;
      const Int64 row = begin + lane_number(), safe = row < n ? row : n - 1;
      T x[kTogether];
#pragma unroll
      for (int c = 0; c < kTogether; ++c) x[c] = columns_at[c][safe * b.row];
      for (Int64 k = lower ? 0 : end; k < (lower ? begin : n); ++k) {
        const T f = element(m, a, safe, k);
#pragma unroll
        for (int c = 0; c < kTogether; ++c) x[c] = x[c] - f * columns_at[c][k * b.row];
      }
      for (Int64 step = 0; step < end - begin; ++step) {
        const Int64 k = lower ? begin + step : end - 1 - step;
        const T f = element(m, a, safe, k), diagonal = unit ? f : element(m, a, k, k);
#pragma unroll
        for (int c = 0; c < kTogether; ++c) {
          T solved = shuffle_from(x[c], int(k - begin));
          if (!unit) solved = solved / diagonal;
          if (row == k) x[c] = solved;
          else if (lower ? row > k : row < k) x[c] = x[c] - f * solved;
        }
      }
#pragma unroll
      for (int c = 0; c < kTogether; ++c)
        if (row < n && first + c < columns) columns_at[c][row * b.row] = x[c];
      __syncwarp();
    }
  }
}

/// NaN for what was computed with singular complex factors, whose divisions by zero do not spread everywhere.
template <class T>
__global__ __launch_bounds__(256) void spoil_singular(T* x, Int64 count, Int64 each, const int* info) {
  for (Int64 t = thread_number(); t < count * each; t += thread_count())
    if (info[t / each] != 0) x[t] = number<T>(kernels::Float<Real<T>>::nan);
}

/// Determinants of matrices, of whose LU factors the diagonals are multiplied; a warp takes a matrix.
template <class T>
__global__ __launch_bounds__(256) void determinant(const T* lu, const int* pivots, Int64 count, Int64 n, T* out) {
  for (Int64 i = warp_number(); i < count; i += warp_count()) {
    T product = number<T>(1);
    for (Int64 r = lane_number(); r < n; r += 32) {
      product = product * lu[i * n * n + r * (n + 1)];
      if (pivots[i * n + r] != r + 1) product = -product;
    }
    product = fold_warp<Multiply>(product);
    if (lane_number() == 0) out[i] = product;
  }
}

/// Their signs, and the logarithms of their sizes.
template <class T>
__global__ __launch_bounds__(256) void determinant_logarithm(const T* lu, const int* pivots, Int64 count, Int64 n,
                                                             T* sign, Real<T>* logarithm) {
  for (Int64 i = warp_number(); i < count; i += warp_count()) {
    T product = number<T>(1);
    Real<T> sum = 0;
    for (Int64 r = lane_number(); r < n; r += 32) {
      const T x = lu[i * n * n + r * (n + 1)];
      const Real<T> size = kernels::abs(x);
      product = product * (size == 0 ? T{} : x / size);
      sum += kernels::log(size);
      if (pivots[i * n + r] != r + 1) product = -product;
    }
    product = fold_warp<Multiply>(product);
    sum = fold_warp<Add>(sum);
    if (lane_number() == 0) {
      sign[i] = product;
      logarithm[i] = sum;
    }
  }
}

/// Permutation matrices, from exchanges of rows; `out` is zero, and `order` has room for the rows. A thread takes a
/// matrix.
template <class T>
__global__ __launch_bounds__(256) void permutation(const int* pivots, Int64 count, Int64 pivots_each, Int64 rows,
                                                   int* order, T* out, Reporter reporter) {
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    int* mine = order + i * rows;
    for (Int64 r = 0; r < rows; ++r) mine[r] = int(r);
    for (Int64 r = 0; r < pivots_each; ++r) {
      const Int64 other = Int64(pivots[i * pivots_each + r]) - 1;
      if (other < r || other >= rows) {
        report_value(reporter, double(other + 1));
        continue;
      }
      const int kept = mine[r];
      mine[r] = mine[other];
      mine[other] = kept;
    }
    for (Int64 r = 0; r < rows; ++r) out[(i * rows + mine[r]) * rows + r] = convert<T>(1);
  }
}

/// Cross products along the middle dimension of (outer, 3, inner).
template <class T>
__global__ __launch_bounds__(256) void cross(const T* a, const T* b, T* out, Int64 count, Int64 inner) {
  for (Int64 t = thread_number(); t < count; t += thread_count()) {
    const Int64 at = t / inner * 3 * inner + t % inner;
    const T a0 = a[at], a1 = a[at + inner], a2 = a[at + 2 * inner], b0 = b[at], b1 = b[at + inner],
            b2 = b[at + 2 * inner];
    out[at] = a1 * b2 - a2 * b1;
    out[at + inner] = a2 * b0 - a0 * b2;
    out[at + 2 * inner] = a0 * b1 - a1 * b0;
  }
}

}  // namespace facula::cuda

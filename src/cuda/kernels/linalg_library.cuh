// What is done around calls of cuSOLVER: pivots in another width, addresses, matrices that are not finite, and vectors
// unpacked.
#pragma once

#include "linalg.cuh"

namespace facula::cuda {

/// Pivots as our own kernels have them. Those outside (the library's of matrices with NaN) exchange nothing.
__global__ __launch_bounds__(256) void narrow_pivots(const Int64* from, int* to, Int64 count, Int64 each, Int64 rows) {
  for (Int64 t = thread_number(); t < count * each; t += thread_count()) {
    const Int64 row = t % each, pivot = from[t];
    to[t] = int(pivot > row && pivot <= rows ? pivot : row + 1);
  }
}

/// The addresses of matrices that lie `bytes` apart.
__global__ __launch_bounds__(256) void addresses_of(char* first, Int64 bytes, Int64 count, void** out) {
  for (Int64 t = thread_number(); t < count; t += thread_count()) out[t] = first + t * bytes;
}

/// Matrices that are not finite (with `part` 1 and 2 in their lower and upper triangles) are flagged, and become zero.
/// A block takes a matrix.
template <class T, int part>
__global__ __launch_bounds__(256) void set_aside(MatrixBatch a, Int64 count, Int64 rows, Int64 columns, int flag,
                                                 int* flags) {
  FACULA_SHARED(int, found, 1);
  for (Int64 i = blockIdx.x; i < count; i += gridDim.x) {
    T* x = matrix_of<T>(a, i);
    if (threadIdx.x == 0) found[0] = 0;
    __syncthreads();
    for (Int64 t = threadIdx.x; t < rows * columns; t += blockDim.x) {
      const Int64 c = t / rows, r = t - c * rows;
      if (part == 1 ? r < c : part == 2 && r > c) continue;
      const Real<T> size = larger_part(element(x, a, r, c));
      if (!kernels::isfinite(size)) found[0] = 1;
    }
    __syncthreads();
    const bool is_flagged = found[0] != 0;
    for (Int64 t = threadIdx.x; is_flagged && t < rows * columns; t += blockDim.x)
      element(x, a, t % rows, t / rows) = T{};
    if (threadIdx.x == 0) flags[i] = is_flagged ? flag : 0;
    __syncthreads();
  }
}

/// Flags replace what the library says.
__global__ __launch_bounds__(256) void put_flags(const int* flags, int* info, Int64 count) {
  for (Int64 t = thread_number(); t < count; t += thread_count())
    if (flags[t] != 0) info[t] = flags[t];
}

/// Vectors of real matrices: of those of a pair of conjugate eigenvalues the library gives the real and the imaginary
/// part of the first.
template <class T>
__global__ __launch_bounds__(256) void unpack_vectors(const T* packed, const kernels::Complex<T>* values,
                                                      kernels::Complex<T>* out, Int64 count, Int64 n) {
  for (Int64 t = thread_number(); t < count * n * n; t += thread_count()) {
    const Int64 column = t / n;  // of all matrices
    const T size = values[column].im;
    const T* at = packed + t - (size < 0 ? n : 0);
    out[t] = size == 0 ? kernels::Complex<T>{at[0], T(0)} : kernels::Complex<T>{at[0], size < 0 ? -at[n] : at[n]};
  }
}

}  // namespace facula::cuda

// Categories drawn by weight. Without replacement: a race of exponential times, which the fastest win. With: a search
// in the sums of the weights.
#pragma once

#include "block.cuh"
#include "philox.cuh"
#include "report.cuh"

namespace facula::cuda {

/// A block for each row: reports weights that are no weights, and makes `shares`, the sums up to each category, unless
/// it is null.
template <class T>
__global__ __launch_bounds__(256) void sum_weights(const void* weights, double* shares, Int64 rows, Int64 categories,
                                                   Reporter weight, Reporter total) {
  FACULA_SHARED(double, sums, 256);
  const Int64 part = (categories + 255) / 256;
  for (Int64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* own = static_cast<const T*>(weights) + row * categories;
    const Int64 from = threadIdx.x * part, to = from + part < categories ? from + part : categories;
    double sum = 0;
    for (Int64 i = from; i < to; ++i) {
      const double w = convert<double>(own[i]);
      if (!(w >= 0) || kernels::isinf(w)) report_value(weight, w);
      sum += w;
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    double before = 0, all = 0;
    for (int k = 0; k < 256; ++k) {
      if (k < threadIdx.x) before += sums[k];
      all += sums[k];
    }
    if (threadIdx.x == 0 && !(all > 0)) report_value(total, all);
    if (shares)
      for (Int64 i = from; i < to; ++i) shares[row * categories + i] = before += convert<double>(own[i]);
    __syncthreads();
  }
}

/// `T` is the weights' type. PyTorch has a subsequence for each sample of 65535 rows, in blocks of 128.
template <class T>
__global__ __launch_bounds__(256) void draw_categories(Int64* out, const double* shares, Int64 rows, Int64 categories,
                                                       Int64 samples, PhiloxStart start) {
  const Int64 threads_of_row = (samples + 127) / 128 * 128, rows_at_once = 65535;
  for (Int64 at = thread_number(); at < rows * samples; at += thread_count()) {
    const Int64 row = at / samples, sample = at % samples;
    const double* own = shares + row * categories;
    Draws<float> draws;
    units_of(Philox(start, UInt64(row % rows_at_once * threads_of_row + sample), row / rows_at_once).next(), draws);
    const double wanted = convert<double>(convert<T>(draws.at[0])) * own[categories - 1];
    Int64 from = 0, to = categories - 1;
    while (from < to) {
      const Int64 middle = from + (to - from) / 2;
      if (own[middle] >= wanted) to = middle;
      else from = middle + 1;
    }
    out[at] = from;
  }
}

/// How fast every category is in the race: its weight / its time.
template <class T>
__global__ __launch_bounds__(256) void race_speeds(const void* weights, const void* times, Int64 count, void* speeds) {
  using C = Compute<T>;
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    const C weight = convert<C>(static_cast<const T*>(weights)[i]), time = convert<C>(static_cast<const T*>(times)[i]);
    static_cast<T*>(speeds)[i] = convert<T>(weight > C(0) ? weight / time : C(0));
  }
}

}  // namespace facula::cuda

// Counting, and the distinct elements of sorted vectors.
#pragma once

#include "histogram_args.h"
#include "lines.cuh"
#include "vector.cuh"

namespace facula::cuda {

FACULA_FN UInt64* counter(Int64* counts, Int64 at) { return reinterpret_cast<UInt64*>(counts + at); }

/// Calls f with all elements, of which a thread requests several vectors at once where they begin at a multiple of 16
/// bytes.
template <class T, class F>
FACULA_FN void each_element(const T* x, Int64 n, F f) {
  constexpr int kWide = sizeof(T) < 16 ? 16 / sizeof(T) : 1, kMany = 4;
  const Int64 vectors = reinterpret_cast<UInt64>(x) % 16 == 0 ? n / kWide : 0, step = thread_count();
  Int64 v = thread_number();
#pragma unroll 1
  for (; v + (kMany - 1) * step < vectors; v += kMany * step) {
    Vector<T, kWide> read[kMany];
#pragma unroll
    for (int m = 0; m < kMany; ++m) read[m] = load_vector<kWide>(x + (v + m * step) * kWide);
#pragma unroll
    for (int m = 0; m < kMany; ++m)
#pragma unroll
      for (int j = 0; j < kWide; ++j) f(read[m].at[j]);
  }
#pragma unroll 1
  for (; v < vectors; v += step) {
    const Vector<T, kWide> read = load_vector<kWide>(x + v * kWide);
#pragma unroll
    for (int j = 0; j < kWide; ++j) f(read.at[j]);
  }
#pragma unroll 1
  for (Int64 i = vectors * kWide + thread_number(); i < n; i += step) f(x[i]);
}

/// Counts integers in [0, kinds), those that fit in shared memory; found[0] is set where one is outside.
template <bool kShared>
__global__ __launch_bounds__(256) void count_integers(Int64 n, const Int64* x, Int64 kinds, Int64* counts,
                                                      Int64* found) {
  FACULA_DYNAMIC_SHARED(UInt32, here);
  if constexpr (kShared) {
    for (Int64 k = threadIdx.x; k < kinds; k += blockDim.x) here[k] = 0;
    __syncthreads();
  }
  each_element(x, n, [&](Int64 k) {
    if (k < 0 || k >= kinds) *found = 1;
    else if constexpr (kShared) atomicAdd(&here[k], 1u);
    else atomicAdd(counter(counts, k), UInt64(1));
  });
  if constexpr (kShared) {
    __syncthreads();
    for (Int64 k = threadIdx.x; k < kinds; k += blockDim.x)
      if (here[k]) atomicAdd(counter(counts, k), UInt64(here[k]));
  }
}

/// found[1] = 1 + the last place with a count, or -1 where an element was outside. One block.
__global__ __launch_bounds__(256) void last_count(Int64 kinds, const Int64* counts, Int64* found) {
  FACULA_SHARED(Int64, room, kMostWarps);
  Int64 length = 0;
  for (Int64 k = threadIdx.x; k < kinds; k += 256)
    if (counts[k]) length = k + 1;
  length = fold_block<Max>(length, room);
  if (threadIdx.x == 0) found[1] = found[0] ? -1 : length;
}

/// out[k] = the sum of the weights of the elements k; `sorted` are the elements, whose weights are at `order`. A warp
/// for each sum, so that it has an order.
template <class T>
__global__ __launch_bounds__(256) void sum_weights(Int64 n, const Int64* sorted, const Int64* order,
                                                   const void* weights, Int64 kinds, void* out) {
  for (Int64 k = thread_number() / 32; k < kinds; k += thread_count() / 32) {
    Int64 low = 0, high = n;
    while (low < high) {
      const Int64 middle = (low + high) / 2;
      if (sorted[middle] < k) low = middle + 1;
      else high = middle;
    }
    T total = 0;
    for (Int64 i = low + threadIdx.x % 32; i < n && sorted[i] == k; i += 32)
      total += static_cast<const T*>(weights)[order[i]];
    total = fold_warp<Add>(total);
    if (threadIdx.x % 32 == 0) static_cast<T*>(out)[k] = total;
  }
}

/// Counts of equal intervals of [low, high].
template <class T, bool kShared>
__global__ __launch_bounds__(256) void histc(Int64 n, const void* self, Int64 bins, double from, double to, void* out) {
  FACULA_DYNAMIC_SHARED(UInt32, here);
  T* count = static_cast<T*>(out);
  if constexpr (kShared) {
    for (Int64 k = threadIdx.x; k < bins; k += blockDim.x) here[k] = 0;
    __syncthreads();
  }
  const T low = T(from), high = T(to);
  using Index = typename BitsOfSize<kShared ? 4 : 8>::type;
  const Index last = Index(bins - 1);
  each_element(static_cast<const T*>(self), n, [&](T x) {
    if (!(x >= low && x <= high)) return;
    const T bin = (x - low) * T(bins) / (high - low);
    const Index k = bin < T(last) ? Index(bin) : last;
    if constexpr (kShared) atomicAdd(&here[k], 1u);
    else atomicAdd(&count[k], T(1));  // sums of ones are exact in any order
  });
  if constexpr (kShared) {
    __syncthreads();
    for (Int64 k = threadIdx.x; k < bins; k += blockDim.x)
      if (here[k]) atomicAdd(&count[k], T(here[k]));
  }
}

/// The box between the edges that holds each point; -1 where there is none.
template <class T>
__global__ __launch_bounds__(256) void edge_places(EdgeArgs p) {
  for (Int64 i = thread_number(); i < p.points; i += thread_count()) {
    const T* point = static_cast<const T*>(p.self) + i * p.coordinates;
    Int64 place = 0;
    for (Int64 d = 0; d < p.coordinates && place >= 0; ++d) {
      const T *edges = static_cast<const T*>(p.edges[d]), x = point[d];
      const Int64 n = p.edge_count[d];
      if (!(x >= edges[0] && x <= edges[n - 1])) {
        place = -1;
        break;
      }
      Int64 low = 0, high = n;
      while (low < high) {
        const Int64 middle = (low + high) / 2;
        if (x < edges[middle]) high = middle;
        else low = middle + 1;
      }
      place = place * (n - 1) + (low - 1 < n - 2 ? low - 1 : n - 2);  // the last box holds its upper edge
    }
    p.places[i] = place;
  }
}

// ---- distinct elements

/// Slices of `width` elements; NaN is last in order, and equals nothing.
template <class T>
struct Slices {
  using C = Compute<T>;
  const T* data;
  Int64 width;

  FACULA_FN C at(Int64 slice, Int64 k) const { return convert<C>(data[slice * width + k]); }
  FACULA_FN bool less(Int64 a, Int64 b) const {
    for (Int64 k = 0; k < width; ++k) {
      const C x = at(a, k), y = at(b, k);
      if (x < y || (x == x && y != y)) return true;
      if (y < x || (y == y && x != x)) return false;
    }
    return false;
  }
  FACULA_FN bool equal(Int64 a, Int64 b) const {
    for (Int64 k = 0; k < width; ++k)
      if (!(at(a, k) == at(b, k))) return false;
    return true;
  }
};

__global__ __launch_bounds__(256) void number_slices(Int64 n, Int64* order) {
  for (Int64 i = thread_number(); i < n; i += thread_count()) order[i] = i;
}

/// Merges neighboring runs of `run` sorted slices: each finds its place among those of the other run.
template <class T>
__global__ __launch_bounds__(256) void merge_slices(Int64 n, Int64 width, Int64 run, const void* data,
                                                    const Int64* order, Int64* merged) {
  const Slices<T> slices{static_cast<const T*>(data), width};
  for (Int64 i = thread_number(); i < n; i += thread_count()) {
    const Int64 begin = i / (2 * run) * 2 * run, middle = begin + run < n ? begin + run : n,
                end = begin + 2 * run < n ? begin + 2 * run : n;
    const bool is_left = i < middle;
    Int64 low = is_left ? middle : begin, high = is_left ? end : middle;
    const Int64 start = low;
    while (low < high) {  // equal ones of the left run stay in front
      const Int64 at = (low + high) / 2;
      const bool is_before = is_left ? slices.less(order[at], order[i]) : !slices.less(order[i], order[at]);
      if (is_before) low = at + 1;
      else high = at;
    }
    merged[begin + (i - (is_left ? begin : middle)) + (low - start)] = order[i];
  }
}

/// 1 where a slice differs from the one before; `order` may be null.
template <class T>
__global__ __launch_bounds__(256) void mark_starts(Int64 n, Int64 width, const void* data, const Int64* order,
                                                   Int64* marks) {
  const Slices<T> slices{static_cast<const T*>(data), width};
  for (Int64 i = thread_number(); i < n; i += thread_count())
    marks[i] = i == 0 || !slices.equal(order ? order[i - 1] : i - 1, order ? order[i] : i);
}

/// From the numbers of the groups, from 1 on: where each begins, which slice is its first, and the group of each.
__global__ __launch_bounds__(256) void find_groups(Int64 n, const Int64* groups, const Int64* order, Int64* starts,
                                                   Int64* first, Int64* inverse) {
  for (Int64 i = thread_number(); i < n; i += thread_count()) {
    const Int64 group = groups[i] - 1, slice = order ? order[i] : i;
    if (inverse) inverse[slice] = group;
    if (i > 0 && groups[i - 1] == group + 1) continue;
    starts[group] = i;
    first[group] = slice;
  }
}
__global__ __launch_bounds__(256) void group_sizes(Int64 n, const Int64* groups, const Int64* starts, Int64* sizes) {
  const Int64 found = groups[n - 1];
  for (Int64 g = thread_number(); g < found; g += thread_count())
    sizes[g] = (g + 1 < found ? starts[g + 1] : n) - starts[g];
}

template <class T>
__global__ __launch_bounds__(256) void keep_first(Int64 n, const Int64* groups, const void* values, void* out) {
  for (Int64 i = thread_number(); i < n; i += thread_count())
    if (i == 0 || groups[i - 1] != groups[i]) static_cast<T*>(out)[groups[i] - 1] = static_cast<const T*>(values)[i];
}

/// Whether each element occurs among those of a sorted vector, NaN last.
template <class T>
__global__ __launch_bounds__(256) void is_among(Int64 n, const void* self, Int64 count, const void* sorted, bool invert,
                                                bool* out) {
  using C = Compute<T>;
  const T* among = static_cast<const T*>(sorted);
  for (Int64 i = thread_number(); i < n; i += thread_count()) {
    const C x = convert<C>(static_cast<const T*>(self)[i]);
    Int64 low = 0, high = count;
    while (low < high) {
      const Int64 middle = (low + high) / 2;
      if (convert<C>(among[middle]) < x) low = middle + 1;
      else high = middle;
    }
    out[i] = (low < count && convert<C>(among[low]) == x) != invert;
  }
}

}  // namespace facula::cuda

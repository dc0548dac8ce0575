// Interpolation along one dimension by sparse matrices, and sampling at the positions of a grid: a thread for every
// position, which goes over the channels.
#pragma once

#include "address.cuh"
#include "block.cuh"
#include "resample_args.h"
#include "vector.cuh"

namespace facula::cuda {

/// Every output is one input.
template <class T>
__global__ __launch_bounds__(256) void resample_copy(T* out, const T* in, Int64 outer, Int64 inner, Int64 inputs,
                                                     Int64 outputs, const Int64* index) {
  const Int64 all = outer * outputs * inner;
  for (Int64 i = thread_number(); i < all; i += thread_count()) {
    const Int64 row = i / inner, column = i - row * inner, plane = row / outputs;
    out[i] = in[(plane * inputs + index[row - plane * outputs]) * inner + column];
  }
}

template <class T>
__global__ __launch_bounds__(256) void resample(T* out, const T* in, Int64 outer, Int64 inner, Int64 inputs,
                                                Int64 outputs, const Int64* first, const Int64* index,
                                                const double* weight) {
  const Int64 all = outer * outputs * inner;
  for (Int64 i = thread_number(); i < all; i += thread_count()) {
    const Int64 row = i / inner, column = i - row * inner, plane = row / outputs, o = row - plane * outputs;
    const T* mine = in + plane * inputs * inner + column;
    T sum = 0;
    for (Int64 k = first[o]; k < first[o + 1]; ++k) sum += mine[index[k] * inner] * T(weight[k]);
    out[i] = sum;
  }
}

/// The same of what 32 bits can count: a thread has a vector of several planes, which share what they read.
template <class T, int kWide, bool kCopies>
__global__ __launch_bounds__(256) void resample_planes(ResampleArgs p) {
  using C = Compute<T>;
  constexpr int kPlanes = kWide > 1 ? 4 : 8;  // as the host has it
  UInt32 vector = blockIdx.x * 256 + threadIdx.x;
  if (vector >= p.threads) return;
  UInt32 output = p.vectors.divide(vector);
  const UInt32 plane = p.outputs.divide(output) * kPlanes;
  const T* in = fixed_address(static_cast<const T*>(p.in) + plane * p.in_plane + vector * kWide);
  Vector<T, kWide> read[kPlanes];
  Vector<C, kWide> sum[kPlanes] = {};
  const auto take = [&](Int64 index) {
    const T* from = fixed_address(in + UInt64(UInt32(index)) * p.inner);
#pragma unroll
    for (int m = 0; m < kPlanes; ++m) {
      if (plane + m < p.outer) read[m] = load_vector<kWide>(from);
      from = fixed_address(from + p.in_plane);
    }
  };
  if constexpr (kCopies) {
    take(p.index[output]);
  } else {
    const Int64 end = p.first[output + 1];
#pragma unroll 1
    for (Int64 k = p.first[output]; k < end; ++k) {
      const C weight = C(p.weight[k]);
      take(p.index[k]);
#pragma unroll
      for (int m = 0; m < kPlanes; ++m)
#pragma unroll
        for (int j = 0; j < kWide; ++j)
          if (plane + m < p.outer) sum[m].at[j] += convert<C>(read[m].at[j]) * weight;
    }
  }
  T* out = fixed_address(static_cast<T*>(p.out) + plane * p.out_plane + (UInt64(output) * p.inner + vector * kWide));
#pragma unroll
  for (int m = 0; m < kPlanes; ++m) {
    if (plane + m >= p.outer) break;
    if constexpr (kCopies) store_vector(out, read[m]);
    else store_vector(out, narrow_all<T>(sum[m]));
    out = fixed_address(out + p.out_plane);
  }
}

enum GridPadding : int { kPadZeros, kPadBorder, kPadReflection };

/// What a coordinate reads along its axis.
template <class T, int kTaps>
struct AxisTaps {
  Int64 index[kTaps];             // -1: outside
  T weight[kTaps], slope[kTaps];  // the derivative of the weight by the coordinate
};

template <class T>
struct AxisRule {
  Int64 size;
  int padding;
  bool align_corners;

  /// Brings a coordinate into the input as the padding mode says; `slope` is multiplied by the derivative.
  FACULA_FN void pad(T& x, T& slope) const {
    if (padding == kPadReflection) reflect(x, slope);
    if (padding == kPadZeros) return;
    const T last = T(size - 1);
    if (!(x > 0) || x >= last) slope = 0;  // a position that is no number is at the edge
    x = x > 0 ? x : T(0);
    x = x >= last ? last : x;
  }
  /// Mirrored at the outer pixels' centers or edges, as often as needed.
  FACULA_FN void reflect(T& x, T& slope) const {
    const T low = align_corners ? T(0) : T(-0.5), span = T(align_corners ? size - 1 : size);
    const T from_low = x - low, distance = kernels::abs(from_low), turns = kernels::floor(distance / span),
            extra = kernels::fmod_quick(distance, span);
    const bool odd = turns - T(2) * kernels::floor(turns / T(2)) != T(0);
    const T turned = (from_low < 0) != odd ? -slope : slope;
    slope = span == 0 ? T(0) : turned;
    x = span == 0 ? T(0) : (odd ? span - extra : extra) + low;
  }
  /// An index, or -1; anything that no integer holds is outside.
  FACULA_FN Int64 index(T x) const { return x >= 0 && x < T(size) ? Int64(x) : -1; }

  template <int kTaps>
  FACULA_FN void taps(T coordinate, AxisTaps<T, kTaps>& t) const {
    T x = align_corners ? (coordinate + 1) / 2 * T(size - 1) : ((coordinate + 1) * T(size) - 1) / 2;
    T slope = T(align_corners ? size - 1 : size) / 2;
    if constexpr (kTaps == 4) return cubic(x, slope, t);
    pad(x, slope);
    if constexpr (kTaps == 1) {
      t.index[0] = index(kernels::round_half_even(x));
      t.weight[0] = 1;
      t.slope[0] = 0;
    } else if constexpr (kTaps == 2) {
      const T low = kernels::floor(x);
      t.index[0] = index(low);
      t.index[1] = index(low + 1);
      t.weight[0] = low + 1 - x;
      t.weight[1] = x - low;
      t.slope[0] = -slope;
      t.slope[1] = slope;
    }
  }

  FACULA_FN void cubic(T x, T slope, AxisTaps<T, 4>& t) const {
    const T a = T(-0.75), low = kernels::floor(x);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const bool inner = k == 1 || k == 2;
      const T u = x - low - T(k - 1), d = kernels::abs(u);
      t.weight[k] = inner ? ((a + 2) * d - (a + 3)) * d * d + 1 : (((d - 5) * d + 8) * d - 4) * a;
      const T derivative = inner ? (3 * (a + 2) * d - 2 * (a + 3)) * d : (3 * d * d - 10 * d + 8) * a;
      t.slope[k] = derivative * (u < 0 ? -slope : slope);
      T place = low + T(k - 1), ignored = 0;
      pad(place, ignored);
      t.index[k] = index(kernels::round_half_even(place));
    }
  }
};

/// What a position reads. kTaps of x and y; of z as many, or one.
template <class T, int kTaps, bool kVolume>
struct Sample {
  static constexpr int kDeep = kVolume ? kTaps : 1;
  AxisTaps<T, kTaps> x, y;
  AxisTaps<T, kDeep> z;

  FACULA_FN Sample(const GridArgs& p, Int64 point) {
    const T* at = static_cast<const T*>(p.grid) + point * p.dims;
    const bool corners = p.align_corners;
    AxisRule<T>{p.size[0], p.padding, corners}.taps(at[0], x);
    AxisRule<T>{p.size[1], p.padding, corners}.taps(at[1], y);
    if constexpr (kVolume) {
      AxisRule<T>{p.size[2], p.padding, corners}.taps(at[2], z);
    } else {
      z.index[0] = 0;
      z.weight[0] = 1;
      z.slope[0] = 0;
    }
  }
  /// Calls f(offset, i, j, k) for the elements inside.
  template <class F>
  FACULA_FN void each(const GridArgs& p, F f) const {
#pragma unroll
    for (int k = 0; k < kDeep; ++k)
#pragma unroll
      for (int j = 0; j < kTaps; ++j)
#pragma unroll
        for (int i = 0; i < kTaps; ++i)
          if (x.index[i] >= 0 && y.index[j] >= 0 && z.index[k] >= 0)
            f(x.index[i] * p.strides[0] + y.index[j] * p.strides[1] + z.index[k] * p.strides[2], i, j, k);
  }
};

template <class T, int kTaps, bool kVolume>
__global__ __launch_bounds__(256) void grid_sample(GridArgs p) {
  for (Int64 at = thread_number(); at < p.images * p.points; at += thread_count()) {
    const Int64 n = at / p.points, point = at - n * p.points;
    const Sample<T, kTaps, kVolume> s(p, at);
    for (Int64 c = 0; c < p.channels; ++c) {
      const T* image = static_cast<const T*>(p.image) + n * p.image_step + c * p.channel_step;
      T sum = 0;
      s.each(p, [&](Int64 offset, int i, int j, int k) {
        sum += image[offset] * (s.x.weight[i] * s.y.weight[j] * s.z.weight[k]);
      });
      static_cast<T*>(p.values)[(n * p.channels + c) * p.points + point] = sum;
    }
  }
}

/// Positions may meet in any element: sums in any order.
template <class T, int kTaps, bool kVolume>
__global__ __launch_bounds__(256) void grid_sample_input(GridArgs p) {
  for (Int64 at = thread_number(); at < p.images * p.points; at += thread_count()) {
    const Int64 n = at / p.points, point = at - n * p.points;
    const Sample<T, kTaps, kVolume> s(p, at);
    for (Int64 c = 0; c < p.channels; ++c) {
      T* image = static_cast<T*>(p.image) + n * p.image_step + c * p.channel_step;
      const T gradient = static_cast<const T*>(p.values)[(n * p.channels + c) * p.points + point];
      s.each(p, [&](Int64 offset, int i, int j, int k) {
        atomicAdd(image + offset, T(gradient * (s.x.weight[i] * s.y.weight[j] * s.z.weight[k])));
      });
    }
  }
}

template <class T, int kTaps, bool kVolume>
__global__ __launch_bounds__(256) void grid_sample_grid(GridArgs p) {
  for (Int64 at = thread_number(); at < p.images * p.points; at += thread_count()) {
    const Int64 n = at / p.points, point = at - n * p.points;
    const Sample<T, kTaps, kVolume> s(p, at);
    T sums[3] = {};
    for (Int64 c = 0; c < p.channels; ++c) {
      const T* image = static_cast<const T*>(p.image) + n * p.image_step + c * p.channel_step;
      const T gradient = static_cast<const T*>(p.values)[(n * p.channels + c) * p.points + point];
      s.each(p, [&](Int64 offset, int i, int j, int k) {
        const T value = image[offset] * gradient;
        sums[0] += value * (s.x.slope[i] * s.y.weight[j] * s.z.weight[k]);
        sums[1] += value * (s.x.weight[i] * s.y.slope[j] * s.z.weight[k]);
        sums[2] += value * (s.x.weight[i] * s.y.weight[j] * s.z.slope[k]);
      });
    }
    T* to = static_cast<T*>(p.grid_values) + at * p.dims;
    for (int d = 0; d < p.dims; ++d) to[d] = sums[d];
  }
}

}  // namespace facula::cuda

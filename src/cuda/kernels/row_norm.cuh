// Normalizations of rows.
#pragma once

#include "row_norm_args.h"
#include "rows.cuh"
#include "statistics.cuh"

namespace facula::cuda {

template <class A>
struct RowStatistics {
  A mean, rstd;
};
/// Of a row whose elements the threads of a group hold: the elements become what they are apart from the mean.
template <int kWarps, class Line, class A>
FACULA_FN RowStatistics<A> norm_line(Line& x, A* room, Int64 n, bool centered, A eps) {
  A mean = 0, squares = 0;
  if (centered) {
    x.each([&](A& v, auto) { mean += v; });
    mean = fold_group<Add, kWarps>(mean, room) / A(n);
  }
  x.each([&](A& v, auto) {
    v -= mean;
    squares = kernels::mul_add(v, v, squares);
  });
  squares = fold_group<Add, kWarps>(squares, room);
  return {mean, A(1) / kernels::sqrt(squares / A(n) + eps)};
}
/// What becomes one instruction is said, so that it is in every kernel around this.
template <class A>
FACULA_FN A scaled(A apart, A rstd, bool has_weight, A weight, bool has_bias, A bias) {
  if (has_weight) return has_bias ? kernels::mul_add(apart * rstd, weight, bias) : apart * rstd * weight;
  return has_bias ? kernels::mul_add(apart, rstd, bias) : apart * rstd;
}

/// The factors of one row, by the form that its kernel has.
template <class A, int kForm>
struct RowFactors {
  static constexpr bool kShared = (kForm & (kOfVectors | kOfNeighbors)) != 0;
  const RowArgs& p;
  Int64 begin;  // of the row's group

  FACULA_FN RowFactors(const RowArgs& args, Int64 row)
      : p(args), begin(args.groups == 1 ? 0 : row % args.groups * args.channels) {}
  template <class Place>
  FACULA_FN Int64 channel(Place place) const {
    return sizeof(place) > 4 && p.by_inner.by == 0 ? place / p.inner : p.by_inner.quotient(UInt32(place));
  }
  /// Those of the neighbors from a place on, of which `count` are in the row.
  template <int kWidth, class Place>
  FACULA_FN Vector<A, kWidth> at(const void* factors, Place place, int count = kWidth) const {
    const A* from = static_cast<const A*>(factors) + begin;
    Vector<A, kWidth> made;
    if constexpr (kForm & kOfVectors) {
      const A one = from[channel(place)];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) made.at[j] = one;
    } else if constexpr (!kShared && (kForm & kWholeRows)) {
      made = load_vector<kWidth>(from + place);
    } else {
#pragma unroll
      for (int j = 0; j < kWidth; ++j)
        if (j < count) made.at[j] = from[kShared ? channel(place + j) : place + j];
    }
    return made;
  }
};

// ---- rows that registers hold

template <class M, int kWarps, int kHeld, int kForm>
__global__ __launch_bounds__(256, row_blocks<M, (kForm & kWholeRows) != 0>(kHeld)) void row_norm(RowArgs p) {
  using A = Compute<M>;
  using Row = HeldRow<M, kWarps, kHeld, (kForm & kWholeRows) != 0>;
  constexpr bool kWeight = kForm & kHasWeight, kBias = kForm & kHasBias;
  FACULA_SHARED(A, room, kMostWarps);
  const int n = int(p.channels * p.inner);
  for_groups<kWarps>(p.rows, [&](Int64 row, int member) {
    if (row >= p.rows) return;
    Row x{n, member};
    x.load(static_cast<const M*>(p.self) + row * n);
    const auto [mean, rstd] = norm_line<kWarps>(x, room, n, kForm & kCentered, A(p.eps));
    const RowFactors<A, kForm> factors(p, row);
    x.each_vector([&](int k, int place) {
      Vector<A, Row::kWide> weight{}, bias{};
      if constexpr (kWeight) weight = factors.template at<Row::kWide>(p.weight, place, n - place);
      if constexpr (kBias) bias = factors.template at<Row::kWide>(p.bias, place, n - place);
#pragma unroll
      for (int j = 0; j < Row::kWide; ++j)
        x.held[k].at[j] = scaled(x.held[k].at[j], rstd, kWeight, weight.at[j], kBias, bias.at[j]);
    });
    x.store(static_cast<M*>(p.out) + row * n);
    if (member) return;
    if constexpr (kForm & kCentered) static_cast<A*>(p.mean)[row] = mean;
    static_cast<A*>(p.rstd)[row] = rstd;
  });
}

/// What the gradient of a row's elements needs: g * weight * gradient + apart * of_apart + constant.
template <class A>
struct RowGradient {
  A rstd, of_apart, constant;
  FACULA_FN RowGradient(const Sums<A>& sums, Int64 n, A rstd_of_row, bool centered)
      : rstd(rstd_of_row),
        of_apart(-(sums.b * rstd * rstd / A(n)) * rstd),
        constant(centered ? -(sums.a / A(n)) * rstd : A(0)) {}
  FACULA_FN A operator()(A grad, A apart) const {
    return kernels::mul_add(apart, of_apart, kernels::mul_add(grad, rstd, constant));
  }
};

/// rstd * (g * w - mean(g * w) - x^ * mean(g * w * x^)) with x^ the normalized row.
template <class M, int kWarps, int kHeld, int kForm>
__global__ __launch_bounds__(256, row_blocks<M, false>(2 * kHeld)) void row_norm_backward(RowArgs p) {
  using A = Compute<M>;
  using Row = HeldRow<M, kWarps, kHeld, (kForm & kWholeRows) != 0>;
  FACULA_SHARED(Sums<A>, room, kMostWarps);
  const int n = int(p.channels * p.inner);
  for_groups<kWarps>(p.rows, [&](Int64 row, int member) {
    if (row >= p.rows) return;
    Row g{n, member}, x{n, member};
    g.load(static_cast<const M*>(p.grad) + row * n);
    x.load(static_cast<const M*>(p.self) + row * n);
    const A mean = kForm & kCentered ? static_cast<const A*>(p.mean)[row] : A(0),
            rstd = static_cast<const A*>(p.rstd)[row];
    if constexpr (kForm & kHasWeight) {
      const RowFactors<A, kForm> factors(p, row);
      g.each_vector([&](int k, int place) {
        const auto weight = factors.template at<Row::kWide>(p.weight, place, n - place);
#pragma unroll
        for (int j = 0; j < Row::kWide; ++j) g.held[k].at[j] *= weight.at[j];
      });
    }
    Sums<A> sums{};
    x.each_with(g, [&](A& v, A gw) {
      v -= mean;
      sums.a += gw;
      sums.b = kernels::mul_add(gw, v, sums.b);
    });
    sums = fold_group<Add, kWarps>(sums, room);
    const RowGradient<A> gradient(sums, n, rstd, kForm & kCentered);
    g.each_with(x, [&](A& gw, A apart) { gw = gradient(gw, apart); });
    g.store(static_cast<M*>(p.out) + row * n);
  });
}

// ---- longer rows

constexpr int kNormMany = 2;  // vectors of a thread at once, while results are made

/// Moments of some elements, to be merged with those of others.
template <class A, int kWidth, int kMany>
FACULA_FN Moments<A> moments_of(Vector<A, kWidth> (&x)[kMany]) {
  Moments<A> m{A(kWidth * kMany), 0, 0};
  each_of(x, [&](A& v, int, int) { m.mean += v; });
  m.mean *= A(1) / A(kWidth * kMany);
  each_of(x, [&](A& v, int, int) {
    const A apart = v - m.mean;
    m.squares = kernels::mul_add(apart, apart, m.squares);
  });
  return m;
}

/// Reads a row twice.
template <class M, int kWide, int kForm>
__global__ __launch_bounds__(256, 2) void row_norm_long(RowArgs p) {
  using A = Compute<M>;
  constexpr bool kWeight = kForm & kHasWeight, kBias = kForm & kHasBias;
  FACULA_SHARED(Moments<A>, room, kMostWarps);
  const Int64 n = p.channels * p.inner;
  for (Int64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const M* x = static_cast<const M*>(p.self) + row * n;
    M* out = static_cast<M*>(p.out) + row * n;
    Moments<A> sum{};
    share_row<kRowThreads, kWide, 2 * kNormMany>(threadIdx.x, 0, n, [&]<int kWidth, int kMany>(Int64 place) {
      Vector<A, kWidth> part[kMany];
      read_share<kRowThreads>(part, x, place);
      if constexpr (kForm & kCentered) sum = MergeMoments::merge(sum, moments_of(part));
      else each_of(part, [&](A& v, int, int) { sum.squares = kernels::mul_add(v, v, sum.squares); });
    });
    if constexpr (kForm & kCentered) sum = fold_block<MergeMoments>(sum, room);
    else sum.squares = fold_block<Add>(sum.squares, &room->squares);
    const A mean = sum.mean, rstd = A(1) / kernels::sqrt(sum.squares / A(n) + A(p.eps));
    const RowFactors<A, kForm> factors(p, row);
    share_row<kRowThreads, kWide, kNormMany>(threadIdx.x, 0, n, [&]<int kWidth, int kMany>(Int64 place) {
      Vector<A, kWidth> part[kMany], weight[kMany], bias[kMany];
      read_share<kRowThreads>(part, x, place);
#pragma unroll
      for (int m = 0; m < kMany; ++m) {
        const Int64 from = place + m * kRowThreads * kWidth;
        if constexpr (kWeight) weight[m] = factors.template at<kWidth>(p.weight, from);
        if constexpr (kBias) bias[m] = factors.template at<kWidth>(p.bias, from);
      }
      each_of(part, [&](A& v, int m, int j) {
        v = scaled(v - mean, rstd, kWeight, kWeight ? weight[m].at[j] : A(), kBias, kBias ? bias[m].at[j] : A());
      });
      write_share<kRowThreads>(out, place, part);
    });
    if (threadIdx.x) continue;
    if constexpr (kForm & kCentered) static_cast<A*>(p.mean)[row] = mean;
    static_cast<A*>(p.rstd)[row] = rstd;
  }
}

template <class M, int kWide, int kForm>
__global__ __launch_bounds__(256, 2) void row_norm_long_backward(RowArgs p) {
  using A = Compute<M>;
  FACULA_SHARED(Sums<A>, room, kMostWarps);
  const Int64 n = p.channels * p.inner;
  for (Int64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const M *g = static_cast<const M*>(p.grad) + row * n, *x = static_cast<const M*>(p.self) + row * n;
    M* out = static_cast<M*>(p.out) + row * n;
    const A mean = kForm & kCentered ? static_cast<const A*>(p.mean)[row] : A(0),
            rstd = static_cast<const A*>(p.rstd)[row];
    const RowFactors<A, kForm> factors(p, row);
    /// Reads gradients times weights and elements apart from the mean.
    const auto read = [&]<int kWidth, int kMany>(Vector<A, kWidth>(&grads)[kMany], Vector<A, kWidth>(&elements)[kMany],
                                                 Int64 place) {
      read_share<kRowThreads>(grads, g, place);
      read_share<kRowThreads>(elements, x, place);
      if constexpr (kForm & kHasWeight) {
        Vector<A, kWidth> weight[kMany];
#pragma unroll
        for (int m = 0; m < kMany; ++m)
          weight[m] = factors.template at<kWidth>(p.weight, place + m * kRowThreads * kWidth);
        each_of(grads, [&](A& v, int m, int j) { v *= weight[m].at[j]; });
      }
      each_of(elements, [&](A& v, int, int) { v -= mean; });
    };
    Sums<A> sums{};
    share_row<kRowThreads, kWide, kNormMany>(threadIdx.x, 0, n, [&]<int kWidth, int kMany>(Int64 place) {
      Vector<A, kWidth> grads[kMany], elements[kMany];
      read(grads, elements, place);
      each_of(grads, [&](A& v, int m, int j) {
        sums.a += v;
        sums.b = kernels::mul_add(v, elements[m].at[j], sums.b);
      });
    });
    sums = fold_block<Add>(sums, room);
    const RowGradient<A> gradient(sums, n, rstd, kForm & kCentered);
    share_row<kRowThreads, kWide, kNormMany>(threadIdx.x, 0, n, [&]<int kWidth, int kMany>(Int64 place) {
      Vector<A, kWidth> grads[kMany], elements[kMany];
      read(grads, elements, place);
      each_of(grads, [&](A& v, int m, int j) { v = gradient(v, elements[m].at[j]); });
      write_share<kRowThreads>(out, place, grads);
    });
  }
}

// ---- gradients of weights and biases

/// Where a part writes its sums; kForm says which are requested.
template <class A, int kForm>
FACULA_FN void give_row_sums(const RowSumArgs& p, Int64 part, Int64 result, const Sums<A>& sums) {
  if constexpr (kForm & kHasWeight) static_cast<A*>(p.weight)[part * p.apart + result] = sums.a;
  if constexpr (kForm & kHasBias) static_cast<A*>(p.bias)[part * p.apart + result] = sums.b;
}

/// A factor for each element of a row: a block has 32 vectors of columns, each of its warps every eighth row of a part.
template <class M, int kWide, int kForm>
__global__ __launch_bounds__(256, 2) void row_sums_of_columns(RowSumArgs p) {
  using A = Compute<M>;
  constexpr int kMany = 4, kWarps = 8;
  FACULA_SHARED(Sums<A>, room, 256 * kWide);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Int64 columns = p.groups * p.channels, column = (Int64(blockIdx.x) * 32 + lane) * kWide;
  const Int64 begin = blockIdx.y * p.part, end = begin + p.part < p.samples ? begin + p.part : p.samples;
  Sums<A> sums[kWide] = {};
  if (column < columns) {
    const Int64 group = p.groups == 1 ? 0 : column / p.channels;
    const M *grad = static_cast<const M*>(p.grad) + column, *self = static_cast<const M*>(p.self) + column;
    const auto add = [&]<int kRows>(Int64 sample) {
      Vector<M, kWide> g[kRows], x[kRows];
      A mean[kRows] = {}, rstd[kRows];
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        const Int64 at = sample + m * kWarps;
        g[m] = load_vector<kWide>(grad + at * columns);
        if constexpr (kForm & kHasWeight) {
          x[m] = load_vector<kWide>(self + at * columns);
          if constexpr (kForm & kCentered) mean[m] = static_cast<const A*>(p.mean)[at * p.groups + group];
          rstd[m] = static_cast<const A*>(p.rstd)[at * p.groups + group];
        }
      }
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        const auto grads = widen_all(g[m]);
        const auto elements = widen_all(x[m]);
#pragma unroll
        for (int j = 0; j < kWide; ++j) {
          if constexpr (kForm & kHasWeight)
            sums[j].a = kernels::mul_add(grads.at[j], (elements.at[j] - mean[m]) * rstd[m], sums[j].a);
          if constexpr (kForm & kHasBias) sums[j].b += grads.at[j];
        }
      }
    };
    Int64 sample = begin + warp;
#pragma unroll 1
    for (; sample + (kMany - 1) * kWarps < end; sample += kMany * kWarps) add.template operator()<kMany>(sample);
#pragma unroll 1
    for (; sample < end; sample += kWarps) add.template operator()<1>(sample);
  }
#pragma unroll
  for (int j = 0; j < kWide; ++j) room[(warp * kWide + j) * 32 + lane] = sums[j];
  __syncthreads();
  for (int at = threadIdx.x; at < 32 * kWide; at += 256) {
    const Int64 result = (Int64(blockIdx.x) * 32 + at % 32) * kWide + at / 32;
    Sums<A> all = room[at];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) all = all + room[w * 32 * kWide + at];
    if (result < columns) give_row_sums<A, kForm>(p, blockIdx.y, result, all);
  }
}

/// A factor for each of the channels, whose `inner` elements lie together: a warp has a channel of a part's samples.
template <class M, int kWide, int kForm>
__global__ __launch_bounds__(256, 2) void row_sums_of_channels(RowSumArgs p) {
  using A = Compute<M>;
  const Int64 channels = p.groups * p.channels, channel = Int64(blockIdx.x) * 8 + threadIdx.x / 32;
  const Int64 begin = blockIdx.y * p.part, end = begin + p.part < p.samples ? begin + p.part : p.samples;
  if (channel >= channels) return;
  const Int64 group = channel / p.channels;
  Sums<A> all{};
  for (Int64 sample = begin; sample < end; ++sample) {
    const Int64 from = (sample * channels + channel) * p.inner, row = sample * p.groups + group;
    const M *grad = static_cast<const M*>(p.grad) + from, *self = static_cast<const M*>(p.self) + from;
    const A mean = kForm & kCentered ? static_cast<const A*>(p.mean)[row] : A(0),
            rstd = static_cast<const A*>(p.rstd)[row];
    Sums<A> sums{};
    share_row<32, kWide, 2>(threadIdx.x % 32, 0, p.inner, [&]<int kWidth, int kMany>(Int64 place) {
      Vector<A, kWidth> g[kMany], x[kMany];
      read_share<32>(g, grad, place);
      if constexpr (kForm & kHasWeight) read_share<32>(x, self, place);
      each_of(g, [&](A& v, int m, int j) {
        if constexpr (kForm & kHasWeight) sums.a = kernels::mul_add(v, x[m].at[j] - mean, sums.a);
        sums.b += v;
      });
    });
    all = all + Sums<A>{sums.a * rstd, sums.b};
  }
  all = fold_warp<Add>(all);
  if (threadIdx.x % 32 == 0) give_row_sums<A, kForm>(p, blockIdx.y, channel, all);
}

/// The parts' sums of each result, of weights and (blockIdx.y) of biases behind them: a block has 32 results, each of
/// its warps every eighth part.
template <class A>
__global__ __launch_bounds__(256) void merge_row_sums(Int64 results, int parts, const void* sums, void* first,
                                                      void* second) {
  FACULA_SHARED(A, room, 256);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Int64 result = Int64(blockIdx.x) * 32 + lane;
  const A* from = static_cast<const A*>(sums) + blockIdx.y * parts * results + result;
  A total = 0;
  if (result < results)
    for (int part = warp; part < parts; part += 8) total += from[part * results];
  room[threadIdx.x] = total;
  __syncthreads();
  if (warp || result >= results) return;
  for (int w = 1; w < 8; ++w) total += room[w * 32 + lane];
  static_cast<A*>(blockIdx.y ? second : first)[result] = total;
}

}  // namespace facula::cuda

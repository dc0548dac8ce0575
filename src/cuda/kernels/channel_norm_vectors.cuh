// Normalizations of channels by vectors. Where planes are contiguous, a block stays in one channel; where channels lie
// side by side, a thread has a vector of them in several rows. Nothing of a channel is looked up for an element, and
// all loads of a turn stand before the first use.
#pragma once

#include "address.cuh"
#include "channel_norm_args.h"
#include "statistics.cuh"
#include "vector.cuh"

namespace facula::cuda {

// ---- what is folded: what a thread has of n channels, and how it takes kRows elements of each at once

/// Mean and squares around it. Those of several elements are merged at once: one division for all of them.
template <class A, int n>
struct ManyMoments {
  using State = Moments<A>;
  using Merge = MergeMoments;
  A count = 0, mean[n] = {}, squares[n] = {};

  template <int kRows>
  FACULA_FN void take(const A (&x)[kRows][n], const A (&)[kRows][n], const A (&)[n]) {
    const A all = count + kRows, share = kRows / all, weight = count * share;
    count = all;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      A middle = 0, around = 0;
#pragma unroll
      for (int r = 0; r < kRows; ++r) middle += x[r][j] * A(1.0 / kRows);
#pragma unroll
      for (int r = 0; r < kRows; ++r) around += (x[r][j] - middle) * (x[r][j] - middle);
      const A apart = middle - mean[j];
      mean[j] += apart * share;
      squares[j] += around + apart * apart * weight;
    }
  }
  FACULA_FN State state(int j) const { return {count, mean[j], squares[j]}; }
  FACULA_FN static void leave(const State& s, const ChannelPartArgs& p, Int64 channel) {
    static_cast<A*>(p.first)[channel] = s.count == 0 ? kernels::Float<A>::nan : s.mean;
    static_cast<A*>(p.second)[channel] = s.squares / s.count;
  }
};

/// The sums of grad, and of grad * (self - mean).
template <class A, int n>
struct ManyGradients {
  using State = Sums<A>;
  using Merge = Add;
  A total[n] = {}, centered[n] = {};

  template <int kRows>
  FACULA_FN void take(const A (&x)[kRows][n], const A (&grad)[kRows][n], const A (&mean)[n]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int j = 0; j < n; ++j) {
        total[j] += grad[r][j];
        centered[j] += grad[r][j] * (x[r][j] - mean[j]);
      }
  }
  FACULA_FN State state(int j) const { return {total[j], centered[j]}; }
  FACULA_FN static void leave(const State& s, const ChannelPartArgs& p, Int64 channel) {
    static_cast<A*>(p.first)[channel] = s.a;
    static_cast<A*>(p.second)[channel] = s.b;
  }
};

template <bool kGradient, class A, int n>
struct ManyOf {
  using type = ManyMoments<A, n>;
};
template <class A, int n>
struct ManyOf<true, A, n> {
  using type = ManyGradients<A, n>;
};
template <bool kGradient, class A, int n>
using Many = typename ManyOf<kGradient, A, n>::type;

// ---- contiguous planes

/// How many bytes after the first one of the channel its vector i lies, counted through all images.
template <class V>
FACULA_FN UInt64 vector_place(const ChannelPartArgs& p, UInt32 i) {
  const UInt32 image = p.vectors.divide(i);
  return UInt64(image) * p.image_bytes + i * UInt32(sizeof(V));
}
/// Where the first image's plane of a channel begins.
FACULA_FN UInt64 plane_begin(const ChannelPartArgs& p, UInt32 channel, int vector) {
  return UInt64(channel) * (p.vectors.by * UInt32(vector));
}

/// Of a channel a part, which is so many vectors.
template <bool kGradient, class T, class A, int kWide>
__global__ __launch_bounds__(256) void plane_folds(ChannelPartArgs p) {
  constexpr int kMany = kGradient ? 2 : 4;
  using Fold = Many<kGradient, A, 1>;
  using State = typename Fold::State;
  FACULA_SHARED(State, room, kMostWarps);
  UInt32 part = blockIdx.x;
  const UInt32 channel = p.pieces.divide(part), from = part * p.part,
               to = from + p.part < p.count ? from + p.part : p.count;
  const A mean[1] = {kGradient ? static_cast<const A*>(p.mean)[channel] : A(0)};
  using V = Vector<T, kWide>;
  const UInt64 begin = plane_begin(p, channel, sizeof(V));
  const char *plane = fixed_address(static_cast<const char*>(p.self) + begin),
             *grad_plane = kGradient ? fixed_address(static_cast<const char*>(p.grad) + begin) : nullptr;
  Fold fold;
  const auto turn = [&]<int kVectors>(UInt32 i) {
    V self[kVectors], grads[kVectors];
#pragma unroll
    for (int m = 0; m < kVectors; ++m) {
      const UInt64 place = vector_place<V>(p, i + 256 * m);
      self[m] = *reinterpret_cast<const V*>(plane + place);
      if constexpr (kGradient) grads[m] = *reinterpret_cast<const V*>(grad_plane + place);
    }
    A x[kVectors * kWide][1], grad[kVectors * kWide][1];
#pragma unroll
    for (int m = 0; m < kVectors; ++m) {
      const auto wide = widen_all(self[m]), wide_grad = widen_all(kGradient ? grads[m] : self[m]);
#pragma unroll
      for (int j = 0; j < kWide; ++j) x[m * kWide + j][0] = wide.at[j], grad[m * kWide + j][0] = wide_grad.at[j];
    }
    fold.template take<kVectors * kWide>(x, grad, mean);
  };
  UInt32 i = from + threadIdx.x;
#pragma unroll 1
  for (; i + 256 * (kMany - 1) < to; i += 256 * kMany) turn.template operator()<kMany>(i);
#pragma unroll 1
  for (; i < to; i += 256) turn.template operator()<1>(i);

  State state = fold_block<typename Fold::Merge>(fold.state(0), room);
  if (p.parts > 1) {
    State* states = static_cast<State*>(p.states) + Int64(channel) * p.parts;
    if (threadIdx.x == 0) states[part] = state;
    if (!is_last_block(p.tickets + channel, p.parts)) return;
    state = Fold::Merge::template identity<State>();
    for (UInt32 k = threadIdx.x; k < p.parts; k += 256) state = Fold::Merge::merge(state, states[k]);
    state = fold_block<typename Fold::Merge>(state, room);
  }
  if (threadIdx.x == 0) Fold::leave(state, p, channel);
}

/// self * a + b or, with a gradient, grad * a + self * b + c.
template <bool kGradient, class T, class A, int kWide, int kMany>
__global__ __launch_bounds__(256) void plane_factors(ChannelPartArgs p) {
  UInt32 piece = blockIdx.x;
  const UInt32 channel = p.pieces.divide(piece), first = piece * (256 * kMany) + threadIdx.x;
  const A a = static_cast<const A*>(p.a)[channel], b = static_cast<const A*>(p.b)[channel],
          c = kGradient ? static_cast<const A*>(p.c)[channel] : A(0);
  using V = Vector<T, kWide>;
  const UInt64 begin = plane_begin(p, channel, sizeof(V));
  const char *self = fixed_address(static_cast<const char*>(p.self) + begin),
             *grad = kGradient ? fixed_address(static_cast<const char*>(p.grad) + begin) : nullptr;
  char* out = fixed_address(static_cast<char*>(p.out) + begin);
  V x[kMany], grads[kMany];
  UInt64 place[kMany];
#pragma unroll
  for (int m = 0; m < kMany; ++m) {
    place[m] = in_register(vector_place<V>(p, first + 256 * m));
    if (first + 256 * m >= p.count) continue;
    x[m] = *reinterpret_cast<const V*>(self + place[m]);
    if constexpr (kGradient) grads[m] = *reinterpret_cast<const V*>(grad + place[m]);
  }
#pragma unroll
  for (int m = 0; m < kMany; ++m) {
    if (first + 256 * m >= p.count) break;
    auto y = widen_all(x[m]);
#pragma unroll
    for (int j = 0; j < kWide; ++j) {
      if constexpr (kGradient) y.at[j] = convert<A>(grads[m].at[j]) * a + (y.at[j] * b + c);
      else y.at[j] = y.at[j] * a + b;
    }
    *reinterpret_cast<V*>(out + place[m]) = narrow_all<T>(y);
  }
}

// ---- channels side by side: a block has p.lanes vectors of them, and 256 / p.lanes rows at a time

struct ColumnPlace {
  UInt32 lane, line, lines, strip, piece, vector;
  bool has;  // else the thread reads what another one does, and keeps nothing

  FACULA_FN explicit ColumnPlace(const ChannelPartArgs& p) {
    lane = threadIdx.x % p.lanes;
    line = threadIdx.x / p.lanes;
    lines = 256 / p.lanes;
    piece = blockIdx.x;
    strip = p.pieces.divide(piece);
    vector = strip * p.lanes + lane;
    has = vector < p.vectors.by;
    if (!has) vector = 0;
  }
};

template <class T, class A, int kWide>
FACULA_FN Vector<A, kWide> factors_of(const void* factors, UInt64 vector) {
  return load_vector<kWide>(static_cast<const A*>(factors) + vector * kWide);
}

/// Merges what is in `room`, count lines of `columns` states, and calls give(column, state).
template <class Merge, class State, class F>
FACULA_FN void merge_lines(const State* room, UInt32 count, UInt32 columns, F give) {
  __syncthreads();
  for (UInt32 c = threadIdx.x; c < columns; c += 256) {
    State state = room[c];
    for (UInt32 k = 1; k < count; ++k) state = Merge::merge(state, room[k * columns + c]);
    give(c, state);
  }
}

template <bool kGradient, class T, class A, int kWide>
__global__ __launch_bounds__(256) void column_folds(ChannelPartArgs p) {
  constexpr int kMany = kGradient ? 2 : 4;
  using Fold = Many<kGradient, A, kWide>;
  using State = typename Fold::State;
  using Merge = typename Fold::Merge;
  using V = Vector<T, kWide>;
  FACULA_SHARED(State, room, 256 * kWide);
  const ColumnPlace at(p);
  const UInt64 sample = blockIdx.y;
  const UInt32 from = at.piece * p.part, to = from + p.part < p.count ? from + p.part : p.count;
  const UInt64 begin = sample * p.count * p.row_bytes + at.vector * UInt32(sizeof(V));
  const char *self = fixed_address(static_cast<const char*>(p.self) + begin),
             *grad = kGradient ? fixed_address(static_cast<const char*>(p.grad) + begin) : nullptr;
  A mean[kWide] = {};
  if constexpr (kGradient) {
    const auto read = factors_of<T, A, kWide>(p.mean, sample * p.vectors.by + at.vector);
#pragma unroll
    for (int j = 0; j < kWide; ++j) mean[j] = read.at[j];
  }
  Fold fold;
  const auto turn = [&]<int kRows>(UInt32 row) {
    V selves[kRows], grads[kRows];
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const UInt64 place = UInt64(row + at.lines * m) * p.row_bytes;
      selves[m] = *reinterpret_cast<const V*>(self + place);
      if constexpr (kGradient) grads[m] = *reinterpret_cast<const V*>(grad + place);
    }
    A x[kRows][kWide], g[kRows][kWide];
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const auto wide = widen_all(selves[m]), wide_grad = widen_all(kGradient ? grads[m] : selves[m]);
#pragma unroll
      for (int j = 0; j < kWide; ++j) x[m][j] = wide.at[j], g[m][j] = wide_grad.at[j];
    }
    fold.template take<kRows>(x, g, mean);
  };
  UInt32 row = from + at.line;
#pragma unroll 1
  for (; row + at.lines * (kMany - 1) < to; row += at.lines * kMany) turn.template operator()<kMany>(row);
#pragma unroll 1
  for (; row < to; row += at.lines) turn.template operator()<1>(row);

  const UInt32 columns = p.lanes * kWide;
#pragma unroll
  for (int j = 0; j < kWide; ++j) room[at.line * columns + at.lane * kWide + j] = fold.state(j);
  const UInt32 channels = p.vectors.by * kWide, first = at.strip * columns;
  State* states = static_cast<State*>(p.states) + sample * p.parts * channels + first;
  merge_lines<Merge>(room, at.lines, columns, [&](UInt32 c, const State& state) {
    if (first + c >= channels) return;
    if (p.parts > 1) states[UInt64(at.piece) * channels + c] = state;
    else Fold::leave(state, p, sample * channels + first + c);
  });
  if (p.parts == 1 || !is_last_block(p.tickets + sample * p.strips + at.strip, p.parts)) return;
  // the parts by all threads, as many lines of them as there is room for
  const UInt32 together = columns < 256 ? 256 / columns : 1;
  for (UInt32 i = threadIdx.x; i < columns * together; i += 256) {
    const UInt32 c = i % columns;
    State state = Merge::template identity<State>();
    for (UInt32 k = i / columns; k < p.parts && first + c < channels; k += together)
      state = Merge::merge(state, states[UInt64(k) * channels + c]);
    room[i] = state;
  }
  merge_lines<Merge>(room, together, columns, [&](UInt32 c, const State& state) {
    if (first + c < channels) Fold::leave(state, p, sample * channels + first + c);
  });
}

template <bool kGradient, class T, class A, int kWide>
__global__ __launch_bounds__(256) void column_factors(ChannelPartArgs p) {
  constexpr int kMany = 4;
  using V = Vector<T, kWide>;
  const ColumnPlace at(p);
  if (!at.has) return;
  const UInt64 sample = blockIdx.y, begin = sample * p.count * p.row_bytes + at.vector * UInt32(sizeof(V)),
               factor = sample * p.vectors.by + at.vector;
  const char *self = fixed_address(static_cast<const char*>(p.self) + begin),
             *grad = kGradient ? fixed_address(static_cast<const char*>(p.grad) + begin) : nullptr;
  char* out = fixed_address(static_cast<char*>(p.out) + begin);
  const auto a = factors_of<T, A, kWide>(p.a, factor), b = factors_of<T, A, kWide>(p.b, factor),
             c = factors_of<T, A, kWide>(kGradient ? p.c : p.b, factor);
  const UInt32 row = at.piece * (at.lines * kMany) + at.line;
  V x[kMany], grads[kMany];
#pragma unroll
  for (int m = 0; m < kMany; ++m) {
    if (row + at.lines * m >= p.count) continue;
    const UInt64 place = UInt64(row + at.lines * m) * p.row_bytes;
    x[m] = *reinterpret_cast<const V*>(self + place);
    if constexpr (kGradient) grads[m] = *reinterpret_cast<const V*>(grad + place);
  }
#pragma unroll
  for (int m = 0; m < kMany; ++m) {
    if (row + at.lines * m >= p.count) break;
    auto y = widen_all(x[m]);
#pragma unroll
    for (int j = 0; j < kWide; ++j) {
      if constexpr (kGradient) y.at[j] = convert<A>(grads[m].at[j]) * a.at[j] + (y.at[j] * b.at[j] + c.at[j]);
      else y.at[j] = y.at[j] * a.at[j] + b.at[j];
    }
    *reinterpret_cast<V*>(out + UInt64(row + at.lines * m) * p.row_bytes) = narrow_all<T>(y);
  }
}

}  // namespace facula::cuda

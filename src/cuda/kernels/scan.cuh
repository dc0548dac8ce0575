// Running sums, products and extrema. Of rows a thread has vectors of neighbors, all of which it requests at once: a
// warp scans what its lanes have of a vector, and starts with what lies before; a block's warps start with what the
// warps before them have found. Of columns a thread has one. Where there are few long lines they are divided into
// parts, whose totals are found first, and scanned by the block that comes last.
#pragma once

#include "lines.cuh"
#include "vector.cuh"

namespace facula::cuda {

// ---- what is scanned: `enter` makes a state of an element and its position, `leave` writes one

template <class C>
struct Unsigned {  // of whole numbers: they wrap around
  using type = C;
};
template <>
struct Unsigned<Int64> {
  using type = UInt64;
};

template <class Merge>
struct Running : Merge {
  template <class C>
  using State = typename Unsigned<C>::type;
  template <class C>
  FACULA_FN static State<C> enter(C x, Int64) {
    return State<C>(x);
  }
  /// Of neighbors, which lie at a multiple of their size.
  template <class C, class O, int n>
  FACULA_FN static void leave(const State<C> (&states)[n], Int64 at, const ScanArgs& s) {
    Vector<Compute<O>, n> values;
#pragma unroll
    for (int j = 0; j < n; ++j) values.at[j] = convert<Compute<O>>(C(states[j]));
    store_vector(static_cast<O*>(s.out) + at, narrow_all<O>(values));
  }
};
using RunningSum = Running<Add>;
using RunningProduct = Running<Multiply>;

struct LogAddExp {
  template <class A>
  FACULA_FN static A identity() {
    if constexpr (is_complex_type<A>) return {-kernels::Float<decltype(A::re)>::infinity, 0};
    else return lowest<A>();
  }
  template <class A>
  FACULA_FN static A merge(A a, A b) {
    if constexpr (is_complex_type<A>) {
      using R = decltype(A::re);
      if (kernels::isnan(a) || kernels::isnan(b)) return {kernels::Float<R>::nan, kernels::Float<R>::nan};
      if (a.re < b.re) {
        const A c = a;
        a = b;
        b = c;
      }
      if (kernels::isinf(b.re) && b.re < 0) return a;
      if (kernels::isinf(a.re)) return a;
      return a + kernels::log(kernels::exp(b - a) + R(1));
    } else {
      if (a != a) return a;
      if (b != b) return b;
      const A high = a < b ? b : a, low = a < b ? a : b;
      return kernels::isinf(high) && (high < 0 || low == high) ? high : high + kernels::log1p(kernels::exp(low - high));
    }
  }
};
using RunningLogSum = Running<LogAddExp>;

/// A value and its position; of nothing the position is -1.
template <class C>
struct Placed {
  C value;
  Int64 at;
};
/// NaN wins; of equals the last.
template <bool kLargest>
struct RunningExtremum {
  template <class C>
  using State = Placed<C>;
  template <class A>
  FACULA_FN static A identity() {
    A none{};
    none.at = -1;
    return none;
  }
  template <class A>
  FACULA_FN static A merge(A a, A b) {
    if (a.at > b.at) {
      const A c = a;
      a = b;
      b = c;
    }
    if (a.at < 0 || b.value != b.value) return b;
    return a.value == a.value && (kLargest ? b.value >= a.value : b.value <= a.value) ? b : a;
  }
  template <class C>
  FACULA_FN static Placed<C> enter(C x, Int64 i) {
    return {x, i};
  }
  template <class C, class O, int n>
  FACULA_FN static void leave(const Placed<C> (&states)[n], Int64 at, const ScanArgs& s) {
    Vector<Compute<O>, n> values;
    Vector<Int64, n> places;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      values.at[j] = convert<Compute<O>>(states[j].value);
      places.at[j] = states[j].at;
    }
    store_vector(static_cast<O*>(s.out) + at, narrow_all<O>(values));
    store_vector(s.positions + at, places);
  }
};
using RunningMax = RunningExtremum<true>;
using RunningMin = RunningExtremum<false>;

/// What a place receives: the scan with its element, or (for the product of the others) the scan of the elements before
/// it, or that of the elements after it times what is there.
enum ScanMode : int { kWith, kBefore, kAfter };

// ---- the scan

template <class Op, class A>
FACULA_FN A scan_warp(A value) {
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const A other = shuffle_up(value, by);
    if (int(threadIdx.x % 32) >= by) value = Op::merge(other, value);
  }
  return value;
}

/// The elements of one part of a line, in the order of the scan.
template <class Op, class M, class C, class O, int kMode>
struct ScanPart {
  using A = typename Op::template State<C>;
  /// Of a row: neighbors that a thread has, and how often it has them at once.
  static constexpr int kWide = kMode != kWith    ? 1
                               : sizeof(M) >= 16 ? 1
                               : sizeof(M) <= 2  ? 8
                                                 : 16 / sizeof(M),
                       kMost = sizeof(A) > 8 ? 8 : 16, kVectors = kMost / kWide < 4 ? kMost / kWide : 4,
                       kOfWarp = 32 * kWide * kVectors;
  const ScanArgs& s;
  Int64 start, from, to;

  FACULA_FN const M* in(Int64 i) const { return static_cast<const M*>(s.in) + start + place(i) * s.shape.inner; }
  FACULA_FN Int64 place(Int64 i) const { return kMode == kAfter ? s.shape.n - 1 - i : i; }
  FACULA_FN void write(Int64 i, A value) const {
    const Int64 at = start + place(i) * s.shape.inner;
    if constexpr (kMode == kAfter) value = Op::merge(A(convert<C>(static_cast<O*>(s.out)[at])), value);
    const A values[1] = {value};
    Op::template leave<C, O>(values, at, s);
  }

  /// Calls f(element, number) for all, several of which are requested at once.
  template <class F>
  FACULA_FN void each(F f) const {
    constexpr int kMany = 8;
    Int64 i = from;
#pragma unroll 1
    for (; i + kMany <= to; i += kMany) {
      M x[kMany];
#pragma unroll
      for (int k = 0; k < kMany; ++k) x[k] = *in(i + k);
#pragma unroll
      for (int k = 0; k < kMany; ++k) f(Op::enter(convert<C>(x[k]), i + k), i + k);
    }
#pragma unroll 1
    for (; i < to; ++i) f(Op::enter(convert<C>(*in(i)), i), i);
  }
  FACULA_FN void alone(A carry) const {
    each([&](const A& x, Int64 i) {
      if constexpr (kMode != kWith) write(i, carry);
      carry = Op::merge(carry, x);
      if constexpr (kMode == kWith) write(i, carry);
    });
  }

  /// This thread's vectors of a turn that begins at number `at`, the first of them `first` behind it, by accesses of
  /// kBytes, or where they are no neighbors one by one; elements behind the end change nothing. kFull: all are there.
  template <int kBytes, bool kFull>
  FACULA_FN void vectors(A (&x)[kVectors][kWide], Int64 at, int first, int left) const {
    const M* data = in(at) + (kMode == kWith ? first : 0);
    Vector<M, kWide> read[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = first + 32 * kWide * v;
      if constexpr (kMode != kWith || kBytes == 0) {
#pragma unroll
        for (int j = 0; j < kWide; ++j)
          if (kFull || i + j < left) read[v].at[j] = *in(at + i + j);
      } else if (kFull || i + kWide <= left) {
        read[v] = load_neighbors<kWide, kBytes>(data + 32 * kWide * v);
      } else {
#pragma unroll
        for (int j = 0; j < kWide; ++j)
          if (i + j < left) read[v].at[j] = data[32 * kWide * v + j];
      }
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const auto wide = widen_all(read[v]);
#pragma unroll
      for (int j = 0; j < kWide; ++j) {
        const int i = first + 32 * kWide * v + j;
        x[v][j] = kFull || i < left ? Op::enter(convert<C>(wide.at[j]), at + i) : Op::template identity<A>();
      }
    }
  }
  /// Leaves a vector whose first element is `i` behind number `at`.
  template <int kBytes, bool kFull>
  FACULA_FN void leave(const A (&x)[kWide], Int64 at, int i, int left) const {
    if constexpr (kWide > 1 && kBytes == 16) {
      if (kFull || i + kWide <= left) return Op::template leave<C, O>(x, start + at + i, s);
    }
#pragma unroll
    for (int j = 0; j < kWide; ++j)
      if (kFull || i + j < left) write(at + i + j, x[j]);
  }
  /// How many elements there are from number `at` on; of many more, enough.
  FACULA_FN int left_from(Int64 at) const { return int(to - at < 1 << 20 ? to - at : 1 << 20); }
  /// The next kOfWarp elements per warp. The result is what follows after them.
  template <int kWarps, int kBytes, bool kFull>
  FACULA_FN A together(Int64 at, A carry, A* room) const {
    const int lane = threadIdx.x % 32, warp = kWarps > 1 ? threadIdx.x / 32 : 0;
    const int mine = warp * kOfWarp + lane * kWide, left = left_from(at);
    A x[kVectors][kWide], before[kVectors], run = Op::template identity<A>();
    vectors<kBytes, kFull>(x, at, mine, left);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int j = 1; j < kWide; ++j) x[v][j] = Op::merge(x[v][j - 1], x[v][j]);
      const A with = scan_warp<Op>(x[v][kWide - 1]), others = shuffle_up(with, 1);
      before[v] = lane ? Op::merge(run, others) : run;
      run = Op::merge(run, shuffle_from(with, 31));
    }
    A after = Op::merge(carry, run);
    if constexpr (kWarps > 1) {
      if (lane == 0) room[warp] = run;
      __syncthreads();
      after = carry;
      for (int w = 0; w < kWarps; ++w) {
        if (w == warp) carry = after;
        after = Op::merge(after, room[w]);
      }
      __syncthreads();
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const A first = Op::merge(carry, before[v]);
#pragma unroll
      for (int j = 0; j < kWide; ++j) x[v][j] = kMode == kWith ? Op::merge(first, x[v][j]) : first;
      leave<kBytes, kFull>(x[v], at, mine + 32 * kWide * v, left);
    }
    return after;
  }
};

/// Part number `part` of a line, and where its total is: of columns those of neighbors are so, too.
template <class Op, class M, class C, class O, int kMode>
FACULA_FN ScanPart<Op, M, C, O, kMode> scan_part(const ScanArgs& s, Int64 line, Int64 part) {
  const Int64 from = part * s.part;
  return {s, line_start(s.shape, line), from, from + s.part < s.shape.n ? from + s.part : s.shape.n};
}

template <class Op, class M, class C, class O, int kMode, int kWarps, int kBytes>
__global__ __launch_bounds__(256, kWarps ? 2 : 1) void scan(ScanArgs s) {
  using A = typename Op::template State<C>;
  using Part = ScanPart<Op, M, C, O, kMode>;
  constexpr int kGroup = group_threads(kWarps), kGroups = 256 / kGroup;
  FACULA_SHARED(A, room, kMostWarps);
  const Int64 lines = s.shape.outer * s.shape.inner, units = lines * s.parts;
  for (Int64 unit = Int64(blockIdx.x) * kGroups + threadIdx.x / kGroup; unit < units;
       unit += Int64(gridDim.x) * kGroups) {
    const Int64 line = kWarps ? unit / s.parts : unit % lines, number = kWarps ? unit % s.parts : unit / lines;
    const Part part = scan_part<Op, M, C, O, kMode>(s, line, number);
    A carry = s.before ? static_cast<const A*>(s.before)[unit] : Op::template identity<A>();
    if constexpr (kWarps == 0) {
      part.alone(carry);
    } else {
      constexpr int kTurn = kWarps * Part::kOfWarp;
      Int64 at = part.from;
#pragma unroll 1
      for (; at + kTurn <= part.to; at += kTurn) carry = part.template together<kWarps, kBytes, true>(at, carry, room);
      if (at < part.to) part.template together<kWarps, kBytes, false>(at, carry, room);
    }
  }
}

// ---- totals of parts: they become what lies before each, by the block that comes last of a line or of 256 columns

template <class Op, class M, class C, int kMode, int kBytes>
__global__ __launch_bounds__(256) void scan_totals(ScanArgs s) {
  using A = typename Op::template State<C>;
  using Part = ScanPart<Op, M, C, C, kMode>;
  FACULA_SHARED(A, room, 256);
  const Int64 line = blockIdx.x / s.parts, number = blockIdx.x % s.parts;
  const Part part = scan_part<Op, M, C, C, kMode>(s, line, number);
  A total = Op::template identity<A>();
  const auto fold = [&]<bool kFull>(Int64 at) {
    A x[Part::kVectors][Part::kWide];
    part.template vectors<kBytes, kFull>(x, at, threadIdx.x / 32 * Part::kOfWarp + threadIdx.x % 32 * Part::kWide,
                                         part.left_from(at));
#pragma unroll
    for (int v = 0; v < Part::kVectors; ++v)
#pragma unroll
      for (int j = 0; j < Part::kWide; ++j) total = Op::merge(total, x[v][j]);
  };
  Int64 at = part.from;
#pragma unroll 1
  for (; at + 8 * Part::kOfWarp <= part.to; at += 8 * Part::kOfWarp) fold.template operator()<true>(at);
  if (at < part.to) fold.template operator()<false>(at);
  total = fold_block<Op>(total, room);
  A* totals = static_cast<A*>(s.before) + line * s.parts;
  if (threadIdx.x == 0) totals[number] = total;
  if (!is_last_block(s.tickets + line, UInt32(s.parts))) return;
  const int i = threadIdx.x;
  A value = i < s.parts ? totals[i] : Op::template identity<A>();
  for (int by = 1; by < 256; by *= 2) {
    room[i] = value;
    __syncthreads();
    if (i >= by) value = Op::merge(room[i - by], value);
    __syncthreads();
  }
  room[i] = value;
  __syncthreads();
  if (i < s.parts) totals[i] = i ? room[i - 1] : Op::template identity<A>();
}

template <class Op, class M, class C, int kMode>
__global__ __launch_bounds__(256) void scan_totals_of_columns(ScanArgs s) {
  using A = typename Op::template State<C>;
  const Int64 lines = s.shape.outer * s.shape.inner, line = Int64(blockIdx.x) * 256 + threadIdx.x;
  A* totals = static_cast<A*>(s.before) + line;
  if (line < lines) {
    A total = Op::template identity<A>();
    scan_part<Op, M, C, C, kMode>(s, line, blockIdx.y).each([&](const A& x, Int64) { total = Op::merge(total, x); });
    totals[blockIdx.y * lines] = total;
  }
  if (!is_last_block(s.tickets + blockIdx.x, UInt32(s.parts)) || line >= lines) return;
  A run = Op::template identity<A>();
#pragma unroll 4
  for (Int64 number = 0; number < s.parts; ++number) {
    const A total = totals[number * lines];
    totals[number * lines] = run;
    run = Op::merge(run, total);
  }
}

}  // namespace facula::cuda

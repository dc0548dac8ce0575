// Running sums, products and extrema. A block takes 1024 elements at a time: a warp scans 32 neighbors, four times,
// and starts with what the warps before it have found. Long lines are divided into parts, whose totals are folded and
// scanned first.
#pragma once

#include "lines.cuh"

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
  template <class C>
  FACULA_FN static void leave(const State<C>& state, Int64 at, const ScanArgs& s) {
    static_cast<C*>(s.out)[at] = C(state);
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
  template <class C>
  FACULA_FN static void leave(const Placed<C>& state, Int64 at, const ScanArgs& s) {
    static_cast<C*>(s.out)[at] = state.value;
    s.positions[at] = state.at;
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
template <class Op, class M, class C, int kMode>
struct ScanPart {
  using A = typename Op::template State<C>;
  const ScanArgs& s;
  Int64 start, from, to;

  FACULA_FN Int64 place(Int64 i) const { return kMode == kAfter ? s.shape.n - 1 - i : i; }
  FACULA_FN A read(Int64 i) const {
    if (i >= to) return Op::template identity<A>();
    return Op::enter(convert<C>(static_cast<const M*>(s.in)[start + place(i) * s.shape.inner]), i);
  }
  FACULA_FN void write(Int64 i, A value) const {
    if (i >= to) return;
    const Int64 at = start + place(i) * s.shape.inner;
    if constexpr (kMode == kAfter) value = Op::merge(A(static_cast<C*>(s.out)[at]), value);
    Op::template leave<C>(value, at, s);
  }

  FACULA_FN void alone(A carry) const {
    for (Int64 i = from; i < to; ++i) {
      const A x = read(i);
      if constexpr (kMode != kWith) write(i, carry);
      carry = Op::merge(carry, x);
      if constexpr (kMode == kWith) write(i, carry);
    }
  }
  /// The next 128 elements per warp. The result is what follows after them.
  template <int kWarps>
  FACULA_FN A together(Int64 at, A carry, A* room) const {
    const int lane = threadIdx.x % 32, warp = kWarps > 1 ? threadIdx.x / 32 : 0;
    const Int64 mine = at + warp * 128 + lane;
    A x[4], run = Op::template identity<A>();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const A with = scan_warp<Op>(read(mine + 32 * j));
      if constexpr (kMode == kWith) {
        x[j] = Op::merge(run, with);
      } else {
        const A before = shuffle_up(with, 1);
        x[j] = lane ? Op::merge(run, before) : run;
      }
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
    for (int j = 0; j < 4; ++j) write(mine + 32 * j, Op::merge(carry, x[j]));
    return after;
  }
};

/// `unit` is a part of a line: line * parts + part.
template <class Op, class M, class C, int kMode>
FACULA_FN ScanPart<Op, M, C, kMode> scan_part(const ScanArgs& s, Int64 unit) {
  const Int64 line = unit / s.parts, from = unit % s.parts * s.part;
  return {s, line_start(s.shape, line), from, from + s.part < s.shape.n ? from + s.part : s.shape.n};
}

template <class Op, class M, class C, int kMode, int kWarps>
__global__ __launch_bounds__(256) void scan(ScanArgs s) {
  using A = typename Op::template State<C>;
  constexpr int kGroup = group_threads(kWarps), kGroups = 256 / kGroup;
  FACULA_SHARED(A, room, kMostWarps);
  const Int64 units = s.shape.outer * s.shape.inner * s.parts;
  for (Int64 unit = Int64(blockIdx.x) * kGroups + threadIdx.x / kGroup; unit < units;
       unit += Int64(gridDim.x) * kGroups) {
    const auto part = scan_part<Op, M, C, kMode>(s, unit);
    A carry = s.before ? static_cast<const A*>(s.before)[unit] : Op::template identity<A>();
    if constexpr (kWarps == 0) part.alone(carry);
    else
      for (Int64 at = part.from; at < part.to; at += kWarps * 128)
        carry = part.template together<kWarps>(at, carry, room);
  }
}

/// What each part comes to, into `before`.
template <class Op, class M, class C, int kMode>
__global__ __launch_bounds__(256) void scan_totals(ScanArgs s) {
  using A = typename Op::template State<C>;
  FACULA_SHARED(A, room, kMostWarps);
  const Int64 units = s.shape.outer * s.shape.inner * s.parts;
  for (Int64 unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const auto part = scan_part<Op, M, C, kMode>(s, unit);
    A total = Op::template identity<A>();
    for (Int64 i = part.from + threadIdx.x; i < part.to; i += 256) total = Op::merge(total, part.read(i));
    total = fold_block<Op>(total, room);
    if (threadIdx.x == 0) static_cast<A*>(s.before)[unit] = total;
  }
}

/// The totals become what lies before each part; at most 256 of each line.
template <class Op, class C>
__global__ __launch_bounds__(256) void scan_parts(ScanArgs s) {
  using A = typename Op::template State<C>;
  FACULA_SHARED(A, room, 256);
  for (Int64 line = blockIdx.x; line < s.shape.outer * s.shape.inner; line += gridDim.x) {
    A* totals = static_cast<A*>(s.before) + line * s.parts;
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
    __syncthreads();
  }
}

}  // namespace facula::cuda

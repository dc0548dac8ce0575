// Soft-max along lines, and its gradient.
#pragma once

#include "rows.cuh"

namespace facula::cuda {

/// Of a line of which the threads of a group hold their parts: calls give(element, place, result).
template <bool kLog, int kWarps, class Line, class C, class F>
FACULA_FN void softmax_line(Line& x, C* room, F give) {
  C top = lowest<C>(), total = 0;
  x.each([&](C& v, auto) { top = LargerNumber::merge(top, v); });
  top = fold_group<LargerNumber, kWarps>(top, room);
  x.each([&](C& v, auto) {
    const C apart = v - top, e = share_of(apart);
    total += e;
    if constexpr (Line::kHolds) v = kLog ? apart : e;
  });
  total = fold_group<Add, kWarps>(total, room);
  const C last = kLog ? kernels::log(total) : C(1) / total;
  x.each([&](C& v, auto place) {
    const C apart = Line::kHolds ? v : v - top;
    if constexpr (kLog) give(v, place, apart - last);
    else give(v, place, (Line::kHolds ? v : share_of(apart)) * last);
  });
}

// ---- lines of any dimension

template <bool kLog, class M, class C, class O, int kWarps, int kHeld>
__global__ __launch_bounds__(256) void softmax(LineShape s, const void* in, void* out) {
  FACULA_SHARED(C, room, kMostWarps);
  const Int64 lines = s.outer * s.inner;
  for_groups<kWarps>(lines, [&](Int64 line, int member) {
    const bool has = line < lines;
    const Int64 start = has ? line_start(s, line) : 0;
    LinePart<M, C, kWarps, kHeld> x{static_cast<const M*>(in) + start, has ? s.n : 0, s.inner, member};
    x.load();
    O* to = static_cast<O*>(out) + start;
    softmax_line<kLog, kWarps>(x, room, [&](C&, Int64 at, C result) { to[at] = convert<O>(result); });
  });
}

template <bool kLog, class M, class C, class O, int kWarps, int kHeld>
__global__ __launch_bounds__(256) void softmax_backward(LineShape s, const void* grad, const void* result, void* out) {
  FACULA_SHARED(C, room, kMostWarps);
  const Int64 lines = s.outer * s.inner;
  for_groups<kWarps>(lines, [&](Int64 line, int member) {
    const bool has = line < lines;
    const Int64 start = has ? line_start(s, line) : 0;
    LinePart<M, C, kWarps, kHeld> g{static_cast<const M*>(grad) + start, has ? s.n : 0, s.inner, member};
    const M* y = static_cast<const M*>(result) + start;
    g.load();
    O* to = static_cast<O*>(out) + start;
    C total = 0;
    g.each([&](C& v, Int64 at) { total = kLog ? total + v : kernels::mul_add(v, convert<C>(y[at]), total); });
    total = fold_group<Add, kWarps>(total, room);
    g.each([&](C& v, Int64 at) {
      const C r = convert<C>(y[at]);
      to[at] = convert<O>(kLog ? kernels::mul_add(-share_of(r), total, v) : r * (v - total));
    });
  });
}

// ---- rows

template <bool kLog, class M, int kWarps, int kHeld, bool kWhole>
__global__ __launch_bounds__(256, row_blocks<M, kWhole>(kHeld)) void softmax_rows(Int64 rows, int n, const void* in,
                                                                                  void* out) {
  using C = Compute<M>;
  FACULA_SHARED(C, room, kMostWarps);
  for_groups<kWarps>(rows, [&](Int64 row, int member) {
    if (row >= rows) return;
    HeldRow<M, kWarps, kHeld, kWhole> x{n, member};
    x.load(static_cast<const M*>(in) + row * n);
    softmax_line<kLog, kWarps>(x, room, [](C& v, int, C result) { v = result; });
    x.store(static_cast<M*>(out) + row * n);
  });
}

template <bool kLog, class M, int kWarps, int kHeld, bool kWhole>
__global__ __launch_bounds__(256, row_blocks<M, false>(2 * kHeld)) void softmax_rows_backward(Int64 rows, int n,
                                                                                              const void* grad,
                                                                                              const void* result,
                                                                                              void* out) {
  using C = Compute<M>;
  using Row = HeldRow<M, kWarps, kHeld, kWhole>;
  FACULA_SHARED(C, room, kMostWarps);
  for_groups<kWarps>(rows, [&](Int64 row, int member) {
    if (row >= rows) return;
    Row g{n, member}, y{n, member};
    g.load(static_cast<const M*>(grad) + row * n);
    y.load(static_cast<const M*>(result) + row * n);
    C total = 0;
    g.each_with(y, [&](C& a, C b) { total = kLog ? total + a : kernels::mul_add(a, b, total); });
    total = fold_group<Add, kWarps>(total, room);
    g.each_with(y, [&](C& a, C b) { a = kLog ? kernels::mul_add(-share_of(b), total, a) : b * (a - total); });
    g.store(static_cast<M*>(out) + row * n);
  });
}

constexpr int kLongMany = 4;  // vectors of a thread at once

/// Reads rows twice: for their largest elements and their sums together, and for the results.
template <bool kLog, class M, int kWide>
__global__ __launch_bounds__(256, 2) void softmax_long(Int64 rows, Int64 n, const void* in, void* out) {
  using C = Compute<M>;
  FACULA_SHARED(Exponentials<C>, room, kMostWarps);
  for (Int64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const M* x = static_cast<const M*>(in) + row * n;
    M* y = static_cast<M*>(out) + row * n;
    const Int64 before = before_vectors<kWide>(x, n);
    const Exponentials<C> sum = row_exponentials<kWide, kLongMany, C>(x, before, n, room);
    const C last = kLog ? kernels::log(sum.total) : C(1) / sum.total;
    share_row<kRowThreads, kWide, kLongMany>(threadIdx.x, before, n, [&]<int kWidth, int kMany>(Int64 place) {
      Vector<C, kWidth> part[kMany];
      read_share<kRowThreads>(part, x, place);
      each_of(part, [&](C& v, int, int) { v = kLog ? v - sum.top - last : share_of(v - sum.top) * last; });
      write_share<kRowThreads>(y, place, part);
    });
  }
}

template <bool kLog, class M, int kWide>
__global__ __launch_bounds__(256, 2) void softmax_long_backward(Int64 rows, Int64 n, const void* grad,
                                                                const void* result, void* out) {
  using C = Compute<M>;
  FACULA_SHARED(C, room, kMostWarps);
  for (Int64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const M *g = static_cast<const M*>(grad) + row * n, *y = static_cast<const M*>(result) + row * n;
    M* to = static_cast<M*>(out) + row * n;
    const Int64 before = before_vectors<kWide>(g, n);
    C total = 0;
    share_row<kRowThreads, kWide, kLongMany>(threadIdx.x, before, n, [&]<int kWidth, int kMany>(Int64 place) {
      Vector<C, kWidth> a[kMany], b[kMany];
      read_share<kRowThreads>(a, g, place);
      if constexpr (!kLog) read_share<kRowThreads>(b, y, place);
      each_of(a, [&](C& v, int m, int j) { total = kLog ? total + v : kernels::mul_add(v, b[m].at[j], total); });
    });
    total = fold_block<Add>(total, room);
    share_row<kRowThreads, kWide, kLongMany>(threadIdx.x, before, n, [&]<int kWidth, int kMany>(Int64 place) {
      Vector<C, kWidth> a[kMany], b[kMany];
      read_share<kRowThreads>(a, g, place);
      read_share<kRowThreads>(b, y, place);
      each_of(a, [&](C& v, int m, int j) {
        const C r = b[m].at[j];
        v = kLog ? kernels::mul_add(-share_of(r), total, v) : r * (v - total);
      });
      write_share<kRowThreads>(to, place, a);
    });
  }
}

}  // namespace facula::cuda

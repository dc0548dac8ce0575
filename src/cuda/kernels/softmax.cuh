// Soft-max along lines, and its gradient.
#pragma once

#include "lines.cuh"

namespace facula::cuda {

/// Of a line of which the threads of a group hold their parts: calls give(element, place, result).
template <bool kLog, int kWarps, int kHeld, class M, class C, class F>
FACULA_FN void softmax_line(LinePart<M, C, kWarps, kHeld>& x, C* room, F give) {
  C top = lowest<C>(), total = 0;
  x.each([&](C& v, Int64) { top = Max::merge(top, v); });
  top = fold_group<Max, kWarps>(top, room);
  x.each([&](C& v, Int64) {
    const C e = kernels::exp(v - top);
    total += e;
    if constexpr (!kLog && kHeld > 0) v = e;
  });
  total = fold_group<Add, kWarps>(total, room);
  const C last = kLog ? kernels::log(total) : C(1) / total;
  x.each([&](C& v, Int64 at) {
    if constexpr (kLog) give(v, at, v - top - last);
    else if constexpr (kHeld > 0) give(v, at, v * last);
    else give(v, at, kernels::exp(v - top) * last);
  });
}

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
    softmax_line<kLog>(x, room, [&](C&, Int64 at, C result) { to[at] = convert<O>(result); });
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
    C total = 0;
    g.each([&](C& v, Int64 at) { total += kLog ? v : v * convert<C>(y[at]); });
    total = fold_group<Add, kWarps>(total, room);
    O* to = static_cast<O*>(out) + start;
    g.each([&](C& v, Int64 at) {
      const C r = convert<C>(y[at]);
      to[at] = convert<O>(kLog ? v - kernels::exp(r) * total : r * (v - total));
    });
  });
}

}  // namespace facula::cuda

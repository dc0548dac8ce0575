// Soft-max along lines, and its gradient. A group of threads keeps the elements of a line that is not too long in
// registers, `kHeld` in each thread; else (0) it reads them again.
#pragma once

#include "lines.cuh"

namespace facula::cuda {

/// The elements of a line that one thread of the group handles.
template <class M, class C, int kGroup, int kHeld>
struct LinePart {
  const M* in;
  Int64 n, step;
  int member;
  C held[kHeld ? kHeld : 1];

  FACULA_FN C read(Int64 i) const { return convert<C>(in[i * step]); }
  /// Calls f(element, place) for each.
  template <class F>
  FACULA_FN void each(F f) {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int j = 0; j < kHeld; ++j)
        if (const Int64 i = member + Int64(j) * kGroup; i < n) f(held[j], i * step);
    } else {
      for (Int64 i = member; i < n; i += kGroup) {
        C x = read(i);
        f(x, i * step);
      }
    }
  }
  FACULA_FN void load() {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int j = 0; j < kHeld; ++j)
        if (const Int64 i = member + Int64(j) * kGroup; i < n) held[j] = read(i);
    }
  }
};

template <bool kLog, class M, class C, class O, int kWarps, int kHeld>
__global__ __launch_bounds__(256) void softmax(LineShape s, const void* in, void* out) {
  constexpr int kGroup = group_threads(kWarps), kGroups = 256 / kGroup;
  FACULA_SHARED(C, room, kMostWarps);
  const int group = threadIdx.x / kGroup;
  const Int64 lines = s.outer * s.inner;
  for (Int64 first = Int64(blockIdx.x) * kGroups; first < lines; first += Int64(gridDim.x) * kGroups) {
    const bool has = first + group < lines;
    const Int64 start = has ? line_start(s, first + group) : 0;
    LinePart<M, C, kGroup, kHeld> x{static_cast<const M*>(in) + start, has ? s.n : 0, s.inner,
                                    int(threadIdx.x) % kGroup};
    x.load();
    C top = lowest<C>(), total = 0;
    x.each([&](C& v, Int64) { top = Max::merge(top, v); });
    top = fold_group<Max, kWarps>(top, room);
    x.each([&](C& v, Int64) {
      const C e = kernels::exp(v - top);
      total += e;
      if constexpr (!kLog && kHeld > 0) v = e;
    });
    total = fold_group<Add, kWarps>(total, room);
    O* to = static_cast<O*>(out) + start;
    const C last = kLog ? kernels::log(total) : C(1) / total;
    x.each([&](C& v, Int64 at) {
      if constexpr (kLog) to[at] = convert<O>(v - top - last);
      else if constexpr (kHeld > 0) to[at] = convert<O>(v * last);
      else to[at] = convert<O>(kernels::exp(v - top) * last);
    });
  }
}

template <bool kLog, class M, class C, class O, int kWarps, int kHeld>
__global__ __launch_bounds__(256) void softmax_backward(LineShape s, const void* grad, const void* result, void* out) {
  constexpr int kGroup = group_threads(kWarps), kGroups = 256 / kGroup;
  FACULA_SHARED(C, room, kMostWarps);
  const int group = threadIdx.x / kGroup;
  const Int64 lines = s.outer * s.inner;
  for (Int64 first = Int64(blockIdx.x) * kGroups; first < lines; first += Int64(gridDim.x) * kGroups) {
    const bool has = first + group < lines;
    const Int64 start = has ? line_start(s, first + group) : 0;
    LinePart<M, C, kGroup, kHeld> g{static_cast<const M*>(grad) + start, has ? s.n : 0, s.inner,
                                    int(threadIdx.x) % kGroup};
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
  }
}

}  // namespace facula::cuda

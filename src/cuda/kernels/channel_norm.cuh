// Normalizations of channels.
#pragma once

#include "channel_norm_args.h"
#include "lines.cuh"
#include "statistics.cuh"

namespace facula::cuda {

// ---- folds over channels: how an element enters, and how results are written

/// Of channels: the sums of grad, and of grad * (self - mean).
struct ChannelGradientSums : Add {
  template <class A>
  using State = Sums<A>;
  template <class T, class A>
  FACULA_FN static void enter(Sums<A>& s, const ChannelArgs& p, Int64 r, Int64, Int64 at) {
    const A g = convert<A>(static_cast<const T*>(p.grad)[at]), x = convert<A>(static_cast<const T*>(p.self)[at]);
    s.a += g;
    s.b += g * (x - static_cast<const A*>(p.mean)[r]);
  }
  template <class A>
  FACULA_FN static void leave(const Sums<A>& s, const ChannelArgs& p, Int64 r) {
    static_cast<A*>(p.first)[r] = s.a;
    static_cast<A*>(p.second)[r] = s.b;
  }
};
struct ChannelMoments : MergeMoments {
  template <class A>
  using State = Moments<A>;
  template <class T, class A>
  FACULA_FN static void enter(Moments<A>& s, const ChannelArgs& p, Int64, Int64, Int64 at) {
    const A x = convert<A>(static_cast<const T*>(p.self)[at]), apart = x - s.mean;
    s.count += 1;
    s.mean += apart / s.count;
    s.squares += apart * (x - s.mean);
  }
  template <class A>
  FACULA_FN static void leave(const Moments<A>& s, const ChannelArgs& p, Int64 r) {
    static_cast<A*>(p.first)[r] = s.count == 0 ? kernels::Float<A>::nan : s.mean;
    static_cast<A*>(p.second)[r] = s.squares / s.count;
  }
};

template <class Op, class T, class A, int kWarps>
__global__ __launch_bounds__(256) void channel_fold(ChannelArgs p) {
  using State = typename Op::template State<A>;
  FACULA_SHARED(State, room, kMostWarps);
  const Int64 units = p.results * p.parts;
  for_groups<kWarps>(units, [&](Int64 unit, int member) {
    const Int64 r = unit % p.results;
    State state = Op::template identity<State>();
    if (unit < units) {
      const Int64 start = r / p.channels * p.sample_step + r % p.channels * p.inner, from = unit / p.results * p.part,
                  to = from + p.part < p.count ? from + p.part : p.count;
      for (Int64 e = from + member; e < to; e += group_threads(kWarps)) {
        const Int64 outer = p.inner == 1 ? e : e / p.inner;
        Op::template enter<T, A>(state, p, r, outer, start + outer * p.outer_step + (e - outer * p.inner));
      }
    }
    state = fold_group<Op, kWarps>(state, room);
    if (unit >= units || member) return;
    if (p.parts > 1) static_cast<State*>(p.states)[unit] = state;
    else Op::leave(state, p, r);
  });
}

template <class Op, class A>
__global__ __launch_bounds__(256) void channel_merge(ChannelArgs p) {
  using State = typename Op::template State<A>;
  for (Int64 r = thread_number(); r < p.results; r += thread_count()) {
    State state = Op::template identity<State>();
    for (Int64 part = 0; part < p.parts; ++part)
      state = Op::merge(state, static_cast<const State*>(p.states)[part * p.results + r]);
    Op::leave(state, p, r);
  }
}

/// Of every channel what its elements are multiplied with and what is added, rounded once.
template <class A>
__global__ __launch_bounds__(256) void channel_scales(A* rstd, A* scale, A* shift, const A* mean, const A* variance,
                                                      const A* weight, const A* bias, double eps, Int64 channels) {
  for (Int64 c = thread_number(); c < channels; c += thread_count()) {
    const double inverse = 1.0 / kernels::sqrt(double(variance[c]) + eps);
    const A factor = A(weight ? inverse * double(weight[c]) : inverse);
    rstd[c] = A(inverse);
    scale[c] = factor;
    shift[c] = A((bias ? double(bias[c]) : 0.0) - double(mean[c]) * double(factor));
  }
}

// ---- element by element

/// self * a + b or, with a gradient, grad * a + self * b + c; factors of channels.
template <bool kGradient, class T, class A>
__global__ __launch_bounds__(256) void channel_factors(FactorArgs p) {
  const A *a = static_cast<const A*>(p.a), *b = static_cast<const A*>(p.b), *c = static_cast<const A*>(p.c);
  for (Int64 i = thread_number(); i < p.numel; i += thread_count()) {
    const Int64 run = i / p.inner;
    const Int64 k = run % p.channels + (p.samples > 1 ? run / p.channels / p.outer * p.channels : 0);
    const A x = convert<A>(static_cast<const T*>(p.self)[i]);
    A y;
    if constexpr (kGradient) y = convert<A>(static_cast<const T*>(p.grad)[i]) * a[k] + x * b[k] + c[k];
    else y = x * a[k] + b[k];
    static_cast<T*>(p.out)[i] = convert<T>(y);
  }
}

}  // namespace facula::cuda

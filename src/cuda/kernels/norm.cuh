// Normalisations of rows and of channels.
#pragma once

#include "lines.cuh"
#include "norm_args.h"

namespace facula::cuda {

// ---- rows: a group of threads for each

template <class A>
struct Sums {
  A a, b;
  FACULA_FN friend Sums operator+(Sums x, Sums y) { return {x.a + y.a, x.b + y.b}; }
};

/// The place of the factor of element `i` of a row.
FACULA_FN Int64 factor_at(const RowArgs& p, Int64 row, Int64 i) {
  return row % p.groups * p.channels + (p.inner == 1 ? i : i / p.inner);
}

template <class A>
struct RowStatistics {
  A mean, rstd;
};
/// Of a row of which the threads of a group hold their parts: calls give(element, place, result). `factor` gives the
/// place of an element's factor.
template <int kWarps, int kHeld, class T, class A, class Place, class F>
FACULA_FN RowStatistics<A> norm_line(LinePart<T, A, kWarps, kHeld>& x, A* room, Int64 n, bool center, A eps,
                                     const A* weight, const A* bias, Place factor, F give) {
  A mean = 0, squares = 0;
  if (center) {
    x.each([&](A& v, Int64) { mean += v; });
    mean = fold_group<Add, kWarps>(mean, room) / A(n);
  }
  x.each([&](A& v, Int64) { squares += (v - mean) * (v - mean); });
  squares = fold_group<Add, kWarps>(squares, room);
  const A rstd = A(1) / kernels::sqrt(squares / A(n) + eps);
  x.each([&](A& v, Int64 i) {
    const Int64 k = factor(i);
    const A y = (v - mean) * rstd;
    // what becomes one instruction is said, so that it is in every kernel around this
    if (weight) give(v, i, bias ? kernels::mul_add(y, weight[k], bias[k]) : y * weight[k]);
    else give(v, i, bias ? kernels::mul_add(v - mean, rstd, bias[k]) : y);
  });
  return {mean, rstd};
}

template <class T, class A, int kWarps, int kHeld>
__global__ __launch_bounds__(256) void row_norm(RowArgs p) {
  FACULA_SHARED(A, room, kMostWarps);
  const Int64 n = p.channels * p.inner;
  const A *weight = static_cast<const A*>(p.weight), *bias = static_cast<const A*>(p.bias);
  for_groups<kWarps>(p.rows, [&](Int64 row, int member) {
    const bool has = row < p.rows;
    LinePart<T, A, kWarps, kHeld> x{static_cast<const T*>(p.self) + (has ? row * n : 0), has ? n : 0, 1, member};
    x.load();
    T* out = static_cast<T*>(p.out) + row * n;
    const RowStatistics<A> made = norm_line<kWarps, kHeld>(
        x, room, n, p.center, A(p.eps), weight, bias, [&](Int64 i) { return factor_at(p, row, i); },
        [&](A&, Int64 i, A result) { out[i] = convert<T>(result); });
    if (!has || member) return;
    static_cast<A*>(p.mean)[row] = made.mean;
    static_cast<A*>(p.rstd)[row] = made.rstd;
  });
}

/// rstd * (g * w - mean(g * w) - x^ * mean(g * w * x^)) with x^ the normalised row.
template <class T, class A, int kWarps, int kHeld>
__global__ __launch_bounds__(256) void row_norm_backward(RowArgs p) {
  FACULA_SHARED(Sums<A>, room, kMostWarps);
  const Int64 n = p.channels * p.inner;
  const A* weight = static_cast<const A*>(p.weight);
  for_groups<kWarps>(p.rows, [&](Int64 row, int member) {
    const bool has = row < p.rows;
    LinePart<T, A, kWarps, kHeld> g{static_cast<const T*>(p.grad) + (has ? row * n : 0), has ? n : 0, 1, member};
    const T* x = static_cast<const T*>(p.self) + (has ? row * n : 0);
    const A mean = has && p.center ? static_cast<const A*>(p.mean)[row] : A(0),
            rstd = has ? static_cast<const A*>(p.rstd)[row] : A(0);
    g.load();
    Sums<A> sums{};
    g.each([&](A& v, Int64 i) {
      const A gw = weight ? v * weight[factor_at(p, row, i)] : v;
      sums.a += gw;
      sums.b += gw * (convert<A>(x[i]) - mean);
    });
    sums = fold_group<Add, kWarps>(sums, room);
    const A a = p.center ? sums.a / A(n) : A(0), b = sums.b * rstd * rstd / A(n);
    T* out = static_cast<T*>(p.out) + row * n;
    g.each([&](A& v, Int64 i) {
      const A gw = weight ? v * weight[factor_at(p, row, i)] : v;
      out[i] = convert<T>(rstd * (gw - a - b * (convert<A>(x[i]) - mean)));
    });
  });
}

// ---- folds over rows and channels: how an element enters, and how results are written

/// Of the factors of rows: the sums of grad times the normalised element, and of grad.
struct RowFactorSums : Add {
  template <class A>
  using State = Sums<A>;
  template <class T, class A>
  FACULA_FN static void enter(Sums<A>& s, const ChannelArgs& p, Int64 r, Int64 outer, Int64 at) {
    const Int64 row = outer * p.groups + r / p.channels;
    const A g = convert<A>(static_cast<const T*>(p.grad)[at]), x = convert<A>(static_cast<const T*>(p.self)[at]);
    const A mean = p.mean ? static_cast<const A*>(p.mean)[row] : A(0);
    s.a += g * (x - mean) * static_cast<const A*>(p.rstd)[row];
    s.b += g;
  }
  template <class A>
  FACULA_FN static void leave(const Sums<A>& s, const ChannelArgs& p, Int64 r) {
    if (p.first) static_cast<A*>(p.first)[r] = s.a;
    if (p.second) static_cast<A*>(p.second)[r] = s.b;
  }
};
/// Of channels: the sums of grad, and of grad * (self - mean).
struct ChannelGradientSums : RowFactorSums {
  template <class T, class A>
  FACULA_FN static void enter(Sums<A>& s, const ChannelArgs& p, Int64 r, Int64, Int64 at) {
    const A g = convert<A>(static_cast<const T*>(p.grad)[at]), x = convert<A>(static_cast<const T*>(p.self)[at]);
    s.a += g;
    s.b += g * (x - static_cast<const A*>(p.mean)[r]);
  }
};
/// Mean and biased variance; merged as Chan, Golub and LeVeque have it ("Updating Formulae and a Pairwise Algorithm",
/// 1979).
template <class A>
struct Moments {
  A count, mean, squares;
};
struct ChannelMoments {
  template <class A>
  using State = Moments<A>;
  template <class S>
  FACULA_FN static S identity() {
    return S{};
  }
  template <class S>
  FACULA_FN static S merge(S x, S y) {
    if (x.count == 0) return y;
    if (y.count == 0) return x;
    const auto all = x.count + y.count, share = y.count / all, apart = y.mean - x.mean;
    return {all, x.mean + apart * share, x.squares + y.squares + apart * apart * x.count * share};
  }
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

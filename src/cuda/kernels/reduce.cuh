// Folds: every result is made by a group of threads (block.cuh), and of long ones by several groups, whose results a
// second launch folds.
#pragma once

#include "block.cuh"
#include "reduce_args.h"

namespace facula::cuda {

FACULA_FN Int64 offset_of(const FoldDims& d, Int64 at) {
  Int64 offset = 0;
  for (int k = 0; k < d.dims; ++k) {
    const Int64 next = k + 1 < d.dims ? at / d.shape[k] : 0;
    offset += (at - next * d.shape[k]) * d.strides[k];
    at = next;
  }
  return offset;
}

// A fold: how elements enter (`enter`: of the compute type C, with the fold's parameters) and how results are merged.
/// Also the second launch of every fold.
template <class Merge>
struct Plain : Merge {
  template <class A, class C>
  FACULA_FN static A enter(C x, C, const FoldGrid&) {
    return convert<A>(x);
  }
};
using SumFold = Plain<Add>;
using ProdFold = Plain<Multiply>;
using MaxFold = Plain<Max>;
using MinFold = Plain<Min>;
using AnyFold = Plain<Or>;
using AllFold = Plain<And>;
using XorFold = Plain<Xor>;

struct NanSumFold : Add {
  template <class A, class C>
  FACULA_FN static A enter(C x, C, const FoldGrid&) {
    return x != x ? A{} : convert<A>(x);
  }
};
struct CountFold : Add {
  template <class A, class C>
  FACULA_FN static A enter(C x, C, const FoldGrid&) {
    return A(convert<bool>(x));
  }
};
template <class A, class C>
FACULA_FN A magnitude(C x) {
  return kernels::abs(x);
}
template <class Merge>
struct MagnitudeFold : Merge {
  template <class A, class C>
  FACULA_FN static A enter(C x, C, const FoldGrid&) {
    return magnitude<A>(x);
  }
};
using AbsSumFold = MagnitudeFold<Add>;
using AbsMaxFold = MagnitudeFold<Max>;
using AbsMinFold = MagnitudeFold<Min>;
struct SquareSumFold : Add {
  template <class A, class C>
  FACULA_FN static A enter(C x, C, const FoldGrid&) {
    if constexpr (is_complex_type<C>) return x.re * x.re + x.im * x.im;
    else return x * x;
  }
};
struct PowerSumFold : Add {
  template <class A, class C>
  FACULA_FN static A enter(C x, C, const FoldGrid& g) {
    return kernels::pow(magnitude<A>(x), A(g.power));
  }
};
struct CenteredSquaresFold : Add {
  template <class A, class C>
  FACULA_FN static A enter(C x, C center, const FoldGrid&) {
    const C d = x - center;
    if constexpr (is_complex_type<C>) return convert<A>(d.re * d.re + d.im * d.im);
    else return d * d;
  }
};

template <class A>
FACULA_FN A finished(A value, const FoldGrid& g) {
  if constexpr (is_complex_type<A>) {
    using R = decltype(A::re);
    return {value.re / R(g.divisor), value.im / R(g.divisor)};
  } else if constexpr (is_floating_type<A>) {
    if (g.divisor != 1) value /= A(g.divisor);
    if (g.finish == kFinishSqrt) value = kernels::sqrt(value);
    if (g.finish == kFinishPower) value = A(kernels::pow(double(value), 1 / g.power));
  }
  return value;
}

template <class Fold, class M, class C, class A, int kWarps>
__global__ __launch_bounds__(256) void fold(FoldGrid g) {
  FACULA_SHARED(A, room, kMostWarps);
  const Int64 parts = (g.count + g.part - 1) / g.part, all = g.results * (parts ? parts : 1);
  for_groups<kWarps>(all, [&](Int64 at, int member) {
    A total = Fold::template identity<A>();
    if (at < all) {
      const Int64 result = at % g.results, from = at / g.results * g.part,
                  to = from + g.part < g.count ? from + g.part : g.count;
      const M* base = static_cast<const M*>(g.in) + offset_of(g.kept, result);
      const C center = g.center ? static_cast<const C*>(g.center)[result] : C{};
      for (Int64 i = from + member; i < to; i += group_threads(kWarps))
        total = Fold::merge(total, Fold::template enter<A>(convert<C>(base[offset_of(g.reduced, i)]), center, g));
    }
    total = fold_group<Fold, kWarps>(total, room);
    if (at < all && member == 0) static_cast<A*>(g.out)[at] = parts > 1 ? total : finished(total, g);
  });
}

}  // namespace facula::cuda

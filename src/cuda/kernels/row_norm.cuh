// Normalisations of rows: a group of threads for each.
#pragma once

#include "lines.cuh"
#include "row_norm_args.h"
#include "statistics.cuh"

namespace facula::cuda {

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

}  // namespace facula::cuda

// Distributions of which every element needs as many numbers as it happens to need: each element has a subsequence of
// its own, so that results do not depend on the number of threads.
#pragma once

#include "philox.cuh"
#include "report.cuh"
#include "special_gamma.h"

namespace facula::cuda {

/// Numbers one after the other, in double precision.
class Source {
 public:
  FACULA_FN Source(const PhiloxStart& start, Int64 element) : philox_(start, UInt64(element)) {}
  /// In (0, 1].
  FACULA_RARE double unit() {
    if (left_ == 0) units_of(philox_.next(), units_), left_ = 2;
    return units_.at[--left_];
  }
  FACULA_RARE double normal() {
    if (normals_left_ == 0) normals_of(philox_.next(), normals_), normals_left_ = 2;
    return normals_.at[--normals_left_];
  }

 private:
  Philox philox_;
  Draws<double> units_, normals_;
  int left_ = 0, normals_left_ = 0;
};

/// Small rates: as many factors of a uniform product as stay above exp(-rate). From 10 on: transformed rejection
/// (Hoermann 1993).
FACULA_RARE double draw_poisson(double rate, Source& source) {
  if (!(rate > 0)) return rate == 0 ? 0 : kernels::Float<double>::nan;
  if (rate < 10) {
    const double limit = FACULA_LIBM(exp)(-rate);
    double product = source.unit(), count = 0;
    for (; product > limit; product *= source.unit()) ++count;
    return count;
  }
  const double root = kernels::sqrt(rate), log_rate = FACULA_LIBM(log)(rate);
  const double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), quick = 0.9277 - 3.6224 / (b - 2);
  while (true) {
    const double u = source.unit() - 0.5, v = source.unit(), near = 0.5 - kernels::abs(u);
    const double k = kernels::floor((2 * a / near + b) * u + rate + 0.43);
    if (near >= 0.07 && v <= quick) return k;
    if (k < 0 || (near < 0.013 && v > near)) continue;
    const double bound = k * log_rate - rate - kernels::lgamma(k + 1);
    if (FACULA_LIBM(log)(v * inverse_alpha / (a / (near * near) + b)) <= bound) return k;
  }
}

/// Marsaglia and Tsang (2000): a cube of a normal value, kept or rejected; a shape below 1 is that of shape + 1 times a
/// power of a uniform value.
FACULA_RARE double draw_gamma(double shape, Source& source) {
  if (!(shape >= 0) || kernels::isinf(shape)) return shape < 0 ? kernels::Float<double>::nan : shape;
  if (shape == 0) return 0;
  double scale = 1;
  if (shape < 1) {
    scale = FACULA_LIBM(pow)(source.unit(), 1 / shape);
    shape += 1;
  }
  const double d = shape - 1.0 / 3, c = 1 / kernels::sqrt(9 * d);
  while (true) {
    const double x = source.normal(), root = 1 + c * x;
    if (root <= 0) continue;
    const double cube = root * root * root, u = source.unit(), square = x * x;
    if (u < 1 - 0.0331 * square * square ||
        FACULA_LIBM(log)(u) < 0.5 * square + d * (1 - cube + FACULA_LIBM(log)(cube)))
      return scale * d * cube;
  }
}

/// The part of Stirling's approximation of log k! that is left.
FACULA_RARE double stirling_tail(double k) {
  if (k <= 9) return kernels::lgamma(k + 1) - ((k + 0.5) * FACULA_LIBM(log)(k + 1) - (k + 1) + 0.91893853320467274178);
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

/// Few expected successes: geometric gaps between them.
FACULA_RARE double binomial_by_gaps(double count, double p, Source& source) {
  const double log_failure = FACULA_LIBM(log1p)(-p);
  for (double reached = 0, successes = 0;; ++successes) {
    const double gap = kernels::ceil(FACULA_LIBM(log)(source.unit()) / log_failure);
    reached += gap < 1 ? 1 : gap;
    if (reached > count) return successes;
  }
}

/// Many: transformed rejection with squeeze (Hoermann 1993).
FACULA_RARE double binomial_by_rejection(double count, double p, Source& source) {
  const double spread = kernels::sqrt(count * p * (1 - p)), b = 1.15 + 2.53 * spread,
               a = -0.0873 + 0.0248 * b + 0.01 * p, c = count * p + 0.5, quick = 0.92 - 4.2 / b, odds = p / (1 - p),
               alpha = (2.83 + 5.1 / b) * spread, mode = kernels::floor((count + 1) * p);
  while (true) {
    const double u = source.unit() - 0.5, v = source.unit(), near = 0.5 - kernels::abs(u);
    const double k = kernels::floor((2 * a / near + b) * u + c);
    if (near >= 0.07 && v <= quick) return k;
    if (k < 0 || k > count) continue;
    const double bound = (mode + 0.5) * FACULA_LIBM(log)((mode + 1) / (odds * (count - mode + 1))) +
                         (count + 1) * FACULA_LIBM(log)((count - mode + 1) / (count - k + 1)) +
                         (k + 0.5) * FACULA_LIBM(log)(odds * (count - k + 1) / (k + 1)) + stirling_tail(mode) +
                         stirling_tail(count - mode) - stirling_tail(k) - stirling_tail(count - k);
    if (FACULA_LIBM(log)(v * alpha / (a / (near * near) + b)) <= bound) return k;
  }
}

FACULA_RARE double draw_binomial(double count, double p, Source& source) {
  if (count <= 0 || p <= 0) return 0;
  if (p != p) return p;
  if (p >= 1 || !kernels::isfinite(count)) return count;
  const double smaller = p <= 0.5 ? p : 1 - p;
  const double found =
      count * smaller >= 10 ? binomial_by_rejection(count, smaller, source) : binomial_by_gaps(count, smaller, source);
  return p <= 0.5 ? found : count - found;
}

/// Rounded; never below the smallest normal number, so that logarithms exist.
template <class T>
FACULA_FN double at_least_normal(double value) {
  const double least = is_same_type<T, Float16> ? 0x1p-14 : is_same_type<T, double> ? 0x1p-1022 : 0x1p-126;
  return value < least ? least : value;
}

template <class T>
__global__ __launch_bounds__(256) void random_poisson(void* out, const void* rates, Int64 count, PhiloxStart start,
                                                      Reporter reporter) {
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    Source source(start, i);
    const double rate = convert<double>(static_cast<const T*>(rates)[i]);
    if (!(rate >= 0)) report_value(reporter, rate);
    static_cast<T*>(out)[i] = convert<T>(draw_poisson(rate, source));
  }
}

/// `Out` is T or double, for what is computed on with.
template <class T, class Out>
__global__ __launch_bounds__(256) void random_gamma(void* out, const void* shapes, Int64 count, PhiloxStart start) {
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    Source source(start, i);
    const double drawn = draw_gamma(convert<double>(static_cast<const T*>(shapes)[i]), source);
    static_cast<Out*>(out)[i] = convert<Out>(at_least_normal<Out>(drawn));
  }
}

/// Gamma values by their sum; kept off 1 as well. A thread for each row.
template <class T>
__global__ __launch_bounds__(256) void dirichlet_rows(void* out, const double* draws, Int64 rows, Int64 size) {
  const double below_one = sizeof(T) == 8 ? 1 - 0x1p-53 : 1 - 0x1p-24;
  for (Int64 row = thread_number(); row < rows; row += thread_count()) {
    double sum = 0;
    for (Int64 j = 0; j < size; ++j) sum += draws[row * size + j];
    for (Int64 j = 0; j < size; ++j) {
      const double share = at_least_normal<T>(draws[row * size + j] / sum);
      static_cast<T*>(out)[row * size + j] = convert<T>(share > below_one ? below_one : share);
    }
  }
}

template <class T>
__global__ __launch_bounds__(256) void random_binomial(void* out, const void* counts, const void* probabilities,
                                                       Int64 count, PhiloxStart start) {
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    Source source(start, i);
    static_cast<T*>(out)[i] =
        convert<T>(draw_binomial(convert<double>(static_cast<const T*>(counts)[i]),
                                 convert<double>(static_cast<const T*>(probabilities)[i]), source));
  }
}

}  // namespace facula::cuda

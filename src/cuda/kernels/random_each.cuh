// Distributions of which every element needs as many numbers as it happens to need: elements (of the binomial
// distribution columns of eight) have subsequences of their own. Formulas, their precision and the order in which
// numbers are drawn give the values of PyTorch's kernels; only Poisson's distribution of rates from 64 to 4000 is drawn
// in another way.
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

 private:
  Philox philox_;
  Draws<double> units_;
  int left_ = 0;
};

template <class F>
FACULA_FN F log_of(F x) {
  if constexpr (sizeof(F) == 8) return FACULA_LIBM(log)(x);
  else return FACULA_LIBM(logf)(x);
}
template <class F>
FACULA_FN F power_of(F x, F exponent) {
  if constexpr (sizeof(F) == 8) return FACULA_LIBM(pow)(x, exponent);
  else return FACULA_LIBM(powf)(x, exponent);
}
template <class F>
FACULA_FN F log1p_of(F x) {
  if constexpr (sizeof(F) == 8) return FACULA_LIBM(log1p)(x);
  else return FACULA_LIBM(log1pf)(x);
}

/// How many factors of a uniform product bring exp(rate) down to 1, but for the last (Knuth).
FACULA_RARE double poisson_by_products(float rate, WordSource source) {
  int count = 0;
  for (float product = FACULA_LIBM(expf)(rate) * source.unit(); product > 1.0f; product *= source.unit()) ++count;
  return count;
}

/// Transformed rejection (Hoermann 1993).
FACULA_RARE double poisson_by_rejection(double rate, Source source) {
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

FACULA_FN double draw_poisson(double rate, const PhiloxStart& start, Int64 element) {
  if (!(rate >= 0)) return kernels::Float<double>::nan;
  if (rate < 64) return poisson_by_products(float(rate), WordSource(start, UInt64(element)));
  if (rate <= 4000) return poisson_by_rejection(rate, Source(start, element));
  Draws<double> normals;
  normals_of(Philox(start, UInt64(element)).next(), normals);
  return kernels::floor(kernels::fma(kernels::sqrt(rate), normals.at[0], rate) + 0.5);
}

/// Marsaglia and Tsang (2000): a cube of a normal value, accepted or rejected; a shape below 1 is that of shape + 1
/// times a power of a uniform value. The constants are of single precision.
template <class T, class F>
FACULA_RARE F draw_gamma(F shape, WordSource source) {
  if (!(shape >= 0) || kernels::isinf(shape)) return shape < 0 ? kernels::Float<F>::nan : shape;
  if (shape == 0) return 0;
  F scale = 1;
  if (shape < 1) {
    scale = power_of(F(1) - F(source.unit()), F(1) / shape);
    shape = convert<F>(convert<T>(shape + F(1)));
  }
  const F d = shape - F(1.0f / 3.0f), c = F(1) / kernels::sqrt(F(9) * d);
  while (true) {
    const F x = source.normal(), root = F(1) + c * x;
    if (root <= 0) continue;
    const F cube = root * root * root, u = F(1) - F(source.unit()), square = x * x;
    if (u < F(1) - F(0.0331f) * square * square || log_of(u) < F(0.5) * square + d * (F(1) - cube + log_of(cube)))
      return scale * d * cube;
  }
}

/// 24 bits of a word, in [0, 1).
FACULA_FN float low_bits_of(UInt32 word) { return float(word & 0xffffffu) * 0x1p-24f; }

/// The part of Stirling's approximation of log k! that is left.
template <class F>
FACULA_RARE F stirling_tail(F whole) {
  const double k = whole;
  if (k <= 9)
    return F(kernels::lgamma(k + 1) - ((k + 0.5) * FACULA_LIBM(log)(k + 1) - (k + 1) + 0.91893853320467274178));
  const double square = (whole + 1) * (whole + 1);
  return F((1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1));
}

/// Few expected successes: geometric gaps between them.
template <class F>
FACULA_RARE F binomial_by_gaps(F count, F p, WordSource& source) {
  const F log_failure = log1p_of(-p);
  F reached = 0, successes = 0;
  while (true) {
    reached += kernels::ceil(log_of(F(low_bits_of(source.word()))) / log_failure);
    if (!(reached <= count)) return successes;
    successes += 1;
  }
}

/// Many: transformed rejection with squeeze (Hoermann 1993), whose constants are of double precision.
template <class F>
FACULA_RARE F binomial_by_rejection(F count, F p, WordSource& source) {
  const F spread = kernels::sqrt(count * p * (F(1) - p)), b = F(1.15 + 2.53 * spread),
          a = F(-0.0873 + 0.0248 * b + 0.01 * p), c = F(count * p + 0.5), quick = F(0.92 - 4.2 / b),
          odds = p / (F(1) - p), alpha = F((2.83 + 5.1 / b) * spread), mode = kernels::floor((count + 1) * p);
  while (true) {
    const F u = F(low_bits_of(source.word()) - 0.5), v = low_bits_of(source.word());
    const F near = F(0.5 - kernels::abs(u)), k = kernels::floor((2 * a / near + b) * u + c);
    if (k < 0 || k > count) continue;
    if (near >= 0.07 && v <= quick) return k;
    const F bound = F((mode + 0.5) * log_of((mode + 1) / (odds * (count - mode + 1))) +
                      (count + 1) * log_of((count - mode + 1) / (count - k + 1)) +
                      (k + 0.5) * log_of(odds * (count - k + 1) / (k + 1)) + stirling_tail(mode) +
                      stirling_tail(count - mode) - stirling_tail(k) - stirling_tail(count - k));
    if (log_of(v * alpha / (a / (near * near) + b)) <= bound) return k;
  }
}

template <class T, class F>
FACULA_FN F draw_binomial(F count, F p, WordSource& source) {
  if (count <= 0 || p <= 0) return 0;
  if (p != p) return p;
  if (p >= 1 || !kernels::isfinite(count)) return count;
  const F rest = convert<F>(convert<T>(1.0 - p)), smaller = p <= F(0.5) ? p : rest;
  const F found = count * smaller >= F(10) ? binomial_by_rejection(count, smaller, source)
                                           : binomial_by_gaps(count, smaller, source);
  return p <= F(0.5) ? found : count - found;
}

/// Rounded; never below the smallest normal number, so that logarithms exist.
template <class T, class F>
FACULA_FN F at_least_normal(F value) {
  const F least = is_same_type<T, Float16> ? F(0x1p-14) : is_same_type<T, double> ? F(0x1p-1022) : F(0x1p-126);
  return value < least ? least : value;
}

template <class T>
__global__ __launch_bounds__(256) void random_poisson(void* out, const void* rates, Int64 count, PhiloxStart start,
                                                      Reporter reporter) {
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    const double rate = convert<double>(static_cast<const T*>(rates)[i]);
    if (!(rate >= 0)) report_value(reporter, rate);
    static_cast<T*>(out)[i] = convert<T>(draw_poisson(rate, start, i));
  }
}

template <class T>
__global__ __launch_bounds__(256) void random_gamma(void* out, const void* shapes, Int64 count, PhiloxStart start) {
  using F = Compute<T>;
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    const F shape = convert<F>(static_cast<const T*>(shapes)[i]);
    const F drawn = draw_gamma<T>(shape, WordSource(start, UInt64(i)));
    static_cast<T*>(out)[i] = convert<T>(at_least_normal<T>(convert<F>(convert<T>(drawn))));
  }
}

/// Gamma values by their sum, and below 1 as well. A thread for each row.
template <class T>
__global__ __launch_bounds__(256) void dirichlet_rows(void* out, Int64 rows, Int64 size) {
  using F = Compute<T>;
  const F below_one = F(1) - (is_same_type<T, Float16>    ? F(0x1p-10)
                              : is_same_type<T, BFloat16> ? F(0x1p-7)
                                                          : kernels::Float<F>::epsilon);
  for (Int64 row = thread_number(); row < rows; row += thread_count()) {
    T* own = static_cast<T*>(out) + row * size;
    double sum = 0;
    for (Int64 j = 0; j < size; ++j) sum += convert<double>(own[j]);
    const F whole = convert<F>(convert<T>(sum));
    for (Int64 j = 0; j < size; ++j) {
      const F share = at_least_normal<T>(convert<F>(convert<T>(convert<F>(own[j]) / whole)));
      own[j] = convert<T>(share > below_one ? below_one : share);
    }
  }
}

/// A thread of a block of 128 draws for eight elements, as many apart, one after the other.
template <class T>
__global__ __launch_bounds__(128) void random_binomial(void* out, const void* counts, const void* probabilities,
                                                       Int64 count, PhiloxStart start) {
  using F = Compute<T>;
  for (Int64 block = blockIdx.x; block * 1024 < count; block += gridDim.x) {
    WordSource source(start, UInt64(block * 128 + threadIdx.x));
    for (Int64 i = block * 1024 + threadIdx.x; i < count && i < (block + 1) * 1024; i += 128)
      static_cast<T*>(out)[i] = convert<T>(draw_binomial<T>(
          convert<F>(static_cast<const T*>(counts)[i]), convert<F>(static_cast<const T*>(probabilities)[i]), source));
  }
}

}  // namespace facula::cuda

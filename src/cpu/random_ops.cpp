// The random ops on the CPU: dtype switches over the fills of random.h, and the discrete distributions drawn
// one by one.
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "cpu/backend.h"
#include "cpu/random.h"
#include "cpu/serial.h"
#include "ops/random.h"

namespace facula::cpu {
namespace {

template <class T>
constexpr bool is_real_float = std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <class T>
constexpr bool is_wide_complex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

[[noreturn]] void refuse(const RandomFill& fill, DType dtype) {
  throw_refusal(ErrorKind::NotImplemented, fill.op, ": not implemented for this dtype, got ", dtype);
}

// Distributions of real numbers; complex elements are filled as pairs of reals.
template <class T>
bool fill_real(T* out, int64_t n, const RandomFill& f, Mt19937& g) {
  switch (f.distribution) {
    case Distribution::Uniform: fill_uniform(out, n, f.a, f.b, g); return true;
    case Distribution::Normal:
      f.serial ? fill_normal_serial(out, n, f.a, f.b, g) : fill_normal(out, n, f.a, f.b, g);
      return true;
    case Distribution::Exponential: fill_exponential(out, n, f.a, g); return true;
    case Distribution::Cauchy: fill_cauchy(out, n, f.a, f.b, g); return true;
    case Distribution::LogNormal: fill_log_normal(out, n, f.a, f.b, g); return true;
    default: return false;
  }
}

template <class T>
bool fill_discrete(T* out, int64_t n, const RandomFill& f, Mt19937& g) {
  switch (f.distribution) {
    case Distribution::Range: {
      int64_t from = f.base, to = static_cast<int64_t>(static_cast<uint64_t>(f.base) + f.range);
      if constexpr (is_real_float<T>) fit_random_range<T>(from, to);
      if (is_real_float<T> && from >= to)
        throw_refusal(ErrorKind::Runtime, f.op, ": no value of the dtype lies between the ends, got ", from, " and ",
                      to);
      fill_random_range(out, n, static_cast<uint64_t>(to) - static_cast<uint64_t>(from), from, g);
      return true;
    }
    case Distribution::DefaultRange: fill_random_default(out, n, g); return true;
    case Distribution::Bernoulli: fill_bernoulli(out, n, f.a, g); return true;
    case Distribution::Geometric: fill_geometric(out, n, f.a, g); return true;
    case Distribution::FullRange:
      if constexpr ((is_real_float<T> && !std::is_same_v<T, Half>) || std::is_same_v<T, int64_t> ||
                    std::is_same_v<T, uint64_t>) {
        fill_random_full(out, n, g);
        return true;
      }
      return false;
    case Distribution::Permutation:
      if constexpr (!std::is_same_v<T, bool>) {
        fill_permutation(out, n, g);
        return true;
      }
      return false;
    default: return false;
  }
}

void random_fill_cpu(const Tensor& out, const RandomFill& f, Generator& generator) {
  Mt19937& g = mt19937(generator);
  int64_t n = out.numel();
  bool done = visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (is_wide_complex<T>) {
      if (f.distribution == Distribution::Normal && !f.serial) {
        using Real = typename T::value_type;
        fill_normal(reinterpret_cast<Real*>(out.data<T>()), 2 * n, f.a, f.b, g);
        return true;
      }
      return fill_real(reinterpret_cast<typename T::value_type*>(out.data<T>()), 2 * n, f, g);
    } else if constexpr (is_real_float<T>) {
      return fill_real(out.data<T>(), n, f, g) || fill_discrete(out.data<T>(), n, f, g);
    } else if constexpr (std::is_integral_v<T>) {
      return fill_discrete(out.data<T>(), n, f, g);
    } else {
      return false;
    }
  });
  if (!done) refuse(f, out.dtype());
}

void bernoulli_cpu(const Tensor& out, const Tensor& p, Generator& generator) {
  Mt19937& g = mt19937(generator);
  bool done = visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (is_real_float<T> || std::is_integral_v<T>) {
      if (p.dtype() == DType::Float64) fill_bernoulli_each(out.data<T>(), p.data<double>(), out.numel(), g);
      else fill_bernoulli_each(out.data<T>(), p.data<float>(), out.numel(), g);
      return true;
    } else {
      return false;
    }
  });
  if (!done) throw_refusal(ErrorKind::NotImplemented, "bernoulli_: not implemented for this dtype, got ", out.dtype());
}

// [0, 1) in steps of 2^-53.
double unit(Mt19937& g) { return static_cast<double>(g.random64() & ((uint64_t{1} << 53) - 1)) * 0x1p-53; }

// Small rates: as many factors of a uniform product as stay above exp(-rate). From 10 on: transformed
// rejection (Hoermann 1993).
// Counts are doubles: those of large rates fit no integer.
double draw_poisson(double rate, Mt19937& g) {
  if (rate == 0 || std::isinf(rate)) return rate;
  if (rate < 10) {
    double limit = std::exp(-rate), product = unit(g);
    int64_t count = 0;
    for (; product > limit; product *= unit(g)) ++count;
    return static_cast<double>(count);
  }
  double root = std::sqrt(rate), log_rate = std::log(rate);
  double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), quick = 0.9277 - 3.6224 / (b - 2);
  while (true) {
    double u = unit(g) - 0.5, v = unit(g), near = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / near + b) * u + rate + 0.43);
    if (near >= 0.07 && v <= quick) return k;
    if (k < 0 || (near < 0.013 && v > near)) continue;
    double bound = -rate + k * log_rate - std::lgamma(k + 1);
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (near * near) + b) <= bound) return k;
  }
}

void poisson_cpu(const Tensor& out, const Tensor& rate, Generator& generator) {
  Mt19937& g = mt19937(generator);
  bool done = visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (is_real_float<T>) {
      one_by_one(out.numel(), kOneDraw, [&](int64_t i) {
        double r = static_cast<double>(rate.data<T>()[i]);
        FACULA_CHECK(r >= 0, ErrorKind::Runtime, "poisson: rates must not be negative, got ", r);
        out.data<T>()[i] = static_cast<T>(static_cast<float>(draw_poisson(r, g)));
      });
      return true;
    } else {
      return false;
    }
  });
  FACULA_CHECK(done, ErrorKind::NotImplemented, "poisson: expected a floating dtype, got ", out.dtype());
}

// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000): a cube of a normal value, kept or
// rejected; a shape below 1 is that of shape + 1 times a power of a uniform value. PyTorch's bits need its roundings:
// the constants' and the shape's.
template <class C>
double draw_gamma(C shape, Mt19937& g) {
  if (!(shape >= 0) || std::isinf(shape)) return shape < 0 ? std::nan("") : static_cast<double>(shape);
  if (shape == 0) return 0;
  double scale = 1;
  if (shape < 1) {
    scale = std::pow(1 - unit(g), static_cast<double>(1 / shape));
    shape += 1;
  }
  const double d = static_cast<double>(shape - static_cast<C>(1.0f / 3.0f)), c = 1 / std::sqrt(9 * d);
  while (true) {
    double x = 0, root = 0;
    do {
      x = detail::next_normal(g);
      root = 1 + c * x;
    } while (root <= 0);
    const double cube = root * root * root, u = 1 - unit(g), square = x * x;
    if (u < 1 - 0.0331f * square * square) return scale * d * cube;
    if (std::log(u) < 0.5 * square + d * (1 - cube + std::log(cube))) return scale * d * cube;
  }
}

// Rounded; never below the smallest normal number, so that logarithms exist.
template <class T>
T positive_element(double value) {
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const double least = std::is_same_v<T, Half> ? 0x1p-14 : static_cast<double>(std::numeric_limits<C>::min());
  return static_cast<T>(static_cast<C>(value < least ? least : value));
}

void gamma_cpu(const Tensor& out, const Tensor& shapes, Generator& generator) {
  Mt19937& g = mt19937(generator);
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (is_real_float<T>) {
      using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
      one_by_one(out.numel(), kOneDraw, [&](int64_t i) {
        out.data<T>()[i] = positive_element<T>(draw_gamma(static_cast<C>(shapes.data<T>()[i]), g));
      });
    }
  });
}

// Gamma values by their sum; below 1 as well.
void dirichlet_cpu(const Tensor& out, const Tensor& concentration, Generator& generator) {
  Mt19937& g = mt19937(generator);
  const int64_t size = out.size(-1), rows = out.numel() / std::max<int64_t>(size, 1);
  std::vector<double> draws(static_cast<size_t>(out.numel()));
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (is_real_float<T>) {
      using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
      const C below_one = std::nextafter(C(1), C(0));
      const T* shapes = concentration.data<T>();
      constexpr double least = std::numeric_limits<double>::min();  // the sum of a row is not 0
      one_by_one(out.numel(), kOneDraw, [&](int64_t i) {
        draws[static_cast<size_t>(i)] = std::max(draw_gamma(static_cast<double>(shapes[i]), g), least);
      });
      for (int64_t row = 0; row < rows; ++row) {
        const double* values = draws.data() + row * size;
        const double sum = std::accumulate(values, values + size, 0.0);
        for (int64_t j = 0; j < size; ++j) {
          const T found = positive_element<T>(values[j] / sum);
          out.data<T>()[row * size + j] = static_cast<C>(found) > below_one ? static_cast<T>(below_one) : found;
        }
      }
    }
  });
}

// The part of Stirling's approximation of log k! that is left: exact for the first ten.
template <class C>
C stirling_tail(C k) {
  static const double first[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
                                 0.0166446911898211,  0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
                                 0.00925546218271273, 0.00833056343336287};
  if (k <= 9) return static_cast<C>(first[static_cast<size_t>(k)]);
  C square = (k + 1) * (k + 1);
  return static_cast<C>((1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1));
}

// Few expected successes: geometric gaps between them.
template <class C>
C binomial_by_gaps(C count, C p, Mt19937& g) {
  C reached = 0, successes = 0, log_failure = std::log1p(-p);
  while (true) {
    reached += std::ceil(static_cast<C>(std::log(static_cast<C>(unit(g)))) / log_failure);
    if (reached > count) return successes;
    ++successes;
  }
}

// Many: transformed rejection with squeeze (Hoermann 1993).
template <class C>
C binomial_by_rejection(C count, C p, Mt19937& g) {
  C spread = std::sqrt(count * p * (1 - p));
  C b = static_cast<C>(1.15 + 2.53 * spread), a = static_cast<C>(-0.0873 + 0.0248 * b + 0.01 * p),
    c = static_cast<C>(count * p + 0.5);
  C quick = static_cast<C>(0.92 - 4.2 / b), odds = p / (1 - p), alpha = static_cast<C>((2.83 + 5.1 / b) * spread),
    mode = std::floor((count + 1) * p);
  while (true) {
    C u = static_cast<C>(unit(g) - 0.5), v = static_cast<C>(unit(g)), near = static_cast<C>(0.5 - std::fabs(u));
    C k = std::floor((2 * a / near + b) * u + c);
    if (near >= static_cast<C>(0.07) && v <= quick) return k;
    if (k < 0 || k > count) continue;
    C bound = (mode + static_cast<C>(0.5)) * std::log((mode + 1) / (odds * (count - mode + 1))) +
              (count + 1) * std::log((count - mode + 1) / (count - k + 1)) +
              (k + static_cast<C>(0.5)) * std::log(odds * (count - k + 1) / (k + 1)) + stirling_tail(mode) +
              stirling_tail(count - mode) - stirling_tail(k) - stirling_tail(count - k);
    if (std::log(v * alpha / (a / (near * near) + b)) <= bound) return k;
  }
}

template <class C>
C draw_binomial(C count, C p, Mt19937& g) {
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  if (p != p) return p;
  if (!std::isfinite(count)) return count;  // the loops below would not end
  C smaller = p <= static_cast<C>(0.5) ? p : 1 - p;
  C found = count * smaller >= 10 ? binomial_by_rejection(count, smaller, g) : binomial_by_gaps(count, smaller, g);
  return p <= static_cast<C>(0.5) ? found : count - found;
}

void binomial_cpu(const Tensor& out, const Tensor& count, const Tensor& probability, Generator& generator) {
  Mt19937& g = mt19937(generator);
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (is_real_float<T>) {
      using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
      one_by_one(out.numel(), kOneDraw, [&](int64_t i) {
        out.data<T>()[i] = static_cast<T>(
            draw_binomial(static_cast<C>(count.data<T>()[i]), static_cast<C>(probability.data<T>()[i]), g));
      });
    }
  });
}

// low + u * (high - low), each step rounded: the volatile keeps the compiler from fusing the two.
double between(double low, double high, Mt19937& g) {
  volatile double scaled = unit(g) * (high - low);
  return scaled + low;
}

void rrelu_cpu(const Tensor& out, const Tensor& values, double lower, double upper, Generator& generator) {
  Mt19937& g = mt19937(generator);
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (is_real_float<T>) {
      using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
      // the ends are numbers of the dtype
      const auto low = static_cast<double>(static_cast<T>(static_cast<C>(lower)));
      const auto high = static_cast<double>(static_cast<T>(static_cast<C>(upper)));
      one_by_one(out.numel(), kOneDraw, [&](int64_t i) {
        bool positive = static_cast<double>(values.data<T>()[i]) > 0;
        out.data<T>()[i] = static_cast<T>(static_cast<C>(positive ? 1.0 : between(low, high, g)));
      });
    }
  });
}

void multinomial_cpu(const Tensor& out, const Tensor& weights, bool replacement, Generator& generator) {
  Mt19937& g = mt19937(generator);
  visit_dtype(weights.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (is_real_float<T>)
      fill_multinomial(out.data<int64_t>(), weights.data<T>(), weights.size(0), weights.size(1), out.size(1),
                       replacement, g);
  });
}

}  // namespace

void register_random_ops() {
  random_fill_kernel.set(DeviceType::CPU, random_fill_cpu);
  bernoulli_kernel.set(DeviceType::CPU, bernoulli_cpu);
  poisson_kernel.set(DeviceType::CPU, poisson_cpu);
  gamma_kernel.set(DeviceType::CPU, gamma_cpu);
  dirichlet_kernel.set(DeviceType::CPU, dirichlet_cpu);
  binomial_kernel.set(DeviceType::CPU, binomial_cpu);
  rrelu_kernel.set(DeviceType::CPU, rrelu_cpu);
  multinomial_kernel.set(DeviceType::CPU, multinomial_cpu);
}

}  // namespace facula::cpu

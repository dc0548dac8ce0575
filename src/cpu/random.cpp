#include "cpu/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "core/half.h"
#include "cpu/serial.h"

namespace facula::cpu {
namespace {

constexpr int64_t kChunk = 512;  // draws at a time, on the stack
constexpr double kPi = std::numbers::pi;

template <class T>
constexpr bool is_floating = std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <class T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Bits of the significand: integers up to 2^digits are exact.
template <class T>
constexpr int digits = std::is_same_v<T, double>     ? 53
                       : std::is_same_v<T, float>    ? 24
                       : std::is_same_v<T, Half>     ? 11
                       : std::is_same_v<T, BFloat16> ? 8
                                                     : std::numeric_limits<T>::digits;

// A real number as an element; integers wrap around.
template <class T>
T element(double value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else if constexpr (is_floating<T>) {
    return static_cast<T>(static_cast<float>(value));
  } else {
    return static_cast<T>(static_cast<int64_t>(value));
  }
}

template <class T>
T element_of_integer(int64_t value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<T>(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

// 0 or 1, without a branch that nothing could predict.
template <class T>
T element_of_bit(uint64_t bit) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<T>(static_cast<float>(static_cast<int32_t>(bit)));
  } else {
    return static_cast<T>(static_cast<int32_t>(bit));
  }
}

constexpr uint64_t kLow53 = (uint64_t{1} << 53) - 1;

// A draw as a number in [0, 1).
float unit(uint32_t draw) { return static_cast<float>(static_cast<int32_t>(draw & 0xffffff)) * 0x1p-24f; }
// The two halves go into the significand of 2^52, because few processors convert 64-bit integers in vectors.
double unit(uint64_t draw) {
  constexpr uint64_t kBits = 0x4330000000000000;
  const double high = std::bit_cast<double>(kBits | ((draw & kLow53) >> 32)) - 0x1p52;
  const double low = std::bit_cast<double>(kBits | (draw & 0xffffffff)) - 0x1p52;
  return high * 0x1p-21 + low * 0x1p-53;
}

void draw(uint32_t* out, int64_t count, Mt19937& generator) { generator.fill32(out, static_cast<size_t>(count)); }
void draw(uint64_t* out, int64_t count, Mt19937& generator) { generator.fill64(out, static_cast<size_t>(count)); }

// Calls f(begin, length) for chunks of a loop that can be stopped.
template <class F>
void in_chunks(int64_t count, F&& f) {
  sliced_for(0, count, kGrain, [&](int64_t from, int64_t to) {
    for (int64_t done = from; done < to; done += kChunk) f(done, std::min(kChunk, to - done));
  });
}

// out[i] = make(draw i), for `count` draws of type Draw.
template <class Draw, class T, class Make>
void fill(T* out, int64_t count, Mt19937& generator, Make make) {
  Draw draws[kChunk];
  in_chunks(count, [&](int64_t done, int64_t part) {
    draw(draws, part, generator);
    for (int64_t i = 0; i < part; ++i) out[done + i] = make(draws[i]);
  });
}

// out[i] = make(a number in [0, 1) of 53 bits).
template <class T, class Make>
void fill_from_units(T* out, int64_t count, Mt19937& generator, Make make) {
  fill<uint64_t>(out, count, generator, [make](uint64_t draw) { return element<T>(make(unit(draw))); });
}

template <class C>
void fill_units(C* out, int64_t count, Mt19937& generator) {
  using Draw = std::conditional_t<sizeof(C) == 8, uint64_t, uint32_t>;
  fill<Draw>(out, count, generator, [](Draw draw) { return unit(draw); });
}

// Remainders by a fixed divisor, with two multiplications instead of a division.
class Remainder {
 public:
  explicit Remainder(uint32_t divisor) : inverse_(~uint64_t{0} / divisor + 1), divisor_(divisor) {}
  uint32_t operator()(uint32_t value) const {
    return static_cast<uint32_t>((static_cast<unsigned __int128>(inverse_ * value) * divisor_) >> 64);
  }

 private:
  uint64_t inverse_;
  uint64_t divisor_;
};

}  // namespace

template <class T>
void fill_uniform(T* out, int64_t count, double from, double to, Mt19937& generator) {
  using C = Computed<T>;
  const C low = static_cast<C>(from), high = static_cast<C>(to);
  const T first = static_cast<T>(low), excluded = static_cast<T>(high);
  const bool scaled = low != 0 || high != 1;
  C values[kChunk];
  in_chunks(count, [&](int64_t done, int64_t part) {
    fill_units(values, part, generator);
    if (scaled) detail::scale_offset(values, part, high - low, low);
    for (int64_t i = 0; i < part; ++i) {
      const T value = static_cast<T>(values[i]);
      out[done + i] = value == excluded ? first : value;  // rounding may reach the end that is excluded
    }
  });
}

// The next normal value: of the pair cached in the generator, or the first of a new pair.
double detail::next_normal(Mt19937& generator) {
  if (generator.next_double_normal.has_value()) {
    const double value = *generator.next_double_normal;
    generator.next_double_normal.reset();
    return value;
  }
  const double u1 = unit(generator.random64());
  const double u2 = unit(generator.random64());
  const double radius = std::sqrt(-2.0 * std::log1p(-u2));
  const double angle = 2.0 * kPi * u1;
  generator.next_double_normal = radius * std::sin(angle);
  return radius * std::cos(angle);
}

namespace {

void normal_blocks(float* values, int64_t blocks, double mean, double std) {
  detail::normal_blocks(values, blocks, static_cast<float>(mean), static_cast<float>(std));
}

void normal_blocks(double* values, int64_t blocks, double mean, double std) {
  for (; blocks > 0; --blocks, values += 16) {
    for (int j = 0; j < 8; ++j) {
      const double radius = std::sqrt(-2.0 * std::log(1.0 - values[j]));
      const double angle = 2.0 * kPi * values[j + 8];
      values[j] = std::fma(radius * std::cos(angle), std, mean);
      values[j + 8] = std::fma(radius * std::sin(angle), std, mean);
    }
  }
}

}  // namespace

template <class T>
void fill_normal_serial(T* out, int64_t count, double mean, double std, Mt19937& generator) {
  one_by_one(count, kOneDraw,
             [&](int64_t i) { out[i] = element<T>(std::fma(detail::next_normal(generator), std, mean)); });
}

template <class T>
void fill_normal(T* out, int64_t count, double mean, double std, Mt19937& generator) {
  using C = Computed<T>;
  if (count < 16) return fill_normal_serial(out, count, mean, std, generator);
  C values[kChunk];
  const int64_t whole = count / 16 * 16;
  sliced_for(0, whole / 16, kGrain / 16, [&](int64_t from, int64_t to) {
    for (int64_t done = 16 * from; done < 16 * to; done += kChunk) {
      const int64_t part = std::min(kChunk, 16 * to - done);
      fill_units(values, part, generator);
      normal_blocks(values, part / 16, mean, std);
      for (int64_t i = 0; i < part; ++i) out[done + i] = static_cast<T>(values[i]);
    }
  });
  if (count == whole) return;
  // The last 16 elements are made again from fresh draws. Float and double have also drawn for the remainder.
  if constexpr (std::is_same_v<T, C>) fill_units(values, count - whole, generator);
  fill_units(values, 16, generator);
  normal_blocks(values, 1, mean, std);
  for (int64_t i = 0; i < 16; ++i) out[count - 16 + i] = static_cast<T>(values[i]);
}

template <class T>
void fill_complex_normal(std::complex<T>* out, int64_t count, double std, Mt19937& generator) {
  fill_normal(reinterpret_cast<T*>(out), 2 * count, 0.0, std / std::sqrt(2.0), generator);
}

template <class T>
void fill_random_range(T* out, int64_t count, uint64_t range, int64_t base, Mt19937& generator) {
  const auto shifted = [base](uint64_t value) {
    return element_of_integer<T>(static_cast<int64_t>(value + static_cast<uint64_t>(base)));
  };
  if (range < (uint64_t{1} << 28)) {
    const Remainder remainder(static_cast<uint32_t>(range));
    fill<uint32_t>(out, count, generator, [&](uint32_t draw) { return shifted(remainder(draw)); });
  } else {
    fill<uint64_t>(out, count, generator, [&](uint64_t draw) { return shifted(draw % range); });
  }
}

template <class T>
void fill_random_full(T* out, int64_t count, Mt19937& generator) {
  fill<uint64_t>(out, count, generator,
                 [](uint64_t draw) { return element_of_integer<T>(static_cast<int64_t>(draw)); });
}

template <class T>
void fill_random_default(T* out, int64_t count, Mt19937& generator) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    fill<uint64_t>(out, count, generator, [](uint64_t draw) { return draw; });
  } else {
    constexpr uint64_t kRange = (uint64_t{1} << digits<T>)+(is_floating<T> ? 1 : 0);
    using Draw = std::conditional_t<(digits<T> > 32), uint64_t, uint32_t>;
    fill<Draw>(out, count, generator,
               [](Draw draw) { return element_of_integer<T>(static_cast<int64_t>(draw % kRange)); });
  }
}

template <class T>
void fit_random_range(int64_t& from, int64_t& to) {
  if constexpr (is_floating<T> && digits<T> < 63) {
    // Integers next to a value of magnitude [2^k, 2^(k+1)) are 2^(k + 1 - digits) apart.
    const auto step = [](int64_t value) {
      const uint64_t magnitude = value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
      const int shift = static_cast<int>(std::bit_width(magnitude)) - digits<T>;
      return int64_t{1} << std::max(shift, 0);
    };
    const auto rounded = [](int64_t value) {
      return static_cast<int64_t>(static_cast<Computed<T>>(element_of_integer<T>(value)));
    };
    if (rounded(from + 1) < from) from = rounded(from + 1) + step(from + 1);
    if (rounded(to - 1) >= to) to = rounded(to - 1) - step(to - 1);
  }
}

template <class T>
void fill_bernoulli(T* out, int64_t count, double p, Mt19937& generator) {
  // unit(draw) < p as integers, which is exact, by the sign of the difference, which vectorizes.
  const auto threshold = static_cast<uint64_t>(std::ceil(std::min(p, 1.0) * 0x1p53));
  fill<uint64_t>(out, count, generator,
                 [threshold](uint64_t draw) { return element_of_bit<T>(((draw & kLow53) - threshold) >> 63); });
}

template <class T, class P>
void fill_bernoulli_each(T* out, const P* p, int64_t count, Mt19937& generator) {
  P values[kChunk];
  in_chunks(count, [&](int64_t done, int64_t part) {
    fill_units(values, part, generator);
    for (int64_t i = 0; i < part; ++i) out[done + i] = element_of_bit<T>(values[i] < p[done + i] ? 1 : 0);
  });
}

template <class T>
void fill_exponential(T* out, int64_t count, double rate, Mt19937& generator) {
  const double scale = -1.0 / rate;
  fill_from_units(out, count, generator, [scale](double u) { return scale * std::log1p(-u); });
}

template <class T>
void fill_cauchy(T* out, int64_t count, double median, double sigma, Mt19937& generator) {
  fill_from_units(out, count, generator, [=](double u) { return std::fma(sigma, std::tan(kPi * (u - 0.5)), median); });
}

template <class T>
void fill_log_normal(T* out, int64_t count, double mean, double std, Mt19937& generator) {
  one_by_one(count, kOneDraw,
             [&](int64_t i) { out[i] = element<T>(std::exp(std::fma(detail::next_normal(generator), std, mean))); });
}

template <class T>
void fill_geometric(T* out, int64_t count, double p, Mt19937& generator) {
  const double scale = std::log1p(-p);
  fill_from_units(out, count, generator, [scale](double u) { return std::ceil(std::log(u) / scale); });
}

template <class T>
void fill_permutation(T* out, int64_t count, Mt19937& generator) {
  // 32-bit draws as long as their remainders are close to uniform.
  if (count < static_cast<int64_t>(std::numeric_limits<uint32_t>::max() / 20)) {
    for (int64_t i = 0; i < count; ++i) out[i] = element_of_integer<T>(i);
    uint32_t draws[kChunk];
    in_chunks(count - 1, [&](int64_t done, int64_t part) {
      draw(draws, part, generator);
      for (int64_t i = 0; i < part; ++i) {
        T* rest = out + done + i;
        std::swap(rest[0], rest[draws[i] % static_cast<uint32_t>(count - done - i)]);
      }
    });
    return;
  }
  one_by_one(count, kOneDraw, [&](int64_t i) {
    const auto other = static_cast<int64_t>(generator.random64() % static_cast<uint64_t>(i + 1));
    out[i] = out[other];
    out[other] = element_of_integer<T>(i);
  });
}

namespace {

template <class T>
void check_weights(const T* weights, int64_t rows, int64_t categories) {
  const auto is_right = [](double weight) {
    return (weight >= 0) & (weight <= std::numeric_limits<double>::max());  // NaN is neither
  };
  for (int64_t row = 0; row < rows; ++row, weights += categories) {
    bool right = true, positive = false;
    for (int64_t i = 0; i < categories; ++i) {
      const double weight = static_cast<double>(weights[i]);
      right &= is_right(weight);
      positive |= weight > 0;
    }
    for (int64_t i = 0; i < categories && !right; ++i) {
      const double weight = static_cast<double>(weights[i]);
      FACULA_CHECK(is_right(weight), ErrorKind::Runtime, "multinomial: weights must be finite and not negative, got ",
                   weight, " at row ", row, ", category ", i);
    }
    FACULA_CHECK(positive, ErrorKind::Runtime,
                 "multinomial: the weights of a row must have a positive sum, got 0 for row ", row);
  }
}

/// The first of the shares, in order, that reaches the draw, which the last one does. Nobody can guess where a half
/// begins, so nothing branches.
template <class C>
int64_t first_that_reaches(const C* shares, int64_t count, double draw) {
  const C* at = shares;
  for (; count > 1; count -= count / 2) at += count / 2 & -int64_t{static_cast<double>(at[count / 2 - 1]) < draw};
  return at - shares;
}

// The first category whose cumulative share reaches the draw.
template <class T>
void sample_with_replacement(int64_t* out, const T* weights, int64_t categories, int64_t samples,
                             std::vector<Computed<T>>& shares, Mt19937& generator) {
  using C = Computed<T>;
  C sum = 0;
  for (int64_t i = 0; i < categories; ++i) shares[static_cast<size_t>(i)] = sum += static_cast<C>(weights[i]);
  for (C& share : shares) share /= sum;
  shares.back() = 1;
  one_by_one(samples, kOneDraw,
             [&](int64_t i) { out[i] = first_that_reaches(shares.data(), categories, unit(generator.random64())); });
}

// The categories with the largest weight / Exp(1): a race that weight wins with its share of the rest.
template <class T>
void sample_without_replacement(int64_t* out, const T* weights, int64_t categories, int64_t samples,
                                std::vector<Computed<T>>& keys, Mt19937& generator) {
  using C = Computed<T>;
  std::vector<T> waits(static_cast<size_t>(categories));
  fill_exponential(waits.data(), categories, 1.0, generator);
  for (size_t i = 0; i < waits.size(); ++i) {
    const C weight = static_cast<C>(weights[i]);
    keys[i] = weight > 0 ? static_cast<C>(static_cast<T>(weight / static_cast<C>(waits[i]))) : C{0};
  }
  std::vector<int64_t> order(waits.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::partial_sort(order.begin(), order.begin() + samples, order.end(), [&keys](int64_t a, int64_t b) {
    const C left = keys[static_cast<size_t>(a)], right = keys[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  });
  std::copy_n(order.begin(), samples, out);
}

}  // namespace

template <class T>
void fill_multinomial(int64_t* out, const T* weights, int64_t rows, int64_t categories, int64_t samples,
                      bool replacement, Mt19937& generator) {
  check_weights(weights, rows, categories);
  FACULA_CHECK(replacement || samples <= categories, ErrorKind::Runtime,
               "multinomial: without replacement there can be at most as many samples as categories, got ", samples,
               " samples of ", categories, " categories");
  std::vector<Computed<T>> scratch(static_cast<size_t>(categories));
  const auto sample = replacement && samples > 1 ? sample_with_replacement<T> : sample_without_replacement<T>;
  const int64_t grain = kGrain / std::max<int64_t>(categories + samples, 1) + 1;
  sliced_for(0, rows, grain, [&](int64_t from, int64_t to) {
    for (int64_t row = from; row < to; ++row)
      sample(out + row * samples, weights + row * categories, categories, samples, scratch, generator);
  });
}

#define FACULA_FOR_FLOATING(M) M(float) M(double) M(Half) M(BFloat16)
#define FACULA_FOR_INTEGER(M) \
  M(bool) M(uint8_t) M(int8_t) M(int16_t) M(int32_t) M(int64_t) M(uint16_t) M(uint32_t) M(uint64_t)

#define FACULA_FLOATING(T)                                                        \
  template void fill_uniform(T*, int64_t, double, double, Mt19937&);              \
  template void fill_normal(T*, int64_t, double, double, Mt19937&);               \
  template void fill_normal_serial(T*, int64_t, double, double, Mt19937&);        \
  template void fill_complex_normal(std::complex<T>*, int64_t, double, Mt19937&); \
  template void fill_exponential(T*, int64_t, double, Mt19937&);                  \
  template void fill_cauchy(T*, int64_t, double, double, Mt19937&);               \
  template void fill_log_normal(T*, int64_t, double, double, Mt19937&);           \
  template void fill_multinomial(int64_t*, const T*, int64_t, int64_t, int64_t, bool, Mt19937&);
#define FACULA_ANY(T)                                                        \
  template void fill_random_range(T*, int64_t, uint64_t, int64_t, Mt19937&); \
  template void fill_random_default(T*, int64_t, Mt19937&);                  \
  template void fit_random_range<T>(int64_t&, int64_t&);                     \
  template void fill_bernoulli(T*, int64_t, double, Mt19937&);               \
  template void fill_bernoulli_each(T*, const float*, int64_t, Mt19937&);    \
  template void fill_bernoulli_each(T*, const double*, int64_t, Mt19937&);   \
  template void fill_geometric(T*, int64_t, double, Mt19937&);               \
  template void fill_permutation(T*, int64_t, Mt19937&);

FACULA_FOR_FLOATING(FACULA_FLOATING)
FACULA_FOR_FLOATING(FACULA_ANY)
FACULA_FOR_INTEGER(FACULA_ANY)
template void fill_random_full(float*, int64_t, Mt19937&);
template void fill_random_full(double*, int64_t, Mt19937&);
template void fill_random_full(BFloat16*, int64_t, Mt19937&);
template void fill_random_full(int64_t*, int64_t, Mt19937&);
template void fill_random_full(uint64_t*, int64_t, Mt19937&);

}  // namespace facula::cpu

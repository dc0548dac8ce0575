#include "distributed/agreement.h"

#include <algorithm>
#include <complex>
#include <cstring>

namespace facula::distributed {
namespace {

template <class T>
constexpr bool kIsSmallFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <class T>
constexpr bool kIsComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

/// Integers wrap around.
template <class T, class F>
T arithmetic(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(f(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  else return f(a, b);
}

template <class T>
T reduced(T a, T b, Reduction reduction) {
  const auto sum = [](auto x, auto y) { return x + y; };
  const auto product = [](auto x, auto y) { return x * y; };
  if constexpr (kIsSmallFloat<T>) return T(reduced(static_cast<float>(a), static_cast<float>(b), reduction));
  else switch (reduction) {
      case Reduction::Product: return arithmetic(a, b, product);
      case Reduction::Min:
        if constexpr (!kIsComplex<T>) return a != a || a < b ? a : b;  // NaN stays
        break;
      case Reduction::Max:
        if constexpr (!kIsComplex<T>) return a != a || a > b ? a : b;
        break;
      case Reduction::BitAnd:
        if constexpr (std::is_integral_v<T>) return static_cast<T>(a & b);
        break;
      case Reduction::BitOr:
        if constexpr (std::is_integral_v<T>) return static_cast<T>(a | b);
        break;
      case Reduction::BitXor:
        if constexpr (std::is_integral_v<T>) return static_cast<T>(a ^ b);
        break;
      default: break;  // Avg divides afterwards, PremulSum multiplies before
    }
  return arithmetic(a, b, sum);
}

template <class T>
void reduce(const char* from, char* to, int count, Reduction reduction) {
  for (int i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, from + i * sizeof a, sizeof a);
    std::memcpy(&b, to + i * sizeof b, sizeof b);
    b = reduced(a, b, reduction);
    std::memcpy(to + i * sizeof b, &b, sizeof b);
  }
}

/// Of bytes that are 0 or 1: sums are "any", products "all".
Reduction of_bool(Reduction reduction) {
  switch (reduction) {
    case Reduction::Product:
    case Reduction::Min: return Reduction::BitAnd;
    case Reduction::BitAnd:
    case Reduction::BitXor: return reduction;
    default: return Reduction::BitOr;
  }
}

}  // namespace

void combine(const Agreement& other, Agreement& mine) {
  const bool agree = other.reached() && mine.reached() && other.least == mine.least;
  mine.least = std::min(mine.least, other.least);
  mine.greatest_inverse = std::min(mine.greatest_inverse, other.greatest_inverse);
  mine.imbalance += other.imbalance;
  if (!agree) return;
  const auto run = [&](auto zero, Reduction reduction) {
    using T = decltype(zero);
    const int most = static_cast<int>(Agreement::kBytes / sizeof(T));
    reduce<T>(other.values, mine.values, std::min<int>(mine.count, most), reduction);
  };
  switch (mine.dtype) {
    case DType::Bool: return run(uint8_t{}, of_bool(mine.reduction));
    case DType::UInt8: return run(uint8_t{}, mine.reduction);
    case DType::Int8: return run(int8_t{}, mine.reduction);
    case DType::Int16: return run(int16_t{}, mine.reduction);
    case DType::Int32: return run(int32_t{}, mine.reduction);
    case DType::Int64: return run(int64_t{}, mine.reduction);
    case DType::UInt16: return run(uint16_t{}, mine.reduction);
    case DType::UInt32: return run(uint32_t{}, mine.reduction);
    case DType::UInt64: return run(uint64_t{}, mine.reduction);
    case DType::Float16: return run(Half{}, mine.reduction);
    case DType::BFloat16: return run(BFloat16{}, mine.reduction);
    case DType::Float32: return run(float{}, mine.reduction);
    case DType::Float64: return run(double{}, mine.reduction);
    case DType::Complex64: return run(std::complex<float>{}, mine.reduction);
    case DType::Complex128: return run(std::complex<double>{}, mine.reduction);
    default: return;  // of no other dtype are values sent so
  }
}

}  // namespace facula::distributed

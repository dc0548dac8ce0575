// Conversions between dtypes. Common pairs are direct; rare types go through a hub (float32 or complex64).
#include "cpu/isa/cast.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>

#include "core/copy_bytes.h"
#include "cpu/isa/by_size.h"
#include "cpu/isa/float_lanes.h"
#include "cpu/loops.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class To, class From>
inline To convert(From value) {
  constexpr bool to_complex = requires(To t) { t.real(); };
  constexpr bool from_complex = requires(From f) { f.real(); };
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, bool>) {
    if constexpr (from_complex) return value.real() != 0 || value.imag() != 0;
    else return value != From(0);
  } else if constexpr (to_complex && from_complex) {
    using R = typename To::value_type;
    return To(static_cast<R>(value.real()), static_cast<R>(value.imag()));
  } else if constexpr (to_complex) {
    return To(static_cast<typename To::value_type>(value), 0);
  } else if constexpr (from_complex) {
    return convert<To>(value.real());
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 8) {
    // through int64, so that out-of-range values wrap as on the reference
    if constexpr (sizeof(To) == 4 && std::is_signed_v<To>) return static_cast<To>(value);
    else return static_cast<To>(static_cast<int64_t>(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint64_t>) {
    // every level alike: negative values wrap; AVX-512's instruction gives the largest number for all out of range
    constexpr From kHalf = From(uint64_t{1} << 63);
    if (value >= kHalf) return static_cast<uint64_t>(static_cast<int64_t>(value - kHalf)) ^ (uint64_t{1} << 63);
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <class To, class From>
void cast_loop(int64_t n, void* out, const void* in) {
  auto* o = static_cast<To*>(out);
  auto* a = static_cast<const Stored<From>*>(in);
#pragma omp simd simdlen(kLight / std::min(sizeof(To), sizeof(From)))
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<From, bool>) o[i] = convert<To>(static_cast<uint8_t>(a[i] != 0));
    else o[i] = convert<To>(a[i]);
  }
}

#if !defined(__AVX512DQ__)
/// From int64, for which there is no vector instruction: below 2^51 in magnitude by way of the bits of a double, which
/// holds the number exactly.
template <class To>
void cast_whole(int64_t n, void* out, const void* in) {
  constexpr int64_t kBlock = 256, kHalf = int64_t{1} << 50;
  constexpr double kMagic = 0x1.8p52;
  auto* o = static_cast<To*>(out);
  auto* a = static_cast<const int64_t*>(in);
  for (; n > 0; n -= kBlock, o += kBlock, a += kBlock) {
    const int64_t count = std::min(n, kBlock);
    uint64_t beyond = 0;
    for (int64_t i = 0; i < count; ++i) beyond |= static_cast<uint64_t>(a[i] + kHalf) >> 51;
    if (beyond) {
      for (int64_t i = 0; i < count; ++i) o[i] = static_cast<To>(a[i]);
      continue;
    }
    FACULA_SIMD
    for (int64_t i = 0; i < count; ++i)
      o[i] = static_cast<To>(std::bit_cast<double>(a[i] + std::bit_cast<int64_t>(kMagic)) - kMagic);
  }
}
/// To int64, in the same way; NaN and what is larger one by one.
template <class From>
void cast_truncated(int64_t n, void* out, const void* in) {
  constexpr int64_t kBlock = 256;
  constexpr From kLimit = From(0x1p50);
  constexpr double kMagic = 0x1.8p52;
  auto* o = static_cast<int64_t*>(out);
  auto* a = static_cast<const From*>(in);
  for (; n > 0; n -= kBlock, o += kBlock, a += kBlock) {
    const int64_t count = std::min(n, kBlock);
    int beyond = 0;
    for (int64_t i = 0; i < count; ++i) beyond |= !(std::abs(a[i]) < kLimit);
    if (beyond) {
      for (int64_t i = 0; i < count; ++i) o[i] = static_cast<int64_t>(a[i]);
      continue;
    }
    FACULA_SIMD
    for (int64_t i = 0; i < count; ++i)
      o[i] = std::bit_cast<int64_t>(std::trunc(static_cast<double>(a[i])) + kMagic) - std::bit_cast<int64_t>(kMagic);
  }
}
template <>
void cast_loop<int64_t, float>(int64_t n, void* out, const void* in) {
  cast_truncated<float>(n, out, in);
}
template <>
void cast_loop<int64_t, double>(int64_t n, void* out, const void* in) {
  cast_truncated<double>(n, out, in);
}
template <>
void cast_loop<float, int64_t>(int64_t n, void* out, const void* in) {
  cast_whole<float>(n, out, in);
}
template <>
void cast_loop<double, int64_t>(int64_t n, void* out, const void* in) {
  cast_whole<double>(n, out, in);
}
#endif

/// To and from float16 and bfloat16, in registers.
template <class To>
void round_loop(int64_t n, To* o, const float* a) {
  constexpr int64_t lanes = kWideLanes<float>;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) store_neighbors(o + i, load_wide(a + i), load_wide(a + i + lanes));
  for (; i + lanes <= n; i += lanes) store_rounded(o + i, load_wide(a + i));
  for (; i < n; ++i) o[i] = rounded<To>(a[i]);
}
template <class From>
void widen_loop(int64_t n, float* o, const From* a) {
  constexpr int64_t lanes = kWideLanes<From>;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) store_rounded(o + i, load_wide(a + i));
  for (; i < n; ++i) o[i] = load(a[i]);
}
template <>
void cast_loop<BFloat16, float>(int64_t n, void* out, const void* in) {
  round_loop(n, static_cast<BFloat16*>(out), static_cast<const float*>(in));
}
template <>
void cast_loop<float, BFloat16>(int64_t n, void* out, const void* in) {
  widen_loop(n, static_cast<float*>(out), static_cast<const BFloat16*>(in));
}
#if defined(__F16C__)
template <>
void cast_loop<Half, float>(int64_t n, void* out, const void* in) {
  round_loop(n, static_cast<Half*>(out), static_cast<const float*>(in));
}
template <>
void cast_loop<float, Half>(int64_t n, void* out, const void* in) {
  widen_loop(n, static_cast<float*>(out), static_cast<const Half*>(in));
}
#endif

void complex_half_to_complex(int64_t n, void* out, const void* in) { cast_loop<float, Half>(2 * n, out, in); }
void complex_to_complex_half(int64_t n, void* out, const void* in) { cast_loop<Half, float>(2 * n, out, in); }

template <class T>
constexpr bool is_hub_only = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || std::is_same_v<T, ComplexHalf> ||
                             std::is_same_v<T, Float8E4M3FN> || std::is_same_v<T, Float8E5M2> ||
                             std::is_same_v<T, Float8E4M3FNUZ> || std::is_same_v<T, Float8E5M2FNUZ>;

// The direct loop from one dtype to another, or null when it takes a hub.
template <class From>
CastFn direct_from(DType to) {
  return visit_dtype(to, []<class To>(TypeTag<To>) -> CastFn {
    if constexpr (std::is_same_v<From, ComplexHalf>) {
      return std::is_same_v<To, std::complex<float>> ? complex_half_to_complex : nullptr;
    } else if constexpr (std::is_same_v<To, ComplexHalf>) {
      return std::is_same_v<From, std::complex<float>> ? complex_to_complex_half : nullptr;
    } else if constexpr (is_hub_only<From>) {
      if constexpr (std::is_same_v<To, float>) return cast_loop<float, From>;
      else return nullptr;
    } else if constexpr (is_hub_only<To>) {
      if constexpr (std::is_same_v<From, float>) return cast_loop<To, float>;
      else return nullptr;  // by way of float, so a double is rounded twice, as in PyTorch
    } else {
      return cast_loop<To, From>;
    }
  });
}

CastFn direct(DType to, DType from) {
  return visit_dtype(from, [&]<class From>(TypeTag<From>) { return direct_from<From>(to); });
}

DType hub(DType d) {
  if (d == DType::Complex32) return DType::Complex64;
  return is_half(d) || is_float8(d) ? DType::Float32 : d;
}

constexpr int64_t kHubElements = 256;

void cast_through(DType to, DType middle, DType from, int64_t n, char* out, const char* in) {
  alignas(64) char buffer[kHubElements * 16];
  for (int64_t done = 0; done < n; done += kHubElements) {
    int64_t count = std::min(kHubElements, n - done);
    cast(middle, from, count, buffer, in + done * item_size(from));
    cast(to, middle, count, out + done * item_size(to), buffer);
  }
}

template <class T>
void gather_row(int64_t n, T* o, const char* in, int64_t step) {
  // steps known to the compiler (plain, reversed and broadcast rows) become vector code
  constexpr int64_t item = sizeof(T);
  if (step == item) {
    for (int64_t i = 0; i < n; ++i) std::memcpy(o + i, in + i * item, sizeof(T));
    return;
  }
  if (step == -item) {
    for (int64_t i = 0; i < n; ++i) std::memcpy(o + i, in - i * item, sizeof(T));
    return;
  }
  if (step == 0) {
    T value;
    std::memcpy(&value, in, sizeof(T));
    FACULA_SIMD
    for (int64_t i = 0; i < n; ++i) o[i] = value;
    return;
  }
  for (int64_t i = 0; i < n; ++i) std::memcpy(o + i, in + i * step, sizeof(T));
}

/// The first row again and again.
template <class T>
void repeat_row(T* rows, int64_t length, int64_t count) {
  for (int64_t done = 1, more; done < count; done += more) {
    more = std::min(done, count - done);
    std::memcpy(static_cast<void*>(rows + done * length), rows, static_cast<size_t>(more * length) * sizeof(T));
  }
}

template <class T>
void gather_loop(StridedRows rows, void* out, const char* in) {  // by value: no write changes them
  constexpr int64_t kShortRow = 8;
  T* o = static_cast<T*>(out);
  if (rows.row_step == 0 && rows.count > 1) {
    gather_row(rows.length, o, in, rows.step);
    return repeat_row(o, rows.length, rows.count);
  }
  if (rows.length <= kShortRow && rows.length < rows.count) {  // column by column: the longer loop is the inner one
    for (int64_t i = 0; i < rows.length; ++i)
      for (int64_t r = 0; r < rows.count; ++r)
        std::memcpy(o + r * rows.length + i, in + i * rows.step + r * rows.row_step, sizeof(T));
    return;
  }
  for (int64_t r = 0; r < rows.count; ++r)
    gather_row(rows.length, o + r * rows.length, in + r * rows.row_step, rows.step);
}

template <class T>
void scatter_loop(StridedRows rows, char* out, const void* in) {
  const T* a = static_cast<const T*>(in);
  for (int64_t r = 0; r < rows.count; ++r, a += rows.length, out += rows.row_step) {
    for (int64_t i = 0; i < rows.length; ++i) std::memcpy(out + i * rows.step, a + i, sizeof(T));
  }
}

}  // namespace

void cast(DType to, DType from, int64_t n, void* out, const void* in) {
  if (to == from) {
    copy_bytes(out, in, n * item_size(to));
  } else if (CastFn loop = direct(to, from)) {
    loop(n, out, in);
  } else {
    DType middle = hub(from) != from ? hub(from) : hub(to);
    cast_through(to, middle, from, n, static_cast<char*>(out), static_cast<const char*>(in));
  }
}

void gather(int64_t item, const StridedRows& rows, void* out, const char* in) {
  if (rows.step == item && rows.count == 1) {
    std::memcpy(out, in, static_cast<size_t>(rows.length * item));
    return;
  }
  visit_size(item, [&]<class T>(TypeTag<T>) { gather_loop<T>(rows, out, in); });
}

void scatter(int64_t item, const StridedRows& rows, char* out, const void* in) {
  if (rows.step == item && rows.count == 1) {
    std::memcpy(out, in, static_cast<size_t>(rows.length * item));
    return;
  }
  visit_size(item, [&]<class T>(TypeTag<T>) { scatter_loop<T>(rows, out, in); });
}

}  // namespace facula::cpu::FACULA_ISA

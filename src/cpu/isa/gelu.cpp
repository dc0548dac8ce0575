// gelu, x times the distribution function of the normal distribution, and its slope, in float32.
//
// With tail(a) the distribution function at -a, gelu(x) = max(x, 0) - a tail(a) for a = |x|. The product is a cubic in
// each of many short pieces, whose four coefficients lie side by side: a piece is one load for each lane, and the lanes
// are transposed. That costs less than an exponential and keeps all digits below zero, where the tail is small: errors
// are about 2 units in the last place at most (tests/test_elementwise.py). The slope has a table of its own. With
// AVX-512, where an exponential is cheap, the table is of what the tail is besides e^(-a^2 / 2), and short enough for
// registers; errors are about 3 units.
#include <cmath>
#include <cstring>
#include <utility>

#include "cpu/isa/lanes.h"
#include "cpu/isa/register_tables.h"
#include "kernels/math.h"
#include "op_ids_activation.h"
#include "ops/kernel_table.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace facula::cpu::FACULA_ISA {
namespace {

using Vector = VectorOf<float>::type;
constexpr int kLanes = VectorOf<float>::lanes;
constexpr double kLast = 14.5;  // from here on the tail is less than any float

#ifdef FACULA_AVX512

/// e^(a^2 / 2) tail(a).
double scaled_tail(double a) { return 0.5 * std::exp(0.5 * a * a) * std::erfc(a / kernels::sqrt_2); }
double scaled_slope(double a) { return scaled_tail(a) - a / (kernels::sqrt_2 * kernels::sqrt_pi); }

/// e^(-a^2 / 2) as 2^n t (1 + p), with t from a table. What a^2 and t lose when they are rounded is in p.
struct Density {
  Density() : power(powers().power), lost(powers().lost) {}
  struct Factors {
    Vector n, t, p;
  };
  Factors operator()(Vector a) const {
    const Vector square = _mm512_mul_ps(a, a), rest = _mm512_fmsub_ps(a, a, square);
    const Vector to_16ths = all(kernels::float_to_integer / 16);  // as in Exp
    const Vector shifted = _mm512_fmadd_ps(square, all(-0.72134752f), to_16ths), n = _mm512_sub_ps(shifted, to_16ths);
    Vector r = _mm512_fnmadd_ps(n, all(0x1.62e4p-1f), _mm512_mul_ps(square, all(-0.5f)));
    r = _mm512_fnmadd_ps(n, all(0x1.7f7d1cp-20f), r);
    r = _mm512_fnmadd_ps(rest, all(0.5f), r);
    const __m512i k = _mm512_castps_si512(shifted);
    const Vector tail = _mm512_fmadd_ps(r, all(0.166666667f), all(0.5f));
    return {n, power[k], _mm512_fmadd_ps(_mm512_fmadd_ps(r, tail, all(1.0f)), r, lost[k])};
  }
  ShortTable power, lost;
};

/// The power of two comes last, so that nothing is subnormal before.
struct Gelu {
  Gelu() : pieces(values()) {}
  static const PieceValues& values() {
    static const PieceValues values(scaled_tail, kLast, false);
    return values;
  }
  Vector operator()(Vector x) const {
    const Vector a = pieces.distance(x);
    const auto [n, t, p] = density(a);
    const Vector scaled = _mm512_mul_ps(_mm512_mul_ps(pieces(a), a), t);
    const Vector tail = _mm512_scalef_ps(_mm512_fmadd_ps(scaled, p, scaled), n);
    const __mmask16 below = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    return _mm512_sub_ps(_mm512_mask_mul_ps(x, below, x, _mm512_setzero_ps()), tail);
  }
  Pieces pieces;
  Density density;
};
/// NaN also where x is infinite.
struct Slope {
  Slope() : pieces(values()) {}
  static const PieceValues& values() {
    static const PieceValues values(scaled_slope, kLast, false);
    return values;
  }
  Vector operator()(Vector x) const {
    const Vector a = pieces.distance(x);
    const auto [n, t, p] = density(a);
    const Vector scaled = _mm512_mul_ps(pieces(a), t), y = _mm512_scalef_ps(_mm512_fmadd_ps(scaled, p, scaled), n);
    return (x < 0.0f ? y : 1.0f - y) + x * 0.0f;
  }
  Pieces pieces;
  Density density;
};

#else

typedef int32_t Integers __attribute__((vector_size(kVectorBytes)));
typedef uint64_t Pairs __attribute__((vector_size(kVectorBytes)));
typedef float Row __attribute__((vector_size(16)));

constexpr int kPieces = 128;  // of a unit
constexpr int kRowBits = 4;   // a row has 2^4 bytes

/// The coefficients of a tail(a), or of its slope, around the multiples of 1 / 128.
struct Table {
  static constexpr int count = static_cast<int>(kLast * kPieces) + 1;
  alignas(64) float rows[count][4];

  explicit Table(bool slope) {
    for (int n = 0; n < count; ++n) fit(slope, static_cast<double>(n) / kPieces, rows[n]);
  }
  /// Taylor's polynomial of degree 5 with the powers 4 and 5 replaced by what is nearest to them over the piece
  /// (Chebyshev). At 0 nothing is added to the constant: small results keep their digits.
  static void fit(bool slope, double a, float* row) {
    const double h = 0.5 / kPieces, h2 = h * h, a2 = a * a;
    const double density = std::exp(-0.5 * a2) / (kernels::sqrt_2 * kernels::sqrt_pi);
    const double tail = 0.5 * std::erfc(a / kernels::sqrt_2);
    double c[7] = {a * tail,
                   tail - a * density,
                   density * (a2 - 2) / 2,
                   density * a * (4 - a2) / 6,
                   density * (a2 * a2 - 7 * a2 + 4) / 24,
                   -density * a * (a2 * a2 - 11 * a2 + 18) / 120,
                   density * (a2 * a2 * a2 - 16 * a2 * a2 + 51 * a2 - 18) / 720};
    for (int i = 0; slope && i < 6; ++i) c[i] = (i + 1) * c[i + 1];
    row[0] = static_cast<float>(c[0] - (a == 0 ? 0 : c[4] * h2 * h2 / 8));
    row[1] = static_cast<float>(c[1] - c[5] * h2 * h2 * 5 / 16);
    row[2] = static_cast<float>(c[2] + c[4] * h2);
    row[3] = static_cast<float>(c[3] + c[5] * h2 * 5 / 4);
  }
};

/// Byte numbers of the rows of all lanes. Two at once: to fetch a lane is dear.
struct Places {
  explicit Places(Integers index) : Places(reinterpret_cast<Pairs>(index), std::make_index_sequence<kLanes / 2>()) {}
  template <size_t... i>
  [[gnu::always_inline]] Places(Pairs pairs, std::index_sequence<i...>) {
    ((at[2 * i] = static_cast<uint32_t>(pairs[i]), at[2 * i + 1] = static_cast<uint32_t>(pairs[i] >> 32)), ...);
  }
  uint32_t at[kLanes];
};

/// The rows of every fourth lane from lane k on, side by side.
template <int k>
[[gnu::always_inline]] inline Vector rows_from(const char* table, const Places& places) {
  const auto row = [&](int i) {
    Row loaded;
    std::memcpy(&loaded, table + places.at[4 * i + k], sizeof loaded);
    return loaded;
  };
#if defined(__AVX2__)
  return _mm256_insertf128_ps(_mm256_castps128_ps256(row(0)), row(1), 1);
#else
  return row(0);
#endif
}

/// Elements a and b of the first operand, c and d of the second one, in every 16 bytes.
template <int a, int b, int c, int d, size_t... i>
[[gnu::always_inline]] inline Vector pick(Vector x, Vector y, std::index_sequence<i...>) {
  constexpr int from[] = {a, b, kLanes + c, kLanes + d};
  return __builtin_shufflevector(x, y, (from[i % 4] + static_cast<int>(i / 4 * 4))...);
}
template <int a, int b, int c, int d>
[[gnu::always_inline]] inline Vector pick(Vector x, Vector y) {
  return pick<a, b, c, d>(x, y, std::make_index_sequence<kLanes>());
}

/// The function of the table at |x|.
[[gnu::always_inline]] inline Vector at_distance(Vector x, const char* table) {
  constexpr Vector magic = Vector{} + kernels::float_to_integer, last = Vector{} + static_cast<float>(kLast);
  Vector a = reinterpret_cast<Vector>(reinterpret_cast<Integers>(x) & 0x7fffffff);
  a = a < last ? a : last;  // NaN too: it comes back with the first term, as does -infinity, which is NaN in PyTorch
  const Vector shifted = a * static_cast<float>(kPieces) + magic;
  const Vector r = a - (shifted - magic) * (1.0f / kPieces);
  const Places at((reinterpret_cast<Integers>(shifted) & 0xffff) << kRowBits);
  const Vector a0 = rows_from<0>(table, at), a1 = rows_from<1>(table, at), a2 = rows_from<2>(table, at),
               a3 = rows_from<3>(table, at);
  const Vector low01 = pick<0, 1, 0, 1>(a0, a1), low23 = pick<0, 1, 0, 1>(a2, a3), high01 = pick<2, 3, 2, 3>(a0, a1),
               high23 = pick<2, 3, 2, 3>(a2, a3);
  const Vector c0 = pick<0, 2, 0, 2>(low01, low23), c1 = pick<1, 3, 1, 3>(low01, low23),
               c2 = pick<0, 2, 0, 2>(high01, high23), c3 = pick<1, 3, 1, 3>(high01, high23);
  return ((c3 * r + c2) * r + c1) * r + c0;
}

struct Gelu {
  const char* table = rows();
  static const char* rows() {
    static const Table built(false);
    return reinterpret_cast<const char*>(built.rows);
  }
  [[gnu::always_inline]] Vector operator()(Vector x) const { return (x < 0.0f ? x * 0.0f : x) - at_distance(x, table); }
};
/// NaN also where x is infinite.
struct Slope {
  const char* table = rows();
  static const char* rows() {
    static const Table built(true);
    return reinterpret_cast<const char*>(built.rows);
  }
  [[gnu::always_inline]] Vector operator()(Vector x) const {
    const Vector y = at_distance(x, table);
    return (x < 0.0f ? y : 1.0f - y) + x * 0.0f;
  }
};

#endif

void gelu_float(int64_t n, void* out, const LoopInput* in, const void*) {
  const Gelu gelu;
  float* o = static_cast<float*>(out);
  const float* x = static_cast<const float*>(in[0].data);
  for (; n >= kLanes; n -= kLanes, x += kLanes, o += kLanes) {
    const Vector y = gelu(load_vector(x));
    std::memcpy(o, &y, sizeof y);
  }
  if (n == 0) return;
  Vector rest{};
  std::memcpy(&rest, x, static_cast<size_t>(n) * sizeof(float));
  rest = gelu(rest);
  std::memcpy(o, &rest, static_cast<size_t>(n) * sizeof(float));
}

void gelu_backward_float(int64_t n, void* out, const LoopInput* in, const void*) {
  const Slope slope;
  float* o = static_cast<float*>(out);
  const float *grad = static_cast<const float*>(in[0].data), *x = static_cast<const float*>(in[1].data);
  const int64_t grad_step = in[0].step ? kLanes : 0, step = in[1].step ? kLanes : 0;
  for (; n >= kLanes; n -= kLanes, grad += grad_step, x += step, o += kLanes) {
    const Vector y = load_vector(grad) * slope(load_vector(x));
    std::memcpy(o, &y, sizeof y);
  }
  if (n == 0) return;
  Vector g{}, rest{};
  std::memcpy(&g, grad, static_cast<size_t>(n) * sizeof(float));
  std::memcpy(&rest, x, static_cast<size_t>(n) * sizeof(float));
  rest = g * slope(rest);
  std::memcpy(o, &rest, static_cast<size_t>(n) * sizeof(float));
}

}  // namespace

void register_gelu() {
  loop_table[loop_id::gelu_erf_unary][index(DType::Float32)] = gelu_float;
  loop_table[loop_id::gelu_erf_backward_binary][index(DType::Float32)] = gelu_backward_float;
}

}  // namespace facula::cpu::FACULA_ISA

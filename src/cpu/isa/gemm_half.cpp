// Products of bfloat16 matrices: an instruction multiplies 16 pairs of neighbours in the inner dimension and adds both
// products to 16 sums in float32. 12 by 32 results stay in registers while the sums run along the inner dimension.
// b is packed as panels of 32 columns, pair after pair; pairs of a are broadcast from where its rows lie, or from
// panels of 12 rows where its columns are contiguous. Results are rounded once.
#include "cpu/gemm_half.h"

#if defined(__AVX512F__)

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "core/tensor.h"
#include "cpu/isa/lanes.h"
#include "cpu/isa/transpose.h"

namespace facula::cpu::FACULA_ISA {
namespace {

#pragma GCC push_options
#pragma GCC target("avx512bf16")
#define UNROLLED _Pragma("GCC unroll 16")

constexpr int kLanes = 16, kHigh = kHalfRows, kWide = kHalfColumns;
// Measured: the longest chain of sums, and elements of a block of rows of a, a part of the second-level cache.
constexpr int64_t kChain = 2048, kBlock = 1 << 17;
// A row stride of so many bytes, or a multiple of it, puts the rows of a tile into the same lines of the first-level
// cache.
constexpr int64_t kAliased = 2048;

using Pairs = __m512i;  // 32 elements

[[gnu::always_inline]] inline Pairs load(const void* from) { return _mm512_loadu_si512(from); }
/// The first `count` of 32 elements, and zeros.
[[gnu::always_inline]] inline Pairs load_first(const void* from, int64_t count) {
  return _mm512_maskz_loadu_epi16(static_cast<__mmask32>((uint64_t{1} << count) - 1), from);
}
[[gnu::always_inline]] inline __m512 add_products(__m512 sum, Pairs a, Pairs b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
[[gnu::always_inline]] inline Pairs pair_at(const char* from) {
  int32_t pair;
  std::memcpy(&pair, from, sizeof pair);
  return _mm512_set1_epi32(pair);
}
[[gnu::always_inline]] inline Pairs single_at(const char* from) {
  uint16_t element;
  std::memcpy(&element, from, sizeof element);
  return _mm512_set1_epi32(element);
}
/// bfloat16 to float32.
[[gnu::always_inline]] inline __m512 widened(__m256i halves) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
[[gnu::always_inline]] inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= kLanes ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

/// What becomes of sums: out = alpha sums + bias + beta out.
struct Finish {
  float alpha, beta;
  const char* bias;  // of the first column, or null
  float*
      partial;  // sums of the elements before, or of all but the last: rows of partial_row; null where one chain is all
  int64_t partial_row;
  bool first, last;  // of the chains
};

/// Where a tile's operands lie, in bytes: pair k of row r at a + r row + k step.
struct Chain {
  int64_t length;  // elements
  const char* a;
  int64_t row, step;
  const char* b;
};

[[gnu::always_inline]] inline void finish_vector(__m512 v, const Finish& f, int64_t at, char* to, __mmask16 lanes) {
  v = v * _mm512_set1_ps(f.alpha);
  if (f.bias) v = v + widened(_mm256_maskz_loadu_epi16(lanes, f.bias + at * 2));
  if (f.beta != 0) v = v + _mm512_set1_ps(f.beta) * widened(_mm256_maskz_loadu_epi16(lanes, to + at * 2));
  _mm256_mask_storeu_epi16(to + at * 2, lanes, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
}

/// R by 16 J results, of which `width` columns are written. `by_rows`: a row's pairs follow each other; else pairs of
/// R rows do.
template <int R, int J, bool by_rows>
[[gnu::noinline]] void tile(const Chain& c, const Finish& f, char* out, int64_t out_row, int64_t width) {
  // rows are addressed from every third one: strides have few multiples
  const char *a0 = c.a, *a1 = a0 + 3 * c.row, *a2 = a1 + 3 * c.row, *a3 = a2 + 3 * c.row, *b = c.b;
  const int64_t row = c.row, step = by_rows ? 4 : c.step;
  __m512 sum[R][J];
  UNROLLED for (int r = 0; r < R; ++r) { UNROLLED for (int j = 0; j < J; ++j) sum[r][j] = _mm512_setzero_ps(); }
  auto add = [&](auto pair) __attribute__((always_inline)) {
    Pairs y[J];
    UNROLLED for (int j = 0; j < J; ++j) y[j] = load(b + 64 * j);
    UNROLLED for (int r = 0; r < R; ++r) {
      const char* base = r < 3 ? a0 : r < 6 ? a1 : r < 9 ? a2 : a3;
      const Pairs x = by_rows ? pair(base + r % 3 * row) : pair(a0 + 4 * r);
      UNROLLED for (int j = 0; j < J; ++j) sum[r][j] = add_products(sum[r][j], x, y[j]);
    }
  };
  for (int64_t k = c.length / 2; k > 0; --k) {
    add([](const char* from) __attribute__((always_inline)) { return pair_at(from); });
    a0 += step;
    if (by_rows) a1 += step, a2 += step, a3 += step;
    b += 4 * kWide;
  }
  if (c.length % 2) add([](const char* from) __attribute__((always_inline)) { return single_at(from); });
  UNROLLED for (int r = 0; r < R; ++r) {
    UNROLLED for (int j = 0; j < J; ++j) {
      float* kept = f.partial ? f.partial + r * f.partial_row + j * kLanes : nullptr;
      if (kept && !f.first) sum[r][j] = sum[r][j] + _mm512_loadu_ps(kept);
      if (!f.last) _mm512_storeu_ps(kept, sum[r][j]);
      else finish_vector(sum[r][j], f, j * kLanes, out + r * out_row, first_lanes(width - j * kLanes));
    }
  }
}

template <bool by_rows, int R = kHigh>
void tile_of(int64_t rows, const Chain& c, const Finish& f, char* out, int64_t out_row, int64_t width) {
  if (rows == R) {
    if (width > kLanes) tile<R, 2, by_rows>(c, f, out, out_row, width);
    else tile<R, 1, by_rows>(c, f, out, out_row, width);
  } else if constexpr (R > 1) {
    tile_of<by_rows, R - 1>(rows, c, f, out, out_row, width);
  }
}

/// Rows of the next tile of `left`: twelve, and at the end two tiles of about the same height.
int64_t next_rows(int64_t left) {
  return left >= 2 * kHigh || left == kHigh ? kHigh : left > kHigh ? (left + 1) / 2 : left;
}

/// Pairs of neighbours in two lines of 32 elements each.
struct Interleaved {
  Pairs low, high;
};
[[gnu::always_inline]] inline Interleaved interleave(Pairs even, Pairs odd) {
  alignas(64) static constexpr int16_t kLow[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                   8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  alignas(64) static constexpr int16_t kUp[32] = {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
                                                  24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
  return {_mm512_permutex2var_epi16(even, load(kLow), odd), _mm512_permutex2var_epi16(even, load(kUp), odd)};
}

/// Panels of `high` elements of `length` lines, `line` bytes apart, as pairs of two lines: `panel` bytes from one panel
/// to the next. Reads lines as they lie in memory.
template <int high>
void pack_lines(const char* from, int64_t line, int64_t length, int64_t count, char* to, int64_t panel) {
  constexpr int64_t at_once = 8;
  for (int64_t first = 0; first < count; first += at_once * high) {
    const int64_t end = std::min(count, first + at_once * high);
    for (int64_t k = 0; k < length; k += 2) {
      const char *even = from + k * line, *odd = even + line;
      char* out = to + first / high * panel + k / 2 * high * 4;
      for (int64_t i = first; i < end; i += high, out += panel) {
        const int64_t width = std::min<int64_t>(high, end - i);
        const Pairs x = load_first(even + 2 * i, width);
        const Interleaved both = interleave(x, k + 1 < length ? load_first(odd + 2 * i, width) : Pairs{});
        if constexpr (high == 32) {
          std::memcpy(out, &both.low, 64);
          std::memcpy(out + 64, &both.high, 64);
        } else {
          _mm512_mask_storeu_epi32(out, static_cast<__mmask16>((1 << high) - 1), both.low);
        }
      }
    }
  }
}

/// 16 columns of contiguous elements, of which `columns` are there, as pairs: `step` bytes from one pair to the next.
void pack_columns(const char* from, int64_t column, int64_t length, int64_t columns, char* to, int64_t step) {
  using S = Square<float>;
  for (int64_t k = 0; k < length; k += 2 * kLanes) {
    const int64_t left = std::min<int64_t>(2 * kLanes, length - k), pairs = (left + 1) / 2;
    S::Row row[kLanes];
    UNROLLED for (int i = 0; i < kLanes; ++i) {
      const Pairs x = i < columns ? load_first(from + i * column + 2 * k, left) : Pairs{};
      std::memcpy(&row[i], &x, sizeof x);
    }
    S::transpose(row);
    UNROLLED for (int i = 0; i < kLanes; ++i) {
      if (i < pairs) std::memcpy(to + (k / 2 + i) * step, &row[i], 64);
    }
  }
}

void pack_isa(const MatrixProduct& p, int64_t from, int64_t to, char* packed) {
  const int64_t panel = half_panel_bytes(p.inner), first = from * kWide, columns = std::min(to * kWide, p.columns);
  if (p.b.column == 1)
    return pack_lines<kWide>(p.b.data + 2 * first, 2 * p.b.row, p.inner, columns - first, packed + from * panel, panel);
  for (int64_t j = first; j < columns; j += kLanes)
    pack_columns(p.b.data + 2 * j * p.b.column, 2 * p.b.column, p.inner, std::min<int64_t>(kLanes, columns - j),
                 packed + j / kWide * panel + j % kWide * 4, 4 * kWide);
}

/// Blocks of rows of a, packed where they must be, meet the panels of b.
struct Product {
  const MatrixProduct& p;
  const char* packed;
  const int64_t chain = std::min(p.inner, kChain);
  const bool aliased = 2 * p.a.row % kAliased == 0;
  const bool in_place = p.a.column == 1 && (!aliased || p.columns <= 2 * kWide || p.rows < kHigh);
  const int64_t block = std::clamp(kBlock / chain / kHigh, int64_t{2}, int64_t{32}) * kHigh;
  const int64_t copied_row = (chain + 95) / 64 * 64 + 32;  // elements of a row that is copied: lines do not alias
  char* room = nullptr;                                    // of a block of a
  float* partial = nullptr;

  int64_t wide() const { return (p.columns + kWide - 1) / kWide * kWide; }

  void pack_a(int64_t i0, int64_t rows, int64_t k0, int64_t length) const {
    const char* from = p.a.data + 2 * (i0 * p.a.row + k0 * p.a.column);
    if (p.a.column == 1) {
      for (int64_t r = 0; r < rows; ++r)
        std::memcpy(room + 2 * r * copied_row, from + 2 * r * p.a.row, static_cast<size_t>(2 * length));
    } else {
      pack_lines<kHigh>(from, 2 * p.a.column, length, rows, room, (length + 1) / 2 * kHigh * 4);
    }
  }

  void meet(int64_t i0, int64_t rows, int64_t k0, int64_t length) const {
    Finish f{static_cast<float>(p.alpha.to_double()),
             static_cast<float>(p.beta.to_double()),
             nullptr,
             nullptr,
             wide(),
             k0 == 0,
             k0 + length == p.inner};
    for (int64_t j = 0; j < p.columns; j += kWide) {
      Chain c{length, nullptr, 0, 0, packed + j / kWide * half_panel_bytes(p.inner) + k0 * kWide * 2};
      if (p.bias) f.bias = p.bias + 2 * j;
      for (int64_t i = 0, high = 0; i < rows; i += high) {
        high = p.a.column == 1 ? next_rows(rows - i) : std::min<int64_t>(kHigh, rows - i);
        char* out = p.out + 2 * ((i0 + i) * p.out_row + j);
        if (partial) f.partial = partial + i * wide() + j;
        if (p.a.column == 1) {
          c.row = 2 * (in_place ? p.a.row : copied_row);
          c.a = in_place ? p.a.data + 2 * ((i0 + i) * p.a.row + k0) : room + i * c.row;
          tile_of<true>(high, c, f, out, 2 * p.out_row, p.columns - j);
        } else {
          c.step = kHigh * 4;
          c.a = room + i / kHigh * ((length + 1) / 2 * kHigh * 4);
          tile_of<false>(high, c, f, out, 2 * p.out_row, p.columns - j);
        }
      }
    }
  }

  void run() {
    const int64_t for_a = in_place ? 0 : block * std::max(copied_row, chain + 2) * 2;
    const int64_t for_sums = chain == p.inner ? 0 : block * wide() * 4;
    const Tensor memory = for_a + for_sums ? facula::empty({for_a + for_sums}, DType::UInt8) : Tensor();
    if (memory.defined()) room = memory.data<char>();
    if (for_sums) partial = reinterpret_cast<float*>(room + for_a);
    for (int64_t i = 0; i < p.rows; i += block) {
      const int64_t rows = std::min(block, p.rows - i);
      for (int64_t k = 0; k < p.inner; k += chain) {
        const int64_t length = std::min(chain, p.inner - k);
        if (!in_place) pack_a(i, rows, k, length);
        meet(i, rows, k, length);
      }
    }
  }
};

void gemm_isa(const MatrixProduct& p, const char* packed) { Product{p, packed}.run(); }

// Few rows times a matrix: b is read once, where it lies.

/// The dot products of R lines of a with C contiguous columns of b.
template <int R, int C>
[[gnu::noinline]] void dot_tile(const MatrixProduct& p, const char* a, const char* b, float* sums) {
  const int64_t a_step = 2 * p.a.row, b_step = 2 * p.b.column, n = p.inner;
  __m512 sum[kLanes];
  UNROLLED for (int i = 0; i < kLanes; ++i) sum[i] = _mm512_setzero_ps();
  auto add = [&](auto get) __attribute__((always_inline)) {
    Pairs x[R];
    UNROLLED for (int r = 0; r < R; ++r) x[r] = get(a + r * a_step);
    UNROLLED for (int c = 0; c < C; ++c) {
      const Pairs y = get(b + c * b_step);
      UNROLLED for (int r = 0; r < R; ++r) sum[r * C + c] = add_products(sum[r * C + c], y, x[r]);
    }
  };
  int64_t k = 0;
  for (; k + 32 <= n; k += 32, a += 64, b += 64)
    add([](const char* from) __attribute__((always_inline)) { return load(from); });
  if (k < n) add([=](const char* from) __attribute__((always_inline)) { return load_first(from, n - k); });
  Square<float>::Row row[kLanes];
  UNROLLED for (int i = 0; i < kLanes; ++i) std::memcpy(&row[i], &sum[i], 64);
  Square<float>::transpose(row);
  UNROLLED for (int half = kLanes / 2; half > 0; half /= 2) {
    UNROLLED for (int i = 0; i < half; ++i) row[i] += row[i + half];
  }
  std::memcpy(sums, &row[0], 64);
}

void store_sums(const MatrixProduct& p, const float* sums, int64_t row, int64_t rows, int64_t column, int64_t columns,
                int64_t stride) {
  const Finish f{static_cast<float>(p.alpha.to_double()),
                 static_cast<float>(p.beta.to_double()),
                 p.bias ? p.bias + 2 * column : nullptr,
                 nullptr,
                 0,
                 true,
                 true};
  for (int64_t r = 0; r < rows; ++r) {
    char* to = p.out + 2 * ((row + r) * p.out_row + column);
    for (int64_t j = 0; j < columns; j += kLanes) {
      const __mmask16 lanes = first_lanes(columns - j);
      finish_vector(_mm512_maskz_loadu_ps(lanes, sums + r * stride + j), f, j, to, lanes);
    }
  }
}

/// Columns from `column` on, C of them, with all rows.
template <int R, int C>
void dot_rows(const MatrixProduct& p, int64_t column, int64_t row) {
  alignas(64) float sums[kLanes];
  for (; row + R <= p.rows; row += R) {
    dot_tile<R, C>(p, p.a.data + 2 * row * p.a.row, p.b.data + 2 * column * p.b.column, sums);
    store_sums(p, sums, row, R, column, C, C);
  }
  if constexpr (R > 1) dot_rows<R / 2, C>(p, column, row);
}

void dots(const MatrixProduct& p, int64_t from, int64_t to) {
  int64_t c = from;
  if (p.rows <= 2) {
    for (; c + 8 <= to; c += 8) dot_rows<2, 8>(p, c, 0);
  }
  for (; c + 4 <= to; c += 4) dot_rows<4, 4>(p, c, 0);
  for (; c < to; ++c) dot_rows<4, 1>(p, c, 0);
}

// b's rows are contiguous: sums of some hundred columns stay in the first-level cache while four pairs of rows of b are
// added at a time. Unpacking pairs leaves the columns of each 32 in the order of the unpacked vectors.
constexpr int kPairs = 4;
constexpr int64_t kSums = 4096;

struct LinePairs {
  const MatrixProduct& p;
  int64_t from, columns, wide;  // wide: sums of a row
  float* sums;

  /// Rows [row, row + R), pairs of lines [k, k + 2 kPairs), of which `left` lines are there.
  template <int R>
  void add(int64_t row, int64_t k, int64_t left) const {
    Pairs x[R][kPairs];
    UNROLLED for (int r = 0; r < R; ++r) {
      UNROLLED for (int i = 0; i < kPairs; ++i) {
        const char* a = p.a.data + 2 * ((row + r) * p.a.row + k + 2 * i);
        x[r][i] = 2 * i + 1 < left ? pair_at(a) : 2 * i < left ? single_at(a) : Pairs{};
      }
    }
    for (int64_t j = 0; j < columns; j += 32) {
      const int64_t width = std::min<int64_t>(32, columns - j);
      const char* b = p.b.data + 2 * (k * p.b.row + from + j);
      Pairs low[kPairs], high[kPairs];
      UNROLLED for (int i = 0; i < kPairs; ++i) {
        const Pairs even = 2 * i < left ? load_first(b + 4 * i * p.b.row, width) : Pairs{};
        const Pairs odd = 2 * i + 1 < left ? load_first(b + (4 * i + 2) * p.b.row, width) : Pairs{};
        low[i] = _mm512_unpacklo_epi16(even, odd);
        high[i] = _mm512_unpackhi_epi16(even, odd);
        __builtin_prefetch(b + (4 * i + 4 * kPairs) * p.b.row);
        __builtin_prefetch(b + (4 * i + 2 + 4 * kPairs) * p.b.row);
      }
      UNROLLED for (int r = 0; r < R; ++r) {
        float* at = sums + (row + r) * wide + j;
        __m512 u = _mm512_loadu_ps(at), v = _mm512_loadu_ps(at + kLanes);
        UNROLLED for (int i = 0; i < kPairs; ++i) {
          u = add_products(u, x[r][i], low[i]);
          v = add_products(v, x[r][i], high[i]);
        }
        _mm512_storeu_ps(at, u);
        _mm512_storeu_ps(at + kLanes, v);
      }
    }
  }

  template <int R>
  void add_rows(int64_t row, int64_t k, int64_t left) const {
    for (; row + R <= p.rows; row += R) add<R>(row, k, left);
    if constexpr (R > 1) add_rows<R / 2>(row, k, left);
  }

  void run() const {
    std::memset(sums, 0, static_cast<size_t>(p.rows * wide) * sizeof(float));
    int64_t k = 0;
    for (; k + 2 * kPairs <= p.inner; k += 2 * kPairs) add_rows<4>(0, k, 2 * kPairs);
    if (k < p.inner) add_rows<4>(0, k, p.inner - k);
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    for (int64_t i = 0; i < p.rows * wide; i += 32) {
      const __m512 u = _mm512_loadu_ps(sums + i), v = _mm512_loadu_ps(sums + i + kLanes);
      _mm512_storeu_ps(sums + i, _mm512_permutex2var_ps(u, first, v));
      _mm512_storeu_ps(sums + i + kLanes, _mm512_permutex2var_ps(u, second, v));
    }
    store_sums(p, sums, 0, p.rows, from, columns, wide);
  }
};

void few_rows_isa(const MatrixProduct& p, int64_t from, int64_t to) {
  if (p.b.row == 1) return dots(p, from, to);
  alignas(64) float sums[kSums];
  const int64_t most = std::min<int64_t>(kSums / p.rows / 32 * 32, 1024);
  for (int64_t c = from; c < to; c += most) {
    const int64_t columns = std::min(most, to - c);
    LinePairs{p, c, columns, (columns + 31) / 32 * 32, sums}.run();
  }
}

#undef UNROLLED
#pragma GCC pop_options

}  // namespace

void register_gemm_half() {
  if (!__builtin_cpu_supports("avx512bf16")) return;
  half_gemm = gemm_isa;
  half_pack = pack_isa;
  half_few_rows = few_rows_isa;
}

}  // namespace facula::cpu::FACULA_ISA

#else

namespace facula::cpu::FACULA_ISA {
void register_gemm_half() {}
}  // namespace facula::cpu::FACULA_ISA

#endif

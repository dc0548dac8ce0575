// Tiles of products of bfloat16: an instruction multiplies 16 pairs of neighbors in the inner dimension and adds both
// products to 16 sums in float32 (AVX512-BF16). The right factor is packed as panels of 32 columns, pair after pair;
// pairs of the left one are broadcast from where its rows lie, or from where pairs of many rows lie side by side.
#pragma once

#if defined(__AVX512F__)

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "cpu/gemm_half.h"
#include "cpu/isa/lanes.h"
#include "cpu/isa/transpose.h"

namespace facula::cpu::FACULA_ISA {

#pragma GCC push_options
#pragma GCC target("avx512bf16")
#define UNROLLED _Pragma("GCC unroll 16")

constexpr int kPairLanes = 16;  // sums of a vector
using Pairs = __m512i;          // 32 elements

[[gnu::always_inline]] inline Pairs load_pairs(const void* from) { return _mm512_loadu_si512(from); }
/// The first `count` of 32 elements, and zeros.
[[gnu::always_inline]] inline Pairs load_first_pairs(const void* from, int64_t count) {
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
using Words [[gnu::vector_size(64)]] = uint32_t;
[[gnu::always_inline]] inline Words words_of(__m256i halves) {
  return reinterpret_cast<Words>(_mm512_maskz_cvtepu16_epi32(0xffff, halves));
}
/// bfloat16 to float32.
[[gnu::always_inline]] inline __m512 widened_halves(__m256i halves) {
  return reinterpret_cast<__m512>(words_of(halves) << 16);
}
[[gnu::always_inline]] inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= kPairLanes ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

/// What becomes of sums: out = alpha sums + bias + beta out.
struct HalfFinish {
  float alpha, beta;
  const char* bias;  // of the first column, or null
  float* partial;    // rows of sums of the chains before this one; null where one chain is all
  int64_t partial_row;
  bool first, last;  // of the chains
};

/// Where a tile's operands lie, in bytes: pair k of row r at a + r row + k step.
struct HalfChain {
  int64_t length;  // elements
  const char* a;
  int64_t row, step;
  const char* b;
};

[[gnu::always_inline]] inline void finish_vector(__m512 v, const HalfFinish& f, int64_t at, char* to, __mmask16 lanes) {
  v = v * _mm512_set1_ps(f.alpha);
  if (f.bias) v = v + widened_halves(_mm256_maskz_loadu_epi16(lanes, f.bias + at * 2));
  if (f.beta != 0) v = v + _mm512_set1_ps(f.beta) * widened_halves(_mm256_maskz_loadu_epi16(lanes, to + at * 2));
  _mm256_mask_storeu_epi16(to + at * 2, lanes, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
}

/// R by 16 J results, of which `width` columns are written. `by_rows`: a row's pairs follow each other; else pairs of
/// R rows do.
template <int R, int J, bool by_rows>
[[gnu::noinline]] void half_tile(const HalfChain& c, const HalfFinish& f, char* out, int64_t out_row, int64_t width) {
  // rows are addressed from every third one: strides have few multiples
  const char *a0 = c.a, *a1 = a0 + 3 * c.row, *a2 = a1 + 3 * c.row, *a3 = a2 + 3 * c.row, *b = c.b;
  const int64_t row = c.row, step = by_rows ? 4 : c.step;
  __m512 sum[R][J];
  UNROLLED for (int r = 0; r < R; ++r) { UNROLLED for (int j = 0; j < J; ++j) sum[r][j] = _mm512_setzero_ps(); }
  auto add = [&](auto pair) __attribute__((always_inline)) {
    Pairs y[J];
    UNROLLED for (int j = 0; j < J; ++j) y[j] = load_pairs(b + 64 * j);
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
    b += 4 * kHalfColumns;
  }
  if (c.length % 2) add([](const char* from) __attribute__((always_inline)) { return single_at(from); });
  UNROLLED for (int r = 0; r < R; ++r) {
    UNROLLED for (int j = 0; j < J; ++j) {
      float* kept = f.partial ? f.partial + r * f.partial_row + j * kPairLanes : nullptr;
      if (kept && !f.first) sum[r][j] = sum[r][j] + _mm512_loadu_ps(kept);
      if (!f.last) _mm512_storeu_ps(kept, sum[r][j]);
      else finish_vector(sum[r][j], f, j * kPairLanes, out + r * out_row, first_lanes(width - j * kPairLanes));
    }
  }
}

template <bool by_rows, int R = kHalfRows>
void half_tile_of(int64_t rows, const HalfChain& c, const HalfFinish& f, char* out, int64_t out_row, int64_t width) {
  if (rows == R) {
    if (width > kPairLanes) half_tile<R, 2, by_rows>(c, f, out, out_row, width);
    else half_tile<R, 1, by_rows>(c, f, out, out_row, width);
  } else if constexpr (R > 1) {
    half_tile_of<by_rows, R - 1>(rows, c, f, out, out_row, width);
  }
}

/// Rows of the next tile of `left`: twelve, and at the end two tiles of about the same height.
inline int64_t next_half_rows(int64_t left) {
  return left >= 2 * kHalfRows || left == kHalfRows ? kHalfRows : left > kHalfRows ? (left + 1) / 2 : left;
}

/// Pairs of neighbors in two lines of 32 elements each.
struct Interleaved {
  Pairs low, high;
};
[[gnu::always_inline]] inline Interleaved interleave(Pairs even, Pairs odd) {
  alignas(64) static constexpr int16_t kLow[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                   8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  alignas(64) static constexpr int16_t kUp[32] = {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
                                                  24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
  return {_mm512_permutex2var_epi16(even, load_pairs(kLow), odd),
          _mm512_permutex2var_epi16(even, load_pairs(kUp), odd)};
}

/// Panels of `high` elements of `length` lines, `line` bytes apart, as pairs of two lines: `panel` bytes from one panel
/// to the next. Reads lines as they lie in memory, which is prefetched some lines ahead: what lies in lines so far
/// apart no processor foresees.
template <int high>
void pack_pairs_of_lines(const char* from, int64_t line, int64_t length, int64_t count, char* to, int64_t panel) {
  constexpr int64_t at_once = 256 / high, kLinesAhead = 16;
  for (int64_t first = 0; first < count; first += at_once * high) {
    const int64_t end = std::min(count, first + at_once * high);
    for (int64_t k = 0; k < length; k += 2) {
      const char *even = from + k * line, *odd = even + line;
      const int64_t ahead = k + kLinesAhead + 1 < length ? kLinesAhead * line : 0;
      char* out = to + first / high * panel + k / 2 * high * 4;
      for (int64_t i = first; i < end; i += high, out += panel) {
        const int64_t width = std::min<int64_t>(high, end - i);
        __builtin_prefetch(even + 2 * i + ahead);
        __builtin_prefetch(odd + 2 * i + ahead);
        const Pairs x = load_first_pairs(even + 2 * i, width);
        const Interleaved both = interleave(x, k + 1 < length ? load_first_pairs(odd + 2 * i, width) : Pairs{});
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
inline void pack_pairs_of_columns(const char* from, int64_t column, int64_t length, int64_t columns, char* to,
                                  int64_t step) {
  using S = Square<float>;
  for (int64_t k = 0; k < length; k += 2 * kPairLanes) {
    const int64_t left = std::min<int64_t>(2 * kPairLanes, length - k), pairs = (left + 1) / 2;
    S::Row row[kPairLanes];
    UNROLLED for (int i = 0; i < kPairLanes; ++i) {
      const Pairs x = i < columns ? load_first_pairs(from + i * column + 2 * k, left) : Pairs{};
      std::memcpy(&row[i], &x, sizeof x);
    }
    S::transpose(row);
    UNROLLED for (int i = 0; i < kPairLanes; ++i) {
      if (i < pairs) std::memcpy(to + (k / 2 + i) * step, &row[i], 64);
    }
  }
}

/// 16 n numbers, rounded.
inline void round_row(const float* x, int64_t n, char* to) {
  for (int64_t i = 0; i < n; i += kPairLanes)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 2 * i),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i))));
}
/// 16 n numbers of two rows, rounded, as pairs.
inline void round_pairs(const float* even, const float* odd, int64_t n, char* to) {
  const auto wide = [](const float* x) __attribute__((always_inline)) {
    return words_of(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(x))));
  };
  for (int64_t i = 0; i < n; i += kPairLanes)
    _mm512_storeu_si512(to + 4 * i, reinterpret_cast<__m512i>(wide(even + i) | wide(odd + i) << 16));
}

/// The left factor in bytes: pair k of row r at data + r row + k step; `by_rows` where the step is a pair.
struct HalfLeft {
  const char* data;
  int64_t row, step;
  bool by_rows;
};
/// c = a b, or c += a b, in float32, where b is panels `panel` bytes apart. Columns up to a multiple of kHalfColumns
/// are written.
inline void half_block(const HalfLeft& a, const char* b, int64_t panel, int64_t rows, int64_t columns, int64_t depth,
                       float* c, int64_t c_row, bool add) {
  HalfFinish f{1, 0, nullptr, nullptr, c_row, !add, false};
  for (int64_t j = 0; j < columns; j += kHalfColumns, b += panel) {
    for (int64_t r = 0; r < rows; r += kHalfRows) {
      const HalfChain chain{depth, a.data + r * a.row, a.row, a.step, b};
      f.partial = c + r * c_row + j;
      const int64_t high = std::min(kHalfRows, rows - r);
      if (a.by_rows) half_tile_of<true>(high, chain, f, nullptr, 0, kHalfColumns);
      else half_tile_of<false>(high, chain, f, nullptr, 0, kHalfColumns);
    }
  }
}

#undef UNROLLED
#pragma GCC pop_options

}  // namespace facula::cpu::FACULA_ISA

#endif

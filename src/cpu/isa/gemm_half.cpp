// Products of bfloat16 matrices: 12 by 32 results stay in registers while the sums run along the inner dimension
// (cpu/isa/half_tiles.h). a is read where its rows lie, or packed as panels of 12 rows where its columns are
// contiguous. Results are rounded once. With AMX it is 32 by 32 results in registers of tiles (cpu/isa/tiles.h), which
// take b packed in the same order, and rows of a.
#include "cpu/gemm_half.h"

#if defined(__AVX512F__)

#include "core/tensor.h"
#include "cpu/isa/half_tiles.h"
#include "cpu/isa/tiles.h"

namespace facula::cpu::FACULA_ISA {
namespace {

#pragma GCC push_options
#pragma GCC target("avx512bf16")
#define UNROLLED _Pragma("GCC unroll 16")

// Measured: the longest chain of sums, and elements of a block of rows of a, a part of the second-level cache.
constexpr int64_t kChain = 2048, kBlock = 1 << 18;
// A row stride of so many bytes, or a multiple of it, puts the rows of a tile into the same lines of the first-level
// cache.
constexpr int64_t kAliased = 2048;
constexpr int64_t kTileHigh = 32;  // rows of what registers of tiles hold

void pack_isa(const MatrixProduct& p, int64_t from, int64_t to, char* packed) {
  const int64_t panel = half_panel_bytes(p.inner), first = from * kHalfColumns,
                columns = std::min(to * kHalfColumns, p.columns);
  if (p.b.column == 1)
    return pack_pairs_of_lines<kHalfColumns>(p.b.data + 2 * first, 2 * p.b.row, p.inner, columns - first,
                                             packed + from * panel, panel);
  for (int64_t j = first; j < columns; j += kPairLanes)
    pack_pairs_of_columns(p.b.data + 2 * j * p.b.column, 2 * p.b.column, p.inner,
                          std::min<int64_t>(kPairLanes, columns - j),
                          packed + j / kHalfColumns * panel + j % kHalfColumns * 4, 4 * kHalfColumns);
}

/// What a thread holds while it uses registers of tiles: nothing where there are none.
template <class Tiles>
struct UseOf {
  using type = typename Tiles::Use;
};
template <>
struct UseOf<void> {
  struct type {};
};

/// 32 sums of a row, of which the first `width` are written; `kept` are those of the chains before, or null.
[[maybe_unused]] void finish_row(const float* sums, const HalfFinish& f, float* kept, char* out, int64_t width) {
  for (int64_t j = 0; j < kHalfColumns; j += kPairLanes) {
    __m512 sum = _mm512_loadu_ps(sums + j);
    if (kept && !f.first) sum = sum + _mm512_loadu_ps(kept + j);
    if (!f.last) _mm512_storeu_ps(kept + j, sum);
    else if (width > j) finish_vector(sum, f, j, out, first_lanes(width - j));
  }
}

/// Blocks of rows of a, packed where they must be, meet the panels of b. `Tiles`: registers of tiles, or void.
template <class Tiles>
struct Product {
  static constexpr bool tiled = !std::is_void_v<Tiles>;
  const MatrixProduct& p;
  const char* packed;
  const int64_t chain = std::min(p.inner, kChain);
  const bool aliased = 2 * p.a.row % kAliased == 0;
  const bool in_place = p.a.column == 1 && (tiled || !aliased || p.columns <= 2 * kHalfColumns || p.rows < kHalfRows);
  static constexpr int64_t kHigh = tiled ? kTileHigh : kHalfRows;
  const int64_t block = std::clamp(kBlock / chain / kHigh, int64_t{2}, int64_t{32}) * kHigh;
  const int64_t copied_row = (chain + 95) / 64 * 64 + 32;  // elements of a row that is copied: lines do not alias
  char* room = nullptr;                                    // of a block of a
  float* partial = nullptr;

  /// Bytes of a panel of a, whose pairs of rows lie side by side: two panels do not begin in the same set of a cache.
  static int64_t panel_of(int64_t length) { return (length + 1) / 2 * kHalfRows * 4 + 64; }

  int64_t wide() const { return (p.columns + kHalfColumns - 1) / kHalfColumns * kHalfColumns; }

  void pack_a(int64_t i0, int64_t rows, int64_t k0, int64_t length) const {
    const char* from = p.a.data + 2 * (i0 * p.a.row + k0 * p.a.column);
    if (p.a.column == 1) {
      for (int64_t r = 0; r < rows; ++r)
        std::memcpy(room + 2 * r * copied_row, from + 2 * r * p.a.row, static_cast<size_t>(2 * length));
    } else if (tiled) {
      transpose_tiles<uint16_t>(from, 2 * p.a.column, room, 2 * copied_row, rows, length);
    } else {
      pack_pairs_of_lines<kHalfRows>(from, 2 * p.a.column, length, rows, room, panel_of(length));
    }
  }

  HalfFinish finish_of(int64_t k0, int64_t length) const {
    return {static_cast<float>(p.alpha.to_double()),
            static_cast<float>(p.beta.to_double()),
            nullptr,
            nullptr,
            wide(),
            k0 == 0,
            k0 + length == p.inner};
  }

#if defined(FACULA_HAS_TILES)
  void meet_tiles(int64_t i0, int64_t rows, int64_t k0, int64_t length) const {
    alignas(64) float sums[kTileHigh * kHalfColumns];
    HalfFinish f = finish_of(k0, length);
    const int64_t row = 2 * (in_place ? p.a.row : copied_row);
    const char* a = in_place ? p.a.data + 2 * (i0 * p.a.row + k0) : room;
    for (int64_t j = 0; j < p.columns; j += kHalfColumns) {
      const char* panel = packed + j / kHalfColumns * half_panel_bytes(p.inner) + k0 * kHalfColumns * 2;
      if (p.bias) f.bias = p.bias + 2 * j;
      for (int64_t i = 0; i < rows; i += kTileHigh) {
        const int64_t high = std::min<int64_t>(kTileHigh, rows - i);
        product_of_tiles<Tiles, 4 * kHalfColumns>(a + i * row, row, 2 * length, high, panel, sums);
        for (int64_t r = 0; r < high; ++r) {
          float* kept = partial ? partial + (i + r) * wide() + j : nullptr;
          finish_row(sums + r * kHalfColumns, f, kept, p.out + 2 * ((i0 + i + r) * p.out_row + j), p.columns - j);
        }
      }
    }
  }
#endif

  void meet(int64_t i0, int64_t rows, int64_t k0, int64_t length) const {
    HalfFinish f = finish_of(k0, length);
    for (int64_t j = 0; j < p.columns; j += kHalfColumns) {
      HalfChain c{length, nullptr, 0, 0, packed + j / kHalfColumns * half_panel_bytes(p.inner) + k0 * kHalfColumns * 2};
      if (p.bias) f.bias = p.bias + 2 * j;
      for (int64_t i = 0, high = 0; i < rows; i += high) {
        high = p.a.column == 1 ? next_half_rows(rows - i) : std::min<int64_t>(kHalfRows, rows - i);
        char* out = p.out + 2 * ((i0 + i) * p.out_row + j);
        if (partial) f.partial = partial + i * wide() + j;
        if (p.a.column == 1) {
          c.row = 2 * (in_place ? p.a.row : copied_row);
          c.a = in_place ? p.a.data + 2 * ((i0 + i) * p.a.row + k0) : room + i * c.row;
          half_tile_of<true>(high, c, f, out, 2 * p.out_row, p.columns - j);
        } else {
          c.step = kHalfRows * 4;
          c.a = room + i / kHalfRows * panel_of(length);
          half_tile_of<false>(high, c, f, out, 2 * p.out_row, p.columns - j);
        }
      }
    }
  }

  void run() {
    const int64_t for_a = in_place ? 0 : std::max(block * copied_row * 2, block / kHalfRows * panel_of(chain));
    const int64_t for_sums = chain == p.inner ? 0 : block * wide() * 4;
    const Tensor memory = for_a + for_sums ? facula::empty({for_a + for_sums}, DType::UInt8) : Tensor();
    if (memory.defined()) room = memory.data<char>();
    if (for_sums) partial = reinterpret_cast<float*>(room + for_a);
    [[maybe_unused]] typename UseOf<Tiles>::type use;
    for (int64_t i = 0; i < p.rows; i += block) {
      const int64_t rows = std::min(block, p.rows - i);
      for (int64_t k = 0; k < p.inner; k += chain) {
        const int64_t length = std::min(chain, p.inner - k);
        if (!in_place) pack_a(i, rows, k, length);
        if constexpr (tiled) meet_tiles(i, rows, k, length);
        else meet(i, rows, k, length);
      }
    }
  }
};

template <class Tiles>
void gemm_isa(const MatrixProduct& p, const char* packed) {
  Product<Tiles>{p, packed}.run();
}

// Few rows times a matrix: b is read once, where it lies.

/// The dot products of R lines of a with C contiguous columns of b.
template <int R, int C>
[[gnu::noinline]] void dot_tile(const MatrixProduct& p, const char* a, const char* b, float* sums) {
  const int64_t a_step = 2 * p.a.row, b_step = 2 * p.b.column, n = p.inner;
  __m512 sum[kPairLanes];
  UNROLLED for (int i = 0; i < kPairLanes; ++i) sum[i] = _mm512_setzero_ps();
  auto add = [&](auto get) __attribute__((always_inline)) {
    Pairs x[R];
    UNROLLED for (int r = 0; r < R; ++r) x[r] = get(a + r * a_step);
    UNROLLED for (int c = 0; c < C; ++c) {
      const Pairs y = get(b + c * b_step);
      __builtin_prefetch(b + (c + C) * b_step, 0, 2);  // of the next tile: columns are too short to be foreseen
      UNROLLED for (int r = 0; r < R; ++r) sum[r * C + c] = add_products(sum[r * C + c], y, x[r]);
    }
  };
  int64_t k = 0;
  for (; k + 32 <= n; k += 32, a += 64, b += 64)
    add([](const char* from) __attribute__((always_inline)) { return load_pairs(from); });
  if (k < n) add([=](const char* from) __attribute__((always_inline)) { return load_first_pairs(from, n - k); });
  Square<float>::Row row[kPairLanes];
  UNROLLED for (int i = 0; i < kPairLanes; ++i) std::memcpy(&row[i], &sum[i], 64);
  Square<float>::transpose(row);
  UNROLLED for (int half = kPairLanes / 2; half > 0; half /= 2) {
    UNROLLED for (int i = 0; i < half; ++i) row[i] += row[i + half];
  }
  std::memcpy(sums, &row[0], 64);
}

void store_sums(const MatrixProduct& p, const float* sums, int64_t row, int64_t rows, int64_t column, int64_t columns,
                int64_t stride) {
  const HalfFinish f{static_cast<float>(p.alpha.to_double()),
                     static_cast<float>(p.beta.to_double()),
                     p.bias ? p.bias + 2 * column : nullptr,
                     nullptr,
                     0,
                     true,
                     true};
  for (int64_t r = 0; r < rows; ++r) {
    char* to = p.out + 2 * ((row + r) * p.out_row + column);
    for (int64_t j = 0; j < columns; j += kPairLanes) {
      const __mmask16 lanes = first_lanes(columns - j);
      finish_vector(_mm512_maskz_loadu_ps(lanes, sums + r * stride + j), f, j, to, lanes);
    }
  }
}

/// Columns from `column` on, C of them, with all rows.
template <int R, int C>
void dot_rows(const MatrixProduct& p, int64_t column, int64_t row) {
  alignas(64) float sums[kPairLanes];
  for (; row + R <= p.rows; row += R) {
    dot_tile<R, C>(p, p.a.data + 2 * row * p.a.row, p.b.data + 2 * column * p.b.column, sums);
    store_sums(p, sums, row, R, column, C, C);
  }
  if constexpr (R > 1) dot_rows<R / 2, C>(p, column, row);
}

/// The dot product of a line of a with one column of b, in several sums: columns are read one after the other, which
/// the processor foresees.
float long_dot(const char* a, const char* b, int64_t n) {
  constexpr int kSums = 4;
  __m512 sum[kSums];
  UNROLLED for (int i = 0; i < kSums; ++i) sum[i] = _mm512_setzero_ps();
  int64_t k = 0;
  for (; k + 32 * kSums <= n; k += 32 * kSums) {
    UNROLLED for (int i = 0; i < kSums; ++i) sum[i] =
        add_products(sum[i], load_pairs(b + 2 * (k + 32 * i)), load_pairs(a + 2 * (k + 32 * i)));
  }
  for (; k < n; k += 32)
    sum[0] = add_products(sum[0], load_first_pairs(b + 2 * k, std::min<int64_t>(32, n - k)),
                          load_first_pairs(a + 2 * k, std::min<int64_t>(32, n - k)));
  return _mm512_reduce_add_ps((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// Measured: from so long a column on it is read alone, for one row.
constexpr int64_t kLongColumn = 512, kAtOnce = 16;

void long_dots(const MatrixProduct& p, int64_t from, int64_t to) {
  alignas(64) float sums[kAtOnce];
  for (int64_t c = from; c < to; c += kAtOnce) {
    const int64_t count = std::min(kAtOnce, to - c);
    for (int64_t i = 0; i < count; ++i) sums[i] = long_dot(p.a.data, p.b.data + 2 * (c + i) * p.b.column, p.inner);
    store_sums(p, sums, 0, 1, c, count, kAtOnce);
  }
}

void dots(const MatrixProduct& p, int64_t from, int64_t to) {
  if (p.rows == 1 && p.inner >= kLongColumn) return long_dots(p, from, to);
  int64_t c = from;
  if (p.rows <= 2) {
    for (; c + 8 <= to; c += 8) dot_rows<2, 8>(p, c, 0);
  }
  for (; c + 4 <= to; c += 4) dot_rows<4, 4>(p, c, 0);
  for (; c < to; ++c) dot_rows<4, 1>(p, c, 0);
}

// b's rows are contiguous: sums stay in the first-level cache while four pairs of rows of b are added at a time, which
// lie an eighth of b apart: eight long streams through memory. Unpacking pairs leaves the columns of each 32 in the
// order of the unpacked vectors.
[[gnu::always_inline]] inline Pairs pair_of(const char* low, const char* high) {
  uint16_t first, second;
  std::memcpy(&first, low, sizeof first);
  std::memcpy(&second, high, sizeof second);
  return _mm512_set1_epi32(first | second << 16);
}

constexpr int kPairs = 4;
constexpr int64_t kSums = 4096;

struct LinePairs {
  const MatrixProduct& p;
  int64_t from, columns, wide;  // wide: sums of a row
  float* sums;

  /// Rows [row, row + R), lines k, k + apart, ..., of which `left` are there, and at most 2 kPairs.
  template <int R>
  void add(int64_t row, int64_t k, int64_t apart, int64_t left) const {
    Pairs x[R][kPairs];
    UNROLLED for (int r = 0; r < R; ++r) {
      UNROLLED for (int i = 0; i < kPairs; ++i) {
        const char* a = p.a.data + 2 * ((row + r) * p.a.row + k + 2 * i * apart);
        x[r][i] = 2 * i + 1 < left ? pair_of(a, a + 2 * apart) : 2 * i < left ? single_at(a) : Pairs{};
      }
    }
    const int64_t step = 2 * apart * p.b.row;
    for (int64_t j = 0; j < columns; j += 32) {
      const int64_t width = std::min<int64_t>(32, columns - j);
      const char* b = p.b.data + 2 * (k * p.b.row + from + j);
      Pairs low[kPairs], high[kPairs];
      UNROLLED for (int i = 0; i < kPairs; ++i) {
        const Pairs even = 2 * i < left ? load_first_pairs(b + 2 * i * step, width) : Pairs{};
        const Pairs odd = 2 * i + 1 < left ? load_first_pairs(b + (2 * i + 1) * step, width) : Pairs{};
        low[i] = _mm512_unpacklo_epi16(even, odd);
        high[i] = _mm512_unpackhi_epi16(even, odd);
      }
      UNROLLED for (int r = 0; r < R; ++r) {
        float* at = sums + (row + r) * wide + j;
        __m512 u = _mm512_loadu_ps(at), v = _mm512_loadu_ps(at + kPairLanes);
        UNROLLED for (int i = 0; i < kPairs; ++i) {
          u = add_products(u, x[r][i], low[i]);
          v = add_products(v, x[r][i], high[i]);
        }
        _mm512_storeu_ps(at, u);
        _mm512_storeu_ps(at + kPairLanes, v);
      }
    }
  }

  template <int R>
  void add_rows(int64_t row, int64_t k, int64_t apart, int64_t left) const {
    for (; row + R <= p.rows; row += R) add<R>(row, k, apart, left);
    if constexpr (R > 1) add_rows<R / 2>(row, k, apart, left);
  }

  void run() const {
    std::memset(sums, 0, static_cast<size_t>(p.rows * wide) * sizeof(float));
    const int64_t apart = p.inner / (2 * kPairs), done = apart * 2 * kPairs;
    for (int64_t k = 0; k < apart; ++k) add_rows<4>(0, k, apart, 2 * kPairs);
    if (done < p.inner) add_rows<4>(0, done, 1, p.inner - done);
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    for (int64_t i = 0; i < p.rows * wide; i += 32) {
      const __m512 u = _mm512_loadu_ps(sums + i), v = _mm512_loadu_ps(sums + i + kPairLanes);
      _mm512_storeu_ps(sums + i, _mm512_permutex2var_ps(u, first, v));
      _mm512_storeu_ps(sums + i + kPairLanes, _mm512_permutex2var_ps(u, second, v));
    }
    store_sums(p, sums, 0, p.rows, from, columns, wide);
  }
};

void few_rows_isa(const MatrixProduct& p, int64_t from, int64_t to) {
  if (p.b.row == 1) return dots(p, from, to);
  alignas(64) float sums[kSums];
  const int64_t most = kSums / p.rows / 32 * 32;
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
  half_gemm = gemm_isa<void>;
#if defined(FACULA_HAS_TILES)
  if (tiles_are_emulated()) half_gemm = gemm_isa<EmulatedTiles>;
  else if (has_tiles(kTilesOfBFloats)) half_gemm = gemm_isa<HardwareTiles>;
#endif
  half_pack = pack_isa;
  half_few_rows = few_rows_isa;
}

}  // namespace facula::cpu::FACULA_ISA

#else

namespace facula::cpu::FACULA_ISA {
void register_gemm_half() {}
}  // namespace facula::cpu::FACULA_ISA

#endif

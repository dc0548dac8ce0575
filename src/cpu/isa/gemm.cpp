// Products of float32 matrices: a tile of results stays in registers while the sums run along blocks of the inner
// dimension (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008): 6 by 16 with AVX2, 14
// by 32 with AVX-512. Blocks of b are copied into panels as wide as a tile, blocks of a into panels up to as high, each
// in the order in which it is read; what is read only a few times is read where it lies. Every result is one chain of
// fused multiply-adds along a block, and blocks are added in order, wherever in the matrix it lies: so pieces agree
// with the whole.
#include "cpu/gemm.h"

#include "cpu/matmul.h"

#if defined(__AVX2__)

#include <immintrin.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <new>

#include "cpu/isa/lanes.h"
#include "cpu/isa/transpose.h"

namespace facula::cpu::FACULA_ISA {
namespace {

using V = VectorOf<float>::type;

// Measured, of each level: the tile; the longest chain, rows of a block of a (with the chain, a part of the
// second-level cache), columns of a block of b (the third-level cache); columns that do not repay packing a, and rows
// that do not repay packing b; which products are left to other kernels.
#if defined(__AVX512F__)
constexpr int kHigh = 14;
constexpr int64_t kChain = 192, kBlockRows = 336, kBlockColumns = 2048, kFewColumns = 128, kFewRows = 42;
constexpr ProductTable kProducts = {.small = 64, .small_narrow = 2048, .dot_rows = {4, 8, 32, 6}};
#else
constexpr int kHigh = 6;
constexpr int64_t kChain = 192, kBlockRows = 192, kBlockColumns = 2048, kFewColumns = 64, kFewRows = 12;
constexpr ProductTable kProducts = {.small = 64, .small_transposed = 128, .dot_rows = {8, 16, 16, 3}};
#endif
constexpr int kLanes = VectorOf<float>::lanes, kVectors = 2, kWide = kVectors * kLanes;
// Rows that, with more than a few columns, repay no tile: they are multiplied with b line by line, so many columns at a
// time. Rows of sums do not lie a multiple of 4096 bytes apart: a load after a store to such a place waits for it.
constexpr int64_t kTileColumns = 64, kLineRows = kLanes / 4, kLineColumns = 4096, kSumsRow = kLineColumns + 5 * kLanes;
// Elements that fit the first-level cache anyway; those of a matrix whose lines are read a few at a time, where they
// lie; columns of a block of b that is packed for a few rows, which stays in the second-level cache.
constexpr int64_t kSmallMatrix = 1 << 12, kNearMatrix = 1 << 20, kNearColumns = 256;
// Lines of which a chain fits the first-level cache as they lie.
constexpr int64_t kShortLine = 64;
// Panels that are written side by side, and how many lines ahead memory is prefetched: rows are then read as they lie.
constexpr int64_t kPanelsAtOnce = 16, kLinesAhead = 16;

constexpr int64_t kLine = 16;  // elements of a line of memory

#define UNROLLED _Pragma("GCC unroll 32")

/// The first lanes of a vector, where a matrix ends within it.
#if defined(__AVX512F__)
struct Lanes {
  __mmask16 mask;
  explicit Lanes(int64_t count) : mask(static_cast<__mmask16>((1U << count) - 1)) {}
  V load(const float* from) const { return (V)_mm512_maskz_loadu_ps(mask, from); }
  void store(float* to, V v) const { _mm512_mask_storeu_ps(to, mask, (__m512)v); }
};
#else
struct Lanes {
  __m256i mask;
  explicit Lanes(int64_t count)
      : mask(_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                                _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))) {}
  V load(const float* from) const { return (V)_mm256_maskload_ps(from, mask); }
  void store(float* to, V v) const { _mm256_maskstore_ps(to, mask, (__m256)v); }
};
#endif

/// What becomes of sums: out = alpha sums + bias + beta out.
struct Finish {
  float alpha, beta;
  const float* bias;  // of the first column, or null
};

/// Where a tile's operands lie: element (r, k) of a at r row + k step, row k of b at k b_step.
struct Chain {
  int64_t length;
  const float* a;
  int64_t row, step;
  const float* b;
  int64_t b_step;
  const float* ahead = nullptr;  // memory that is prefetched on the way, an element for each of the chain
  int64_t ahead_step = 0;        // or, by rows, a line of each of kLine rows after the other
};

/// R rows of W vectors of results, of which the last one may be a part. `by_rows`: the step of a is one; else its row
/// stride is. Inlined, it would spill sums.
template <int R, int W, bool by_rows, bool part>
[[gnu::noinline]] void tile(const Chain& given, float* out, int64_t out_row, const Finish& finish, int64_t width) {
  const Chain c = given;
  constexpr int kNear = 3, kPlaces = by_rows ? (R + kNear - 1) / kNear : 1;  // strides have few multiples
  const Lanes lanes(part ? width - (W - 1) * kLanes : 0);
  auto load = [&](const float* from, int j) __attribute__((always_inline)) {
    return part && j == W - 1 ? lanes.load(from + j * kLanes) : load_vector(from + j * kLanes);
  };
  constexpr bool asks = R > kHigh / 2;  // what one request costs is hidden by many products
  const float *a[kPlaces], *b = c.b, *ahead = c.ahead ? c.ahead : c.b;
  UNROLLED for (int i = 0; i < kPlaces; ++i) a[i] = c.a + i * kNear * c.row;
  V sum[R][W] = {};
  UNROLLED for (int r = 0; r < R; ++r) {
    UNROLLED for (int at = W * kLanes; at > 0; at -= kLine) __builtin_prefetch(out + r * out_row + at - 1, 1);
  }
  for (int64_t k = 0; k < c.length; ++k, b += c.b_step) {
    V y[W];
    UNROLLED for (int j = 0; j < W; ++j) y[j] = load(b, j);
    if constexpr (asks && by_rows) __builtin_prefetch(ahead + k % kLine * c.ahead_step + k / kLine * kLine);
    else if constexpr (asks) __builtin_prefetch(ahead + k * c.ahead_step, 0, 2);
    UNROLLED for (int r = 0; r < R; ++r) {
      const float x = by_rows ? a[r / kNear][r % kNear * c.row] : a[0][r];
      UNROLLED for (int j = 0; j < W; ++j) sum[r][j] += x * y[j];
    }
    UNROLLED for (int i = 0; i < kPlaces; ++i) a[i] += by_rows ? 1 : c.step;
  }
  const Finish f = finish;
  // All is read before anything is written: a row that begins within the vector of the one before would wait for that.
  UNROLLED for (int r = 0; r < R; ++r) {
    UNROLLED for (int j = 0; j < W; ++j) {
      V v = f.alpha * sum[r][j];
      if (f.bias) v += load(f.bias, j);
      if (f.beta != 0) v += f.beta * load(out + r * out_row, j);
      sum[r][j] = v;
    }
  }
  UNROLLED for (int r = 0; r < R; ++r) {
    UNROLLED for (int j = 0; j < W; ++j) {
      float* to = out + r * out_row + j * kLanes;
      if (part && j == W - 1) lanes.store(to, sum[r][j]);
      else std::memcpy(to, &sum[r][j], sizeof(V));
    }
  }
}

void finish_line(const Finish& f, const float* sums, int64_t columns, float* out) {
  for (int64_t j = 0; j < columns; ++j) {
    float v = f.alpha * sums[j];
    if (f.bias) v += f.bias[j];
    if (f.beta != 0) v += f.beta * out[j];
    out[j] = v;
  }
}

/// Rows of the next tile of `left`: as many as it has, and at the end two tiles of about the same height.
int64_t next_rows(int64_t left, int64_t high) {
  return left >= 2 * high || left == high ? high : left > high ? (left + 1) / 2 : left;
}

/// Lines that lie multiples of 4096 bytes apart share the few places that caches have for each of them.
bool are_alike(int64_t stride) { return stride % 1024 == 0; }

/// So fewer of them are read side by side.
int64_t rows_in_place(int64_t stride) {
  constexpr int64_t kFew = 6;
  return are_alike(stride) ? kFew : kHigh;
}

using Tile = void (*)(const Chain& chain, float* out, int64_t out_row, const Finish& finish, int64_t width);

template <int W, bool by_rows, bool part, int... R>
constexpr std::array<Tile, kHigh> tiles_of(std::integer_sequence<int, R...>) {
  return {tile<R + 1, W, by_rows, part>...};
}

/// By the vectors of a row, less one, and the rows, less one.
template <bool by_rows, bool part>
constexpr std::array<Tile, kHigh> kTiles[kVectors] = {
    tiles_of<1, by_rows, part>(std::make_integer_sequence<int, kHigh>()),
    tiles_of<2, by_rows, part>(std::make_integer_sequence<int, kHigh>())};

Tile tile_of(int64_t rows, int64_t width, bool by_rows) {
  const int64_t vectors = (width + kLanes - 1) / kLanes;
  const bool part = width != vectors * kLanes;
  const auto& tiles = by_rows ? part ? kTiles<true, true> : kTiles<true, false>
                      : part ? kTiles<false, true>
                              : kTiles<false, false>;
  return tiles[vectors - 1][static_cast<size_t>(rows - 1)];
}

/// Squares of up to kLanes lines, `stride` apart, become rows of kLanes elements, `step` apart, the last of them zeros;
/// rows may overlap: each is written before the next. Of other lines less than a square's length may be left.
template <int lines>
[[gnu::always_inline]] inline void pack_square(const float* from, int64_t stride, int64_t length, float* to,
                                               int64_t step) {
  V row[kLanes];
  UNROLLED for (int i = 0; i < kLanes; ++i) {
    if (i >= lines) row[i] = V{};
    else if (length >= kLanes) row[i] = load_vector(from + i * stride);
    else row[i] = Lanes(length).load(from + i * stride);
  }
  Square<float>::transpose(row);
  UNROLLED for (int i = 0; i < kLanes; ++i) {
    if (i < length) std::memcpy(to + i * step, &row[i], sizeof(V));
  }
}

template <int lines>
[[gnu::noinline]] void pack_squares(const float* from, int64_t stride, int64_t length, float* to, int64_t step) {
  int64_t k = 0;
  for (; k + kLanes <= length; k += kLanes) {
    UNROLLED for (int i = 0; i < lines; ++i) __builtin_prefetch(from + (i + lines) * stride + k);
    pack_square<lines>(from + k, stride, kLanes, to + k * step, step);
  }
  if (k < length) pack_square<lines>(from + k, stride, length - k, to + k * step, step);
}

template <int lines = kLanes>
void pack_transposed(const float* from, int64_t stride, int64_t length, int64_t count, float* to, int64_t step) {
  if (count >= lines) return pack_squares<lines>(from, stride, length, to, step);
  if constexpr (lines > 0) pack_transposed<lines - 1>(from, stride, length, count, to, step);
}

/// Panels of `high` elements from each of `length` lines, side by side: reads lines as they lie in memory.
template <int high>
void pack_lines(const float* from, int64_t stride, int64_t length, int64_t panels, float* to) {
  for (int64_t first = 0; first < panels; first += kPanelsAtOnce) {
    const int64_t count = std::min(kPanelsAtOnce, panels - first);
    for (int64_t k = 0; k < length; ++k) {
      const float* line = from + k * stride + first * high;
      float* panel = to + (first * length + k) * high;
      for (int64_t p = 0; p < count; ++p, line += high, panel += length * high) {
        __builtin_prefetch(line + kLinesAhead * stride);
        std::memcpy(panel, line, high * sizeof(float));
      }
    }
  }
}

/// A panel of fewer columns.
void pack_part(const float* from, int64_t stride, int64_t length, int64_t width, float* to) {
  for (int64_t j = 0; j < width; j += kLanes) {
    const Lanes lanes(std::min<int64_t>(kLanes, width - j));
    for (int64_t k = 0; k < length; ++k) {
      const V line = lanes.load(from + k * stride + j);
      std::memcpy(to + k * kWide + j, &line, sizeof line);
    }
  }
}

[[gnu::noinline]] void pack_columns(const MatrixOperand& b, const float* from, int64_t length, int64_t columns,
                                    float* to) {
  const int64_t whole = b.column == 1 ? columns / kWide * kWide : 0;
  pack_lines<kWide>(from, b.row, length, whole / kWide, to);
  for (int64_t j = whole; j < columns; j += kWide) {
    const int64_t width = std::min<int64_t>(kWide, columns - j);
    const float* first = from + j * b.column;
    float* panel = to + j * length;
    if (b.column == 1) {
      pack_part(first, b.row, length, width, panel);
    } else {
      for (int64_t half = 0; half < width; half += kLanes)
        pack_transposed(first + half * b.column, b.column, length, width - half, panel + half, kWide);
    }
  }
}

[[gnu::noinline]] void pack_rows(const MatrixOperand& a, const float* from, int64_t length, int64_t rows, float* to) {
  int64_t i = 0;
  if (a.row == 1) {
    // panels of the last two tiles may be lower
    const int64_t panels = rows % kHigh == 0 ? rows / kHigh : std::max<int64_t>(rows / kHigh - 1, 0);
    pack_lines<kHigh>(from, a.column, length, panels, to);
    i = panels * kHigh;
  }
  for (int64_t high = 0; i < rows; i += high) {
    high = next_rows(rows - i, kHigh);
    const float* first = from + i * a.row;
    float* panel = to + i * length;
    if (a.row != 1) {
      pack_transposed(first, a.row, length, high, panel, high);
      continue;
    }
    for (int64_t k = 0; k < length; ++k)
      for (int64_t r = 0; r < high; ++r) panel[k * high + r] = first[k * a.column + r];
  }
}

/// Where blocks of a and b are packed: memory that each thread keeps.
struct Room {
  float *a, *b;
};

Room room_of_thread() {
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  constexpr size_t kLine = 64, of_b = kBlockColumns * kChain * sizeof(float),
                   of_a = (kBlockRows * kChain + kLanes) * sizeof(float);
  static thread_local const std::unique_ptr<void, Free> bytes(
      std::aligned_alloc(kLine, (of_a + of_b + kLine) / kLine * kLine));
  if (!bytes) throw std::bad_alloc();
  auto* b = static_cast<float*>(bytes.get());
  return {b + of_b / sizeof(float), b};
}

/// sums[r] += a[r] b for R rows of a and K of b, element (r, k) of a at r row + k step.
template <int R, int K>
[[gnu::noinline]] void add_lines(const Chain& c, int64_t columns, float* sums) {
  V x[R][K];
  UNROLLED for (int r = 0; r < R; ++r) {
    UNROLLED for (int k = 0; k < K; ++k) x[r][k] = V{} + c.a[r * c.row + k * c.step];
  }
  const float* b = c.b;
  const int64_t b_step = c.b_step;
  auto add = [&](int64_t j, auto load, auto store) __attribute__((always_inline)) {
    V y[K];
    UNROLLED for (int k = 0; k < K; ++k) y[k] = load(b + k * b_step + j);
    UNROLLED for (int r = 0; r < R; ++r) {
      V sum = load(sums + r * kSumsRow + j);
      UNROLLED for (int k = 0; k < K; ++k) sum += x[r][k] * y[k];
      store(sums + r * kSumsRow + j, sum);
    }
  };
  int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) {
    add(j, [](const float* from) { return load_vector(from); }, [](float* to, V v) { std::memcpy(to, &v, sizeof v); });
  }
  if (j == columns) return;
  const Lanes lanes(columns - j);
  add(j, [lanes](const float* from) { return lanes.load(from); }, [lanes](float* to, V v) { lanes.store(to, v); });
}

/// The same for any number of rows.
template <int K, int R = kLineRows>
void add_lines_to(const Chain& given, int64_t rows, int64_t columns, float* sums) {
  Chain c = given;
  for (; rows >= R; rows -= R, c.a += R * c.row, sums += R * kSumsRow) add_lines<R, K>(c, columns, sums);
  if constexpr (R > 1) {
    if (rows) add_lines_to<K, R - 1>(c, rows, columns, sums);
  }
}

/// How long the chains of sums are: of about one length.
int64_t chain_of(int64_t inner) {
  const int64_t chains = (inner + kChain - 1) / kChain;
  return ((inner + chains - 1) / chains + kLanes - 1) / kLanes * kLanes;
}

/// One product, block by block.
struct Product {
  const MatrixProduct& p;
  const PackedColumns& packed;
  const Room room;
  bool a_in_place, b_in_place, by_lines;

  Product(const MatrixProduct& p, const PackedColumns& packed) : p(p), packed(packed), room(room_of_thread()) {
    const bool small_a = p.rows * p.inner <= kSmallMatrix, small_b = p.inner * p.columns <= kSmallMatrix;
    // Transposed, a is read from the places of a few lines: packing pays where that is done again and again.
    a_in_place = p.a.column == 1 ? p.columns <= kFewColumns
                                 : small_a || (p.a.row == 1 && (p.a.column <= kShortLine || p.columns <= kWide));
    const bool b_lies = !packed.data && p.b.column == 1;
    by_lines = b_lies && p.rows <= kLineRows && p.columns > kTileColumns;
    const bool few = p.rows <= (are_alike(p.b.row) ? kHigh : kFewRows) && p.inner * p.columns <= kNearMatrix;
    b_in_place = b_lies && (few || small_b || p.b.row <= kShortLine);
  }
  const float* a(int64_t i, int64_t k) const {
    return reinterpret_cast<const float*>(p.a.data) + i * p.a.row + k * p.a.column;
  }
  const float* b(int64_t k, int64_t j) const {
    return reinterpret_cast<const float*>(p.b.data) + k * p.b.row + j * p.b.column;
  }

  Finish finish_of(int64_t j, int64_t k) const {
    const auto* bias = reinterpret_cast<const float*>(p.bias);
    return {static_cast<float>(p.alpha.to_double()), k ? 1.0f : static_cast<float>(p.beta.to_double()),
            bias && !k ? bias + j : nullptr};
  }

  /// While a tile is computed it asks for what is read next. Where a lies as it is, these are the rows of the next
  /// tile, the first time that they are read. Else it is what is packed for the next chain: the tiles of the first
  /// panel ask for rows of a that lie side by side in memory, of which no tile has more than a line holds; the first
  /// two tiles of the others for two vectors of a row of b.
  void look_ahead(Chain& c, int64_t row, int64_t i, int64_t column, int64_t j, int64_t k) const {
    if (a_in_place && p.a.column == 1) {
      if (j == 0) c.ahead = a(row + kHigh, k - c.length), c.ahead_step = p.a.row;
      return;
    }
    if (k >= p.inner) return;
    if (j == 0 && p.a.row == 1) {
      c.ahead = a(row, k);
      c.ahead_step = p.a.column;
    } else if (i <= kHigh && !packed.data && !b_in_place && p.b.column == 1) {
      c.ahead = b(k, column) + (i ? kLanes : 0);
      c.ahead_step = p.b.row;
    }
  }

  /// Rows [i0, i0 + rows), columns [j0, j0 + columns), `length` elements of the sums from k0 on.
  void block(int64_t i0, int64_t rows, int64_t j0, int64_t columns, int64_t k0, int64_t length) const {
    const bool by_rows = a_in_place && p.a.column == 1;
    const int64_t most = by_rows ? rows_in_place(p.a.row) : kHigh;
    const float* panels = packed.data ? packed.data + k0 * packed.columns + (packed.first + j0) * length : room.b;
    for (int64_t j = 0; j < columns; j += kWide) {
      const int64_t width = std::min<int64_t>(kWide, columns - j);
      const Finish finish = finish_of(j0 + j, k0);
      for (int64_t i = 0, high = 0; i < rows; i += high) {
        high = next_rows(rows - i, most);
        Chain c{length, room.a + i * length, 0, high, panels + j * length, kWide};
        if (a_in_place) c.a = a(i0 + i, k0), c.row = p.a.row, c.step = p.a.column;
        if (b_in_place) c.b = b(k0, j0 + j), c.b_step = p.b.row;
        look_ahead(c, i0 + i, i, j0 + j, j, k0 + length);
        float* out = reinterpret_cast<float*>(p.out) + (i0 + i) * p.out_row + j0 + j;
        tile_of(high, width, by_rows)(c, out, p.out_row, finish, width);
      }
    }
  }

  /// All rows, columns [j0, j0 + columns): along the rows of b as they lie in memory.
  void lines(int64_t j0, int64_t columns, int64_t k0, int64_t length) const {
    constexpr int64_t kLines = 4;
    float* sums = room.b;
    for (int64_t i = 0; i < p.rows; ++i)
      std::memset(sums + i * kSumsRow, 0, static_cast<size_t>(columns) * sizeof(float));
    Chain c{length, a(0, k0), p.a.row, p.a.column, b(k0, j0), p.b.row};
    int64_t k = 0;
    for (int64_t count = 0; k < length; k += count, c.a += count * c.step, c.b += count * c.b_step) {
      count = length - k >= kLines ? kLines : 1;
      (count == kLines ? add_lines_to<kLines> : add_lines_to<1>)(c, p.rows, columns, sums);
    }
    const Finish f = finish_of(j0, k0);
    for (int64_t i = 0; i < p.rows; ++i)
      finish_line(f, sums + i * kSumsRow, columns, reinterpret_cast<float*>(p.out) + i * p.out_row + j0);
  }

  void run_lines(int64_t chain) const {
    for (int64_t j = 0; j < p.columns; j += kLineColumns)
      for (int64_t k = 0; k < p.inner; k += chain)
        lines(j, std::min(kLineColumns, p.columns - j), k, std::min(chain, p.inner - k));
  }

  void run() const {
    const int64_t chain = chain_of(p.inner);
    if (by_lines) return run_lines(chain);
    const int64_t wide = !packed.data && p.rows <= kBlockRows ? kNearColumns : kBlockColumns;
    for (int64_t j = 0; j < p.columns; j += wide) {
      const int64_t columns = std::min(wide, p.columns - j);
      for (int64_t k = 0; k < p.inner; k += chain) {
        const int64_t length = std::min(chain, p.inner - k);
        if (!packed.data && !b_in_place) pack_columns(p.b, b(k, j), length, columns, room.b);
        for (int64_t i = 0; i < p.rows; i += kBlockRows) {
          const int64_t rows = std::min(kBlockRows, p.rows - i);
          if (!a_in_place) pack_rows(p.a, a(i, k), length, rows, room.a);
          block(i, rows, j, columns, k, length);
        }
      }
    }
  }
};

/// Strides of dimensions of one element may be anything: one stride of each operand shall be one.
MatrixProduct with_unit_strides(const MatrixProduct& given) {
  MatrixProduct p = given;
  if (p.a.row != 1 && p.inner == 1) p.a.column = 1;
  if (p.a.column != 1 && p.rows == 1) p.a.row = 1;
  if (p.b.column != 1 && p.inner == 1) p.b.row = 1;
  if (p.b.row != 1 && p.columns == 1) p.b.column = 1;
  return p;
}

void gemm_isa(const MatrixProduct& given, const PackedColumns& packed) {
  const MatrixProduct p = with_unit_strides(given);
  Product(p, packed).run();
}

void pack_isa(const MatrixProduct& given, int64_t from, int64_t to, float* packed) {
  const MatrixProduct p = with_unit_strides(given);
  const int64_t chain = chain_of(p.inner), whole = (p.columns + kWide - 1) / kWide * kWide;
  const int64_t first = from * kWide, columns = std::min(to * kWide, p.columns) - first;
  for (int64_t k = 0; k < p.inner; k += chain) {
    const int64_t length = std::min(chain, p.inner - k);
    const auto* b = reinterpret_cast<const float*>(p.b.data) + k * p.b.row + first * p.b.column;
    pack_columns(p.b, b, length, columns, packed + k * whole + first * length);
  }
}

#undef UNROLLED

}  // namespace

void register_gemm() {
  gemm = gemm_isa;
  gemm_pack = pack_isa;
  gemm_tile = {kHigh, kWide, kLineRows, chain_of};
  float_products = kProducts;
}

}  // namespace facula::cpu::FACULA_ISA

#else

namespace facula::cpu::FACULA_ISA {
void register_gemm() {}
}  // namespace facula::cpu::FACULA_ISA

#endif

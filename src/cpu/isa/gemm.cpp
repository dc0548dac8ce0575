// Products of float32 matrices: 6 by 16 results stay in registers while the sums run along blocks of the inner
// dimension (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008). Blocks of b are
// copied into panels of 16 columns, blocks of a into panels of up to 6 rows, each in the order in which it is read;
// what is read only a few times is read where it lies. Every result is one chain of fused multiply-adds along a block,
// and blocks are added in order, wherever in the matrix it lies: so pieces agree with the whole.
#include "cpu/gemm.h"

// Measured with AVX2 only; elsewhere the libraries' kernels are used.
#if defined(__AVX2__) && !defined(__AVX512F__)

#include <cstdlib>
#include <memory>
#include <new>

#include "cpu/isa/lanes.h"
#include "cpu/isa/transpose.h"

namespace facula::cpu::FACULA_ISA {
namespace {

using V = VectorOf<float>::type;
constexpr int kLanes = VectorOf<float>::lanes, kVectors = 2, kWide = kVectors * kLanes, kHigh = 6;
static_assert(kWide == kGemmColumns && kHigh == kGemmRows);

// Measured: the longest chain, rows of a block of a (with the chain, a part of the second-level cache), columns of a
// block of b (the third-level cache).
constexpr int64_t kChain = 384, kBlockRows = 96, kBlockColumns = 2048;
// Columns that do not repay packing a, rows that do not repay packing b, and what fits the first-level cache anyway.
constexpr int64_t kFewColumns = 64, kFewRows = 12, kSmallMatrix = 1 << 12;
// Panels that are written side by side, and how many lines ahead memory is asked for: rows are then read as they lie.
constexpr int64_t kPanelsAtOnce = 16, kLinesAhead = 16;

#define UNROLLED _Pragma("GCC unroll 16")

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
};

/// R by kWide results. `by_rows`: the step of a is one; else its row stride is. Inlined, it would spill sums.
template <int R, bool by_rows>
[[gnu::noinline]] void tile(const Chain& given, float* out, int64_t out_row, const Finish& finish) {
  const Chain c = given;
  constexpr int kHalf = R > 3 ? 3 : R;  // rows beyond it are addressed from another place: strides have few multiples
  const float *a = c.a, *far = c.a + kHalf * c.row, *b = c.b;
  V sum[R][kVectors] = {};
  UNROLLED for (int r = 0; r < R; ++r) __builtin_prefetch(out + r * out_row + kWide - 1, 1);
  for (int64_t k = 0; k < c.length; ++k, b += c.b_step) {
    V y[kVectors];
    UNROLLED for (int j = 0; j < kVectors; ++j) y[j] = load_vector(b + j * kLanes);
    UNROLLED for (int r = 0; r < R; ++r) {
      const float x = !by_rows ? a[r] : r < kHalf ? a[r * c.row] : far[(r - kHalf) * c.row];
      UNROLLED for (int j = 0; j < kVectors; ++j) sum[r][j] += x * y[j];
    }
    a += by_rows ? 1 : c.step;
    far += 1;
  }
  const Finish f = finish;
  UNROLLED for (int r = 0; r < R; ++r) {
    UNROLLED for (int j = 0; j < kVectors; ++j) {
      float* to = out + r * out_row + j * kLanes;
      V v = f.alpha * sum[r][j];
      if (f.bias) v += load_vector(f.bias + j * kLanes);
      if (f.beta != 0) v += f.beta * load_vector(to);
      std::memcpy(to, &v, sizeof v);
    }
  }
}

/// The same for the last `width` columns, where b has zeros behind them.
template <int R, bool by_rows>
void narrow_tile(const Chain& chain, float* out, int64_t out_row, const Finish& finish, int64_t width) {
  float sums[R * kWide];
  tile<R, by_rows>(chain, sums, kWide, {1, 0, nullptr});
  for (int64_t r = 0; r < R; ++r) {
    for (int64_t j = 0; j < width; ++j) {
      float& to = out[r * out_row + j];
      float v = finish.alpha * sums[r * kWide + j];
      if (finish.bias) v += finish.bias[j];
      if (finish.beta != 0) v += finish.beta * to;
      to = v;
    }
  }
}

/// Rows of the next tile of `left`: six, and at the end two tiles of about the same height.
int64_t next_rows(int64_t left) {
  return left >= 2 * kHigh || left == kHigh ? kHigh : left > kHigh ? (left + 1) / 2 : left;
}

template <bool by_rows, int R = kHigh>
void tile_of(int64_t rows, const Chain& chain, float* out, int64_t out_row, const Finish& finish, int64_t width) {
  if (rows == R) {
    if (width == kWide) tile<R, by_rows>(chain, out, out_row, finish);
    else narrow_tile<R, by_rows>(chain, out, out_row, finish, width);
  } else if constexpr (R > 1) {
    tile_of<by_rows, R - 1>(rows, chain, out, out_row, finish, width);
  }
}

/// Squares of up to eight lines, `stride` apart, become as many rows, `step` apart, of eight elements, the last of them
/// zeros; rows may overlap: each is written before the next. Of other lines less than a square's length may be left.
template <int lines>
[[gnu::always_inline]] inline void pack_square(const float* from, int64_t stride, int64_t length, float* to,
                                               int64_t step) {
  V row[kLanes];
  UNROLLED for (int i = 0; i < kLanes; ++i) {
    row[i] = V{};
    if (i >= lines) continue;
    if (length >= kLanes) row[i] = load_vector(from + i * stride);
    else std::memcpy(&row[i], from + i * stride, static_cast<size_t>(length) * sizeof(float));
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

[[gnu::noinline]] void pack_columns(const MatrixOperand& b, const float* from, int64_t length, int64_t columns,
                                    float* to) {
  const int64_t whole = b.column == 1 ? columns / kWide * kWide : 0;
  pack_lines<kWide>(from, b.row, length, whole / kWide, to);
  for (int64_t j = whole; j < columns; j += kWide) {
    const int64_t width = std::min<int64_t>(kWide, columns - j);
    const float* first = from + j * b.column;
    float* panel = to + j * length;
    if (b.column == 1) {
      for (int64_t k = 0; k < length; ++k, panel += kWide) {
        std::memset(panel, 0, kWide * sizeof(float));
        std::memcpy(panel, first + k * b.row, static_cast<size_t>(width) * sizeof(float));
      }
    } else {
      for (int64_t half = 0; half < kWide; half += kLanes)
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
    high = next_rows(rows - i);
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
  bool a_in_place, b_in_place;

  Product(const MatrixProduct& p, const PackedColumns& packed) : p(p), packed(packed), room(room_of_thread()) {
    const bool small_a = p.rows * p.inner <= kSmallMatrix, small_b = p.inner * p.columns <= kSmallMatrix;
    a_in_place = p.a.column == 1 ? p.columns <= kFewColumns : small_a;
    b_in_place = !packed.data && p.b.column == 1 && (p.rows <= kFewRows || small_b);
  }
  const float* a(int64_t i, int64_t k) const {
    return reinterpret_cast<const float*>(p.a.data) + i * p.a.row + k * p.a.column;
  }
  const float* b(int64_t k, int64_t j) const {
    return reinterpret_cast<const float*>(p.b.data) + k * p.b.row + j * p.b.column;
  }

  /// Rows [i0, i0 + rows), columns [j0, j0 + columns), `length` elements of the sums from k0 on.
  void block(int64_t i0, int64_t rows, int64_t j0, int64_t columns, int64_t k0, int64_t length) const {
    const float alpha = static_cast<float>(p.alpha.to_double());
    const float beta = k0 ? 1.0f : static_cast<float>(p.beta.to_double());
    const float* bias = k0 ? nullptr : reinterpret_cast<const float*>(p.bias);
    const bool by_rows = a_in_place && p.a.column == 1;
    const float* panels = packed.data ? packed.data + k0 * packed.columns + (packed.first + j0) * length : room.b;
    for (int64_t j = 0; j < columns; j += kWide) {
      const int64_t width = std::min<int64_t>(kWide, columns - j);
      const bool there = b_in_place && width == kWide;
      const Finish finish{alpha, beta, bias ? bias + j0 + j : nullptr};
      for (int64_t i = 0, high = 0; i < rows; i += high) {
        high = next_rows(rows - i);
        Chain c{length, room.a + i * length, 0, high, panels + j * length, kWide};
        if (a_in_place) c.a = a(i0 + i, k0), c.row = p.a.row, c.step = p.a.column;
        if (there) c.b = b(k0, j0 + j), c.b_step = p.b.row;
        float* out = reinterpret_cast<float*>(p.out) + (i0 + i) * p.out_row + j0 + j;
        if (by_rows) tile_of<true>(high, c, out, p.out_row, finish, width);
        else tile_of<false>(high, c, out, p.out_row, finish, width);
      }
    }
  }

  void pack_b(int64_t j0, int64_t columns, int64_t k0, int64_t length) const {
    const int64_t whole = b_in_place ? columns / kWide * kWide : 0;
    if (whole < columns) pack_columns(p.b, b(k0, j0 + whole), length, columns - whole, room.b + whole * length);
  }

  void run() const {
    const int64_t chain = chain_of(p.inner);
    for (int64_t j = 0; j < p.columns; j += kBlockColumns) {
      const int64_t columns = std::min(kBlockColumns, p.columns - j);
      for (int64_t k = 0; k < p.inner; k += chain) {
        const int64_t length = std::min(chain, p.inner - k);
        if (!packed.data) pack_b(j, columns, k, length);
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
}

}  // namespace facula::cpu::FACULA_ISA

#else

namespace facula::cpu::FACULA_ISA {
void register_gemm() {}
}  // namespace facula::cpu::FACULA_ISA

#endif

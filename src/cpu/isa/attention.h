// What attention is made of, forwards and backwards: a head's matrices packed as the compute dtype, products of blocks
// over tiles that stay in registers, masks, and what dropout keeps.
#pragma once

#include <cmath>
#include <utility>

#include "core/parallel.h"
#include "cpu/isa/cast.h"
#include "cpu/isa/half_tiles.h"
#include "cpu/isa/lanes.h"
#include "cpu/isa/softmax.h"
#include "cpu/isa/transpose.h"
#include "ops/attention.h"

namespace facula::cpu::FACULA_ISA {

/// A tile has as many accumulators as fit into the registers beside two vectors of b and one element of a.
constexpr int64_t kTileRows = kVectorBytes == 64 ? 12 : 6;
template <class T>
constexpr int64_t kTileColumns = 2 * VectorOf<T>::lanes;

/// The left factor: rows and columns any distance apart.
template <class T>
struct Left {
  const T* data;
  int64_t row, column;
};
/// The right factor: rows of vectors, in panels of kTileColumns columns.
template <class T>
struct Right {
  const T* data;
  int64_t row, panel;
};

/// One tile of c = a b, or of c += a b; of its columns the first vector alone, where it is `narrow`.
template <class T, bool narrow = false>
void product_tile(const T* a, int64_t a_row, int64_t a_column, const T* b, int64_t b_row, int64_t depth, T* c,
                  int64_t c_row, bool add) {
  using V = typename VectorOf<T>::type;
  constexpr int lanes = VectorOf<T>::lanes, R = kTileRows;
  V low[R] = {}, high[R] = {};
  for (int64_t k = 0; k < depth; ++k, a += a_column, b += b_row) {
    const V x = load_vector(b), y = narrow ? V{} : load_vector(b + lanes);
    _Pragma("GCC unroll 16") for (int r = 0; r < R; ++r) {
      const T s = a[r * a_row];
      low[r] += s * x;
      if constexpr (!narrow) high[r] += s * y;
    }
  }
  _Pragma("GCC unroll 16") for (int r = 0; r < R; ++r) {
    T* to = c + r * c_row;
    if (add) {
      low[r] += load_vector(to);
      if constexpr (!narrow) high[r] += load_vector(to + lanes);
    }
    std::memcpy(to, &low[r], sizeof(V));
    if constexpr (!narrow) std::memcpy(to + lanes, &high[r], sizeof(V));
  }
}

/// c = a b, or c += a b; whole tiles, so that rows and columns up to their multiples are written, too, but for the
/// second vector of the last tile where no column is in it.
template <class T>
void product(const Left<T>& a, const Right<T>& b, int64_t rows, int64_t columns, int64_t depth, T* c, int64_t c_row,
             bool add) {
  for (int64_t j = 0; j < columns; j += kTileColumns<T>) {
    const T* panel = b.data + j / kTileColumns<T> * b.panel;
    const bool narrow = columns - j <= VectorOf<T>::lanes;
    for (int64_t r = 0; r < rows; r += kTileRows) {
      const T* row = a.data + r * a.row;
      T* to = c + r * c_row + j;
      if (narrow) product_tile<T, true>(row, a.row, a.column, panel, b.row, depth, to, c_row, add);
      else product_tile(row, a.row, a.column, panel, b.row, depth, to, c_row, add);
    }
  }
}

constexpr int64_t kQueries = 48;  // of a block: a multiple of kTileRows
constexpr int64_t kKeys = 192;    // a multiple of kTileRows and of every kTileColumns

template <class T>
constexpr T kNever = -std::numeric_limits<T>::infinity();

inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/// One matrix of a batch, in memory.
struct Plane {
  char* data;
  int64_t rows, columns, row_stride, column_stride;  // in elements
  DType dtype;

  char* at(int64_t row) const { return data + row * row_stride * item_size(dtype); }
};

inline Plane plane(const Tensor& t, int64_t head) {
  int64_t offset = 0, dim = t.dim();
  for (int64_t d = dim - 2; d-- > 0;) {
    offset += head % t.size(d) * t.stride(d);
    head /= t.size(d);
  }
  return {
      t.data<char>() + offset * item_size(t.dtype()), t.size(-2), t.size(-1), t.stride(-2), t.stride(-1), t.dtype()};
}

/// What the blocks of one call share.
template <class T>
struct AttentionCall {
  const AttentionInputs& in;
  const AttentionOptions& options;
  int64_t queries, keys, size, value_size, heads = 1;
  uint64_t seed;

  AttentionCall(const AttentionInputs& inputs, const AttentionOptions& o)
      : in(inputs),
        options(o),
        queries(in.query.size(-2)),
        keys(in.key.size(-2)),
        size(in.query.size(-1)),
        value_size(in.value.size(-1)),
        seed(in.seed.defined() ? static_cast<uint64_t>(*in.seed.data<int64_t>()) : 0) {
    for (int64_t d = 0; d < in.query.dim() - 2; ++d) heads *= in.query.size(d);
  }

  /// Elements from one packed row to the next: not a power of two, so that rows do not share a set of the cache.
  static int64_t row_of(int64_t columns) { return round_up(columns, kTileColumns<T>) + kTileColumns<T>; }
  int64_t row() const { return row_of(size); }
  int64_t value_row() const { return row_of(value_size); }
  int64_t widest_row() const { return std::max(row(), value_row()); }
  /// Where the keys end that queries before `end` may see.
  int64_t keys_before(int64_t end) const { return options.is_causal ? std::min(keys, end) : keys; }
  int64_t work() const { return std::max<int64_t>(1, keys * (size + value_size) / 4); }  // of a query
};

/// Memory of one thread, cut into pieces.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : memory_(facula::empty({count}, sizeof(T) == 4 ? DType::Float32 : DType::Float64, kCPU)),
        next_(memory_.data<T>()) {}
  T* take(int64_t count) { return std::exchange(next_, next_ + count); }

 private:
  Tensor memory_;
  T* next_;
};

/// `count` rows of a plane, times `scale`, as rows of `row` elements that end with zeros; then rows of zeros up to
/// `rows`.
template <class T>
void pack_rows(const Plane& from, int64_t first, int64_t count, int64_t rows, T scale, T* out, int64_t row) {
  constexpr DType own = sizeof(T) == 4 ? DType::Float32 : DType::Float64;
  for (int64_t r = 0; r < count; ++r) {
    T* to = out + r * row;
    const char* in = from.at(first + r);
    if (from.dtype != own) {
      const int64_t item = item_size(from.dtype), run = from.column_stride == 1 ? from.columns : 1;
      for (int64_t c = 0; c < from.columns; c += run)
        cast(own, from.dtype, run, to + c, in + c * from.column_stride * item);
      in = reinterpret_cast<const char*>(to);
    }
    const int64_t step = from.dtype == own ? from.column_stride : 1;
    const T* x = reinterpret_cast<const T*>(in);
    if (step == 1) {
      FACULA_SIMD
      for (int64_t c = 0; c < from.columns; ++c) to[c] = x[c] * scale;
    } else {
      for (int64_t c = 0; c < from.columns; ++c) to[c] = x[c * step] * scale;
    }
    const int64_t end = row - kTileColumns<T>;  // the rest is what keeps rows apart
    for (int64_t c = from.columns; c < end; ++c) to[c] = T(0);
  }
  std::fill(out + count * row, out + rows * row, T(0));
}

/// `rows` packed rows as panels of kTileColumns of them: a panel holds one element of each after another.
template <class T>
void pack_panels(const T* from, int64_t row, int64_t rows, int64_t columns, T* out) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr int64_t W = kTileColumns<T>, item = sizeof(T);
  for (int64_t r = 0; r < rows; r += W, out += columns * W) {
    if (rows - r < W) std::fill_n(out, columns * W, T(0));
    transpose_tiles<Bits>(reinterpret_cast<const char*>(from + r * row), row * item, reinterpret_cast<char*>(out),
                          W * item, columns, std::min(W, rows - r));
  }
}

template <class T>
void unpack_row(const T* from, const Plane& to, int64_t row) {
  constexpr DType own = sizeof(T) == 4 ? DType::Float32 : DType::Float64;
  if (to.dtype == own) std::memcpy(to.at(row), from, sizeof(T) * to.columns);
  else cast(to.dtype, own, to.columns, to.at(row), from);
}

/// Writes into scores what a mask and causality say; what is not seen is -inf up to `width`.
template <class T>
void apply_mask(const AttentionCall<T>& p, const Plane& mask, int64_t query, int64_t first, int64_t n, int64_t width,
                T* x) {
  if (p.options.is_causal) n = std::clamp<int64_t>(query + 1 - first, 0, n);
  if (p.in.mask.defined()) {
    const int64_t step = mask.column_stride;
    if (mask.dtype == DType::Bool) {
      const uint8_t* m = reinterpret_cast<const uint8_t*>(mask.at(query)) + first * step;
      for (int64_t c = 0; c < n; ++c) x[c] = m[c * step] ? x[c] : kNever<T>;
    } else {
      const T* m = reinterpret_cast<const T*>(mask.at(query)) + first * step;
      if (step == 1) {
        FACULA_SIMD
        for (int64_t c = 0; c < n; ++c) x[c] += m[c];
      } else {
        for (int64_t c = 0; c < n; ++c) x[c] += m[c * step];
      }
    }
  }
  if (n == width) return;
  using Int = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  const Int seen = static_cast<Int>(n), end = static_cast<Int>(width);
  FACULA_SIMD
  for (Int c = 0; c < end; ++c) x[c] = c < seen ? x[c] : kNever<T>;
}

/// e^x for x <= 0, and 0 where that is not a normal number: scores under a mask must not cost what denormals cost.
template <class T>
[[gnu::always_inline]] inline T weight_of(T x) {
  constexpr T lowest = sizeof(T) == 4 ? T(-87) : T(-708);
  const T e = exp_of_shifted(x < lowest ? lowest : x);
  return x < lowest ? T(0) : e;
}

// What dropout keeps is a hash of the seed, the row among all scores and the column: the same forwards, backwards and
// with any number of threads.
struct DropoutRow {
  uint32_t first, second, threshold;

  DropoutRow(uint64_t seed, int64_t row, double p)
      : threshold(static_cast<uint32_t>(std::min(p * 0x1p32, 0x1p32 - 1))) {
    uint64_t x = seed + static_cast<uint64_t>(row + 1) * 0x9e3779b97f4a7c15u;  // the generator splitmix64
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    first = static_cast<uint32_t>(x);
    second = static_cast<uint32_t>(x >> 32);
  }
  [[gnu::always_inline]] bool keeps(uint32_t column) const {
    uint32_t x = column * 0x9e3779b9u + first;
    x = (x ^ x >> 16) * 0x85ebca6bu ^ second;  // the multipliers are MurmurHash3's
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return (x ^ x >> 16) >= threshold;
  }
};

template <class T>
void drop(const DropoutRow& row, int64_t first, int64_t n, T kept, T* x) {
  FACULA_SIMD
  for (int64_t c = 0; c < n; ++c) x[c] = row.keeps(static_cast<uint32_t>(first + c)) ? x[c] * kept : T(0);
}

template <class T>
void scale_row(T* x, int64_t n, T factor) {
  FACULA_SIMD
  for (int64_t c = 0; c < n; ++c) x[c] *= factor;
}

// ---- bfloat16, where the processor multiplies pairs of it: queries, keys, values and gradients are multiplied as they
// are, weights and gradients of scores rounded once; sums and exponentials stay in float32.

#if defined(__AVX512F__)

inline bool rows_of_bfloats(const Tensor& t) {
  return t.dtype() == DType::BFloat16 && (t.stride(-1) == 1 || t.size(-1) == 1);
}
inline bool multiplies_pairs(const AttentionInputs& in) {
  return half_gemm && rows_of_bfloats(in.query) && rows_of_bfloats(in.key) && rows_of_bfloats(in.value);
}

constexpr int64_t kHalfKeys = kKeys + 32;  // elements of a row of rounded weights: rows do not share a set of the cache

/// Rows of a plane as they lie.
inline HalfLeft rows_in_place(const Plane& t, int64_t first) {
  return {t.data + 2 * first * t.row_stride, 2 * t.row_stride, 4, true};
}
/// The transposed factor, pairs of whose columns lie side by side, kKeys of them.
inline HalfLeft pairs_of_keys(const char* pairs) { return {pairs, 4, 4 * kKeys, false}; }

/// Panels of rows of a plane, pairs within a row: the transposed matrix as a right factor.
inline void pack_transposed(const Plane& t, char* to) {
  const int64_t panel = half_panel_bytes(t.columns);
  for (int64_t r = 0; r < round_up(t.rows, kHalfColumns); r += kPairLanes)
    pack_pairs_of_columns(t.at(std::min(r, t.rows)), 2 * t.row_stride, t.columns,
                          std::clamp<int64_t>(t.rows - r, 0, kPairLanes),
                          to + r / kHalfColumns * panel + r % kHalfColumns * 4, 4 * kHalfColumns);
}
/// Panels of columns of a plane, pairs of rows: the matrix as a right factor.
inline void pack_straight(const Plane& t, char* to) {
  pack_pairs_of_lines<kHalfColumns>(t.data, 2 * t.row_stride, t.rows, t.columns, to, half_panel_bytes(t.rows));
}
/// Where pairs of rows from `row` on, an even one, begin in each panel.
inline const char* from_row(const char* panels, int64_t row) { return panels + row / 2 * kHalfColumns * 4; }

#else

inline bool multiplies_pairs(const AttentionInputs&) { return false; }

#endif

}  // namespace facula::cpu::FACULA_ISA

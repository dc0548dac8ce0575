// Matrix products of integers, and of floats too small for a library call.
#include "cpu/matmul.h"

#include <vector>

#include "cpu/isa.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kColumnBlock = 512;  // an output row piece stays in the first-level cache

/// One row of the product: out = alpha a b + beta out, over unsigned arithmetic, which wraps.
template <class U>
void row_product(const MatrixProduct& p, const U* a, const U* b, U* out, U alpha, U beta, std::vector<U>& column) {
  if (beta == 0) {
    for (int64_t j = 0; j < p.columns; ++j) out[j] = 0;
  } else if (beta != 1) {
    for (int64_t j = 0; j < p.columns; ++j) out[j] = static_cast<U>(out[j] * beta);
  }
  if (p.b.column != 1 && p.columns != 1) {  // b lies by columns: a dot product each
    column.resize(p.inner);
    for (int64_t k = 0; k < p.inner; ++k) column[k] = a[k * p.a.column];
    for (int64_t j = 0; j < p.columns; ++j) {
      const U* x = b + j * p.b.column;
      U sum = 0;
      for (int64_t k = 0; k < p.inner; ++k) sum = static_cast<U>(sum + column[k] * x[k * p.b.row]);
      out[j] = static_cast<U>(out[j] + alpha * sum);
    }
    return;
  }
  for (int64_t j0 = 0; j0 < p.columns; j0 += kColumnBlock) {
    int64_t width = std::min(kColumnBlock, p.columns - j0);
    U* o = out + j0;
    int64_t k = 0;
    for (; k + 4 <= p.inner; k += 4) {  // four rows of b per pass over the output row
      U x[4];
      for (int64_t r = 0; r < 4; ++r) x[r] = static_cast<U>(alpha * a[(k + r) * p.a.column]);
      const U *y0 = b + k * p.b.row + j0, *y1 = y0 + p.b.row, *y2 = y1 + p.b.row, *y3 = y2 + p.b.row;
      FACULA_SIMD
      for (int64_t j = 0; j < width; ++j)
        o[j] = static_cast<U>(o[j] + x[0] * y0[j] + x[1] * y1[j] + x[2] * y2[j] + x[3] * y3[j]);
    }
    for (; k < p.inner; ++k) {
      U x = static_cast<U>(alpha * a[k * p.a.column]);
      const U* y = b + k * p.b.row + j0;
      FACULA_SIMD
      for (int64_t j = 0; j < width; ++j) o[j] = static_cast<U>(o[j] + x * y[j]);
    }
  }
}

template <class U>
void product_typed(const MatrixProduct& p, int64_t from, int64_t to) {
  U alpha = static_cast<U>(p.alpha.to_int()), beta = static_cast<U>(p.beta.to_int());
  std::vector<U> column;
  for (int64_t r = from; r < to; ++r) {
    int64_t batch = r / p.rows, row = r % p.rows;
    const U* a = reinterpret_cast<const U*>(p.a.data) + batch * p.a.batch + row * p.a.row;
    const U* b = reinterpret_cast<const U*>(p.b.data) + batch * p.b.batch;
    row_product(p, a, b, reinterpret_cast<U*>(p.out) + batch * p.out_batch + row * p.out_row, alpha, beta, column);
  }
}

void integer_product_isa(const MatrixProduct& p, int64_t from, int64_t to) {
  switch (item_size(p.dtype)) {
    case 1: return product_typed<uint8_t>(p, from, to);
    case 2: return product_typed<uint16_t>(p, from, to);
    case 4: return product_typed<uint32_t>(p, from, to);
    default: return product_typed<uint64_t>(p, from, to);
  }
}

// Small products of floats: R rows by W columns of the result stay in registers. The elements of a row of b lie next to
// each other, or (`apart`) a column stride from each other, as in the transposed weight of a linear layer.

template <int R, int W, bool apart, class T>
void tile(const MatrixProduct& p, const T* a, const T* b, T* out, bool add) {
  const int64_t step = apart ? p.b.column : 1;
  T sum[R][W];
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < W; ++j) sum[r][j] = add ? out[r * p.out_row + j] : T(0);
  }
  for (int64_t k = 0; k < p.inner; ++k) {
    const T* y = b + k * p.b.row;
    for (int r = 0; r < R; ++r) {
      const T x = a[r * p.a.row + k * p.a.column];
      for (int j = 0; j < W; ++j) sum[r][j] += x * y[j * step];
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < W; ++j) out[r * p.out_row + j] = sum[r][j];
  }
}

/// Columns [from, ...) in tiles of W; returns the first column left over.
template <int W, bool apart, class T>
int64_t tiles(const MatrixProduct& p, const T* a, const T* b, T* out, bool add, int64_t from) {
  const int64_t step = apart ? p.b.column : 1;
  for (; from + W <= p.columns; from += W) {
    int64_t r = 0;
    for (; r + 4 <= p.rows; r += 4)
      tile<4, W, apart>(p, a + r * p.a.row, b + from * step, out + r * p.out_row + from, add);
    for (; r < p.rows; ++r) tile<1, W, apart>(p, a + r * p.a.row, b + from * step, out + r * p.out_row + from, add);
  }
  return from;
}

template <class T>
void small_typed(const MatrixProduct& p, bool add) {
  for (int64_t i = 0; i < p.batch; ++i) {
    const T* a = reinterpret_cast<const T*>(p.a.data) + i * p.a.batch;
    const T* b = reinterpret_cast<const T*>(p.b.data) + i * p.b.batch;
    T* out = reinterpret_cast<T*>(p.out) + i * p.out_batch;
    if (p.b.column != 1 && p.columns != 1) {
      int64_t done = tiles<4, true>(p, a, b, out, add, 0);
      tiles<1, true>(p, a, b, out, add, done);
      continue;
    }
    int64_t done = tiles<64 / sizeof(T), false>(p, a, b, out, add, 0);
    done = tiles<4, false>(p, a, b, out, add, done);
    tiles<1, false>(p, a, b, out, add, done);
  }
}

void small_product_isa(const MatrixProduct& p, bool add) {
  if (p.dtype == DType::Float32) small_typed<float>(p, add);
  else small_typed<double>(p, add);
}

}  // namespace

void register_matmul() {
  integer_product = integer_product_isa;
  small_product = small_product_isa;
}

}  // namespace facula::cpu::FACULA_ISA

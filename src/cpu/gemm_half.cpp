// How products of bfloat16 by our own kernels are divided among threads, and who else computes them.
#include "cpu/gemm_half.h"

#include <algorithm>

#include "core/parallel.h"
#include "cpu/packed_weights.h"
#include "cpu/product_parts.h"

namespace facula::cpu {
namespace {

constexpr int64_t kThreadedProduct = 1 << 19;  // multiply-adds that a second thread pays for
constexpr int64_t kThreadedFewRows = 1 << 16;  // the same where each element of b is read from memory for a few
constexpr int64_t kUncut = 1 << 26;            // elements of b for which a program may wait that wants to stop
constexpr int64_t kMostPacked = 8 << 20;       // bytes of b that are packed at once, a part of the third-level cache

/// Strides of dimensions of one element may be anything: one stride of each operand shall be one.
MatrixProduct with_unit_strides(const MatrixProduct& given) {
  MatrixProduct p = given;
  if (p.inner == 1) {
    if (p.a.row != 1) p.a.column = 1;
    if (p.b.column != 1) p.b.row = 1;
  }
  if (p.rows == 1 && p.a.column != 1) p.a.row = 1;
  if (p.columns == 1 && p.b.row != 1) p.b.column = 1;
  return p;
}

void pack(const MatrixProduct& p, char* packed) {
  const int64_t grain = std::max<int64_t>(1, kGrain / (kHalfColumns * p.inner));
  parallel_for(0, pieces_of(p.columns, kHalfColumns), grain,
               [&](int64_t from, int64_t to) { half_pack(p, from, to, packed); });
}

/// With b packed: rows or columns are divided, whichever there are more of.
void multiply(const MatrixProduct& p, const char* packed) {
  const int64_t threads = in_parallel_region() ? 1 : num_threads();
  const int64_t most = std::min(threads, p.rows * p.columns * p.inner / kThreadedProduct);
  const bool by_rows = p.rows >= p.columns;
  const int64_t unit = by_rows ? kHalfRows : kHalfColumns, length = by_rows ? p.rows : p.columns;
  const int64_t count = std::min(most, pieces_of(length, unit));
  if (count <= 1) return half_gemm(p, packed);
  parallel_for(0, count, 1, [&](int64_t from, int64_t to) {
    const int64_t first = edge(from, count, length, unit), end = edge(to, count, length, unit);
    if (by_rows) half_gemm(rectangle(p, first, end, 0, p.columns), packed);
    else half_gemm(rectangle(p, 0, p.rows, first, end), packed + first / kHalfColumns * half_panel_bytes(p.inner));
  });
}

/// Matrices that fit the first-level cache are not worth it.
bool may_be_cached(const MatrixProduct& p) {
  constexpr int64_t kSmallWeights = 1 << 13;
  return p.weights && p.batch == 1 && p.inner * p.columns > kSmallWeights;
}

/// What is cached of b, in order.
Tensor cached_panels(const MatrixProduct& p) {
  if (!may_be_cached(p)) return Tensor();
  const int64_t words[] = {static_cast<int64_t>(PackedAs::HalfColumns), p.inner, p.columns, p.b.row, p.b.column};
  return packed_weight({p.weights, p.b.data, IntList(words, std::size(words))},
                       pieces_of(p.columns, kHalfColumns) * half_panel_bytes(p.inner), [&](char* to) { pack(p, to); });
}

/// One product of the batch.
void single(const MatrixProduct& p) {
  if (const Tensor cached = cached_panels(p); cached.defined()) return multiply(p, cached.data<char>());
  const int64_t bytes = half_panel_bytes(p.inner), panels = pieces_of(p.columns, kHalfColumns);
  const int64_t at_once = std::clamp<int64_t>(kMostPacked / bytes, 1, panels);
  const Tensor room = facula::empty({at_once * bytes}, DType::UInt8);
  for (int64_t first = 0; first < panels; first += at_once) {
    const int64_t column = first * kHalfColumns;
    const MatrixProduct part = rectangle(p, 0, p.rows, column, std::min(p.columns, column + at_once * kHalfColumns));
    pack(part, room.data<char>());
    multiply(part, room.data<char>());
  }
}

/// Measured: up to so many rows it is faster to read b where it lies than to pack it. Dot products along the inner
/// dimension end with sums across lanes, for which short ones are too dear.
int64_t few_rows(const MatrixProduct& p) {
  return p.b.row == 1 ? std::clamp<int64_t>(p.inner / 32, 1, kHalfFewRows) : kHalfFewLines;
}

bool product_of_few_rows(const MatrixProduct& given) {
  const MatrixProduct p = with_few_rows(given);
  if (p.batch != 1 || p.rows > few_rows(p) || p.a.column != 1 || p.columns < kHalfColumns) return false;
  // weights in order are faster; where nothing is cached of them yet they are packed, so that every call rounds alike
  if (p.rows > kHalfFewLines && may_be_cached(p)) return false;
  const int64_t pieces = pieces_of(p.columns, kHalfColumns);
  const int64_t worth = std::max(pieces_of(kThreadedFewRows / p.inner, kHalfColumns), int64_t{1});
  // where rows of b are contiguous, short parts of them come from memory at half the rate
  const int64_t share = std::min(pieces_of(pieces, num_threads()), kUncut / p.inner / kHalfColumns);
  parallel_for(0, pieces, std::max(worth, share), [&](int64_t from, int64_t to) {
    half_few_rows(p, from * kHalfColumns, std::min(to * kHalfColumns, p.columns));
  });
  return true;
}

}  // namespace

bool own_half_product(const MatrixProduct& given) {
  if (!half_gemm || given.dtype != DType::BFloat16 || given.inner == 0) return false;
  const MatrixProduct p = with_unit_strides(given);
  if (product_of_few_rows(p)) return true;
  const int64_t work = p.rows * p.columns * p.inner;
  if (p.batch == 1) return single(p), true;
  const bool whole = work < kThreadedProduct || p.batch >= num_threads();  // single products are not divided
  auto run = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const MatrixProduct one = one_of_batch(p, i);
      if (!product_of_few_rows(one)) single(one);
    }
  };
  if (whole) parallel_for(0, p.batch, std::max<int64_t>(1, kThreadedProduct / std::max<int64_t>(work, 1)), run);
  else run(0, p.batch);
  return true;
}

}  // namespace facula::cpu

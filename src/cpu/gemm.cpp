// How products of our own kernels are divided among threads: whole products of a batch, or rectangles of one result.
#include "cpu/gemm.h"

#include <algorithm>

#include "core/parallel.h"
#include "cpu/packed_weights.h"
#include "cpu/product_parts.h"

namespace facula::cpu {
namespace {

constexpr int64_t kItem = sizeof(float);
constexpr int64_t kThreadedProduct = 1 << 18;  // multiply-adds that a second thread pays for

struct Grid {
  int64_t rows, columns;
};

/// `count` rectangles, those that read least of the operands.
Grid grid_of(const MatrixProduct& p, int64_t count) {
  Grid best{1, 1};
  int64_t least = INT64_MAX;
  for (int64_t rows = 1; rows <= count; ++rows) {
    if (count % rows) continue;
    const Grid g{std::min(rows, pieces_of(p.rows, gemm_tile.rows)),
                 std::min(count / rows, pieces_of(p.columns, gemm_tile.columns))};
    const int64_t read = p.rows * g.columns + p.columns * g.rows, pieces = g.rows * g.columns;
    const int64_t cost = read + (count - pieces) * (p.rows + p.columns);  // idle threads cost more
    if (cost < least) least = cost, best = g;
  }
  return best;
}

PackedColumns moved(PackedColumns b, int64_t columns, int64_t matrices) {
  b.first += columns;
  b.data += matrices * b.batch;
  return b;
}

void divided(const MatrixProduct& p, const PackedColumns& b, int64_t count) {
  const Grid g = grid_of(p, count);
  parallel_for(0, g.rows * g.columns, 1, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const int64_t r = i % g.rows, c = i / g.rows;
      const int64_t row = edge(r, g.rows, p.rows, gemm_tile.rows),
                    column = edge(c, g.columns, p.columns, gemm_tile.columns);
      gemm(rectangle(p, row, edge(r + 1, g.rows, p.rows, gemm_tile.rows), column,
                     edge(c + 1, g.columns, p.columns, gemm_tile.columns)),
           moved(b, column, 0));
    }
  });
}

/// What is cached of b, in order. Matrices that fit the first-level cache are not worth it.
Tensor cached_columns(const MatrixProduct& p) {
  constexpr int64_t kSmallWeights = 1 << 12;
  if (!p.weights || p.batch != 1 || p.inner * p.columns <= kSmallWeights) return Tensor();
  if (p.rows <= gemm_tile.lines && p.b.column == 1) return Tensor();
  const int64_t words[] = {static_cast<int64_t>(PackedAs::Columns), p.inner, p.columns, p.b.row, p.b.column};
  return packed_weight({p.weights, p.b.data, IntList(words, std::size(words))}, packed_bytes(p),
                       [&](char* to) { pack_columns(p, reinterpret_cast<float*>(to)); });
}

}  // namespace

bool has_own_gemm() { return gemm != nullptr; }

int64_t packed_bytes(const MatrixProduct& p) {
  return pieces_of(p.columns, gemm_tile.columns) * gemm_tile.columns * p.inner * kItem;
}

PackedColumns as_packed(const MatrixProduct& p, const float* packed) {
  return {packed, pieces_of(p.columns, gemm_tile.columns) * gemm_tile.columns, 0, packed_bytes(p) / kItem};
}

PackedColumns pack_columns(const MatrixProduct& p, float* packed) {
  const int64_t grain = std::max<int64_t>(1, kGrain / (gemm_tile.columns * p.inner));
  parallel_for(0, pieces_of(p.columns, gemm_tile.columns), grain,
               [&](int64_t from, int64_t to) { gemm_pack(p, from, to, packed); });
  return as_packed(p, packed);
}

void own_product(const MatrixProduct& p, const PackedColumns& b) {
  const int64_t work = p.rows * p.columns * p.inner, threads = in_parallel_region() ? 1 : num_threads();
  const Tensor cached = b.data ? Tensor() : cached_columns(p);
  if (cached.defined()) return own_product(p, as_packed(p, cached.data<float>()));
  const int64_t count = std::min(threads, work / kThreadedProduct);
  const bool whole = count <= 1 || p.batch % threads == 0 || p.batch >= 4 * threads;  // products are not divided
  if (p.batch == 1 && whole) return gemm(p, b);
  auto run = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const MatrixProduct one = one_of_batch(p, i);
      if (whole) gemm(one, moved(b, 0, i));
      else divided(one, moved(b, 0, i), count);
    }
  };
  if (whole) parallel_for(0, p.batch, std::max<int64_t>(1, kThreadedProduct / std::max<int64_t>(work, 1)), run);
  else run(0, p.batch);
}

}  // namespace facula::cpu

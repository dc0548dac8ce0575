// How products of our own kernels are divided among threads: whole products of a batch, or rectangles of one result.
#include "cpu/gemm.h"

#include <algorithm>
#include <string_view>

#include "core/parallel.h"
#include "cpu/backend.h"

namespace facula::cpu {
namespace {

constexpr int64_t kThreadedProduct = 1 << 18;  // multiply-adds that a second thread pays for

int64_t pieces_of(int64_t count, int64_t unit) { return (count + unit - 1) / unit; }

/// The first row or column of piece `i` of `pieces`.
int64_t edge(int64_t i, int64_t pieces, int64_t count, int64_t unit) {
  return std::min(pieces_of(count, unit) * i / pieces * unit, count);
}

struct Grid {
  int64_t rows, columns;
};

/// `count` rectangles, those that read least of the operands.
Grid grid_of(const MatrixProduct& p, int64_t count) {
  Grid best{1, 1};
  int64_t least = INT64_MAX;
  for (int64_t rows = 1; rows <= count; ++rows) {
    if (count % rows) continue;
    const Grid g{std::min(rows, pieces_of(p.rows, kGemmRows)),
                 std::min(count / rows, pieces_of(p.columns, kGemmColumns))};
    const int64_t read = p.rows * g.columns + p.columns * g.rows, pieces = g.rows * g.columns;
    const int64_t cost = read + (count - pieces) * (p.rows + p.columns);  // idle threads cost more
    if (cost < least) least = cost, best = g;
  }
  return best;
}

MatrixProduct rectangle(const MatrixProduct& p, int64_t from_row, int64_t to_row, int64_t from_column,
                        int64_t to_column) {
  constexpr int64_t item = sizeof(float);
  MatrixProduct piece = p;
  piece.rows = to_row - from_row;
  piece.columns = to_column - from_column;
  piece.a.data += from_row * p.a.row * item;
  piece.b.data += from_column * p.b.column * item;
  piece.out += (from_row * p.out_row + from_column) * item;
  if (p.bias) piece.bias += from_column * item;
  return piece;
}

void divided(const MatrixProduct& p, int64_t count) {
  const Grid g = grid_of(p, count);
  parallel_for(0, g.rows * g.columns, 1, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const int64_t r = i % g.rows, c = i / g.rows;
      const int64_t row = edge(r, g.rows, p.rows, kGemmRows), column = edge(c, g.columns, p.columns, kGemmColumns);
      gemm(rectangle(p, row, edge(r + 1, g.rows, p.rows, kGemmRows), column,
                     edge(c + 1, g.columns, p.columns, kGemmColumns)));
    }
  });
}

}  // namespace

bool has_own_gemm() {
  static const bool yes = gemm && std::string_view(isa_level()) == "v3";
  return yes;
}

void own_product(const MatrixProduct& p) {
  const int64_t work = p.rows * p.columns * p.inner, threads = in_parallel_region() ? 1 : num_threads();
  const int64_t count = std::min(threads, work / kThreadedProduct);
  const bool whole = count <= 1 || p.batch % threads == 0 || p.batch >= 4 * threads;  // products are not divided
  if (p.batch == 1 && whole) return gemm(p);
  auto run = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      MatrixProduct one = p;
      one.batch = 1;
      one.a.data += i * p.a.batch * static_cast<int64_t>(sizeof(float));
      one.b.data += i * p.b.batch * static_cast<int64_t>(sizeof(float));
      one.out += i * p.out_batch * static_cast<int64_t>(sizeof(float));
      if (whole) gemm(one);
      else divided(one, count);
    }
  };
  if (whole) parallel_for(0, p.batch, std::max<int64_t>(1, kThreadedProduct / std::max<int64_t>(work, 1)), run);
  else run(0, p.batch);
}

}  // namespace facula::cpu

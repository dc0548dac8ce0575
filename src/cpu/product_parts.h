// Divides matrix products into parts: pieces for threads, one product of a batch, and a column read as a row.
#pragma once

#include <algorithm>
#include <utility>

#include "ops/matmul.h"

namespace facula::cpu {

inline int64_t pieces_of(int64_t count, int64_t unit) { return (count + unit - 1) / unit; }

/// The first row or column of piece `i` of `pieces`, each a multiple of `unit` long but the last one.
inline int64_t edge(int64_t i, int64_t pieces, int64_t count, int64_t unit) {
  return std::min(pieces_of(count, unit) * i / pieces * unit, count);
}

inline MatrixProduct rectangle(const MatrixProduct& p, int64_t row, int64_t end_row, int64_t column,
                               int64_t end_column) {
  const int64_t item = item_size(p.dtype);
  MatrixProduct piece = p;
  piece.rows = end_row - row;
  piece.columns = end_column - column;
  piece.a.data += row * p.a.row * item;
  piece.b.data += column * p.b.column * item;
  piece.out += (row * p.out_row + column) * item;
  if (p.bias) piece.bias += column * item;
  return piece;
}

/// Product `i` of a batch.
inline MatrixProduct one_of_batch(const MatrixProduct& p, int64_t i) {
  const int64_t item = item_size(p.dtype);
  MatrixProduct one = p;
  one.batch = 1;
  one.a.data += i * p.a.batch * item;
  one.b.data += i * p.b.batch * item;
  one.out += i * p.out_batch * item;
  return one;
}

/// A matrix times a column, read as a row times a matrix.
inline MatrixProduct with_few_rows(const MatrixProduct& p) {
  if (p.columns != 1 || p.rows == 1 || p.out_row != 1 || p.bias) return p;
  MatrixProduct swapped = p;
  std::swap(swapped.rows, swapped.columns);
  swapped.a = {p.b.data, p.b.batch, p.b.column, p.b.row};
  swapped.b = {p.a.data, p.a.batch, p.a.column, p.a.row};
  swapped.out_row = swapped.columns;
  return swapped;
}

}  // namespace facula::cpu

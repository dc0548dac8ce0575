// Declares loops of matrix products that no library has, one set per instruction-set level.
#pragma once

#include "ops/matmul.h"

namespace facula::cpu {

/// Products of integers, modulo their width, rows [from, to) of the whole batch.
inline void (*integer_product)(const MatrixProduct& product, int64_t from, int64_t to) = nullptr;

/// out = a b, or a b + out where `add`: products of float32 and float64 where the columns of b have stride one, without
/// the cost of a library call.
inline void (*small_product)(const MatrixProduct& product, bool add) = nullptr;

/// The same for columns [from, to) of a product without batch, at least kSkinnyInner long and as many columns wide,
/// where the rows of a and the columns of b have stride one.
inline void (*skinny_product)(const MatrixProduct& product, int64_t from, int64_t to, bool add) = nullptr;
constexpr int64_t kSkinnyInner = 16;  // the elements of the widest vector

/// The same for one row, where the rows of b have stride one.
inline void (*one_row_product)(const MatrixProduct& product, int64_t from, int64_t to, bool add) = nullptr;

/// Columns [from, to) of a product of few rows where b is of float16 or bfloat16, with contiguous columns, and a, with
/// contiguous rows, and the result are of float32: out = a b, or a b + out where `add`. Null where the level has no
/// instructions to convert.
inline void (*narrow_dots)(DType dtype, const MatrixProduct& product, int64_t from, int64_t to, bool add) = nullptr;
constexpr int64_t kNarrowPiece = 1 << 16;  // elements of b that a second thread pays for

/// Which kernel computes a product of floats, as measured; what no line here names is for `gemm`, where the level has
/// it, and else for the library. A level states what differs (isa/gemm.cpp).
struct ProductTable {
  // multiply-adds up to which small_product computes it: as a rule, where rows are at most two and long, for outer
  // products, where the columns of b are contiguous instead of its rows, and where rows of b are less than a vector
  int64_t small = 1024, small_lines = 1024, small_outer = 1 << 14, small_transposed = 256, small_narrow = 0;
  // rows up to which skinny_product computes it, where lines are shorter than kMiddleLine, than kLongLine, than
  // kFarLine, and others, which do not stay in the first-level cache
  int64_t dot_rows[4] = {16, 16, 16, 16};
};
constexpr int64_t kMiddleLine = 256, kLongLine = 512, kFarLine = 2048;
inline ProductTable float_products;

/// Converts n contiguous elements.
inline void (*cast_line)(DType to, DType from, int64_t n, void* out, const void* in) = nullptr;

}  // namespace facula::cpu

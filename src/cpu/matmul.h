// Loops of matrix products that no library has, one set per instruction-set level.
#pragma once

#include "ops/matmul.h"

namespace facula::cpu {

/// Products of integers, modulo their width, rows [from, to) of the whole batch.
inline void (*integer_product)(const MatrixProduct& product, int64_t from, int64_t to) = nullptr;

/// out = a b, or a b + out where `add`: products of float32 and float64 where the columns of b have stride one, without
/// the cost of a library call.
inline void (*small_product)(const MatrixProduct& product, bool add) = nullptr;

/// The same for columns [from, to) of one product with few rows, at least kSkinnyInner long and as many columns wide,
/// where the rows of a and the columns of b have stride one.
inline void (*skinny_product)(const MatrixProduct& product, int64_t from, int64_t to, bool add) = nullptr;
constexpr int64_t kSkinnyInner = 16;  // the elements of the widest vector

/// Converts n contiguous elements.
inline void (*cast_line)(DType to, DType from, int64_t n, void* out, const void* in) = nullptr;

}  // namespace facula::cpu

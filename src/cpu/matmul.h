// Loops of matrix products that no library has, one set per instruction-set level.
#pragma once

#include "ops/matmul.h"

namespace facula::cpu {

/// Products of integers, modulo their width, rows [from, to) of the whole batch.
inline void (*integer_product)(const MatrixProduct& product, int64_t from, int64_t to) = nullptr;

}  // namespace facula::cpu

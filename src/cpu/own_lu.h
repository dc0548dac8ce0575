// Computes LU factors of real matrices that stay in the near caches, where a library's calls and blocks cost more than
// the work.
#pragma once

#include <cstdint>

namespace facula::cpu {

/// Rows and columns up to which this takes less time than the library, measured on Zen 5.
template <class T>
constexpr int64_t kOwnLuSide = sizeof(T) == 4 ? 128 : 96;

/// As getrf, one function for each type and level: P A = L U in place, of a column-major matrix, with `pivots` that
/// count from 1. Returns the first column without a pivot, counted from 1, or 0. Null where the level has no
/// instruction for a product and a sum.
template <class T>
inline int32_t (*own_lu)(int64_t rows, int64_t columns, T* a, int32_t* pivots) = nullptr;

}  // namespace facula::cpu

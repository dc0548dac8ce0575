// Computes singular values and vectors of real matrices that stay in the near caches, where a library's blocks,
// workspaces and calls cost more than the work.
#pragma once

#include <algorithm>
#include <cstdint>

namespace facula::cpu {

/// Shapes for which this takes less time than the library, measured on Zen 5. Of tall matrices the library takes the
/// factors first.
template <class T>
constexpr bool is_own_svd(int64_t rows, int64_t columns) {
  const int64_t longer = std::max(rows, columns), shorter = std::min(rows, columns);
  return longer <= (sizeof(T) == 4 ? 192 : 128) && longer <= 2 * shorter + 8;
}

/// As gesdd, one function for each type and level, of a column-major matrix: the singular values in descending order
/// and, where `u` is not null, the first min(rows, columns) vectors of both sides. False where an element is not finite
/// or the iteration does not end; then nothing was written.
template <class T>
inline bool (*own_svd)(int64_t rows, int64_t columns, const T* a, T* values, T* u, T* vh) = nullptr;

}  // namespace facula::cpu

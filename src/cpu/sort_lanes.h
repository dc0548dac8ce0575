// Sorts several short rows at once, with a vector for the elements at one place of each of them. It uses the level's
// vectors, which is why it stands apart from sort.cpp.
#pragma once

#include <cstdint>

namespace facula::cpu {

constexpr int64_t kRowsTogether = 8, kShort = 32;  // rows, and their most elements

struct alignas(64) ShortRows {
  int64_t row[kRowsTogether][kShort];
};

/// Sorts the first `width` elements of every row, 8, 16 or 32 of them; of the result the first `wanted` are written.
inline void (*sort_rows_together)(ShortRows& rows, int64_t width, int64_t wanted) = nullptr;

/// Keys of floats as the rows of them have it: smaller ones come first, or the other way round; equal ones keep their
/// order, and NaN is the largest. The lower half of a key is its place.
inline void (*keys_of_floats)(const float* in, int64_t n, bool descending, int64_t* row) = nullptr;

}  // namespace facula::cpu

// Several short rows sorted at once: a vector holds elements of one place in each of them. By the level's vectors,
// which is why this stands apart from sort.cpp.
#pragma once

#include <cstdint>

namespace facula::cpu {

constexpr int64_t kRowsTogether = 8, kShort = 32;  // rows of a vector, and their most elements

/// Elements of one place of all rows.
struct alignas(64) Lanes {
  int64_t row[kRowsTogether];
};

/// Sorts `width` lanes, 8, 16 or 32 of them: in each row the smallest comes first.
inline void (*sort_lanes)(Lanes* lanes, int64_t width) = nullptr;

}  // namespace facula::cpu

// What the kernels that sort are given; read by both compilers.
#pragma once

namespace facula::cuda {

constexpr int kDigits = 256, kTile = 4096;  // elements of a row that a block takes at a time

/// Rows of elements in place, and where they were before, if that is asked for.
struct SortArgs {
  long long rows, n;
  void* values;
  long long* indices;
  bool descending;
};

/// A pass by one digit: keys and positions (rows, n) to another place, through counts (rows, kDigits, tiles).
struct DigitArgs {
  long long rows, n, tiles;
  int shift;
  const void* keys;
  const unsigned* positions;
  void* keys_out;
  unsigned *positions_out, *counts;
};

}  // namespace facula::cuda

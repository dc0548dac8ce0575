// What the passes of a radix sort are given; read by both compilers.
#pragma once

namespace facula::cuda {

constexpr int kDigits = 256, kSortTile = 4096;  // elements of a row that a block takes at a time

/// A pass by one digit of 8 bits: keys and numbers (rows, n) go to another place, through counts (rows, kDigits,
/// tiles).
struct DigitArgs {
  long long rows, n, tiles;
  int shift;
  const void *keys, *numbers;
  void *keys_out, *numbers_out, *counts;
};

}  // namespace facula::cuda

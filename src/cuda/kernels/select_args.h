// What selections by truth values are given; read by both compilers.
#pragma once

namespace facula::cuda {

constexpr int kMostSelectDims = 64;
constexpr int kSelectTile = 2048;  // elements that a block takes

struct SelectArgs {
  long long count;          // of elements
  const void* mask;         // contiguous, as all operands but positions
  const long long* starts;  // how many are selected before each tile
  const void* in;
  void* out;
  long long rows, row, column;  // positions: rows that there is room for, and strides
  int dims;
  long long shape[kMostSelectDims];  // innermost first
};

}  // namespace facula::cuda

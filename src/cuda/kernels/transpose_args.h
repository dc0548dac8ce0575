// What the kernel of transposes is given; read by both compilers.
#pragma once

#include "fast_division.h"

namespace facula::cuda {

/// Elements along a side of a tile, of so many bytes: lines are of 128 bytes at least.
constexpr int transpose_side(int bytes) { return bytes == 1 ? 128 : bytes <= 4 ? 64 : 32; }

constexpr int kMostCopiedBatches = 3;

struct TransposeArgs {
  const void* in;
  void* out;
  unsigned rows, columns;    // of the input; the result has `columns` rows
  unsigned in_row, out_row;  // elements from row to row
  FastDivision tiles_across, tiles_down;
  int batch_dims;
  FastDivision batch[kMostCopiedBatches];
  long long in_batch[kMostCopiedBatches], out_batch[kMostCopiedBatches];  // elements
};

}  // namespace facula::cuda

// What folds are given; read by both compilers.
#pragma once

#include "fast_division.h"

namespace facula::cuda {

constexpr int kMostFoldDims = 12;

/// Dimensions, innermost first; strides in elements.
struct FoldDims {
  int dims;
  long long shape[kMostFoldDims], strides[kMostFoldDims];
};

enum FoldFinish : int { kFinishNothing, kFinishSqrt, kFinishPower };

/// How the elements of a result are found: they lie equally far apart, as one line or as lines of equal lengths, or
/// they are anyhow and as many as 2^31 and more.
enum FoldPlaces : int { kOneLine, kManyLines, kAnyPlaces };

/// Neighbors of so many bytes that are read as one vector.
constexpr int fold_wide(int bytes) { return bytes < 16 ? 16 / bytes : 1; }
/// The same of columns: a thread has a total of each.
constexpr int column_wide(int bytes, int total) {
  return fold_wide(bytes) * total <= 128 ? fold_wide(bytes) : 128 / total;
}

struct FoldGrid {
  long long results, count;  // `count` elements for every result
  FoldDims retained, reduced;
  const void* in;
  void* out;
  long long* positions;  // of extrema
  double divisor, power;
  int finish;

  // How it is shared. Of rows, what is divided are vectors of neighbors; of columns, elements, and vectors are side by
  // side.
  long long units, part;  // of every result, and of a part of it
  int rest;               // elements behind the last unit of a row
  int parts;              // the last block to come, of a result or a strip of them, folds what parts have made
  FastDivision line;      // of kManyLines: units of a line
  int lanes;              // of columns: vectors of a strip, a power of two
  unsigned strips;        // of columns: of a row of results
  void* made;
  unsigned* tickets;
};

}  // namespace facula::cuda

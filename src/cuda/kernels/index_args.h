// What gathering and scattering are given; read by both compilers.
#pragma once

#include "report.h"

namespace facula::cuda {

constexpr int kMostIndexDims = 16;

/// Dimensions, innermost first; strides in elements.
struct IndexDims {
  int dims;
  long long shape[kMostIndexDims], dense[kMostIndexDims], index[kMostIndexDims], target[kMostIndexDims];
};

struct IndexArgs {
  IndexDims all;
  long long count;
  void *dense, *target;
  const long long* index;
  long long step, size;  // elements of target per unit of the index, and the number of units
  bool wraps;
  Reporter reporter;
};

/// A scatter that combines: elements with one place in the target are brought together by sorting `keys` places.
struct ScatterArgs {
  IndexDims rows;        // whose places never meet: of every key so many elements
  long long row, count;  // elements of a row, and keys
  IndexDims keys;
  void *dense, *target;
  const void *places, *order;  // sorted places, and which key each was
  long long nowhere;           // the place of keys that are left out
};

}  // namespace facula::cuda

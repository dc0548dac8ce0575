// What gathering and scattering are given; read by both compilers.
#pragma once

#include "fast_division.h"
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

/// The same of up to kMostPlaceDims dimensions and 2^31 elements: a thread has some neighbors of the innermost one,
/// and strides of that are of so many.
constexpr int kMostPlaceDims = 4;
struct PlaceArgs {
  unsigned threads, size, step, beside;  // step in bytes; beside: bytes from an element to its neighbor in the target
  FastDivision shape[kMostPlaceDims];
  unsigned dense[kMostPlaceDims], index[kMostPlaceDims], target[kMostPlaceDims];
  void *of_dense, *of_target;
  const long long* of_index;
  Reporter reporter;
};

/// A scatter that combines: elements with one place in the target are brought together by sorting `count` keys.
struct SegmentArgs {
  IndexDims rows;         // whose places never meet: of every key so many elements
  IndexDims keys;         // how they lie in `dense`
  long long count, part;  // keys, and those of a thread
  FastDivision vectors;   // of a row, from first_vector on
  long long first_vector;
  unsigned threads;
  const void *places, *order;  // sorted places, and which key each was
  const void* dense;           // or edges of a launch before
  void *target, *edges, *edge_places;
  long long nowhere;  // the place of keys that are left out
};

}  // namespace facula::cuda

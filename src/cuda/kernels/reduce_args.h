// What folds are given; read by both compilers.
#pragma once

namespace facula::cuda {

constexpr int kMostFoldDims = 12;

/// Dimensions in the order of memory, innermost first; strides in elements.
struct FoldDims {
  int dims;
  long long shape[kMostFoldDims], strides[kMostFoldDims];
};

enum FoldFinish : int { kFinishNothing, kFinishSqrt, kFinishPower };

struct FoldGrid {
  long long results, count;  // `count` elements for every result
  long long part;            // elements that one thread group takes; results of parts lie `results` apart
  FoldDims kept, reduced;
  const void *in, *center;
  void* out;
  double divisor, power;
  int finish;
};

}  // namespace facula::cuda

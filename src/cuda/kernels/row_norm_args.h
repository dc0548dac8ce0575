// What the kernels of the normalizations of rows are given; read by both compilers.
#pragma once

#include "fast_division.h"

namespace facula::cuda {

/// What kernels are compiled for, as the bits of a number: whether rows are centered, which factors there are (of a
/// gradient: are requested), whether rows are whole vectors, and whose the factors are: each element's, or those of
/// `inner` neighbors, which may be whole vectors.
enum RowForm : int { kCentered = 1, kHasWeight = 2, kHasBias = 4, kWholeRows = 8, kOfVectors = 16, kOfNeighbors = 32 };

/// Rows of channels x inner elements; the row's group is row % groups.
struct RowArgs {
  long long rows, groups, channels, inner;
  FastDivision by_inner;  // where rows are shorter than 2^31
  const void *self, *grad, *weight, *bias;
  void *mean, *rstd, *out;
  double eps;
};

/// Sums over `samples` of groups x channels x inner elements, of which each of several parts has up to `part` samples:
/// the gradients of weight and bias. Those of parts lie one after the other, of weights before those of biases.
struct RowSumArgs {
  long long samples, part, groups, channels, inner;
  const void *self, *grad, *mean, *rstd;
  void *weight, *bias;
  long long apart;  // from the results of one part to those of the next
};

}  // namespace facula::cuda

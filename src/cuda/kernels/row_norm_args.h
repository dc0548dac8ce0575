// What the kernels of the normalisations of rows are given; read by both compilers.
#pragma once

namespace facula::cuda {

/// Rows of channels x inner elements; the row's group is row % groups.
struct RowArgs {
  long long rows, groups, channels, inner;
  const void *self, *grad, *weight, *bias;
  void *mean, *rstd, *out;
  double eps;
  bool center;
};

}  // namespace facula::cuda

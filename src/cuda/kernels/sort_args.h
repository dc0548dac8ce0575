// What the kernels that sort are given; read by both compilers.
#pragma once

namespace facula::cuda {

/// Rows of elements in place, and where they were before, if that is requested.
struct SortArgs {
  long long rows, n;
  void* values;
  long long* indices;
  bool descending;
};

}  // namespace facula::cuda

// Lines of one dimension of contiguous tensors; read by both compilers.
#pragma once

namespace facula::cuda {

/// outer x n x inner elements: outer * inner lines of n.
struct LineShape {
  long long outer, n, inner;
};

/// What scans are given. Lines are divided into `parts` of `part` elements; a part starts with its element of `before`
/// where there is one: lines x parts of rows, parts x lines of columns.
struct ScanArgs {
  LineShape shape;
  long long part, parts;
  const void* in;
  void *out, *before;
  long long* positions;
  unsigned* tickets;
};

}  // namespace facula::cuda

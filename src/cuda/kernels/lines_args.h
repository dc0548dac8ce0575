// Lines of one dimension of contiguous tensors; read by both compilers.
#pragma once

namespace facula::cuda {

/// outer x n x inner elements: outer * inner lines of n.
struct LineShape {
  long long outer, n, inner;
};

/// What scans are given. Lines are divided into `parts` of `part` elements; a part starts with its element of `before`
/// (lines x parts) where there is one.
struct ScanArgs {
  LineShape shape;
  long long part, parts;
  const void* in;
  void *out, *before;
  long long* positions;
};

}  // namespace facula::cuda

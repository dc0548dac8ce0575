// What the kernels of histograms are given; read by both compilers.
#pragma once

namespace facula::cuda {

constexpr int kMostEdges = 64;

/// Points and the edges of the boxes in every coordinate.
struct EdgeArgs {
  long long points, coordinates;
  const void *self, *edges[kMostEdges];
  long long edge_count[kMostEdges];
  long long* places;
};

}  // namespace facula::cuda

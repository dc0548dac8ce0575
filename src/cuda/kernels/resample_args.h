// What resampling and grid sampling are given; read by both compilers.
#pragma once

#include "fast_division.h"

namespace facula::cuda {

/// outer x inputs x inner elements that become outer x outputs x inner: output o is the sum of weight[k] times the
/// elements at index[k] for first[o] <= k < first[o + 1], or the element at index[o].
struct ResampleArgs {
  unsigned threads, outer, inner;  // threads that have results
  FastDivision vectors, outputs;   // vectors of `inner`
  long long in_plane, out_plane;   // elements
  const void* in;
  void* out;
  const long long *first, *index;
  const double* weight;
};

struct GridArgs {
  long long images, channels, points;  // positions of an image
  int dims, padding, align_corners;
  // x, y, z; z of size one where there is none. `image` is the input, or its gradient; strides in elements.
  long long size[3], strides[3], image_step, channel_step;
  void* image;
  const void* grid;
  void* values;       // the result, or its gradient: (images, channels, points)
  void* grid_values;  // the gradient of the grid
};

}  // namespace facula::cuda

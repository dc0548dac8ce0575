// What pooling kernels are given; read by both compilers.
#pragma once

#include "fast_division.h"

namespace facula::cuda {

/// The rule of PoolAxis.
struct PoolAxisArgs {
  long long in, out, kernel, stride, padding, step;
  bool adaptive, counts_padding;
};

/// Planes: element i of plane (n, c) lies at n * image + c * channel + i * element.
struct PlaneArgs {
  long long images, channels, in, out;  // elements of a plane
  long long in_image, in_channel, in_element, out_image, out_channel, out_element;
};

struct PoolArgs {
  PoolAxisArgs axes[3];
  PlaneArgs planes;
  double divisor;
  const void *in, *samples;
  void* out;
  long long* indices;  // lie as `out` does
  int sampled;         // dimensions that have samples
};

/// Windows of two dimensions whose sizes and strides are in the instance.
struct PoolWindowArgs {
  unsigned threads;  // that have results
  FastDivision vectors, columns,
      strips;  // vectors of channels; threads of a row of results; rows of threads of a plane
  int in_high, in_long, out_high, out_long, pad_high, pad_long;
  bool counts_padding;
  double divisor;  // in place of what the window shows, unless zero
  const void* in;
  void* out;
  long long* places;  // null where nobody wants them; elsewhere they lie as `out` does
};

}  // namespace facula::cuda

// What pooling kernels are given; read by both compilers.
#pragma once

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

}  // namespace facula::cuda

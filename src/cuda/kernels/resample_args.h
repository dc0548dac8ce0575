// What grid sampling is given; read by both compilers.
#pragma once

namespace facula::cuda {

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

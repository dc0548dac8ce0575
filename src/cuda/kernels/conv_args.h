// What kernels on columns of windows are given; read by both compilers.
#pragma once

namespace facula::cuda {

/// Windows of one image; missing dimensions come first, with size one. Strides of the image in elements.
struct WindowArgs {
  long long channels, channel_stride;
  long long in[3], out[3], kernel[3], stride[3], padding[3], dilation[3], in_strides[3];
};

}  // namespace facula::cuda

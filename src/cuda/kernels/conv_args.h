// What kernels on columns of windows are given; read by both compilers.
#pragma once

#include "fast_division.h"

namespace facula::cuda {

/// Windows of one image that 32 bits can count. A thread has kColumnChannels channels of a window's tap, or of a
/// position.
constexpr int kColumnChannels = 8;
struct ColumnArgs {
  unsigned threads;
  FastDivision in[3], out[3], kernel[3], stride[3], windows, taps, positions;
  int padding[3], dilation[3];
  long long channels, channel_stride, column_stride;  // column_stride: from a channel's columns to the next one's
  long long in_strides[3];
  const void* from;
  void* to;
};

/// Windows of one image; missing dimensions come first, with size one. Strides of the image in elements.
struct WindowArgs {
  long long channels, channel_stride;
  long long in[3], out[3], kernel[3], stride[3], padding[3], dilation[3], in_strides[3];
};

}  // namespace facula::cuda

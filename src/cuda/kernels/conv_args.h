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

/// The matrix whose rows are windows of images of two dimensions, and whose columns are what these show: taps, and the
/// channels of each, which lie next to each other. Tap t of window o shows position o stride + start + t dilation, and
/// zero stands for those outside.
struct WindowMatrix {
  FastDivision out[2], kernel[2], channels;
  int in[2], stride[2], start[2], dilation[2];
  long long image, step[2];  // from image to image, and from position to position, in elements
};

}  // namespace facula::cuda

// Declares convolution: geometry, argument lists, and the kernels of its three bilinear maps.
#pragma once

#include <array>

#include "ops/kernel_table.h"

namespace facula {

/// A list with one entry per spatial dimension; one entry stands for all. Throws naming `op` and `what`.
Dims per_dimension(IntList list, int64_t count, const char* op, const char* what);

/// What relates x (N, C, in...), w (O, C / groups, kernel...) and y (N, O, out...).
struct ConvGeometry {
  Dims stride, padding, dilation;
  int64_t groups = 1;
};

/// Whether no two windows show the same pixel.
inline bool windows_are_apart(const Tensor& weight, const ConvGeometry& g) {
  for (size_t d = 0; d < g.stride.size(); ++d)
    if (g.stride[d] <= g.dilation[d] * (weight.sizes()[2 + d] - 1)) return false;
  return true;
}

/// Whether images that products of such windows are spread over are better stored channels-last inside, however few
/// their channels; null where they are not.
inline bool (*keeps_spread_channels_last)() = nullptr;

/// The three maps. All tensors are dense, x and y in one memory format (contiguous or channels-last).
/// `bias` may be undefined; it belongs to the map's result.
enum class ConvMap : uint8_t { Output, Input, Weight };

/// y from x and w (ConvMap::Output), x from y and w (Input), w from y and x (Weight; bias unused).
inline Kernel<void(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                   const ConvGeometry& geometry)>
    convolution_kernel{"convolution"};

/// Windows of one image of up to three spatial dimensions (missing ones come first, with size one).
struct Windows {
  int64_t channels = 1;
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0},
      dilation{1, 1, 1};
  // of the image, in elements
  int64_t channel_stride = 0;
  std::array<int64_t, 3> in_strides{0, 0, 0};

  int64_t rows() const { return channels * kernel[0] * kernel[1] * kernel[2]; }
  int64_t columns() const { return out[0] * out[1] * out[2]; }
};
/// The windows of the images in `image` (N, C, spatial...).
Windows windows_of(const Tensor& image, int64_t channels, IntList out, IntList kernel, const ConvGeometry& geometry);

/// columns (rows() x columns(), contiguous) from an image; positions outside the image give zero.
inline Kernel<void(DType dtype, void* columns, const void* image, const Windows& windows)> im2col_kernel{"im2col"};
/// Adds columns into an image.
inline Kernel<void(DType dtype, void* image, const void* columns, const Windows& windows)> col2im_kernel{"col2im"};
/// t (N, C, rest...) += bias (C), in place.
inline Kernel<void(const Tensor& t, const Tensor& bias)> add_channels_kernel{"convolution"};
/// t += other, both contiguous.
inline Kernel<void(const Tensor& t, const Tensor& other)> accumulate_kernel{"convolution"};

}  // namespace facula

// Declares kernels of boxes, regions of images and deformable convolution.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// How regions are divided into bins, and which pixels a bin reads with which weights.
struct RegionBins {
  enum class Rule : uint8_t { Align, AlignShifted, AlignByPlace, MeanByPlace, Maximum };
  Rule rule = Rule::Align;
  double scale = 1;
  int64_t rows = 0, columns = 0;
  int64_t sampling = 0;  // points a bin along each side; not positive: as many as pixels
  const char* op = "";

  int64_t count() const { return rows * columns; }
  /// Whether every bin of every result channel has an input channel of its own.
  bool by_place() const { return rule == Rule::AlignByPlace || rule == Rule::MeanByPlace; }
};

// float32 and float64, all contiguous but images of Align and AlignShifted, which may be channels-last. `rois` is
// (K, 5); the kernels throw, as `bins.op`, where its first column names no image. There are pixels and bins.

/// out (K, channels, rows, columns).
inline Kernel<void(const Tensor& out, const Tensor& images, const Tensor& rois, const RegionBins& bins)>
    region_means_kernel{"roi_align"};
/// Adds into `images`.
inline Kernel<void(const Tensor& images, const Tensor& gradient, const Tensor& rois, const RegionBins& bins)>
    region_means_gradient_kernel{"roi_align"};
inline Kernel<void(const Tensor& out, const Tensor& argmax, const Tensor& images, const Tensor& rois,
                   const RegionBins& bins)>
    region_maxima_kernel{"roi_pool"};
/// Adds into `images`; throws where an index lies outside of its plane.
inline Kernel<void(const Tensor& images, const Tensor& gradient, const Tensor& argmax, const Tensor& rois,
                   const RegionBins& bins)>
    region_maxima_gradient_kernel{"roi_pool"};
/// The input channels of the results of rules by place, (K, channels, rows, columns) of int32.
inline Kernel<void(const Tensor& channels)> region_channels_kernel{"ps_roi_align"};

/// Writes which boxes (n, 4) stay, by the order in which `order` names them, and returns how many.
inline Kernel<int64_t(const Tensor& selected, const Tensor& boxes, const Tensor& order, double threshold)> nms_kernel{
    "nms"};
/// out (n, m), for boxes (n, 5) and (m, 5).
inline Kernel<void(const Tensor& out, const Tensor& a, const Tensor& b)> rotated_iou_kernel{"box_iou_rotated"};

/// Deformable convolution of one image. Columns are (groups, positions, taps, channels of a group).
struct DeformPlan {
  int64_t channels = 0, height = 0, width = 0, out_height = 0, out_width = 0, kernel_height = 0, kernel_width = 0;
  int64_t stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  int64_t groups = 1, offset_groups = 1;
  int64_t from = 0, to = 0;      // the positions that columns have
  const void* offset = nullptr;  // of this image
  const void* mask = nullptr;    // null: ones

  int64_t taps() const { return kernel_height * kernel_width; }
  int64_t positions() const { return out_height * out_width; }

  template <class See>
  void memory(See see) const {
    see(offset);
    if (mask) see(mask);
  }
};

// float32 and float64; `image` and its gradient are (height, width, channels).
inline Kernel<void(DType dtype, void* columns, const void* image, const DeformPlan& plan)> deform_columns_kernel{
    "deform_conv2d"};
/// Adds what the gradients of columns are for the image.
inline Kernel<void(DType dtype, void* image_gradient, const void* columns, const DeformPlan& plan)>
    deform_image_gradient_kernel{"deform_conv2d"};
/// Adds what they are for offsets and mask, which may be null.
inline Kernel<void(DType dtype, void* offset_gradient, void* mask_gradient, const void* columns, const void* image,
                   const DeformPlan& plan)>
    deform_offset_gradient_kernel{"deform_conv2d"};

}  // namespace facula

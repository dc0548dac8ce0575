// The public resizing functions: output sizes and scales around `resample`.
#include <array>

#include "core/checked.h"
#include "functions.h"

namespace facula {
namespace {

Tensor upsample(const char* op, int64_t spatial, const Tensor& input, std::optional<IntList> output_size,
                const char* mode, bool align_corners, std::optional<FloatList> scale_factors, bool antialias = false) {
  FACULA_CHECK(output_size.has_value() != scale_factors.has_value(), ErrorKind::Runtime, op,
               ": exactly one of output_size and scale_factors is needed, got ", output_size ? "both" : "neither");
  FACULA_CHECK(input.dim() == spatial + 2, ErrorKind::Runtime, op, ": input must have ", spatial + 2,
               " dimensions, got shape ", input.sizes());
  size_t given = output_size ? output_size->size() : scale_factors->size();
  FACULA_CHECK(given == static_cast<size_t>(spatial), ErrorKind::Runtime, op, ": ",
               output_size ? "output_size" : "scale_factors", " must have ", spatial, " entries, got ", given);
  std::array<double, 3> scales{};  // of at most three dimensions
  Dims size;
  for (size_t d = 0; d < given; ++d) {
    if (scale_factors) scales[d] = (*scale_factors)[d];
    size.push_back(output_size ? (*output_size)[d]
                               : whole_count(static_cast<double>(input.sizes()[2 + d]) * scales[d], op,
                                             "an output size", "a scale factor of ", scales[d]));
  }
  return resample(input, size, mode, align_corners, FloatList(scales.data(), given), antialias);
}

}  // namespace

#define FACULA_NEAREST(name, spatial, mode)                                          \
  Tensor name##_uncast(const Tensor& input, std::optional<IntList> output_size,      \
                       std::optional<FloatList> scale_factors) {                     \
    return upsample(#name, spatial, input, output_size, mode, false, scale_factors); \
  }
FACULA_NEAREST(upsample_nearest1d, 1, "nearest")
FACULA_NEAREST(upsample_nearest2d, 2, "nearest")
FACULA_NEAREST(upsample_nearest3d, 3, "nearest")
FACULA_NEAREST(_upsample_nearest_exact1d, 1, "nearest-exact")
FACULA_NEAREST(_upsample_nearest_exact2d, 2, "nearest-exact")
FACULA_NEAREST(_upsample_nearest_exact3d, 3, "nearest-exact")
#undef FACULA_NEAREST

#define FACULA_INTERPOLATING(name, spatial, mode, antialias)                                            \
  Tensor name##_uncast(const Tensor& input, std::optional<IntList> output_size, bool align_corners,     \
                       std::optional<FloatList> scale_factors) {                                        \
    return upsample(#name, spatial, input, output_size, mode, align_corners, scale_factors, antialias); \
  }
FACULA_INTERPOLATING(upsample_linear1d, 1, "linear", false)
FACULA_INTERPOLATING(upsample_bilinear2d, 2, "linear", false)
FACULA_INTERPOLATING(upsample_trilinear3d, 3, "linear", false)
FACULA_INTERPOLATING(upsample_bicubic2d, 2, "cubic", false)
FACULA_INTERPOLATING(_upsample_bilinear2d_aa, 2, "linear", true)
FACULA_INTERPOLATING(_upsample_bicubic2d_aa, 2, "cubic", true)
FACULA_INTERPOLATING(_upsample_lanczos2d_aa, 2, "lanczos", true)
#undef FACULA_INTERPOLATING

Tensor grid_sampler_2d_uncast(const Tensor& input, const Tensor& grid, int64_t interpolation_mode, int64_t padding_mode,
                              bool align_corners) {
  FACULA_CHECK(input.dim() == 4, ErrorKind::Runtime, "grid_sampler_2d: input must be (N, C, H, W), got shape ",
               input.sizes());
  return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners);
}

Tensor grid_sampler_3d_uncast(const Tensor& input, const Tensor& grid, int64_t interpolation_mode, int64_t padding_mode,
                              bool align_corners) {
  FACULA_CHECK(input.dim() == 5, ErrorKind::Runtime, "grid_sampler_3d: input must be (N, C, D, H, W), got shape ",
               input.sizes());
  return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners);
}

}  // namespace facula

// PyTorch's operators that carry gradients back through a change of sizes: each is the transpose of its forward op.
#include "functions.h"
#include "program/boxing.h"

namespace facula {
namespace {

using Scale = std::optional<double>;

Tensor carried_back(const char* op, const Tensor& grad, IntList output_size, IntList input_size, const char* mode,
                    bool align_corners, std::initializer_list<Scale> scales) {
  const size_t spatial = scales.size();
  FACULA_CHECK(output_size.size() == spatial && input_size.size() == spatial + 2 &&
                   static_cast<size_t>(grad.dim()) == spatial + 2,
               ErrorKind::Runtime, op, ": sizes of ", spatial, " dimensions after (N, C) are expected, got ",
               output_size, ", ", input_size, " and a gradient ", grad.sizes());
  Dims expected(IntList(input_size.data(), 2));
  for (const int64_t n : output_size) expected.push_back(n);
  FACULA_CHECK(grad.sizes() == IntList(expected), ErrorKind::Runtime, op, ": a gradient of sizes ", IntList(expected),
               " is expected, got ", grad.sizes());
  std::vector<double> given;
  for (const Scale& scale : scales) given.push_back(scale.value_or(0.0));
  return resample_transpose(grad, IntList(input_size.data() + 2, spatial), mode, align_corners, given, false);
}

#define FACULA_NEAREST(name, mode)                                                                      \
  Tensor name##1d_transposed(const Tensor& grad, IntList to, IntList from, Scale w) {                   \
    return carried_back(#name "1d_backward", grad, to, from, mode, false, {w});                         \
  }                                                                                                     \
  Tensor name##2d_transposed(const Tensor& grad, IntList to, IntList from, Scale h, Scale w) {          \
    return carried_back(#name "2d_backward", grad, to, from, mode, false, {h, w});                      \
  }                                                                                                     \
  Tensor name##3d_transposed(const Tensor& grad, IntList to, IntList from, Scale d, Scale h, Scale w) { \
    return carried_back(#name "3d_backward", grad, to, from, mode, false, {d, h, w});                   \
  }
FACULA_NEAREST(upsample_nearest, "nearest")
FACULA_NEAREST(_upsample_nearest_exact, "nearest-exact")
#undef FACULA_NEAREST

Tensor linear1d(const Tensor& grad, IntList to, IntList from, bool align, Scale w) {
  return carried_back("upsample_linear1d_backward", grad, to, from, "linear", align, {w});
}
Tensor bilinear2d(const Tensor& grad, IntList to, IntList from, bool align, Scale h, Scale w) {
  return carried_back("upsample_bilinear2d_backward", grad, to, from, "linear", align, {h, w});
}
Tensor trilinear3d(const Tensor& grad, IntList to, IntList from, bool align, Scale d, Scale h, Scale w) {
  return carried_back("upsample_trilinear3d_backward", grad, to, from, "linear", align, {d, h, w});
}
Tensor bicubic2d(const Tensor& grad, IntList to, IntList from, bool align, Scale h, Scale w) {
  return carried_back("upsample_bicubic2d_backward", grad, to, from, "cubic", align, {h, w});
}

using boxing::box;
#define FACULA_SIZES "Tensor grad_output, int[] output_size, int[] input_size, "
constexpr const char* kNearest1 = FACULA_SIZES "float? scales=None";
constexpr const char* kNearest2 = FACULA_SIZES "float? scales_h=None, float? scales_w=None";
constexpr const char* kNearest3 = FACULA_SIZES "float? scales_d=None, float? scales_h=None, float? scales_w=None";
constexpr const char* kAligned1 = FACULA_SIZES "bool align_corners, float? scales=None";
constexpr const char* kAligned2 = FACULA_SIZES "bool align_corners, float? scales_h=None, float? scales_w=None";
constexpr const char* kAligned3 =
    FACULA_SIZES "bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None";
#undef FACULA_SIZES
using Nearest1 = Tensor(const Tensor&, IntList, IntList, Scale);
using Nearest2 = Tensor(const Tensor&, IntList, IntList, Scale, Scale);
using Nearest3 = Tensor(const Tensor&, IntList, IntList, Scale, Scale, Scale);
using Aligned1 = Tensor(const Tensor&, IntList, IntList, bool, Scale);
using Aligned2 = Tensor(const Tensor&, IntList, IntList, bool, Scale, Scale);
using Aligned3 = Tensor(const Tensor&, IntList, IntList, bool, Scale, Scale, Scale);

#define FACULA_ROW(name, arguments, signature, function) \
  {name "_backward", "", arguments, "Tensor", name "_backward.default", box<signature>(function)}
const BuiltinRow kResampleRows[] = {
    FACULA_ROW("upsample_nearest1d", kNearest1, Nearest1, upsample_nearest1d_transposed),
    FACULA_ROW("upsample_nearest2d", kNearest2, Nearest2, upsample_nearest2d_transposed),
    FACULA_ROW("upsample_nearest3d", kNearest3, Nearest3, upsample_nearest3d_transposed),
    FACULA_ROW("_upsample_nearest_exact1d", kNearest1, Nearest1, _upsample_nearest_exact1d_transposed),
    FACULA_ROW("_upsample_nearest_exact2d", kNearest2, Nearest2, _upsample_nearest_exact2d_transposed),
    FACULA_ROW("_upsample_nearest_exact3d", kNearest3, Nearest3, _upsample_nearest_exact3d_transposed),
    FACULA_ROW("upsample_linear1d", kAligned1, Aligned1, linear1d),
    FACULA_ROW("upsample_bilinear2d", kAligned2, Aligned2, bilinear2d),
    FACULA_ROW("upsample_trilinear3d", kAligned3, Aligned3, trilinear3d),
    FACULA_ROW("upsample_bicubic2d", kAligned2, Aligned2, bicubic2d),
};
#undef FACULA_ROW

}  // namespace

std::span<const BuiltinRow> resample_rows() { return kResampleRows; }

}  // namespace facula

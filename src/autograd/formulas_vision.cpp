// Derivatives of what is read from regions of images, and of deformable convolution.
#include "autograd/formulas.h"
#include "functions.h"

namespace facula {

Tensor roi_pool_chosen(const Tensor& grad, const Tensor& rois, const Tensor& argmax) {
  const Tensor image = to_dtype(select(rois, 1, 0), DType::Int64), places = to_dtype(argmax, DType::Int64);
  const Tensor planes = reshape(index_select(grad, 0, image), {rois.size(0), grad.size(1), -1});
  const Tensor flat = reshape(places, {rois.size(0), grad.size(1), -1});
  const Tensor values = gather(planes, 2, clamp_min(flat, 0));
  return reshape(where(ge(flat, 0), values, zeros_like(values)), argmax.sizes());
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> deform_conv2d_gradients(const Tensor& grad, const Tensor& input,
                                                                           const Tensor& weight, const Tensor& offset,
                                                                           const Tensor& mask, IntList geometry,
                                                                           int64_t groups, int64_t offset_groups,
                                                                           bool use_mask, std::array<bool, 5> wanted) {
  if (!grad.defined()) return {};
  auto [of_input, of_weight, of_offset, of_mask] =
      deform_conv2d_backward(grad, input, weight, offset, mask, geometry, groups, offset_groups, use_mask, wanted[0],
                             wanted[1], wanted[2], wanted[3]);
  auto given = [](bool requested, const Tensor& t) { return requested ? t : Tensor(); };
  return {given(wanted[0], of_input), given(wanted[1], of_weight), given(wanted[2], of_offset),
          given(wanted[3], of_mask), wanted[4] ? sum_but_channels(grad) : Tensor()};
}

}  // namespace facula

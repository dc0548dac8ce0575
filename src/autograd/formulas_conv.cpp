// Derivatives of convolution. With x -> y the map of a weight, the three bilinear maps (y from x and w, x
// from y and w, w from y and x) are closed under differentiation; the transposed convolution is the second of
// them.
#include "autograd/formulas.h"
#include "functions.h"

namespace facula {

Tensor convolution_of_size(const Tensor& input, const Tensor& weight, IntList size, IntList stride, IntList padding,
                           IntList dilation, int64_t groups) {
  Tensor result = convolution(input, weight, Tensor(), stride, padding, dilation, false, Dims(1), groups);
  for (size_t d = 2; d < size.size(); ++d) {
    if (result.sizes()[d] != size[d]) result = slice(result, static_cast<int64_t>(d), 0, size[d], 1);
  }
  return result;
}

Tensor convolution_input_gradient(const Tensor& grad, const Tensor& weight, IntList input_size, IntList stride,
                                  IntList padding, IntList dilation, bool transposed, int64_t groups) {
  if (transposed) return convolution_of_size(grad, weight, input_size, stride, padding, dilation, groups);
  size_t spatial = input_size.size() - 2;
  auto at = [](IntList list, size_t d) { return list.size() == 1 ? list[0] : list[d]; };
  Dims output_padding(spatial);
  for (size_t d = 0; d < spatial; ++d) {  // what the strides of the forward map left over
    int64_t reach = at(dilation, d) * (weight.sizes()[2 + d] - 1) + 1;
    output_padding[d] = input_size[2 + d] - ((grad.sizes()[2 + d] - 1) * at(stride, d) - 2 * at(padding, d) + reach);
  }
  return convolution(grad, weight, Tensor(), stride, padding, dilation, true, output_padding, groups);
}

Tensor convolution_weight_gradient(const Tensor& grad, const Tensor& input, IntList weight_size, IntList stride,
                                   IntList padding, IntList dilation, bool transposed, int64_t groups) {
  auto full = [&](IntList list) { return list.size() == 1 ? Dims(weight_size.size() - 2, list[0]) : Dims(list); };
  Dims s = full(stride), p = full(padding), d = full(dilation);
  return transposed ? convolution_weight(input, grad, weight_size, s, p, d, groups)
                    : convolution_weight(grad, input, weight_size, s, p, d, groups);
}

Tensor sum_but_channels(const Tensor& grad) {
  Dims dims{0};
  for (int64_t d = 2; d < grad.dim(); ++d) dims.push_back(d);
  return sum(grad, IntList(dims), false, std::optional<DType>());
}

Dims spatial_sizes(IntList sizes, int64_t spatial) {
  return Dims(sizes.slice(sizes.size() - static_cast<size_t>(spatial), static_cast<size_t>(spatial)));
}

}  // namespace facula

// vmap rules of linear layers and convolutions.
#include "autograd/batching_rules.h"
#include "functions.h"

namespace facula {

Tensor batched_linear(const Tensor& self, const Tensor& weight, const Tensor& bias) {
  Batch batch("linear", self, weight, bias);
  if (!batch.has(weight) && !batch.has(bias)) return batch.wrap(linear(batch.value(self), weight, bias));
  Tensor product = weight.dim() == 1 ? matmul(self, weight) : matmul(self, t(weight));
  return bias.defined() ? add(product, bias, Scalar(1)) : product;
}

Tensor batched_convolution(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                           IntList padding, IntList dilation, bool transposed, IntList output_padding, int64_t groups) {
  Batch batch("convolution", input, weight, bias);
  if (batch.has(bias)) {
    Dims shape(static_cast<size_t>(input.dim()), 1);
    shape[1] = bias.size(0);
    return add(convolution(input, weight, Tensor(), stride, padding, dilation, transposed, output_padding, groups),
               reshape(bias, shape), Scalar(1));
  }
  if (!batch.has(weight)) {
    return batch.unfolded(convolution(batch.folded(input, -1), weight, bias, stride, padding, dilation, transposed,
                                      output_padding, groups),
                          -1);
  }
  Tensor biases = bias.defined() ? repeat(bias, {batch.size()}) : bias;
  Tensor made = convolution(into_channels(batch.spread(input)), join_front(batch.value(weight)), biases, stride,
                            padding, dilation, transposed, output_padding, groups * batch.size());
  return batch.wrap(out_of_channels(made, batch.size()));
}

Tensor batched_convolution_weight(const Tensor& output, const Tensor& input, IntList weight_size, IntList stride,
                                  IntList padding, IntList dilation, int64_t groups) {
  Batch batch("convolution_weight", output, input);
  Dims sizes(weight_size);
  sizes[0] *= batch.size();
  Tensor made = convolution_weight(into_channels(batch.spread(output)), into_channels(batch.spread(input)), sizes,
                                   stride, padding, dilation, groups * batch.size());
  return batch.wrap(split_front(made, batch.size()));
}

}  // namespace facula

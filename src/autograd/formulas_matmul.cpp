#include "autograd/formulas_matmul.h"

#include "functions.h"

namespace facula {

Tensor linear_backward_input(const Tensor& grad, const Tensor& weight) {
  return weight.dim() == 2 ? matmul(grad, conj(weight)) : mul(unsqueeze(grad, -1), conj(weight));
}

Tensor linear_backward_weight(const Tensor& grad, const Tensor& input, IntList weight_sizes) {
  int64_t inner = weight_sizes.back(), columns = weight_sizes.size() == 2 ? weight_sizes[0] : 1;
  int64_t rows = inner ? input.numel() / inner : columns ? grad.numel() / columns : 0;
  Tensor g = reshape(grad, {rows, columns});
  Tensor x = reshape(input, {rows, inner});
  return reshape(mm(transpose(g, 0, 1), conj(x)), weight_sizes);
}

}  // namespace facula

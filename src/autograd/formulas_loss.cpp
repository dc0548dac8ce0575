// Derivatives of the losses over classes.
#include "autograd/formulas.h"
#include "core/mode.h"
#include "functions.h"

namespace facula {

Tensor nll_backward(const Tensor& grad, IntList sizes, const Tensor& target, const Tensor& weight,
                    const Tensor& total_weight, int64_t reduction, int64_t ignore_index) {
  if (!grad.defined()) return {};
  return _nll_backward(grad, sizes, target, weight, total_weight, reduction, ignore_index);
}

Tensor cross_entropy_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                              const Tensor& total_weight, const Tensor& log_sum, int64_t reduction,
                              int64_t ignore_index, double label_smoothing) {
  if (!grad.defined()) return {};
  if (!GradMode::enabled())
    return _cross_entropy_backward(grad, self, target, weight, total_weight, log_sum, reduction, ignore_index,
                                   label_smoothing);
  Tensor factors = _class_weights(target, weight, self.size(1), ignore_index, label_smoothing, self.dtype());
  Tensor all = sum(factors, std::optional<IntList>(IntList{1}), true, std::optional<DType>());
  Tensor scale = reduction == 1 ? grad / total_weight : reduction == 0 ? unsqueeze(grad, 1) : grad;
  return scale * (softmax(self, 1) * all - factors);
}

Tensor bce_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& self, const Tensor& target) {
  // d/dx of (x - t) / (x (1 - x)), whose divisor is constant where it is clamped
  Tensor product = self * (1.0 - self), spread = clamp_min(product, 1e-12);
  Tensor bend = where(gt(product, 1e-12), (self - target) * (1.0 - 2.0 * self) / spread, 0.0);
  Tensor slope = (1.0 - bend) / spread;
  return grad * grad_output * slope;
}

}  // namespace facula

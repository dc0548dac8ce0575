// vmap rules of the losses over classes.
#include "autograd/batching_rules.h"
#include "functions.h"

namespace facula {

// The losses from the factor that every class's score has.
namespace {

Tensor over_classes(const Tensor& t) {
  return sum(t, std::optional<IntList>(IntList{1}), false, std::optional<DType>());
}
Tensor reduced_loss(const Tensor& losses, const Tensor& total, int64_t reduction) {
  if (reduction == 0) return losses;
  Tensor all = sum(losses, std::optional<DType>());
  return reduction == 1 ? div(all, total) : all;
}
Tensor spread_gradient(const Tensor& grad, const Tensor& total, int64_t reduction) {
  return reduction == 1 ? div(grad, total) : reduction == 0 ? unsqueeze(grad, 1) : grad;
}
Tensor class_factors(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t classes,
                     int64_t ignore_index, double smoothing) {
  return _class_weights(target, weight, classes, ignore_index, smoothing, self.dtype());
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> batched_cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight,
                                                         int64_t reduction, int64_t ignore_index,
                                                         double label_smoothing) {
  Tensor factors = class_factors(self, target, weight, self.size(1), ignore_index, label_smoothing);
  const Tensor top = amax(self, Dims{1}, true), shifted = sub(self, top, Scalar(1)),
               log_sum = logsumexp(shifted, Dims{1}, false);
  // of a class that does not count the logarithm may be infinite
  Tensor logs = where(eq(factors, Scalar(0)), Scalar(0), sub(shifted, unsqueeze(log_sum, 1), Scalar(1)));
  Tensor losses = neg(over_classes(mul(factors, logs)));
  // the weights of the classes themselves, which the mean divides by, know nothing of smoothing
  Tensor total = sum(class_factors(self, target, weight, self.size(1), ignore_index, 0.0), std::optional<DType>());
  return {reduced_loss(losses, total, reduction), total, stack(std::vector<Tensor>{squeeze(top, 1), log_sum}, 0)};
}

Tensor batched_cross_entropy_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                                      const Tensor& weight, const Tensor& total_weight, const Tensor& log_sum,
                                      int64_t reduction, int64_t ignore_index, double label_smoothing) {
  Tensor factors = class_factors(self, target, weight, self.size(1), ignore_index, label_smoothing);
  const Tensor top = unsqueeze(select(log_sum, 0, 0), 1), rest = unsqueeze(select(log_sum, 0, 1), 1);
  Tensor softmax = exp(sub(sub(self, top, Scalar(1)), rest, Scalar(1)));
  Tensor all = sum(factors, std::optional<IntList>(IntList{1}), true, std::optional<DType>());
  return mul(spread_gradient(grad, total_weight, reduction), sub(mul(softmax, all), factors, Scalar(1)));
}

std::tuple<Tensor, Tensor> batched_nll(const Tensor& self, const Tensor& target, const Tensor& weight,
                                       int64_t reduction, int64_t ignore_index) {
  Tensor factors = class_factors(self, target, weight, self.size(1), ignore_index, 0.0);
  Tensor total = sum(factors, std::optional<DType>());
  // a class that does not count may have any score: its factor is 0, but 0 * -inf is not
  Tensor losses = neg(over_classes(mul(factors, where(eq(factors, Scalar(0)), Scalar(0), self))));
  return {reduced_loss(losses, total, reduction), total};
}

Tensor batched_nll_backward(const Tensor& grad, IntList sizes, const Tensor& target, const Tensor& weight,
                            const Tensor& total_weight, int64_t reduction, int64_t ignore_index) {
  Tensor factors = class_factors(grad, target, weight, sizes[1], ignore_index, 0.0);
  return neg(mul(factors, spread_gradient(grad, total_weight, reduction)));
}

}  // namespace facula

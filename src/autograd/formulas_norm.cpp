// Derivatives of the normalizations: one fused pass, or (when the gradient itself must be differentiable) the same
// expression in differentiable ops, with the statistics computed from the input again.
#include "autograd/formulas.h"
#include "core/mode.h"
#include "functions.h"

namespace facula {
namespace {

Tensor mean_over(const Tensor& x, IntList dims) {
  int64_t count = 1;
  for (int64_t d : dims) count *= x.size(d);
  return mul(sum(x, std::optional<IntList>(dims), true, std::optional<DType>()),
             Scalar(1.0 / static_cast<double>(count)));
}

/// `x` normalized over `dims`, and 1 / deviation.
struct Normalized {
  Tensor value, rstd;
  Normalized(const Tensor& x, IntList dims, double eps, bool center) {
    Tensor centered = center ? x - mean_over(x, dims) : x;
    rstd = rsqrt(mean_over(centered * centered, dims) + eps);
    value = centered * rstd;
  }
};

/// The gradient of `Normalized::value` with respect to x.
Tensor through_normalized(const Tensor& grad, const Normalized& x, IntList dims, bool center) {
  Tensor g = grad - x.value * mean_over(grad * x.value, dims);
  if (center) g = g - mean_over(grad, dims);
  return g * x.rstd;
}

const int64_t row_dim_values[] = {2, 3};
const IntList row_dims(row_dim_values, 2);

struct RowView {
  Dims shape;
  RowView(const TensorInfo& self, int64_t rows, int64_t groups, int64_t channels) {
    int64_t length = rows ? self.numel() / rows : 0;
    shape = Dims{groups ? rows / groups : 0, groups, channels, channels ? length / channels : 0};
  }
  Tensor operator()(const Tensor& t) const { return reshape(t, shape); }
  Tensor parameter(const Tensor& t) const { return reshape(t, {1, shape[1], shape[2], 1}); }
};

/// The dimensions that channel statistics run over, and parameters shaped to broadcast against (N, C, ...).
Dims all_but_channels(int64_t dim) {
  Dims dims;
  for (int64_t d = 0; d < dim; ++d)
    if (d != 1) dims.push_back(d);
  return dims;
}
Tensor per_channel(const Tensor& t, int64_t dim) {
  Dims shape(static_cast<size_t>(dim), 1);
  shape[1] = t.numel();
  return reshape(t, shape);
}

Tensor total_over(const Tensor& t, IntList dims) {
  return sum(t, std::optional<IntList>(dims), false, std::optional<DType>());
}

/// Gradients made by one kernel; those that are not requested are undefined.
std::tuple<Tensor, Tensor, Tensor> requested_of(std::tuple<Tensor, Tensor, Tensor> made, bool of_self, bool of_weight,
                                                bool of_bias) {
  auto& [self, weight, bias] = made;
  if (!of_self) self = Tensor();
  if (!of_weight) weight = Tensor();
  if (!of_bias) bias = Tensor();
  return made;
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> row_norm_backward(const Tensor& grad, const Tensor& self, const Tensor& weight,
                                                     IntList bias_sizes, const Tensor& mean, const Tensor& rstd,
                                                     int64_t groups, int64_t channels, double eps, bool center,
                                                     bool of_self, bool of_weight, bool of_bias) {
  if (!grad.defined()) return {};
  if (!GradMode::enabled()) {
    auto [gs, gw, gb] = requested_of(
        _row_norm_backward(grad, self, weight, mean, rstd, groups, channels, center, of_self, of_weight, of_bias),
        of_self, of_weight, of_bias);
    return {gs, of_weight ? reshape(gw, weight.sizes()) : gw, of_bias ? reshape(gb, bias_sizes) : gb};
  }
  RowView view(TensorInfo(self), rstd.numel(), groups, channels);
  const Dims rows{0, 3};
  Tensor g = view(grad), gs, gw, gb;
  if (of_bias) gb = reshape(total_over(g, rows), bias_sizes);
  if (!of_self && !of_weight) return {gs, gw, gb};
  Normalized x(view(self), row_dims, eps, center);
  if (of_weight) gw = reshape(total_over(g * x.value, rows), weight.sizes());
  if (weight.defined()) g = g * view.parameter(weight);
  if (of_self) gs = reshape(through_normalized(g, x, row_dims, center), self.sizes());
  return {gs, gw, gb};
}

std::tuple<Tensor, Tensor, Tensor> channel_norm_backward(const Tensor& grad, const Tensor& self, const Tensor& weight,
                                                         const Tensor& mean, const Tensor& rstd, bool training,
                                                         double eps, bool of_self, bool of_weight, bool of_bias) {
  if (!grad.defined()) return {};
  if (!GradMode::enabled()) {
    return requested_of(_channel_norm_backward(grad, self, weight, mean, rstd, training, of_self, of_weight, of_bias),
                        of_self, of_weight, of_bias);
  }
  const int64_t dim = self.dim();
  const Dims dims = all_but_channels(dim);
  Tensor g = weight.defined() ? grad * per_channel(weight, dim) : grad, gs, gw, gb;
  if (of_bias) gb = total_over(grad, dims);
  if (!training) {
    if (of_self) gs = g * per_channel(rstd, dim);
    if (of_weight) gw = total_over(grad * ((self - per_channel(mean, dim)) * per_channel(rstd, dim)), dims);
    return {gs, gw, gb};
  }
  if (!of_self && !of_weight) return {gs, gw, gb};
  Normalized x(self, dims, eps, true);
  if (of_self) gs = through_normalized(g, x, dims, true);
  if (of_weight) gw = total_over(grad * x.value, dims);
  return {gs, gw, gb};
}

}  // namespace facula

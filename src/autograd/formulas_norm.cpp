// Derivatives of the normalisations: one fused pass, or (when the gradient itself must be differentiable) the same
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

/// `x` normalised over `dims`, and 1 / deviation.
struct Normalised {
  Tensor value, rstd;
  Normalised(const Tensor& x, IntList dims, double eps, bool center) {
    Tensor centered = center ? x - mean_over(x, dims) : x;
    rstd = rsqrt(mean_over(centered * centered, dims) + eps);
    value = centered * rstd;
  }
};

/// The gradient of `Normalised::value` with respect to x.
Tensor through_normalised(const Tensor& grad, const Normalised& x, IntList dims, bool center) {
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

}  // namespace

Tensor row_norm_backward(const Tensor& grad, const Tensor& self, const Tensor& weight, const Tensor& mean,
                         const Tensor& rstd, int64_t groups, int64_t channels, double eps, bool center) {
  if (!grad.defined()) return {};
  if (!GradMode::enabled()) return _row_norm_backward(grad, self, weight, mean, rstd, groups, channels, center);
  RowView view(TensorInfo(self), rstd.numel(), groups, channels);
  Tensor g = view(grad);
  if (weight.defined()) g = g * view.parameter(weight);
  Normalised x(view(self), row_dims, eps, center);
  return reshape(through_normalised(g, x, row_dims, center), self.sizes());
}

Tensor row_norm_backward_weight(const Tensor& grad, const Tensor& self, IntList sizes, const Tensor& mean,
                                const Tensor& rstd, int64_t groups, int64_t channels, double eps, bool center) {
  if (!grad.defined()) return {};
  if (!GradMode::enabled()) return reshape(_row_norm_backward_weight(grad, self, mean, rstd, groups, channels), sizes);
  RowView view(TensorInfo(self), rstd.numel(), groups, channels);
  Normalised x(view(self), row_dims, eps, center);
  return reshape(sum(view(grad) * x.value, std::optional<IntList>(IntList{0, 3}), false, std::optional<DType>()),
                 sizes);
}

Tensor row_norm_backward_bias(const Tensor& grad, IntList sizes, int64_t rows, int64_t groups, int64_t channels) {
  if (!grad.defined()) return {};
  RowView view(TensorInfo(grad), rows, groups, channels);
  return reshape(sum(view(grad), std::optional<IntList>(IntList{0, 3}), false, std::optional<DType>()), sizes);
}

Tensor channel_norm_backward(const Tensor& grad, const Tensor& self, const Tensor& weight, const Tensor& mean,
                             const Tensor& rstd, bool training, double eps) {
  if (!grad.defined()) return {};
  if (!GradMode::enabled()) return _channel_norm_backward(grad, self, weight, mean, rstd, training);
  int64_t dim = self.dim();
  Tensor g = weight.defined() ? grad * per_channel(weight, dim) : grad;
  if (!training) return g * per_channel(rstd, dim);
  Dims dims = all_but_channels(dim);
  return through_normalised(g, Normalised(self, dims, eps, true), dims, true);
}

Tensor channel_norm_backward_weight(const Tensor& grad, const Tensor& self, const Tensor& mean, const Tensor& rstd,
                                    bool training, double eps) {
  if (!grad.defined()) return {};
  if (!GradMode::enabled()) return _channel_norm_backward_weight(grad, self, mean, rstd);
  int64_t dim = self.dim();
  Dims dims = all_but_channels(dim);
  Tensor x =
      training ? Normalised(self, dims, eps, true).value : (self - per_channel(mean, dim)) * per_channel(rstd, dim);
  return sum(grad * x, std::optional<IntList>(dims), false, std::optional<DType>());
}

Tensor channel_norm_backward_bias(const Tensor& grad) {
  if (!grad.defined()) return {};
  Dims dims = all_but_channels(grad.dim());
  return sum(grad, std::optional<IntList>(dims), false, std::optional<DType>());
}

}  // namespace facula

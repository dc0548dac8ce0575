// Activation functions with arguments that choose a kernel, among them nn.functional's inplace.
#include <optional>
#include <string_view>
#include <vector>

#include "autograd/function_support.h"
#include "core/error.h"
#include "core/near_name.h"
#include "functions.h"

namespace facula {

namespace {

/// The schema would promote integers; these functions refuse them, as their derivative makes no sense there.
void require_inexact(std::string_view op, const Tensor& self) {
  if (is_inexact(self.dtype())) return;
  throw_error(ErrorKind::NotImplemented, op, ": expected a floating-point tensor, got ", self.dtype());
}

constexpr double selu_alpha = 1.6732632423543772848170429916717;
constexpr double selu_scale = 1.0507009873554804934193349852946;

}  // namespace

// ---- sigmoid family

Tensor logit(const Tensor& self, std::optional<double> eps) {
  return eps ? _logit(clamp(self, Scalar(*eps), Scalar(1.0 - *eps))) : _logit(self);
}

Tensor functional_silu(const Tensor& self, bool inplace) {
  require_inexact("silu", self);
  return inplace ? silu_(self) : silu(self);
}

Tensor functional_mish(const Tensor& self, bool inplace) {
  require_inexact("mish", self);
  return inplace ? mish_(self) : mish(self);
}

Tensor _mish_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& self) {
  const Tensor s = sigmoid(self), t = tanh(softplus(self, 1, 20));
  return grad * grad_output * (1.0 - t * t) * s * (2.0 + self * (1.0 - s - 2.0 * t * s));
}

// ---- exponential and Gaussian units

Tensor functional_elu(const Tensor& self, double alpha, bool inplace) {
  require_inexact("elu", self);
  return inplace ? elu_(self, alpha, 1, 1) : elu(self, alpha, 1, 1);
}

const Tensor& functional_elu_(const Tensor& self, double alpha) {
  require_inexact("elu_", self);
  return elu_(self, alpha, 1, 1);
}

Tensor functional_selu(const Tensor& self, bool inplace) {
  require_inexact("selu", self);
  return inplace ? elu_(self, selu_alpha, selu_scale, 1) : elu(self, selu_alpha, selu_scale, 1);
}

Tensor selu(const Tensor& self) { return functional_selu(self, false); }

Tensor functional_celu(const Tensor& self, double alpha, bool inplace) {
  require_inexact("celu", self);
  if (alpha == 0.0) throw_error(ErrorKind::Runtime, "celu: expected an alpha other than 0, got ", alpha);
  return inplace ? elu_(self, alpha, 1, 1.0 / alpha) : elu(self, alpha, 1, 1.0 / alpha);
}

Tensor celu(const Tensor& self, const Scalar& alpha) { return functional_celu(self, alpha.to_double(), false); }

Tensor gelu(const Tensor& self, std::string_view approximate) {
  require_inexact("gelu", self);
  if (approximate == "none") return _gelu_erf(self);
  if (approximate == "tanh") return _gelu_tanh(self);
  throw_error(ErrorKind::Runtime, "gelu: approximate must be ", one_of({"none", "tanh"}, approximate));
}

Tensor _gelu_tanh_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& self) {
  constexpr double scale = 0.7978845608028654, cubic = 0.044715;  // sqrt(2 / pi)
  const Tensor squared = self * self;
  const Tensor t = tanh(scale * self * (1.0 + cubic * squared));
  const Tensor slope = scale * (1.0 + 3.0 * cubic * squared);
  const Tensor bend = slope - self * t * slope * slope + (3.0 * scale * cubic) * squared;
  return grad * grad_output * (1.0 - t * t) * bend;
}

// ---- piecewise linear units

Tensor functional_relu(const Tensor& self, bool inplace) { return inplace ? relu_(self) : relu(self); }

Tensor functional_threshold(const Tensor& self, double threshold, double value, bool inplace) {
  if (!inplace) return _threshold(self, threshold, value);
  Tensor places = self;  // each place in memory once
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (self.stride(d) == 0 && self.size(d) > 1) places = narrow(places, d, 0, 1);
  }
  _threshold_(places, threshold, value);
  return self;
}

Tensor functional_hardtanh(const Tensor& self, double min_val, double max_val, bool inplace) {
  if (min_val > max_val) {
    throw_error(ErrorKind::Value, "hardtanh: expected min_val of at most max_val, got ", min_val, " and ", max_val);
  }
  FACULA_CHECK(self.dtype() != DType::UInt8 || min_val >= 0, ErrorKind::Runtime,
               "hardtanh: limits that a dtype without a sign has, got ", min_val, " for uint8");
  return inplace ? hardtanh_(self, min_val, max_val) : hardtanh(self, min_val, max_val);
}

const Tensor& functional_hardtanh_(const Tensor& self, double min_val, double max_val) {
  functional_hardtanh(self, min_val, max_val, true);
  return self;
}

Tensor functional_relu6(const Tensor& self, bool inplace) { return functional_hardtanh(self, 0.0, 6.0, inplace); }

Tensor functional_hardsigmoid(const Tensor& self, bool inplace) {
  require_inexact("hardsigmoid", self);
  return inplace ? hardsigmoid_(self) : hardsigmoid(self);
}

Tensor functional_hardswish(const Tensor& self, bool inplace) {
  require_inexact("hardswish", self);
  return inplace ? hardswish_(self) : hardswish(self);
}

Tensor functional_leaky_relu(const Tensor& self, double negative_slope, bool inplace) {
  require_inexact("leaky_relu", self);
  return inplace ? leaky_relu_(self, negative_slope) : leaky_relu(self, negative_slope);
}

const Tensor& functional_leaky_relu_(const Tensor& self, double negative_slope) {
  require_inexact("leaky_relu_", self);
  return leaky_relu_(self, negative_slope);
}

Tensor prelu_uncast(const Tensor& self, const Tensor& weight) {
  if (self.dtype() != weight.dtype()) {
    throw_error(ErrorKind::Runtime, "prelu: expected self and weight of one dtype, got ", self.dtype(), " and ",
                weight.dtype());
  }
  require_inexact("prelu", self);
  if (weight.dim() > 1) {
    throw_error(ErrorKind::Runtime, "prelu: expected a weight of at most one dimension, got shape ", weight.sizes());
  }
  if (weight.numel() == 1) return _prelu_kernel(self, reshape(weight, IntList()));
  const int64_t channels = self.dim() >= 2 ? self.size(1) : 1;
  if (weight.numel() != channels) {
    throw_error(ErrorKind::Runtime, "prelu: expected a weight with 1 or ", channels, " elements for self of shape ",
                self.sizes(), ", got ", weight.numel());
  }
  std::vector<int64_t> shape(static_cast<size_t>(self.dim() - 1), 1);
  shape[0] = channels;  // broadcasts over the dimensions after the channels
  return _prelu_kernel(self, reshape(weight, shape));
}

Tensor functional_softshrink(const Tensor& self, double lambd) {
  require_inexact("softshrink", self);
  if (lambd < 0) throw_error(ErrorKind::Runtime, "softshrink: expected a lambd of at least 0, got ", lambd);
  return softshrink(self, lambd);
}

Tensor softsign(const Tensor& self) { return self / (abs(self) + 1.0); }

Tensor tanhshrink(const Tensor& self) { return self - tanh(self); }

Tensor glu(const Tensor& self, int64_t dim) {
  if (self.dim() == 0)
    throw_error(ErrorKind::Runtime, "glu: expected a tensor with a dimension to halve, got a 0-d one");
  const int64_t at = wrap_dim(dim, self.dim(), "glu"), half = self.size(at) / 2;
  if (self.size(at) % 2) {
    throw_error(ErrorKind::Runtime, "glu: expected an even size in dimension ", dim, ", got ", self.size(at));
  }
  const Tensor first = slice(self, at, 0, half, 1), gate = slice(self, at, half, 2 * half, 1);
  // where there will be a derivative, it needs the sigmoid
  return recorded_flags_of(all_examples(self)) ? first * sigmoid(gate) : _gated(first, gate);
}

}  // namespace facula

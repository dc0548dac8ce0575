// The dropout family and rrelu: a random factor per element or feature.
#include "functions.h"

namespace facula {
namespace {

void check_probability(double p, const char* op) {
  FACULA_CHECK(p >= 0 && p <= 1, ErrorKind::Runtime, op, ": the probability must lie between 0 and 1, got ", p);
}

// One factor per sample and channel.
Tensor feature_shaped(const Tensor& input, const char* op) {
  FACULA_CHECK(input.dim() >= 2, ErrorKind::Runtime, op, ": at least two dimensions are needed, got shape ",
               input.sizes());
  Dims shape(static_cast<size_t>(input.dim()), 1);
  shape[0] = input.size(0);
  shape[1] = input.size(1);
  return new_empty(input, shape);
}

// As the program sees the input, whatever its order in memory: a seed gives the same numbers.
Tensor shaped_like(const Tensor& input, DType dtype) {
  return input.flags() & kPrivateLayout ? empty(input.sizes(), dtype, input.device()) : empty_like(input, dtype);
}
Tensor shaped_like(const Tensor& input) { return shaped_like(input, input.dtype()); }

// The factors and, for the alpha kind, the offsets that go with them: result = input * factor + offset.
struct Noise {
  Tensor factor, offset;
};

Noise draw(const Tensor& noise, double p, bool alpha) {
  bernoulli_(noise, 1 - p);
  if (!alpha) {
    div_(noise, 1 - p);
    return {noise, Tensor()};
  }
  // Dropped elements become -alpha, the limit of selu; a and b restore mean 0 and variance 1.
  constexpr double limit = 1.7580993408473766;
  double a = 1 / std::sqrt((limit * limit * p + 1) * (1 - p));
  Tensor offset = noise - 1;
  mul_(offset, limit * a);
  add_(offset, limit * a * p);
  mul_(noise, a);
  return {noise, offset};
}

enum Kind { kPlain = 0, kFeature = 1, kAlpha = 2 };

struct Dropped {
  Tensor result, mask;
};
// PyTorch's dropout on CUDA draws in an order of its own, and rounds once.
bool is_own_draw(const Tensor& input) { return input.device().type == DeviceType::CUDA && is_floating(input.dtype()); }
Dropped drop_on_cuda(const Tensor& input, double p) {
  const double keep = input.dtype() == DType::Float64 ? 1 - p : static_cast<double>(static_cast<float>(1 - p));
  Tensor mask = _dropout_kept(input, 1 - p);
  return {_masked_scale(input, mask, Scalar(1 / keep)), mask};
}

Tensor drop(const Tensor& input, double p, bool train, int kind, const char* op) {
  check_probability(p, op);
  if (!train || p == 0 || input.numel() == 0) return input;
  if (p == 1) return input * zeros(IntList(), input.dtype(), input.device());
  if (kind == kPlain && is_own_draw(input)) return drop_on_cuda(input, p).result;
  Noise n = draw(kind & kFeature ? feature_shaped(input, op) : shaped_like(input), p, kind & kAlpha);
  return n.offset.defined() ? input * n.factor + n.offset : input * n.factor;
}

const Tensor& drop_in_place(const Tensor& self, double p, bool train, int kind, const char* op) {
  check_probability(p, op);
  if (!train || p == 0 || self.numel() == 0) return self;
  if (p == 1) return mul_(self, zeros(IntList(), self.dtype(), self.device()));
  Noise n = draw(kind & kFeature ? feature_shaped(self, op) : shaped_like(self), p, kind & kAlpha);
  mul_(self, n.factor);
  return n.offset.defined() ? add_(self, n.offset) : self;
}

Tensor slopes_of(const Tensor& self, const Scalar& lower, const Scalar& upper, Generator* generator) {
  return _rrelu_slopes(self, lower.to_double(), upper.to_double(), generator);
}

void check_ends(const Scalar& lower, const Scalar& upper) {
  FACULA_CHECK(lower.to_double() <= upper.to_double(), ErrorKind::Runtime,
               "rrelu: lower must not be greater than upper, got ", lower.to_double(), " and ", upper.to_double());
}

}  // namespace

Tensor dropout(const Tensor& input, double p, bool train) { return drop(input, p, train, kPlain, "dropout"); }
const Tensor& dropout_(const Tensor& self, double p, bool train) {
  return drop_in_place(self, p, train, kPlain, "dropout_");
}
Tensor feature_dropout(const Tensor& input, double p, bool train) {
  return drop(input, p, train, kFeature, "feature_dropout");
}
const Tensor& feature_dropout_(const Tensor& self, double p, bool train) {
  return drop_in_place(self, p, train, kFeature, "feature_dropout_");
}
Tensor alpha_dropout(const Tensor& input, double p, bool train) {
  return drop(input, p, train, kAlpha, "alpha_dropout");
}
const Tensor& alpha_dropout_(const Tensor& self, double p, bool train) {
  return drop_in_place(self, p, train, kAlpha, "alpha_dropout_");
}
Tensor feature_alpha_dropout(const Tensor& input, double p, bool train) {
  return drop(input, p, train, kFeature | kAlpha, "feature_alpha_dropout");
}
const Tensor& feature_alpha_dropout_(const Tensor& self, double p, bool train) {
  return drop_in_place(self, p, train, kFeature | kAlpha, "feature_alpha_dropout_");
}

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  check_probability(p, "native_dropout");
  Tensor mask = shaped_like(input, DType::Bool);
  if (!train.value_or(true)) {
    fill_(mask, Scalar(true));
    return {clone(input), mask};
  }
  if (is_own_draw(input) && p < 1) {
    Dropped d = drop_on_cuda(input, p);
    return {d.result, d.mask};
  }
  bernoulli_(mask, 1 - p);
  return {input * mask * (p == 1 ? 0.0 : 1 / (1 - p)), mask};
}

Tensor rrelu(const Tensor& self, const Scalar& lower, const Scalar& upper, bool training, Generator* generator) {
  check_ends(lower, upper);
  if (!training) return leaky_relu(self, Scalar((lower.to_double() + upper.to_double()) / 2));
  return self * slopes_of(self, lower, upper, generator);
}
const Tensor& rrelu_(const Tensor& self, const Scalar& lower, const Scalar& upper, bool training,
                     Generator* generator) {
  check_ends(lower, upper);
  if (!training) return leaky_relu_(self, Scalar((lower.to_double() + upper.to_double()) / 2));
  return mul_(self, slopes_of(self, lower, upper, generator));
}

}  // namespace facula

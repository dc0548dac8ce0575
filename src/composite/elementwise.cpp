// Element-wise ops written with ops: those that choose between kernels by an argument, check what a kernel
// must not meet (an integer divided by zero), or belong to a derivative.
#include <cmath>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "autograd/batching.h"
#include "autograd/function_support.h"
#include "core/checked.h"
#include "core/error.h"
#include "core/near_name.h"
#include "core/number.h"
#include "functions.h"
#include "ops/checks.h"

namespace facula {

namespace {

bool is_bits(const Operand& operand) { return facula::is_bits(operand.dtype()); }

Tensor cast(const Tensor& self, DType dtype) { return self.dtype() == dtype ? self : to_dtype(self, dtype); }

void require_number(std::string_view op, const Tensor& self) {
  if (self.dtype() == DType::Bool) throw_error(ErrorKind::Runtime, op, ": expected a numeric tensor, got bool");
}

void require_tensor(std::string_view op, const Operand& first, const Operand& second) {
  if (first.is_tensor() || second.is_tensor()) return;
  throw_error(ErrorKind::Type, op, ": expected at least one Tensor, got two numbers");
}

/// The loops give 0 for an integer divided by 0; nobody wants that answer.
void refuse_zero_divisor(const char* op, const Operand& self, const Operand& other) {
  if (!is_bits(self) || !is_bits(other)) return;
  if (self.is_tensor() && self.tensor().numel() == 0) return;
  const ValueCheck check{Holds::NotZero, ErrorKind::Runtime, op, "expected an integer divisor other than zero"};
  if (other.is_tensor()) check_values(all_examples(other.tensor()), check);
  else if (other.scalar().equals(0)) throw_error(check.error, op, ": ", check.expected, ", got 0");
}

}  // namespace

// ---- sign and magnitude

Tensor positive(const Tensor& self) {
  require_number("positive", self);
  return self;
}

Tensor conj_physical(const Tensor& self) { return is_complex(self.dtype()) ? _conj_physical(self) : self; }

Tensor _sgn_backward(const Tensor& grad_output, const Tensor& self, const Tensor& sign) {
  if (!is_complex(self.dtype())) return _zero_like(grad_output);
  const Tensor along = real(grad_output * conj(sign)) * sign;
  return where(eq(self, 0.0), 0.0, (grad_output - along) / abs(self));
}

Tensor _angle_backward(const Tensor& grad_output, const Tensor& self) {
  if (!is_complex(self.dtype())) return _zero_like(grad_output);
  const Tensor modulus = abs(self);
  const Tensor quarter_turn = _complex(-imag(self), real(self));
  return where(eq(self, 0.0), 0.0, grad_output / modulus * (quarter_turn / modulus));
}

namespace {

void require_same_floating(std::string_view op, const Tensor& first, const Tensor& second) {
  if (first.dtype() == second.dtype() && is_floating(first.dtype())) return;
  throw_error(ErrorKind::Runtime, op, ": expected two tensors of one floating dtype, got ", first.dtype(), " and ",
              second.dtype());
}

}  // namespace

Tensor complex(const Tensor& real, const Tensor& imag) {
  require_same_floating("complex", real, imag);
  return _complex(real, imag);
}

Tensor polar_uncast(const Tensor& abs, const Tensor& angle) {
  require_same_floating("polar", abs, angle);
  return _complex(abs * cos(angle), abs * sin(angle));
}

// ---- rounding

Tensor round(const Tensor& self, int64_t decimals) {
  if (decimals == 0) return round(self);
  if (!is_floating(self.dtype())) {
    throw_error(ErrorKind::NotImplemented, "round: expected a floating-point tensor with decimals, got ", self.dtype());
  }
  double scale = 1.0;
  const auto places = static_cast<uint64_t>(decimals < 0 ? wrapping_mul(decimals, -1) : decimals);
  for (uint64_t i = 0; i < places && scale < 1e308; ++i) scale *= 10.0;
  return decimals > 0 ? _round_scaled(self, scale, 1.0) : _round_scaled(self, 1.0, scale);
}

// ---- powers

Tensor square_uncast(const Tensor& self) {
  // 0 and 1 are their own squares; the product with an integer is int64.
  return self.dtype() == DType::Bool ? mul(self, 1) : _square(self);
}

namespace {

/// exponent is a number that a cheaper op computes, and the result keeps the dtype of self.
bool is_simple_power(const Operand& self, const Operand& exponent, double value) {
  if (!self.is_tensor() || exponent.is_tensor() || is_complex(exponent.dtype())) return false;
  return exponent.scalar().to_double() == value && (!is_bits(self) || is_bits(exponent));
}

/// A square root that keeps its input for the backward pass, as every power does: what keeps its result does not let
/// the program add something to that in place.
class RootBackward final : public Node {
 public:
  explicit RootBackward(const Tensor& self) : self_(self, false) {}
  std::string name() const override { return "PowBackward0"; }
  void apply(const Tensor* grads, Tensor* results) override {
    if (grads[0].defined() && wants(0)) results[0] = _pow_backward(grads[0], self_.unpack(*this), Scalar(0.5));
  }
  void release_saved() override { self_.reset(); }
  void visit_saved(SavedVisitor& visit) const override {
    visit("self", self_);
    visit("exponent", Scalar(0.5));
  }

 private:
  SavedTensor self_;
};

Tensor root(const Tensor& self) {
  constexpr uint32_t plain_flags = kSlowFlags & ~(kRequiresGrad | kWatchBase | kDeferred);
  const uint32_t recorded_flags = recorded_flags_of(self);
  if (!recorded_flags || (live_flags(self.impl()) & plain_flags)) return sqrt(self);
  Tensor result;
  {
    const GradMode off(false);
    result = sqrt(self);
  }
  auto node = Ref<RootBackward>::adopt(new RootBackward(self));
  node->flags = recorded_flags;
  add_edges(*node, self);
  set_history(result, node.get());
  return result;
}

}  // namespace

Tensor pow_uncast(const Operand& self, const Operand& exponent) {
  require_tensor("pow", self, exponent);
  if (self.dtype() == DType::Bool && exponent.dtype() == DType::Bool) {
    throw_error(ErrorKind::NotImplemented, "pow: expected numbers, got self and exponent of dtype bool");
  }
  if (is_bits(self) && !exponent.is_tensor() && is_bits(exponent) && exponent.scalar().to_double() < 0) {
    throw_error(ErrorKind::Runtime, "pow: expected an exponent of at least 0 for an integer self, got ",
                exponent.scalar());
  }
  if (self.dtype() != DType::Bool && is_simple_power(self, exponent, 2.0)) return _square(self.tensor());
  if (self.dtype() != DType::Bool && is_simple_power(self, exponent, 3.0)) return _cube(self.tensor());
  if (is_simple_power(self, exponent, 0.5)) return root(self.tensor());
  return _pow(self, exponent);
}

namespace {

/// The number one below, of the same kind. Arithmetic on numbers stays in double: as tensors they would be
/// float32.
Scalar one_less(const Scalar& number) {
  if (number.is_complex()) return Scalar(number.to_complex() - 1.0);
  return number.is_floating() ? Scalar(number.to_double() - 1.0) : Scalar(wrapping_add(number.to_int(), -1));
}

Scalar log_of(const Scalar& number, bool as_complex) {
  return number.is_complex() || as_complex ? Scalar(std::log(number.to_complex()))
                                           : Scalar(std::log(number.to_double()));
}

}  // namespace

Tensor _pow_backward(const Tensor& grad_output, const Operand& self, const Operand& exponent) {
  if (exponent.is_tensor()) {
    const Tensor flat = eq(exponent.tensor(), 0.0);
    const Tensor slope = where(flat, 0.0, exponent * _pow(self, exponent - 1));  // where it may be 0 * infinity
    return where(flat, 0.0, grad_output * conj(slope));
  }
  if (exponent.scalar().equals(0)) return _zero_like(grad_output);
  const Scalar below = one_less(exponent.scalar());
  const bool of_root = is_simple_power(self, exponent, 0.5) && !is_complex(self.dtype());
  return grad_output * conj(exponent * (of_root ? rsqrt(self.tensor()) : _pow(self, below)));
}

Tensor _pow_backward_exponent(const Tensor& grad_output, const Operand& self, const Operand& exponent,
                              const Tensor& power) {
  FACULA_CHECK(exponent.is_tensor(), ErrorKind::Type,
               "pow: the derivative by the exponent needs a Tensor as exponent, got a number");
  const Tensor not_negative = real(exponent.tensor()) >= 0.0;
  if (self.is_tensor()) {
    const Tensor flat = logical_and(eq(self.tensor(), 0.0), not_negative);
    // the logarithm of a negative number is complex where the power is; that of zero is not met
    const Tensor base = where(flat, 1.0, cast(self.tensor(), power.dtype()));
    return where(flat, 0.0, grad_output * conj(power * log(base)));
  }
  const Tensor slope = grad_output * conj(power * log_of(self.scalar(), is_complex(power.dtype())));
  return self.scalar().equals(0) ? where(not_negative, 0.0, slope) : slope;
}

Tensor float_power(const Operand& self, const Operand& exponent) {
  require_tensor("float_power", self, exponent);
  const bool any_complex = is_complex(self.dtype()) || is_complex(exponent.dtype());
  const DType dtype = any_complex ? DType::Complex128 : DType::Float64;
  // An operand borrows its tensor, so the converted ones live here.
  const Tensor base = self.is_tensor() ? cast(self.tensor(), dtype) : Tensor();
  const Tensor power = exponent.is_tensor() ? cast(exponent.tensor(), dtype) : Tensor();
  return pow(base.defined() ? Operand(base) : self, power.defined() ? Operand(power) : exponent);
}

Tensor ldexp(const Tensor& self, const Tensor& other) {
  // an integer exponent takes no part in the dtype, as in C: its power has the range that self has
  const bool counts = is_inexact(self.dtype()) && is_bits(other.dtype());
  const Tensor scaled =
      mul(self, pow(Scalar(2.0), counts ? to_dtype(other, compute_dtype(real_dtype(self.dtype()))) : other));
  return counts ? to_dtype(scaled, self.dtype()) : scaled;
}

std::tuple<Tensor, Tensor> frexp(const Tensor& self) {
  if (!is_floating(self.dtype())) {
    throw_error(ErrorKind::Runtime, "frexp: expected a floating-point tensor, got ", self.dtype());
  }
  const Tensor exponent = _frexp_exponent(self);
  return {_frexp_mantissa(self, cast(exponent, self.dtype())), cast(exponent, DType::Int32)};
}

// ---- sums and quotients

Tensor _scale_grad(const Tensor& grad_output, const Scalar& factor) {
  if (factor.equals(1)) return grad_output;
  return conj(conj(grad_output) * factor);  // conj is free, and does nothing to real tensors
}

Tensor div(const Operand& self, const Operand& other, std::optional<std::string_view> rounding_mode) {
  if (!rounding_mode) return div(self, other);
  refuse_zero_divisor("div", self, other);
  if (*rounding_mode == "trunc") return _div_trunc(self, other);
  if (*rounding_mode == "floor") return _div_floor(self, other);
  throw_error(ErrorKind::Runtime, "div: rounding_mode must be None, ", one_of({"trunc", "floor"}, *rounding_mode));
}

Tensor floor_divide(const Operand& self, const Operand& other) {
  refuse_zero_divisor("floor_divide", self, other);
  return _div_floor(self, other);
}

Tensor remainder(const Operand& self, const Operand& other) {
  require_tensor("remainder", self, other);
  refuse_zero_divisor("remainder", self, other);
  return _remainder(self, other);
}

Tensor fmod(const Tensor& self, const Operand& other) {
  refuse_zero_divisor("fmod", self, other);
  return _fmod(self, other);
}

Tensor nextafter(const Tensor& self, const Tensor& other) {
  // The narrow floats are computed in float, whose neighbors are closer.
  ResultType type;
  type.add(self.dtype(), self.dim());
  type.add(other.dtype(), other.dim());
  switch (type.get()) {
    case DType::Float16: return _nextafter(self, other, 11, -24);
    case DType::BFloat16: return _nextafter(self, other, 8, -133);
    default: return _nextafter(self, other, 0, 0);
  }
}

// ---- selection

namespace {

/// Numbers that where() gives to integral tensors must be theirs; among floats they may become infinite.
void check_choice(const Operand& number, const Operand& tensor) {
  if (!number.is_tensor() && tensor.is_tensor() && is_integral(tensor.dtype())) {
    require_value_if_kept(number.scalar(), tensor.dtype(), "where");
  }
}

}  // namespace

Tensor where(const Tensor& condition, const Operand& self, const Operand& other) {
  check_choice(self, other);
  check_choice(other, self);
  if (condition.dtype() == DType::UInt8) return _where(to_dtype(condition, DType::Bool), self, other);
  if (condition.dtype() != DType::Bool) {
    throw_error(ErrorKind::Runtime, "where: expected a condition of dtype bool, got ", condition.dtype());
  }
  return _where(condition, self, other);
}

std::vector<Tensor> where(const Tensor& condition) {
  return unbind(nonzero(condition.dim() ? condition : unsqueeze(condition, 0)), 1);
}

// ---- limits and closeness

Tensor clamp(const Tensor& self, const std::optional<Scalar>& min, const std::optional<Scalar>& max) {
  for (const auto& bound : {min, max}) {
    FACULA_CHECK(!bound || !bound->is_complex() || !self.is_floating(), ErrorKind::Runtime,
                 "clamp: real bounds for a tensor of ", self.dtype(), ", got ", *bound);
    if (bound) require_value_if_kept(*bound, self.dtype(), "clamp");
  }
  if (min && max) return _clamp(self, *min, *max);
  if (min) return clamp_min(self, *min);
  if (max) return clamp_max(self, *max);
  throw_error(ErrorKind::Runtime, "clamp: expected min, max or both, got None for both");
}

Tensor clamp(const Tensor& self, const Tensor& min, const Tensor& max) {
  FACULA_CHECK(!self.is_complex(), ErrorKind::NotImplemented, "clamp: complex numbers have no order, got ",
               self.dtype());
  if (min.defined() && max.defined()) return _clamp(self, min, max);
  if (min.defined()) return clamp_min(self, min);
  if (max.defined()) return clamp_max(self, max);
  throw_error(ErrorKind::Runtime, "clamp: expected min, max or both, got None for both");
}

namespace {

/// The largest finite number of a floating dtype, or of the parts of a complex one.
double largest_finite(DType dtype) {
  switch (dtype) {
    case DType::Float16: return 65504.0;
    case DType::BFloat16: return 0x1.fep127;
    case DType::Float32:
    case DType::Complex64: return 0x1.fffffep127;
    default: return 0x1.fffffffffffffp1023;
  }
}

}  // namespace

Tensor nan_to_num(const Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                  std::optional<double> neginf) {
  if (facula::is_bits(self.dtype())) return clone(self, std::nullopt);
  const double largest = largest_finite(self.dtype());
  return _nan_to_num(self, nan.value_or(0.0), posinf.value_or(largest), neginf.value_or(-largest));
}

const Tensor& nan_to_num_(const Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                          std::optional<double> neginf) {
  if (facula::is_bits(self.dtype())) return self;
  const double largest = largest_finite(self.dtype());
  return _nan_to_num_(self, nan.value_or(0.0), posinf.value_or(largest), neginf.value_or(-largest));
}

Tensor isclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
  if (self.dtype() != other.dtype()) {
    throw_error(ErrorKind::Runtime, "isclose: expected two tensors of one dtype, got ", self.dtype(), " and ",
                other.dtype());
  }
  if (!(rtol >= 0 && atol >= 0)) {
    throw_error(ErrorKind::Runtime, "isclose: expected rtol and atol of at least 0, got ", rtol, " and ", atol);
  }
  Tensor close = eq(self, other);
  if (self.dtype() == DType::Bool) return close;
  if (equal_nan) close = logical_or(close, logical_and(isnan(self), isnan(other)));
  if (rtol == 0 && atol == 0) return close;
  // Of integers the difference is taken in the default dtype, where it cannot wrap around.
  const Tensor expected = facula::is_bits(other.dtype()) ? mul(other, 1.0) : other;
  const Tensor difference = abs(self - expected);
  const Tensor allowed = abs(rtol * expected) + atol;
  return logical_or(close, logical_and(isfinite(difference), le(difference, allowed)));
}

}  // namespace facula

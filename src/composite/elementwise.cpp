// Element-wise ops written with ops: those that choose between kernels by an argument, check what a kernel must not
// meet (an integer divided by zero), or belong to a derivative.
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/error.h"
#include "functions.h"

namespace facula {

namespace {

bool is_integer_or_bool(DType dtype) {
  return !is_floating_point(dtype) && !is_complex(dtype);
}

bool is_integer_or_bool(const Operand& operand) {
  return is_integer_or_bool(operand.dtype());
}

void require_number(std::string_view op, const Tensor& self) {
  if (self.dtype() == DType::Bool) throw_error(ErrorKind::Runtime, op, ": expected a numeric tensor, got bool");
}

void require_tensor(std::string_view op, const Operand& first, const Operand& second) {
  if (first.is_tensor() || second.is_tensor()) return;
  throw_error(ErrorKind::Type, op, ": expected at least one Tensor, got two numbers");
}

/// The kernels give 0 for an integer divided by 0; nobody wants that answer.
void refuse_zero_divisor(std::string_view op, const Operand& self, const Operand& other) {
  if (!is_integer_or_bool(self) || !is_integer_or_bool(other)) return;
  const bool has_zero = other.is_tensor() ? any(eq(other.tensor(), 0)).item<bool>() : other.scalar().to_double() == 0.0;
  if (has_zero) throw_error(ErrorKind::Runtime, op, ": expected an integer divisor other than zero, got 0");
}

}  // namespace

// ---- sign and magnitude ----------------------------------------------------------------------------------------

Tensor positive(const Tensor& self) {
  require_number("positive", self);
  return self;
}

Tensor _sgn_backward(const Tensor& grad_output, const Tensor& self, const Tensor& sign) {
  if (!is_complex(self.dtype())) return zeros_like(grad_output);
  const Tensor along = real(grad_output * conj(sign)) * sign;
  return where(eq(self, 0.0), 0.0, (grad_output - along) / abs(self));
}

Tensor _angle_backward(const Tensor& grad_output, const Tensor& self) {
  if (!is_complex(self.dtype())) return zeros_like(grad_output);
  const Tensor modulus = abs(self);
  const Tensor quarter_turn = complex(-imag(self), real(self));
  return where(eq(self, 0.0), 0.0, grad_output / modulus * (quarter_turn / modulus));
}

Tensor polar(const Tensor& abs, const Tensor& angle) {
  if (abs.dtype() != angle.dtype() || !is_floating_point(abs.dtype())) {
    throw_error(ErrorKind::Runtime, "polar: expected abs and angle of one floating dtype, got ", abs.dtype(), " and ",
                angle.dtype());
  }
  return complex(abs * cos(angle), abs * sin(angle));
}

// ---- rounding --------------------------------------------------------------------------------------------------

Tensor round(const Tensor& self, int64_t decimals) {
  if (decimals == 0) return round(self);
  if (!is_floating_point(self.dtype())) {
    throw_error(ErrorKind::NotImplemented, "round: expected a floating-point tensor with decimals, got ", self.dtype());
  }
  double scale = 1.0;
  for (int64_t i = 0; i < (decimals < 0 ? -decimals : decimals) && scale < 1e308; ++i) scale *= 10.0;
  return decimals > 0 ? _round_scaled(self, scale, 1.0) : _round_scaled(self, 1.0, scale);
}

// ---- powers ----------------------------------------------------------------------------------------------------

Tensor square(const Tensor& self) {
  // 0 and 1 are their own squares; the product with an integer is int64.
  return self.dtype() == DType::Bool ? mul(self, 1) : _square(self);
}

namespace {

/// exponent is a number that a cheaper op computes, and the result keeps the dtype of self.
bool is_simple_power(const Operand& self, const Operand& exponent, double value) {
  if (!self.is_tensor() || exponent.is_tensor() || is_complex(exponent.dtype())) return false;
  return exponent.scalar().to_double() == value && (!is_integer_or_bool(self) || is_integer_or_bool(exponent));
}

}  // namespace

Tensor pow(const Operand& self, const Operand& exponent) {
  require_tensor("pow", self, exponent);
  if (self.dtype() == DType::Bool && exponent.dtype() == DType::Bool) {
    throw_error(ErrorKind::NotImplemented, "pow: expected numbers, got self and exponent of dtype bool");
  }
  if (is_integer_or_bool(self) && !exponent.is_tensor() && is_integer_or_bool(exponent) &&
      exponent.scalar().to_double() < 0) {
    throw_error(ErrorKind::Runtime, "pow: expected an exponent of at least 0 for an integer self, got ",
                exponent.scalar());
  }
  if (self.dtype() != DType::Bool && is_simple_power(self, exponent, 2.0)) return _square(self.tensor());
  if (is_simple_power(self, exponent, 0.5)) return sqrt(self.tensor());
  return _pow(self, exponent);
}

Tensor _pow_backward(const Tensor& grad_output, const Tensor& self, const Operand& exponent) {
  if (!exponent.is_tensor() && exponent.scalar() == Scalar(0)) return zeros_like(grad_output);
  const Tensor slope = exponent * _pow(self, exponent - 1);
  if (!exponent.is_tensor()) return grad_output * conj(slope);
  return where(eq(exponent.tensor(), 0.0), 0.0, grad_output * conj(slope));
}

Tensor _pow_backward_exponent(const Tensor& grad_output, const Operand& self, const Tensor& exponent,
                              const Tensor& power) {
  const Tensor base = as_tensor(self, power);
  const Tensor flat = logical_and(eq(base, 0.0), ge(real(exponent), 0.0));
  return where(flat, 0.0, grad_output * conj(power * log(base)));
}

Tensor float_power(const Operand& self, const Operand& exponent) {
  require_tensor("float_power", self, exponent);
  const bool any_complex = is_complex(self.dtype()) || is_complex(exponent.dtype());
  const DType dtype = any_complex ? DType::Complex128 : DType::Float64;
  const auto widen = [dtype](const Operand& x) { return x.is_tensor() ? Operand(to(x.tensor(), dtype)) : x; };
  return pow(widen(self), widen(exponent));
}

Tensor ldexp(const Tensor& self, const Tensor& other) {
  return mul(self, pow(Scalar(2.0), other));
}

std::tuple<Tensor, Tensor> frexp(const Tensor& self) {
  if (!is_floating_point(self.dtype())) {
    throw_error(ErrorKind::Runtime, "frexp: expected a floating-point tensor, got ", self.dtype());
  }
  const Tensor exponent = _frexp_exponent(self);
  return {_frexp_mantissa(self, to(exponent, self.dtype())), to(exponent, DType::Int32)};
}

// ---- sums and quotients ---------------------------------------------------------------------------------------

Tensor _scale_grad(const Tensor& grad_output, const Scalar& factor) {
  if (factor == Scalar(1)) return grad_output;
  return conj(conj(grad_output) * factor);  // conj is free, and does nothing to real tensors
}

Tensor div(const Operand& self, const Operand& other, std::optional<std::string_view> rounding_mode) {
  if (!rounding_mode) return div(self, other);
  refuse_zero_divisor("div", self, other);
  if (*rounding_mode == "trunc") return _div_trunc(self, other);
  if (*rounding_mode == "floor") return _div_floor(self, other);
  throw_error(ErrorKind::Runtime, "div: expected rounding_mode None, 'trunc' or 'floor', got '", *rounding_mode, "'");
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

// ---- selection -------------------------------------------------------------------------------------------------

Tensor where(const Tensor& condition, const Operand& self, const Operand& other) {
  if (condition.dtype() != DType::Bool) {
    throw_error(ErrorKind::Runtime, "where: expected a condition of dtype bool, got ", condition.dtype());
  }
  return _where(condition, self, other);
}

std::vector<Tensor> where(const Tensor& condition) {
  return unbind(nonzero(condition), 1);
}

// ---- limits and closeness --------------------------------------------------------------------------------------

Tensor clamp(const Tensor& self, std::optional<Scalar> min, std::optional<Scalar> max) {
  if (min && max) return _clamp(self, *min, *max);
  if (min) return clamp_min(self, *min);
  if (max) return clamp_max(self, *max);
  throw_error(ErrorKind::Runtime, "clamp: expected min, max or both, got None for both");
}

Tensor clamp(const Tensor& self, const Tensor& min, const Tensor& max) {
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
  if (is_integer_or_bool(self.dtype())) return clone(self);
  const double largest = largest_finite(self.dtype());
  return _nan_to_num(self, nan.value_or(0.0), posinf.value_or(largest), neginf.value_or(-largest));
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
  if (equal_nan) close = logical_or(close, logical_and(isnan(self), isnan(other)));
  if (rtol == 0 && atol == 0) return close;
  // Of integers the difference is taken in the default dtype, where it cannot wrap around.
  const Tensor expected = is_integer_or_bool(other.dtype()) ? mul(other, 1.0) : other;
  const Tensor difference = abs(self - expected);
  const Tensor allowed = abs(rtol * expected) + atol;
  return logical_or(close, logical_and(isfinite(difference), le(difference, allowed)));
}

}  // namespace facula

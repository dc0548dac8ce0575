// Shape and dtype rules of the reductions.
#include "ops/reduce.h"

#include <utility>

#include "core/checked.h"
#include "ops/contiguous.h"
#include "ops/reduction.h"
#include "raw_ops.h"

namespace facula::ops {

Reduction::Reduction(const Tensor& self, std::optional<IntList> dim, bool keepdim, const char* op)
    : keepdim_shape(self.sizes()) {
  bool all = !dim || dim->empty();
  Dims mask(static_cast<size_t>(std::max(self.dim(), int64_t{1})), all);  // a 0-d tensor has one, of size 1
  for (size_t i = 0; !all && i < dim->size(); ++i) {
    int64_t at = wrap_dim((*dim)[i], self.dim(), op);
    FACULA_CHECK(!mask[at], ErrorKind::Runtime, op, ": expected every dimension at most once, got ", *dim);
    mask[at] = 1;
  }
  for (size_t i = 0; i < keepdim_shape.size(); ++i) {
    if (mask[i]) {
      count = (Checked(count) * keepdim_shape[i]).get(op, "the number of elements of a slice", "shape ", self.sizes());
      if (keepdim_shape[i] == 0) empty_dim = static_cast<int64_t>(i);
      keepdim_shape[i] = 1;
    } else {
      shape.push_back(keepdim_shape[i]);
    }
  }
  if (keepdim) shape = keepdim_shape;
}

void Reduction::require_elements(const Tensor& self, bool dim_given, const char* op, ErrorKind without_dim) const {
  if (empty_dim < 0) return;
  if (!dim_given)
    throw_error(without_dim, op, ": an empty tensor needs the dimension to reduce, got shape ", self.sizes());
  throw_error(ErrorKind::Index, op, ": dimension ", empty_dim, " must not have size zero, got shape ", self.sizes());
}

void take_shape(const Tensor& fresh, IntList shape) {
  if (fresh.sizes() != shape) set_sizes(fresh.impl(), shape, contiguous_strides(shape));
}

namespace {

// Runs a fold, whose accumulator is of dtype `made`, and converts its result to `dtype`.
Tensor fold(const FoldKernel& kernel, DType made, const Tensor& self, const Reduction& r, FoldArgs args, DType dtype,
            const Out& out) {
  if (made != dtype && self.device().is_cuda()) args.total = std::exchange(made, dtype);
  const bool direct = made == dtype;
  if (direct && out.given()) {
    Tensor result = out.make(r.shape, dtype, self.device());
    if (!self.is_meta())
      kernel(self.device(), make_view(result, r.keepdim_shape, contiguous_strides(r.keepdim_shape), 0, false), self,
             args);
    return result;
  }
  Tensor result = facula::empty(r.keepdim_shape, made, self.device());
  if (!self.is_meta()) kernel(self.device(), result, self, args);
  take_shape(result, r.shape);
  return direct ? result : to_dtype(result, dtype);
}
Tensor fold(const FoldKernel& kernel, const Tensor& self, const Reduction& r, const FoldArgs& args, DType dtype,
            const Out& out) {
  return fold(kernel, args.compute, self, r, args, dtype, out);
}

// Integers and bool are accumulated in int64, narrow floats in float32.
DType wide(DType dtype) { return is_bits(dtype) ? DType::Int64 : compute_dtype(dtype); }
// The requested dtype, else that of out=, else the tensor's own (int64 for integers and bool).
DType sum_dtype(const Tensor& self, std::optional<DType> dtype, const Out& out) {
  if (self.numel() && dtype) warn_of_lost_parts(self.dtype(), *dtype);
  return dtype.value_or(out.dtype_or(is_bits(self.dtype()) ? DType::Int64 : self.dtype()));
}

Tensor total(const FoldKernel& kernel, const Tensor& self, std::optional<IntList> dim, bool keepdim, DType dtype,
             const char* op, const Out& out) {
  Tensor input = dtype == DType::Bool ? to_dtype(self, DType::Bool) : self;  // 0.5 is true
  return fold(kernel, input, Reduction(self, dim, keepdim, op), {.compute = wide(dtype)}, dtype, out);
}

DType mean_dtype(const Tensor& self, std::optional<DType> dtype) {
  DType d = dtype.value_or(self.dtype());
  if (self.numel()) warn_of_lost_parts(self.dtype(), d);
  FACULA_CHECK(is_inexact(d), ErrorKind::Runtime,
               "mean: expected a floating-point or complex tensor (float() converts it), or such a dtype=, got ", d);
  return d;
}

Tensor extremum(const FoldKernel& kernel, const Tensor& self, std::optional<IntList> dim, bool keepdim, const char* op,
                const Out& out) {
  Reduction r(self, dim, keepdim, op);
  FACULA_CHECK(!self.is_complex() && self.dtype() != DType::UInt64, ErrorKind::NotImplemented, op,
               ": not implemented for dtype ", self.dtype());
  r.require_elements(self, dim && !dim->empty(), op);
  return fold(kernel, self, r, {.compute = wide(self.dtype())}, self.dtype(), out);
}

Tensor truth(const FoldKernel& kernel, const Tensor& self, std::optional<IntList> dim, bool keepdim, const char* op,
             const Out& out) {
  DType dtype = out.dtype_or(self.dtype() == DType::UInt8 ? DType::UInt8 : DType::Bool);
  FACULA_CHECK(dtype == DType::Bool || dtype == DType::UInt8, ErrorKind::Runtime, op, ": out= is bool or uint8, got ",
               dtype);
  if (dim && dim->empty()) {  // no dimension: every element for itself
    Tensor each = to_dtype(to_dtype(self, DType::Bool), dtype);
    return each.is_same(self) ? clone(self, std::nullopt) : each;
  }
  return fold(kernel, self, Reduction(self, dim, keepdim, op), {.compute = DType::Bool}, dtype, out);
}

}  // namespace

namespace {

/// The sum of a small dense tensor of a dtype that it is summed in, without a plan; undefined where that does not suit.
Tensor small_sum(const Tensor& self) {
  DType d = self.dtype();
  bool simple = d == DType::Float32 || d == DType::Float64 || d == DType::Int64;
  if (!simple || !self.is_contiguous() || self.numel() > 4096 || !self.is_cpu()) return {};
  Tensor result = facula::empty({}, d);
  sum_flat_kernel(kCPU, d, self.numel(), self.data<void>(), result.data<void>());
  return result;
}

}  // namespace

Tensor sum(const Tensor& self, std::optional<DType> dtype) {
  if (!dtype) {
    if (Tensor result = small_sum(self); result.defined()) return result;
  }
  return sum(self, std::nullopt, false, dtype, {});
}

Tensor sum(const Tensor& self, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype, const Out& out) {
  const DType result = sum_dtype(self, dtype, out);
  if (self.dtype() == DType::Bool && result == DType::Int64)
    return fold(count_nonzero_fold, DType::Int64, self, Reduction(self, dim, keepdim, "sum"), {.compute = DType::Bool},
                result, out);
  return total(sum_fold, self, dim, keepdim, result, "sum", out);
}

Tensor nansum(const Tensor& self, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype,
              const Out& out) {
  const Reduction checked(self, dim, keepdim, "nansum");  // dimensions are looked at first
  FACULA_CHECK(!self.is_complex(), ErrorKind::Runtime, "nansum: expected a real tensor, got ", self.dtype());
  DType result = sum_dtype(self, dtype, out);
  FACULA_CHECK(!out.given() || is_bits(self.dtype()) || is_floating(result), ErrorKind::NotImplemented,
               "nansum: not implemented for out= of ", result);
  // before NaN becomes an integer
  const bool converted = self.is_floating() && is_bits(result);
  const Tensor numbers = converted ? _where(ops::ne(self, self), Scalar(0.0), self) : self;
  return total(nansum_fold, numbers, dim, keepdim, result, "nansum", out);
}

Tensor mean(const Tensor& self, std::optional<DType> dtype, const Out& out) {
  if (!dtype && !out.given() && self.is_floating()) {
    if (Tensor total = small_sum(self); total.defined()) {
      double count = static_cast<double>(self.numel());
      if (self.dtype() == DType::Float32) *total.data<float>() /= static_cast<float>(count);
      else *total.data<double>() /= count;
      return total;
    }
  }
  return mean(self, std::nullopt, false, dtype, out);
}

Tensor mean(const Tensor& self, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype, const Out& out) {
  DType d = mean_dtype(self, dtype);
  Reduction r(self, dim, keepdim, "mean");
  return fold(sum_fold, self, r, {.compute = wide(d), .divisor = static_cast<double>(r.count)}, d, out);
}

Tensor prod(const Tensor& self, std::optional<DType> dtype) {
  return total(prod_fold, self, std::nullopt, false, sum_dtype(self, dtype, {}), "prod", {});
}

Tensor prod(const Tensor& self, int64_t dim, bool keepdim, std::optional<DType> dtype, const Out& out) {
  return total(prod_fold, self, IntList(&dim, 1), keepdim, sum_dtype(self, dtype, out), "prod", out);
}

Tensor amax(const Tensor& self, IntList dim, bool keepdim, const Out& out) {
  return extremum(max_fold, self, dim, keepdim, "amax", out);
}

Tensor amin(const Tensor& self, IntList dim, bool keepdim, const Out& out) {
  return extremum(min_fold, self, dim, keepdim, "amin", out);
}

Tensor max(const Tensor& self, const Out& out) { return extremum(max_fold, self, std::nullopt, false, "max", out); }
Tensor min(const Tensor& self, const Out& out) { return extremum(min_fold, self, std::nullopt, false, "min", out); }

Tensor any(const Tensor& self, int64_t dim, bool keepdim, const Out& out) {
  return truth(any_fold, self, IntList(&dim, 1), keepdim, "any", out);
}
Tensor any(const Tensor& self, std::optional<IntList> dim, bool keepdim, const Out& out) {
  return truth(any_fold, self, dim, keepdim, "any", out);
}
Tensor all(const Tensor& self, int64_t dim, bool keepdim, const Out& out) {
  return truth(all_fold, self, IntList(&dim, 1), keepdim, "all", out);
}
Tensor all(const Tensor& self, std::optional<IntList> dim, bool keepdim, const Out& out) {
  return truth(all_fold, self, dim, keepdim, "all", out);
}

Tensor count_nonzero(const Tensor& self, std::optional<IntList> dim) {
  return fold(count_nonzero_fold, DType::Int64, self, Reduction(self, dim, false, "count_nonzero"),
              {.compute = DType::Bool}, DType::Int64, {});
}

namespace {

Tensor spread(const Tensor& self, std::optional<IntList> dim, double correction, bool keepdim, Finish finish) {
  Reduction r(self, dim, keepdim, "var");
  DType compute = wide(self.dtype());
  double divisor = std::max(0.0, static_cast<double>(r.count) - correction);
  if (self.device().is_cuda())
    return fold(moments_fold, self, r, {.compute = compute, .divisor = divisor, .finish = finish}, self.dtype(), {});
  Tensor center = facula::empty(r.keepdim_shape, compute, self.device());
  if (!self.is_meta())
    sum_fold(self.device(), center, self, FoldArgs{.compute = compute, .divisor = static_cast<double>(r.count)});
  return fold(centered_squares_fold, self, r,
              {.compute = compute, .divisor = divisor, .finish = finish, .center = &center}, self.dtype(), {});
}

}  // namespace

Tensor _var(const Tensor& self, std::optional<IntList> dim, double correction, bool keepdim) {
  return spread(self, dim, correction, keepdim, Finish::Nothing);
}

Tensor _std(const Tensor& self, std::optional<IntList> dim, double correction, bool keepdim) {
  return spread(self, dim, correction, keepdim, Finish::Sqrt);
}

namespace {

Tensor norm_of(const Tensor& self, const Reduction& r, double order, DType dtype, const Out& out) {
  DType c = compute_dtype(self.dtype());
  if (order == INFINITY) return fold(abs_max_fold, self, r, {.compute = c}, dtype, out);
  if (order == -INFINITY) return fold(abs_min_fold, self, r, {.compute = c}, dtype, out);
  if (order == 1 || (r.count == 1 && order > 0)) return fold(abs_sum_fold, self, r, {.compute = c}, dtype, out);
  if (order == 2) return fold(square_sum_fold, self, r, {.compute = c, .finish = Finish::Sqrt}, dtype, out);
  Finish finish = order == 0 ? Finish::Nothing : Finish::Power;
  return fold(power_sum_fold, self, r, {.compute = c, .finish = finish, .power = order}, dtype, out);
}

}  // namespace

Tensor linalg_vector_norm(const Tensor& self, const Scalar& ord, std::optional<IntList> dim, bool keepdim,
                          std::optional<DType> dtype, const Out& out) {
  constexpr const char* op = "linalg.vector_norm";
  FACULA_CHECK(is_inexact(self.dtype()), ErrorKind::Runtime, op, ": expected a floating-point or complex tensor, got ",
               self.dtype());
  FACULA_CHECK(!ord.is_complex(), ErrorKind::Runtime, op, ": expected a real order, got ", ord);
  if (dtype) {
    FACULA_CHECK(
        is_inexact(*dtype) && is_complex(*dtype) == self.is_complex() && promote(*dtype, self.dtype()) == *dtype,
        ErrorKind::Runtime, op, ": dtype must be at least as wide as ", self.dtype(), " and of its kind, got ", *dtype);
  }
  double order = ord.to_double();
  Reduction r(self, dim, keepdim, op);
  if (order < 0 || order == INFINITY) {
    FACULA_CHECK(r.empty_dim < 0, ErrorKind::Runtime, op, ": the norm of order ", order,
                 " of nothing is not defined, got shape ", self.sizes());
  }
  Tensor input = self;
  if (dtype) input = to_dtype(self, *dtype);
  DType result = real_dtype(input.dtype());
  if (self.is_complex()) input = abs(input);
  return norm_of(input, r, order, result, out);
}

Tensor logsumexp(const Tensor& self, IntList dim, bool keepdim, const Out&) {
  Tensor input = is_bits(self.dtype()) ? to_dtype(self, default_dtype()) : self;
  Reduction r(input, dim, true, "logsumexp");
  Dims shape = Reduction(input, dim, keepdim, "logsumexp").shape;
  Tensor largest;
  if (r.empty_dim >= 0) {
    largest = zeros(r.keepdim_shape, real_dtype(input.dtype()), input.device());
  } else {
    largest = amax(input.is_complex() ? select(view_as_real(input), -1, 0) : input, dim, true);
    largest = _where(isfinite(largest), largest, Scalar(0.0));
  }
  Tensor result = add(log(sum(exp(sub(input, largest, Scalar(1))), dim, true, std::nullopt)), largest, Scalar(1));
  return make_view(result, shape, contiguous_strides(shape), 0, false);
}

Tensor hash_tensor(const Tensor& self, IntList dim, bool keepdim, int64_t mode, const Out& out) {
  FACULA_CHECK(mode == 0, ErrorKind::Runtime, "hash_tensor: mode 0 (xor) is the only one, got ", mode);
  FACULA_CHECK(!self.is_complex(), ErrorKind::NotImplemented, "hash_tensor: not implemented for dtype ", self.dtype());
  if (!dim.empty()) Reduction(self, dim, keepdim, "hash_tensor").require_elements(self, true, "hash_tensor");
  Tensor bits = self;
  if (self.is_floating()) {  // floats are hashed by the bits of their float64 value
    Tensor doubles = to_dtype(self, DType::Float64);
    bits = make_view(doubles, doubles.sizes(), doubles.strides(), 0, false);
    bits.impl()->dtype = DType::Int64;
  }
  return fold(xor_fold, bits, Reduction(self, dim, keepdim, "hash_tensor"), {.compute = DType::Int64}, DType::UInt64,
              out);
}

}  // namespace facula::ops

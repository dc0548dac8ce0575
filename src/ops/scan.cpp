// Rules of the ops that work along one dimension.
#include "ops/scan.h"

#include "ops/reduction.h"
#include "raw_ops.h"

namespace facula::ops {
namespace {

// The compute dtype of a line; bool and the integers are handled as int64.
DType line_dtype(const Tensor& self, const char* op) {
  FACULA_CHECK(self.dtype() != DType::UInt64, ErrorKind::NotImplemented, op, ": not implemented for dtype ",
               self.dtype());
  return is_bits(self.dtype()) ? DType::Int64 : compute_dtype(self.dtype());
}

void require_real(const Tensor& self, const char* op, ErrorKind kind = ErrorKind::NotImplemented) {
  FACULA_CHECK(!self.is_complex(), kind, op, ": not implemented for dtype ", self.dtype());
}

void require_floating(const Tensor& self, const char* op) {
  FACULA_CHECK(self.is_floating(), ErrorKind::NotImplemented, op, ": not implemented for dtype ", self.dtype());
}

void run_lines(LineOp line, DType compute, int64_t dim, TensorList in, TensorList out) {
  if (!in[0].is_meta()) line_kernel(in[0].device(), line, compute, dim, in, out);
}

// A line op whose result has the shape of its input.
Tensor scan(LineOp line, const Tensor& self, int64_t dim, DType result_dtype, const char* op, const Out& out,
            DType compute) {
  int64_t d = wrap_dim(dim, self.dim(), op);
  Tensor result = compute == result_dtype ? out.make(self.sizes(), compute, self.device())
                                          : facula::empty(self.sizes(), compute, self.device());
  run_lines(line, compute, d, {self}, {result});
  return compute == result_dtype ? result : to_dtype(result, result_dtype);
}

Tensor accumulate(LineOp line, const Tensor& self, int64_t dim, std::optional<DType> dtype, const char* op,
                  const Out& out) {
  DType result = dtype.value_or(out.dtype_or(is_bits(self.dtype()) ? DType::Int64 : self.dtype()));
  FACULA_CHECK(result != DType::Bool, ErrorKind::NotImplemented, op, ": not implemented for dtype ", result);
  return scan(line, self, dim, result, op, out, is_bits(result) ? DType::Int64 : compute_dtype(result));
}

using Pair = std::tuple<Tensor, Tensor>;

// A line op that gives values and their positions; `size` is the length of its results along dim, -1 as long as the
// input.
Pair with_positions(LineOp line, const Tensor& self, int64_t dim, int64_t size, const char* op, const Out& out0,
                    const Out& out1) {
  int64_t d = wrap_dim(dim, self.dim(), op);
  DType compute = line_dtype(self, op);
  Dims shape(self.sizes());
  if (size >= 0 && self.dim() > 0) shape[d] = size;
  Tensor values =
      compute == self.dtype() ? out0.make(shape, compute, self.device()) : facula::empty(shape, compute, self.device());
  Tensor positions = out1.make(shape, DType::Int64, self.device());
  run_lines(line, compute, d, {self}, {values, positions});
  return {compute == self.dtype() ? values : to_dtype(values, self.dtype()), positions};
}

Tensor without_dim(const Tensor& t, int64_t dim) {
  if (t.dim() == 0) return t;
  Dims sizes(t.sizes());
  sizes.erase(static_cast<size_t>(dim));
  Tensor view = make_view(t, sizes, contiguous_strides(sizes), 0, false);
  return view;
}

// One value and its position per line.
Pair chosen(LineOp line, const Tensor& self, int64_t dim, bool keepdim, const char* op) {
  require_real(self, op, ErrorKind::Runtime);
  int64_t d = wrap_dim(dim, self.dim(), op);
  FACULA_CHECK(self.dim() == 0 || self.size(d) > 0, ErrorKind::Index, op, ": dimension ", d,
               " must not have size zero, got shape ", self.sizes());
  auto [values, positions] = with_positions(line, self, d, 1, op, {}, {});
  if (keepdim) return {values, positions};
  return {without_dim(values, d), without_dim(positions, d)};
}

Tensor flat(const Tensor& self) {
  Dims shape{self.numel()}, strides;
  if (view_strides(self.sizes(), self.strides(), shape, strides)) return make_view(self, shape, strides, 0, false);
  Tensor packed = facula::empty(self.sizes(), self.dtype(), self.device());
  copy_elements(packed, self);
  return make_view(packed, shape, {1}, 0, false);
}

Tensor arg_extremum(LineOp line, const Tensor& self, std::optional<int64_t> dim, bool keepdim, const char* op) {
  FACULA_CHECK(!self.is_complex() && self.dtype() != DType::Bool, ErrorKind::Runtime, op,
               ": a tensor of numbers that have an order, got ", self.dtype());
  if (dim) return std::get<1>(chosen(line, self, *dim, keepdim, op));
  FACULA_CHECK(self.numel() > 0, ErrorKind::Index, op, ": an empty tensor needs the dimension to reduce, got shape ",
               self.sizes());
  Tensor position = std::get<1>(chosen(line, flat(self), 0, false, op));
  if (!keepdim) return position;
  Dims ones(static_cast<size_t>(self.dim()), 1);
  return make_view(position, ones, contiguous_strides(ones), 0, false);
}

}  // namespace

Tensor cumsum(const Tensor& self, int64_t dim, std::optional<DType> dtype, const Out& out) {
  return accumulate(LineOp::CumSum, self, dim, dtype, "cumsum", out);
}

Tensor cumprod(const Tensor& self, int64_t dim, std::optional<DType> dtype, const Out& out) {
  return accumulate(LineOp::CumProd, self, dim, dtype, "cumprod", out);
}

Tensor logcumsumexp(const Tensor& self, int64_t dim, const Out& out) {
  FACULA_CHECK(is_inexact(self.dtype()), ErrorKind::NotImplemented, "logcumsumexp: not implemented for dtype ",
               self.dtype());
  return scan(LineOp::LogCumSumExp, self, dim, self.dtype(), "logcumsumexp", out, compute_dtype(self.dtype()));
}

Pair cummax(const Tensor& self, int64_t dim, const Out& out0, const Out& out1) {
  require_real(self, "cummax");
  return with_positions(LineOp::CumMax, self, dim, -1, "cummax", out0, out1);
}

Pair cummin(const Tensor& self, int64_t dim, const Out& out0, const Out& out1) {
  require_real(self, "cummin");
  return with_positions(LineOp::CumMin, self, dim, -1, "cummin", out0, out1);
}

Tensor _softmax(const Tensor& self, int64_t dim) {
  require_floating(self, "softmax");
  return scan(LineOp::Softmax, self, dim, self.dtype(), "softmax", {}, compute_dtype(self.dtype()));
}

Tensor _log_softmax(const Tensor& self, int64_t dim) {
  require_floating(self, "log_softmax");
  return scan(LineOp::LogSoftmax, self, dim, self.dtype(), "log_softmax", {}, compute_dtype(self.dtype()));
}

namespace {

Tensor softmax_gradient(LineOp line, const Tensor& grad, const Tensor& output, int64_t dim, const char* op) {
  int64_t d = wrap_dim(dim, output.dim(), op);
  DType compute = compute_dtype(output.dtype());
  Tensor result = facula::empty(output.sizes(), compute, output.device());
  run_lines(line, compute, d, {grad, output}, {result});
  return compute == output.dtype() ? result : to_dtype(result, output.dtype());
}

}  // namespace

Tensor _softmax_backward(const Tensor& grad_output, const Tensor& output, int64_t dim) {
  return softmax_gradient(LineOp::SoftmaxBackward, grad_output, output, dim, "softmax");
}

Tensor _log_softmax_backward(const Tensor& grad_output, const Tensor& output, int64_t dim) {
  return softmax_gradient(LineOp::LogSoftmaxBackward, grad_output, output, dim, "log_softmax");
}

Pair max(const Tensor& self, int64_t dim, bool keepdim, const Out&, const Out&) {
  return chosen(LineOp::ArgMax, self, dim, keepdim, "max()");
}
Pair min(const Tensor& self, int64_t dim, bool keepdim, const Out&, const Out&) {
  return chosen(LineOp::ArgMin, self, dim, keepdim, "min()");
}

Tensor argmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim, const Out&) {
  return arg_extremum(LineOp::ArgMax, self, dim, keepdim, "argmax()");
}

Tensor argmin(const Tensor& self, std::optional<int64_t> dim, bool keepdim, const Out&) {
  return arg_extremum(LineOp::ArgMin, self, dim, keepdim, "argmin()");
}

Pair median(const Tensor& self, int64_t dim, bool keepdim, const Out&, const Out&) {
  FACULA_CHECK(self.dtype() != DType::Bool, ErrorKind::NotImplemented, "median: not implemented for dtype ",
               self.dtype());
  return chosen(LineOp::Median, self, dim, keepdim, "median()");
}

Pair nanmedian(const Tensor& self, int64_t dim, bool keepdim, const Out&, const Out&) {
  FACULA_CHECK(self.dtype() != DType::Bool, ErrorKind::NotImplemented, "nanmedian: not implemented for dtype ",
               self.dtype());
  return chosen(LineOp::NanMedian, self, dim, keepdim, "nanmedian()");
}

Pair mode(const Tensor& self, int64_t dim, bool keepdim, const Out&, const Out&) {
  return chosen(LineOp::Mode, self, dim, keepdim, "mode()");
}

Tensor _prod_others(const Tensor& self, int64_t dim) {
  return scan(LineOp::ProdOthers, self, dim, self.dtype(), "prod", {}, compute_dtype(self.dtype()));
}

}  // namespace facula::ops

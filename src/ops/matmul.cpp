// Shape rules of matrix products.
#include "ops/matmul.h"

#include "core/number.h"
#include "ops/contiguous.h"
#include "ops/needs.h"
#include "raw_ops.h"

namespace facula::ops {
namespace {

void check_dtypes(const char* op, const Tensor& a, const Tensor& b, const char* both = "both factors") {
  FACULA_CHECK(a.dtype() == b.dtype(), ErrorKind::Runtime, op, ": ", both,
               " must have the same dtype (to(dtype) converts one), got ", a.dtype(), " and ", b.dtype());
  FACULA_CHECK(a.device() == b.device(), ErrorKind::Runtime, op, ": ", both,
               " must be on the same device (to(device) moves one), got ", a.device(), " and ", b.device());
  FACULA_CHECK(a.dtype() != DType::Bool, ErrorKind::NotImplemented, op, ": not implemented for dtype ", a.dtype());
  FACULA_CHECK(a.dtype() != DType::Complex32 && !is_float8(a.dtype()), ErrorKind::Runtime, op,
               ": not implemented for dtype ", a.dtype());
}

void check_matrices(const char* op, const Tensor& a, const Tensor& b, int64_t dims) {
  FACULA_CHECK(a.dim() == dims && b.dim() == dims, ErrorKind::Runtime, op, ": two ", dims, "-D tensors, got shapes ",
               a.sizes(), " and ", b.sizes());
  FACULA_CHECK(a.size(-1) == b.size(-2), ErrorKind::Runtime, op,
               ": the shapes cannot be multiplied, since the first has ", a.size(-1), " columns and the second ",
               b.size(-2), " rows, got ", a.sizes(), " and ", b.sizes());
  FACULA_CHECK(dims == 2 || a.size(0) == b.size(0), ErrorKind::Runtime, op,
               ": the shapes cannot be multiplied, since there are ", a.size(0), " and ", b.size(0), " matrices, got ",
               a.sizes(), " and ", b.sizes());
  check_dtypes(op, a, b);
}

/// `t` itself when a product can read it, else a contiguous copy.
Tensor readable(const Tensor& t) {
  bool even = lies_evenly(t.size(-2), t.size(-1), t.stride(-2), t.stride(-1)) && (t.dim() < 3 || t.stride(0) >= 0);
  return even ? t : contiguous_copy(t);
}

MatrixOperand operand(const Tensor& t) {
  return {t.data<char>(), t.dim() > 2 && t.size(0) > 1 ? t.stride(0) : 0, t.stride(-2), t.stride(-1)};
}

/// What is learned comes again, and so do its transpose and other views.
bool may_come_again(const Tensor& t) {
  const TensorImpl* base = t.impl()->base;
  return ((t.flags() | (base ? base->flags : 0)) & kRequiresGrad) != 0;
}

/// out = alpha a b + beta out for matrices or batches of them; `out` is contiguous.
void multiply(const Tensor& out, const Tensor& a_given, const Tensor& b_given, const Scalar& alpha = 1,
              const Scalar& beta = 0) {
  Tensor a = readable(a_given), b = readable(b_given);
  MatrixProduct p;
  p.dtype = out.dtype();
  p.batch = a.dim() > 2 ? a.size(0) : 1;
  p.rows = a.size(-2);
  p.columns = b.size(-1);
  p.inner = a.size(-1);
  p.a = operand(a);
  p.b = operand(b);
  if (b.is_same(b_given) && may_come_again(b)) p.weights = b.storage();
  p.out = out.data<char>();
  p.out_batch = p.rows * p.columns;
  p.out_row = p.columns;
  p.alpha = alpha;
  p.beta = beta;
  matrix_product_kernel(out.device(), p);
}

/// beta self + alpha a b with self broadcast to `sizes`.
Tensor add_product(const char* op, const Tensor& self, const Tensor& a, const Tensor& b, IntList sizes,
                   const Scalar& beta, const Scalar& alpha, const Out& out) {
  check_dtypes(op, self, a);
  for (const Scalar* factor : {&beta, &alpha}) require_value(*factor, self.dtype(), op);
  FACULA_CHECK(broadcasts_to(self.sizes(), sizes), ErrorKind::Runtime, op,
               ": the tensor that is added must broadcast to ", sizes, ", got ", self.sizes());
  Tensor result = out.make(sizes, self.dtype(), self.device());
  if (result.is_meta()) return result;
  bool read = !beta.equals(0);
  if (read) copy_elements(result, expand(self, sizes, false));
  multiply(result, a, b, alpha, read ? beta : Scalar(0));
  return result;
}

Tensor as_column(const Tensor& vec) { return make_view(vec, {vec.size(0), 1}, {vec.stride(0), 1}, 0, false); }
Tensor as_row(const Tensor& vec) {
  return make_view(vec, {1, vec.size(0)}, {std::max<int64_t>(vec.numel(), 1), vec.stride(0)}, 0, false);
}
/// A vector whose elements a product can step through.
Tensor stepping(const Tensor& vec) { return vec.stride(0) >= 1 || vec.numel() <= 1 ? vec : contiguous_copy(vec); }

}  // namespace

Tensor _cross(const Tensor& self, const Tensor& other, int64_t dim) {
  const DType dtype = self.dtype(), computed = is_bits(dtype) ? DType::Int64 : compute_dtype(dtype);
  FACULA_CHECK(dtype != DType::Bool, ErrorKind::NotImplemented, "linalg.cross: expected numbers, got dtype bool");
  need_shape("linalg.cross", "other", other, self.sizes());
  need_dimensions("linalg.cross", "self", self);
  FACULA_CHECK(self.size(wrap_dim(dim, self.dim(), "linalg.cross")) == 3, ErrorKind::Runtime,
               "linalg.cross: dimension ", dim, " must have size 3, got shape ", self.sizes());
  Tensor result = facula::empty(self.sizes(), computed, self.device());
  if (result.is_meta()) return facula::empty(self.sizes(), dtype, self.device());
  int64_t inner = 1;
  for (int64_t d = wrap_dim(dim, self.dim(), "linalg.cross") + 1; d < self.dim(); ++d) inner *= self.size(d);
  if (result.numel())
    cross_kernel(self.device(), result, as_contiguous(self, computed), as_contiguous(other, computed), inner);
  return as_contiguous(result, dtype);
}

void product_into(const Tensor& out, const Tensor& a, const Tensor& b) {
  const Tensor to = out.is_contiguous() ? out : facula::empty(out.sizes(), out.dtype(), out.device());
  multiply(to, a, b);
  if (!to.is_same(out)) copy_elements(out, to);
}

namespace {

/// A contiguous (..., k) as a matrix of rows of k.
MatrixOperand rows_of(const Tensor& t) { return {t.data<char>(), 0, std::max<int64_t>(t.size(-1), 1), 1}; }

}  // namespace

void linear_weight_gradient(const Tensor& out, const Tensor& grad, const Tensor& input, bool add) {
  MatrixProduct p;
  p.dtype = out.dtype();
  p.columns = p.out_row = out.size(-1);
  p.rows = p.columns ? out.numel() / p.columns : 0;
  p.inner = p.columns ? input.numel() / p.columns : 0;
  p.a = {grad.data<char>(), 0, 1, std::max<int64_t>(p.rows, 1)};
  p.b = rows_of(input);
  p.out = out.data<char>();
  if (add) p.beta = 1;
  matrix_product_kernel(out.device(), p);
}

void linear_input_gradient(const Tensor& out, const Tensor& grad, const Tensor& weight) {
  MatrixProduct p;
  p.dtype = out.dtype();
  p.columns = p.out_row = weight.size(1);
  p.inner = weight.size(0);
  p.rows = p.columns ? out.numel() / p.columns : 0;
  p.a = rows_of(grad);
  p.b = rows_of(weight);
  if (may_come_again(weight)) p.weights = weight.storage();
  p.out = out.data<char>();
  matrix_product_kernel(out.device(), p);
}

Tensor mm(const Tensor& self, const Tensor& mat2, const Out& out) {
  check_matrices("mm", self, mat2, 2);
  Tensor result = out.make({self.size(0), mat2.size(1)}, self.dtype(), self.device());
  if (!result.is_meta()) multiply(result, self, mat2);
  return result;
}

Tensor bmm(const Tensor& self, const Tensor& mat2, const Out& out) {
  check_matrices("bmm", self, mat2, 3);
  Tensor result = out.make({self.size(0), self.size(1), mat2.size(2)}, self.dtype(), self.device());
  if (!result.is_meta()) multiply(result, self, mat2);
  return result;
}

Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha,
             const Out& out) {
  check_matrices("addmm", mat1, mat2, 2);
  return add_product("addmm", self, mat1, mat2, {mat1.size(0), mat2.size(1)}, beta, alpha, out);
}

Tensor baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta, const Scalar& alpha,
               const Out& out) {
  for (const Tensor* batch : {&batch1, &batch2})  // a batch has a second and a third dimension
    if (batch->dim() < 3) wrap_dim(batch == &batch1 ? 1 : 2, batch->dim(), "baddbmm");
  check_matrices("baddbmm", batch1, batch2, 3);
  return add_product("baddbmm", self, batch1, batch2, {batch1.size(0), batch1.size(1), batch2.size(2)}, beta, alpha,
                     out);
}

Tensor mv(const Tensor& self, const Tensor& vec, const Out& out) {
  FACULA_CHECK(self.dim() == 2 && vec.dim() == 1, ErrorKind::Runtime, "mv: expected a matrix and a vector, got shapes ",
               self.sizes(), " and ", vec.sizes());
  FACULA_CHECK(self.size(1) == vec.size(0), ErrorKind::Runtime, "mv: the shapes cannot be multiplied, got ",
               self.sizes(), " and ", vec.sizes());
  check_dtypes("mv", self, vec);
  Tensor result = out.make({self.size(0)}, self.dtype(), self.device());
  if (!result.is_meta()) multiply(result, self, as_column(stepping(vec)));
  return result;
}

Tensor addmv(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta, const Scalar& alpha,
             const Out& out) {
  FACULA_CHECK(mat.dim() == 2 && vec.dim() == 1 && mat.size(1) == vec.size(0), ErrorKind::Runtime,
               "addmv: a matrix and a vector that can be multiplied, got shapes ", mat.sizes(), " and ", vec.sizes());
  check_dtypes("addmv", mat, vec);
  return add_product("addmv", self, mat, as_column(stepping(vec)), {mat.size(0)}, beta, alpha, out);
}

Tensor dot(const Tensor& self, const Tensor& tensor, const Out& out) {
  FACULA_CHECK(self.dim() == 1 && tensor.dim() == 1, ErrorKind::Runtime, "dot: expected two 1-D tensors, got shapes ",
               self.sizes(), " and ", tensor.sizes());
  FACULA_CHECK(self.size(0) == tensor.size(0), ErrorKind::Runtime, "dot: vectors of one length, got shapes ",
               self.sizes(), " and ", tensor.sizes());
  check_dtypes("dot", self, tensor);
  Tensor result = out.make({}, self.dtype(), self.device());
  if (!result.is_meta()) multiply(result, as_row(stepping(self)), as_column(stepping(tensor)));
  return result;
}

Tensor linear(const Tensor& self, const Tensor& weight, const Tensor& bias, const Out& out) {
  FACULA_CHECK(self.dim() > 0 && (weight.dim() == 2 || weight.dim() == 1) && self.size(-1) == weight.size(-1),
               ErrorKind::Runtime,
               "linear: input and weight shapes cannot be multiplied, since the last dimension of the input must have ",
               weight.dim() ? weight.size(-1) : 1, " elements (in_features), got shapes ", self.sizes(), " and ",
               weight.sizes());
  check_dtypes("linear", self, weight, "input and weight");
  MatrixProduct p;
  p.dtype = self.dtype();
  p.inner = self.size(-1);
  p.columns = weight.dim() == 2 ? weight.size(0) : 1;
  p.rows = 1;
  for (int64_t d = 0; d + 1 < self.dim(); ++d) p.rows *= self.size(d);
  Dims sizes(self.sizes().slice(0, static_cast<size_t>(self.dim()) - 1));
  if (weight.dim() == 2) sizes.push_back(p.columns);
  if (bias.defined()) {
    check_dtypes("linear", self, bias);
    FACULA_CHECK(broadcasts_to(bias.sizes(), sizes), ErrorKind::Runtime, "linear: bias must broadcast to ", sizes,
                 ", got ", bias.sizes());
  }
  Tensor result = out.make(sizes, self.dtype(), self.device());
  if (result.is_meta()) return result;
  if (bias.defined() && bias.dim() == 1 && bias.size(0) == p.columns && bias.is_contiguous()) {
    p.bias = bias.data<char>();
  } else if (bias.defined()) {
    copy_elements(result, expand(bias, sizes, false));
    p.beta = 1;
  }
  Dims strides;
  Tensor x = self, w = weight;
  if (self.is_contiguous()) strides = {p.inner, 1};
  if (!self.is_contiguous() && (!view_strides(self.sizes(), self.strides(), {p.rows, p.inner}, strides) ||
                                !lies_evenly(p.rows, p.inner, strides[0], strides[1]))) {
    x = contiguous_copy(self);
    strides = {p.inner, 1};
  }
  int64_t step = weight.dim() == 2 ? weight.stride(0) : std::max<int64_t>(p.inner, 1), unit = weight.stride(-1);
  if (!lies_evenly(p.inner, p.columns, unit, step)) {
    w = contiguous_copy(weight);
    step = p.inner;
    unit = 1;
  }
  p.a = {x.data<char>(), 0, strides[0], strides[1]};
  p.b = {w.data<char>(), 0, unit, step};
  if (w.is_same(weight)) p.weights = w.storage();
  p.out = result.data<char>();
  p.out_row = p.columns;
  matrix_product_kernel(result.device(), p);
  return result;
}

}  // namespace facula::ops

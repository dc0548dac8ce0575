// Products written with mm and bmm.
#include "core/checked.h"
#include "functions.h"
#include "ops/out.h"

namespace facula {
namespace {

/// The product of all sizes but the last.
int64_t rows_of(const char* op, const Tensor& t) {
  const IntList leading = t.sizes().slice(0, t.sizes().size() - 1);
  return product_of(leading).get(op, "the number of rows", "shape ", t.sizes());
}

/// Leading dimensions folded into one, so that one product does them all.
Tensor folded_product(const Tensor& self, const Tensor& matrix) {
  Dims shape(self.sizes());
  int64_t inner = shape.back();
  shape.back() = matrix.size(1);
  return view(mm(reshape(self, {rows_of("matmul", self), inner}), matrix), shape);
}

Tensor batched_product(const Tensor& self, const Tensor& other) {
  Dims batch =
      broadcast(self.sizes().slice(0, self.dim() - 2), other.sizes().slice(0, other.dim() - 2), "matmul of batches");
  int64_t count = count_elements(batch, "matmul");
  auto flat = [&](const Tensor& t) {
    Dims sizes(batch);
    sizes.push_back(t.size(-2));
    sizes.push_back(t.size(-1));
    return reshape(t.sizes() == IntList(sizes) ? t : expand(t, sizes), {count, t.size(-2), t.size(-1)});
  };
  Dims shape(batch);
  shape.push_back(self.size(-2));
  shape.push_back(other.size(-1));
  return view(bmm(flat(self), flat(other)), shape);
}

}  // namespace

Tensor matmul_uncast(const Tensor& self, const Tensor& other) {
  int64_t a = self.dim(), b = other.dim();
  FACULA_CHECK(a > 0 && b > 0, ErrorKind::Runtime, "matmul: both arguments need at least one dimension, got shapes ",
               self.sizes(), " and ", other.sizes());
  if (a == 2 && b == 2) return mm(self, other);
  FACULA_CHECK(self.size(-1) == other.size(b == 1 ? 0 : -2), ErrorKind::Runtime,
               "matmul: the shapes cannot be multiplied, since the rows of the first have ", self.size(-1),
               " elements and the columns of the second ", other.size(b == 1 ? 0 : -2), ", got ", self.sizes(), " and ",
               other.sizes());
  if (a == 1 && b == 1) return dot(self, other);
  if (a == 2 && b == 1) return mv(self, other);
  if (a == 1 && b == 2) return mv(transpose(other, 0, 1), self);
  if (b == 1) return squeeze(folded_product(self, unsqueeze(other, 1)), -1);
  if (b == 2) return folded_product(self, other);
  if (a == 1) return squeeze(batched_product(unsqueeze(self, 0), other), -2);
  if (a == 3 && b == 3 && self.size(0) == other.size(0)) return bmm(self, other);
  return batched_product(self, other);
}

Tensor addbmm_uncast(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                     const Scalar& alpha) {
  for (const Tensor* batch : {&batch1, &batch2})  // a batch has a second and a third dimension
    if (batch->dim() < 3) wrap_dim(batch == &batch1 ? 1 : 2, batch->dim(), "addbmm");
  FACULA_CHECK(
      batch1.dim() == 3 && batch2.dim() == 3 && batch1.size(0) == batch2.size(0) && batch1.size(2) == batch2.size(1),
      ErrorKind::Runtime, "addbmm: batches of matrices that can be multiplied, got shapes ", batch1.sizes(), " and ",
      batch2.sizes());
  // the sum over the batch is the inner product over batch and inner dimension at once
  const Checked product = Checked(batch1.size(0)) * batch1.size(2);
  const int64_t inner = product.get("addbmm", "the inner size", "shape ", batch1.sizes());
  Tensor wide = reshape(transpose(batch1, 0, 1), {batch1.size(1), inner});
  return addmm(self, wide, reshape(batch2, {inner, batch2.size(2)}), beta, alpha);
}

const Tensor& addbmm_(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                      const Scalar& alpha) {
  Tensor result = addbmm(self, batch1, batch2, beta, alpha);
  if (self.sizes() != result.sizes()) {
    FACULA_CHECK(!self.requires_grad() && !self.impl()->base, ErrorKind::Runtime,
                 "addbmm_: a tensor that requires grad or is a view keeps its shape, got ", self.sizes(),
                 " for a result of shape ", result.sizes());
    resize_output(self, result.sizes(), "addbmm_");
  }
  return copy_(self, result, false);
}

Tensor outer(const Tensor& self, const Tensor& vec2) {
  FACULA_CHECK(self.dim() == 1 && vec2.dim() == 1, ErrorKind::Runtime, "outer: expected two 1-D tensors, got shapes ",
               self.sizes(), " and ", vec2.sizes());
  return mul(unsqueeze(self, 1), vec2);
}

namespace {

void check_factor(const char* name, const Scalar& factor, DType result) {
  FACULA_CHECK(!is_bits(result) || factor.kind() <= DTypeClass::Integral, ErrorKind::Runtime,
               "addr: for integers, argument ", name, " must not be a floating point number, got ", factor);
  FACULA_CHECK(factor.kind() != DTypeClass::Bool || result == DType::Bool, ErrorKind::Runtime, "addr: Boolean ", name,
               " only supported for Boolean results, got a result of ", result);
}

}  // namespace

Tensor addr_uncast(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta,
                   const Scalar& alpha) {
  FACULA_CHECK(vec1.dim() == 1 && vec2.dim() == 1, ErrorKind::Runtime, "addr: expected two 1-D tensors, got shapes ",
               vec1.sizes(), " and ", vec2.sizes());
  Dims sizes{vec1.size(0), vec2.size(0)};
  FACULA_CHECK(broadcasts_to(self.sizes(), sizes), ErrorKind::Runtime,
               "addr: the tensor that is added must broadcast to ", sizes, ", got ", self.sizes());
  ResultType type;
  for (const Tensor* t : {&self, &vec1, &vec2}) type.add(t->dtype(), t->dim());
  check_factor("beta", beta, type.get());
  check_factor("alpha", alpha, type.get());
  if (type.get() == DType::Bool) {
    Tensor product = outer(vec1, vec2), scaled = alpha.to_bool() ? product : zeros_like(product);
    return beta.to_bool() ? logical_or(expand(self, sizes), scaled) : scaled;
  }
  if (beta.equals(0)) {
    Tensor product = to_dtype(outer(vec1, vec2), type.get());
    return alpha.equals(1) ? product : mul(product, alpha);
  }
  return addcmul(beta.equals(1) ? self : mul(self, beta), unsqueeze(vec1, 1), vec2, alpha);
}

Tensor vdot_uncast(const Tensor& self, const Tensor& other) { return dot(conj(self), other); }

Tensor inner(const Tensor& self, const Tensor& other) {
  if (self.dim() == 0 || other.dim() == 0) return mul(self, other);
  FACULA_CHECK(self.size(-1) == other.size(-1), ErrorKind::Runtime,
               "inner: the last dimensions must agree, got shapes ", self.sizes(), " and ", other.sizes());
  Dims shape(self.sizes().slice(0, self.dim() - 1));
  for (int64_t d = 0; d + 1 < other.dim(); ++d) shape.push_back(other.size(d));
  if (self.dim() == 1 && other.dim() == 1) return dot(self, other);
  const int64_t k = self.size(-1);
  const int64_t rows = rows_of("inner", self), columns = rows_of("inner", other);
  return view(mm(reshape(self, {rows, k}), transpose(reshape(other, {columns, k}), 0, 1)), shape);
}

Tensor bilinear_uncast(const Tensor& input1, const Tensor& input2, const Tensor& weight, const Tensor& bias) {
  FACULA_CHECK(weight.dim() == 3 && input1.dim() > 0 && input1.dim() == input2.dim(), ErrorKind::Runtime,
               "bilinear: inputs of one rank and a 3-D weight, got shapes ", input1.sizes(), ", ", input2.sizes(),
               " and ", weight.sizes());
  IntList lead = input1.sizes().slice(0, input1.dim() - 1);
  FACULA_CHECK(lead == input2.sizes().slice(0, input2.dim() - 1) && input1.size(-1) == weight.size(1) &&
                   input2.size(-1) == weight.size(2),
               ErrorKind::Runtime, "bilinear: input sizes must agree with each other and the weight, got shapes ",
               input1.sizes(), ", ", input2.sizes(), " and ", weight.sizes());
  FACULA_CHECK(!bias.defined() || bias.sizes() == IntList{weight.size(0)}, ErrorKind::Runtime,
               "bilinear: expected one bias per output, got shape ", bias.defined() ? bias.sizes() : IntList{});
  if (is_half(input1.dtype())) {  // two products in a row: rounded once, after both
    auto wide = [](const Tensor& t) { return t.defined() ? to_dtype(t, DType::Float32) : t; };
    return to_dtype(bilinear(wide(input1), wide(input2), wide(weight), wide(bias)), input1.dtype());
  }
  int64_t rows = count_elements(lead, "bilinear"), n = weight.size(0), k1 = weight.size(1), k2 = weight.size(2);
  Tensor x1 = reshape(input1, {rows, k1}), x2 = reshape(input2, {rows, k2});
  Tensor right = view(mm(x2, reshape(permute(weight, {2, 0, 1}), {k2, n * k1})), {rows, n, k1});  // W[o] x2
  Tensor result = squeeze(bmm(right, unsqueeze(x1, 2)), -1);
  if (bias.defined()) result = add(result, bias);
  Dims shape(lead);
  shape.push_back(n);
  return reshape(result, shape);
}

Tensor kron(const Tensor& self, const Tensor& other) {
  // every dimension of self beside its partner of other
  int64_t dims = std::max(self.dim(), other.dim());
  Dims a, b, shape;
  for (int64_t d = 0; d < dims; ++d) {
    int64_t x = d + self.dim() - dims, y = d + other.dim() - dims;
    a.push_back(x < 0 ? 1 : self.size(x));
    a.push_back(1);
    b.push_back(1);
    b.push_back(y < 0 ? 1 : other.size(y));
    const Checked size = Checked(a[2 * d]) * b[2 * d + 1];
    shape.push_back(size.get("kron", "a size of the result", self.sizes(), " and ", other.sizes()));
  }
  return reshape(mul(reshape(self, a), reshape(other, b)), shape);
}

Tensor _tensordot_uncast(const Tensor& self, const Tensor& other, IntList dims_self, IntList dims_other) {
  FACULA_CHECK(dims_self.size() == dims_other.size(), ErrorKind::Runtime,
               "tensordot: as many dimensions of each tensor, got ", dims_self, " and ", dims_other);
  FACULA_CHECK(dims_self.empty() || (self.dim() > 0 && other.dim() > 0), ErrorKind::Index,
               "tensordot: tensors with dimensions to contract, got shapes ", self.sizes(), " and ", other.sizes());
  Tensor a = self, b = other;
  std::vector<bool> in_a(self.dim()), in_b(other.dim());
  Dims order_a, order_b, tail_a, head_b, shape;
  Checked inner = 1, rows = 1, columns = 1;
  for (size_t i = 0; i < dims_self.size(); ++i) {
    int64_t x = wrap_dim(dims_self[i], self.dim(), "tensordot"), y = wrap_dim(dims_other[i], other.dim(), "tensordot");
    FACULA_CHECK(!in_a[x] && !in_b[y], ErrorKind::Runtime, "tensordot: expected every dimension at most once, got ",
                 dims_self, " and ", dims_other);
    in_a[x] = in_b[y] = true;
    if (a.size(x) != b.size(y)) {  // a dimension of size one is broadcast: the other is summed
      FACULA_CHECK(a.size(x) == 1 || b.size(y) == 1, ErrorKind::Runtime,
                   "tensordot: contracted dimensions must have one size, got ", self.sizes(), " and ", other.sizes(),
                   " with ", dims_self, " and ", dims_other);
      (a.size(x) == 1 ? b : a) = a.size(x) == 1 ? sum(b, std::optional<IntList>({y}), true, b.dtype())
                                                : sum(a, std::optional<IntList>({x}), true, a.dtype());
    }
    inner *= a.size(x);
    tail_a.push_back(x);
    head_b.push_back(y);
  }
  for (int64_t d = 0; d < a.dim(); ++d) {
    if (in_a[d]) continue;
    order_a.push_back(d);
    shape.push_back(a.size(d));
    rows *= a.size(d);
  }
  for (int64_t x : tail_a) order_a.push_back(x);
  order_b = head_b;
  for (int64_t d = 0; d < b.dim(); ++d) {
    if (in_b[d]) continue;
    order_b.push_back(d);
    shape.push_back(b.size(d));
    columns *= b.size(d);
  }
  auto fits = [&](Checked size) {
    return size.get("tensordot", "a size of the product", self.sizes(), " and ", other.sizes());
  };
  const int64_t m = fits(rows), n = fits(columns), k = fits(inner);
  return reshape(mm(reshape(permute(a, order_a), {m, k}), reshape(permute(b, order_b), {k, n})), shape);
}

Tensor linalg_vecdot_uncast(const Tensor& x, const Tensor& y, int64_t dim) {
  FACULA_CHECK(is_inexact(x.dtype()) && is_inexact(y.dtype()), ErrorKind::Runtime,
               "linalg.vecdot: expected floating point or complex tensors, got ", x.dtype(), " and ", y.dtype());
  Tensor product = mul(conj(x), y);
  return sum(product, std::optional<IntList>({dim}), false, std::nullopt);
}

namespace {

/// Where to split each chain i..j for the fewest multiplications.
std::vector<std::vector<size_t>> best_splits(const std::vector<int64_t>& sizes) {
  size_t n = sizes.size() - 1;
  std::vector<std::vector<double>> cost(n, std::vector<double>(n));
  std::vector<std::vector<size_t>> split(n, std::vector<size_t>(n));
  for (size_t length = 1; length < n; ++length) {
    for (size_t i = 0; i + length < n; ++i) {
      size_t j = i + length;
      cost[i][j] = INFINITY;
      for (size_t k = i; k < j; ++k) {
        double c = cost[i][k] + cost[k + 1][j] + static_cast<double>(sizes[i]) * sizes[k + 1] * sizes[j + 1];
        if (c < cost[i][j]) {
          cost[i][j] = c;
          split[i][j] = k;
        }
      }
    }
  }
  return split;
}

Tensor multiply_chain(const std::vector<Tensor>& factors, const std::vector<std::vector<size_t>>& split, size_t i,
                      size_t j) {
  if (i == j) return factors[i];
  size_t k = split[i][j];
  return mm(multiply_chain(factors, split, i, k), multiply_chain(factors, split, k + 1, j));
}

}  // namespace

Tensor linalg_multi_dot_uncast(TensorList tensors) {
  size_t n = tensors.size();
  FACULA_CHECK(n >= 2, ErrorKind::Runtime, "linalg.multi_dot: expected at least two tensors, got ", n);
  std::vector<Tensor> factors = tensors.vec();
  bool row = factors[0].dim() == 1, column = factors[n - 1].dim() == 1;
  if (row) factors[0] = unsqueeze(factors[0], 0);
  if (column) factors[n - 1] = unsqueeze(factors[n - 1], 1);
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < n; ++i) {
    const Tensor& f = factors[i];
    FACULA_CHECK(f.dim() == 2, ErrorKind::Runtime,
                 "linalg.multi_dot: matrices (the first and last may be vectors), got shape ", tensors[i].sizes(),
                 " at position ", i);
    FACULA_CHECK(f.dtype() == factors[0].dtype(), ErrorKind::Runtime, "linalg.multi_dot: tensors of one dtype, got ",
                 factors[0].dtype(), " and ", f.dtype());
    FACULA_CHECK(i == 0 || factors[i - 1].size(1) == f.size(0), ErrorKind::Runtime,
                 "linalg.multi_dot: neighbors that can be multiplied, got shapes ", tensors[i ? i - 1 : 0].sizes(),
                 " and ", tensors[i].sizes());
    sizes.push_back(f.size(0));
  }
  sizes.push_back(factors[n - 1].size(1));
  Tensor result = multiply_chain(factors, best_splits(sizes), 0, n - 1);
  if (column) result = squeeze(result, 1);
  return row ? squeeze(result, 0) : result;
}

Tensor linalg_cross(const Tensor& self, const Tensor& other, int64_t dim) {
  FACULA_CHECK(self.dim() == other.dim(), ErrorKind::Runtime, "linalg.cross: tensors of one rank, got shapes ",
               self.sizes(), " and ", other.sizes());
  FACULA_CHECK(self.dtype() == other.dtype(), ErrorKind::Runtime, "linalg.cross: tensors of one dtype, got ",
               self.dtype(), " and ", other.dtype());
  int64_t d = wrap_dim(dim, self.dim(), "linalg.cross");
  FACULA_CHECK(self.dim() > 0 && self.size(d) == 3 && other.size(d) == 3, ErrorKind::Runtime,
               "linalg.cross: vectors of three elements along dimension ", dim, ", got shapes ", self.sizes(), " and ",
               other.sizes());
  const Dims shape = broadcast(self.sizes(), other.sizes(), "linalg.cross");
  return _cross(expand(self, shape), expand(other, shape), d);
}

Tensor cross_uncast(const Tensor& self, const Tensor& other, std::optional<int64_t> dim) {
  if (dim) return linalg_cross(self, other, *dim);
  Dims sizes = broadcast(self.sizes(), other.sizes(), "cross");
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] == 3) return linalg_cross(self, other, static_cast<int64_t>(d));
  throw_error(ErrorKind::Runtime, "cross: expected a dimension of size 3, got shapes ", self.sizes(), " and ",
              other.sizes());
}

}  // namespace facula

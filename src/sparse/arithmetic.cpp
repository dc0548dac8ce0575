// Arithmetic of sparse tensors with numbers, strided and sparse tensors; sums and norms.
#include "core/checked.h"
#include "functions.h"
#include "ops/kernel_table.h"
#include "raw_sparse.h"
#include "sparse/support.h"
#include "sparse_kernels.h"

namespace facula::sparse {
namespace {

bool is_number_like(const Operand& o) { return !o.is_tensor() || (o.impl()->ndim == 0 && !(o.flags() & kSparse)); }

DType result_dtype(const Operand& a, const Operand& b) {
  ResultType type;
  type.add(a);
  type.add(b);
  return type.get();
}

Tensor cast(const Tensor& t, DType dtype) { return t.dtype() == dtype ? t : facula::to_dtype(t, dtype); }
Entries cast(Entries entries, DType dtype) { return {entries.places, cast(entries.values, dtype)}; }

void check_same_shape(const char* op, const Tensor& a, const Tensor& b) {
  FACULA_CHECK(a.sizes() == b.sizes(), ErrorKind::Runtime, op, ": expected equal sizes, got ", a.sizes(), " and ",
               b.sizes());
  FACULA_CHECK(dense_dim_of(a) == dense_dim_of(b), ErrorKind::Runtime, op, ": expected as many dense dimensions, but ",
               dense_dim_of(a), " != ", dense_dim_of(b));
}

Tensor joined(const Tensor& a, const Tensor& b, int64_t dim) {
  const Tensor pair[] = {a, b};
  return facula::cat(TensorList(pair, 2), dim);
}

/// In the layout of `like`, of entries that are in order.
Tensor as_layout_of(const Tensor& like, const Entries& entries, bool coalesced) {
  if (is_coo(like)) return coo_of_entries(entries, like.sizes(), dense_dim_of(like), coalesced);
  const Tensor made = compressed_of_entries(entries, like.sizes(), dense_dim_of(like), layout_of(like), block_of(like));
  const DType index = sparse_parts(like).indices.dtype();
  SparseParts& parts = mutable_sparse_parts(made);  // places have the dtype of those that the layout is taken from
  parts.indices = cast(parts.indices, index);
  parts.plain = cast(parts.plain, index);
  return made;
}

Tensor sum_of_two(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  check_same_shape("add", a, b);
  FACULA_CHECK(layout_of(a) == layout_of(b), ErrorKind::Runtime, "add: tensors of one layout are expected, got ",
               layout_of(a), " and ", layout_of(b));
  const DType dtype = result_dtype(a, b);
  const Tensor left = cast(sparse_parts(a).values, dtype);
  const Tensor right = facula::mul(cast(sparse_parts(b).values, dtype), alpha);
  if (is_coo(a)) {
    const SparseParts &p = sparse_parts(a), &q = sparse_parts(b);
    const Tensor made = make_coo(joined(p.indices, q.indices, 1), joined(left, right, 0), a.sizes(), false);
    return p.coalesced && q.coalesced ? coalesced_of(made) : made;
  }
  const Entries x = cast(entries_of(a), dtype), y = cast(entries_of(b), dtype);
  const Entries both{joined(x.places, y.places, 0), joined(x.values, facula::mul(y.values, alpha), 0)};
  return as_layout_of(a, both, true);
}

/// A strided tensor as rows for the places of `like`, sharing memory where it can.
Tensor as_rows(const Tensor& t, const Tensor& like) {
  Dims rows{count_of(leading_sizes(like))};
  for (int64_t d = like.dim() - dense_dim_of(like); d < like.dim(); ++d) rows.push_back(like.size(d));
  return facula::reshape(t, rows);
}

Tensor add_to_dense(const Tensor& dense, const Tensor& self, const Scalar& alpha) {
  FACULA_CHECK(dense.sizes() == self.sizes(), ErrorKind::Runtime,
               "add: a strided and a sparse tensor must have one shape (they are not broadcast), got ", dense.sizes(),
               " and ", self.sizes());
  const DType dtype = result_dtype(dense, self);
  const Tensor sum = facula::clone(cast(dense, dtype), MemoryFormat::Contiguous);
  const Entries entries = cast(entries_of(self), dtype);
  facula::index_add_(as_rows(sum, self), 0, entries.places, entries.values, alpha);
  return sum;
}

}  // namespace

Tensor add(const Operand& self, const Operand& other, const Scalar& alpha) {
  const bool first = self.is_tensor() && is_sparse(self.tensor());
  const bool second = other.is_tensor() && is_sparse(other.tensor());
  if (first && second) return sum_of_two(self.tensor(), other.tensor(), alpha);
  if (first && other.is_tensor() && is_compressed(self.tensor()))
    return add_to_dense(alpha.equals(1) ? other.tensor() : facula::mul(other.tensor(), alpha), self.tensor(),
                        Scalar(1));
  FACULA_CHECK(!first, ErrorKind::Runtime, "add: beside a sparse tensor the strided one comes first, got ",
               layout_of(self.tensor()), " and a ", other.is_tensor() ? "strided tensor" : "number");
  FACULA_CHECK(self.is_tensor(), ErrorKind::Runtime, "add: expected a number and a sparse tensor, got ",
               layout_of(other.tensor()));
  return add_to_dense(self.tensor(), other.tensor(), alpha);
}

void add_(const Operand& self, const Operand& other, const Scalar& alpha) {
  const Tensor target = self.tensor();
  const bool entrywise = !is_sparse(target) && other.is_tensor() && target.is_contiguous() &&
                         other.tensor().sizes() == target.sizes() && other.dtype() == target.dtype();
  if (!entrywise) {
    const Tensor made = sparse::add(self, other, alpha);
    FACULA_CHECK(can_cast(made.dtype(), target.dtype()), ErrorKind::Runtime,
                 "add_: the result cannot be written into the tensor, since result type ", made.dtype(),
                 " can't be cast to ", target.dtype());
    return put_into(target, made);
  }
  const Entries entries = entries_of(other.tensor());
  facula::index_add_(as_rows(alias(target), other.tensor()), 0, entries.places, entries.values, alpha);
}

Tensor sub(const Operand& self, const Operand& other, const Scalar& alpha) {
  if (!other.is_tensor()) return sparse::add(self, other, alpha);  // refuses
  return sparse::add(self, facula::neg(other.tensor()), alpha);
}

namespace {

/// Index rows and values of `n` copies, one behind the other, at the positions 0 to n - 1 of dimension `dim`.
void repeat_along(Tensor& index, Tensor& values, int64_t dim, int64_t n) {
  const int64_t rows = index.size(0), m = index.size(1);
  const int64_t total = (Checked(n) * m).get("mul", "the number of entries", m, " * ", n);
  Dims many{n}, flat{total};
  for (int64_t s : values.sizes()) many.push_back(s);
  for (int64_t d = 1; d < values.dim(); ++d) flat.push_back(values.size(d));
  values = facula::reshape(facula::expand(facula::unsqueeze(values, 0), many), flat);
  const Tensor place =
      facula::unsqueeze(facula::arange(Scalar(0), Scalar(n), Scalar(1), DType::Int64, index.device()), 1);
  const Tensor at = facula::reshape(facula::expand(place, {n, m}), {1, total});
  const Tensor all = facula::reshape(facula::expand(facula::unsqueeze(index, 1), {rows, n, m}), {rows, total});
  const Tensor parts[] = {facula::narrow(all, 0, 0, dim), at, facula::narrow(all, 0, dim + 1, rows - dim - 1)};
  index = facula::cat(TensorList(parts, 3), 0);
}

/// A COO tensor broadcast to a shape; dense dimensions stay the last ones.
Tensor broadcast_coo(const Tensor& self, IntList shape) {
  const SparseParts& p = sparse_parts(self);
  const int64_t ndim = static_cast<int64_t>(shape.size()), sparse_dims = ndim - p.dense_dim, more = ndim - self.dim();
  const Tensor front = facula::zeros({more, p.indices.size(1)}, DType::Int64, self.device());
  Tensor index = joined(front, p.indices, 0), values = p.values;
  for (int64_t d = 0; d < sparse_dims; ++d)
    if (d < more || self.size(d - more) != shape[static_cast<size_t>(d)])
      repeat_along(index, values, d, shape[static_cast<size_t>(d)]);
  Dims whole{index.size(1)};
  for (int64_t d = sparse_dims; d < ndim; ++d) whole.push_back(shape[static_cast<size_t>(d)]);
  values = facula::clone(facula::expand(values, whole), MemoryFormat::Contiguous);
  const Tensor made = make_coo(index, values, shape, false);
  return p.coalesced ? coalesced_of(made) : made;
}

/// Whether two COO tensors have the same sparse dimensions, so that dense ones may be broadcast.
bool differ_in_dense_sizes(const Tensor& a, const Tensor& b) {
  return is_coo(a) && is_coo(b) && a.dim() == b.dim() && dense_dim_of(a) == dense_dim_of(b) &&
         leading_sizes(a) == leading_sizes(b) && !(a.sizes() == b.sizes());
}

Tensor product_of_two(const Tensor& a, const Tensor& b) {
  if (differ_in_dense_sizes(a, b)) {
    const Dims shape = broadcast(a.sizes(), b.sizes(), "mul");
    return product_of_two(broadcast_coo(a, shape), broadcast_coo(b, shape));
  }
  check_same_shape("mul", a, b);
  const DType dtype = result_dtype(a, b);
  const Entries x = merged(cast(entries_of(a), dtype)), y = merged(cast(entries_of(b), dtype));
  if (!x.places.size(0) || !y.places.size(0)) {
    const Entries none{facula::narrow(x.places, 0, 0, 0), facula::narrow(x.values, 0, 0, 0)};
    return as_layout_of(a, none, true);
  }
  const Tensor at = facula::clamp(facula::searchsorted(y.places, x.places, false, false, std::nullopt, Tensor()),
                                  std::nullopt, Scalar(y.places.size(0) - 1));
  const Tensor found = facula::eq(facula::index_select(y.places, 0, at), x.places);
  const Tensor keep = facula::select(facula::nonzero(found), 1, 0);
  const Tensor factor = facula::index_select(y.values, 0, facula::index_select(at, 0, keep));
  return as_layout_of(
      a, {facula::index_select(x.places, 0, keep), facula::mul(facula::index_select(x.values, 0, keep), factor)}, true);
}

Tensor times_dense(const Tensor& self, const Tensor& dense) {
  if (is_coo(self) && !broadcasts_to(dense.sizes(), self.sizes())) {
    const Tensor once = dense.dim() > self.dim() ? coalesced_of(self) : self;  // added up before it is repeated
    return times_dense(broadcast_coo(once, broadcast(self.sizes(), dense.sizes(), "mul")), dense);
  }
  FACULA_CHECK(broadcasts_to(dense.sizes(), self.sizes()), ErrorKind::Runtime,
               "mul: a strided factor must broadcast to the sparse one of shape ", self.sizes(), ", got ",
               dense.sizes());
  const Tensor factor =
      ops::_values_by(dense.sizes() == self.sizes() ? dense : facula::expand(dense, self.sizes()), self, std::nullopt);
  return with_values(self, facula::mul(sparse_parts(self).values, factor));
}

}  // namespace

Tensor mul(const Operand& self, const Operand& other) {
  const bool first = self.is_tensor() && is_sparse(self.tensor());
  const Operand &a = first ? self : other, &b = first ? other : self;
  const Tensor sparse = a.tensor();
  if (is_number_like(b)) {
    const Tensor values = facula::mul(sparse_parts(sparse).values, b);
    return with_values(sparse, cast(values, result_dtype(sparse, b)));
  }
  if (is_sparse(b.tensor())) {
    if (sparse.dim() == 0 && b.impl()->ndim > 0) return sparse::mul(b, Operand(dense_of(sparse)));
    if (b.impl()->ndim == 0) return sparse::mul(a, Operand(dense_of(b.tensor())));
    return product_of_two(self.tensor(), other.tensor());
  }
  return times_dense(sparse, b.tensor());
}

namespace {

/// The values of a sparse tensor divided by a number; `rounds` wants values of one place as one.
template <class Divide>
Tensor divided(const Operand& self, const Operand& other, bool rounds, Divide&& divide) {
  const bool fits = self.is_tensor() && is_sparse(self.tensor()) && (!other.is_tensor() || other.impl()->ndim == 0);
  FACULA_CHECK(fits, ErrorKind::Runtime, "div: the divisor must be a number or strided without dimensions, got ",
               other.is_tensor() ? layout_of(other.tensor()) : Layout::Strided, " with ",
               other.is_tensor() ? other.impl()->ndim : 0, " dimensions");
  const Tensor divisor = other.is_tensor() ? dense_of(other.tensor()) : Tensor();
  const Tensor sparse = rounds && is_coo(self.tensor()) ? coalesced_of(self.tensor()) : self.tensor();
  return with_values(sparse, divide(sparse_parts(sparse).values, divisor.defined() ? Operand(divisor) : other));
}

}  // namespace

Tensor div(const Operand& self, const Operand& other) {
  return divided(self, other, false, [](const Tensor& x, const Operand& by) { return facula::div(x, by); });
}
Tensor _div_floor(const Operand& self, const Operand& other) {
  return divided(self, other, true, [](const Tensor& x, const Operand& by) { return facula::_div_floor(x, by); });
}
Tensor _div_trunc(const Operand& self, const Operand& other) {
  return divided(self, other, true, [](const Tensor& x, const Operand& by) { return facula::_div_trunc(x, by); });
}

Tensor _pow(const Operand& self, const Operand& exponent) {
  const bool fits = self.is_tensor() && is_sparse(self.tensor()) && is_number_like(exponent);
  FACULA_CHECK(fits, ErrorKind::NotImplemented, "pow: a sparse tensor and a number are expected, got an exponent of ",
               exponent.is_tensor() ? layout_of(exponent.tensor()) : Layout::Strided);
  FACULA_CHECK(exponent.is_tensor() || !exponent.scalar().equals(0), ErrorKind::Runtime,
               "pow: of a sparse tensor the exponent must not be 0, got 0");
  const Tensor base = coalesced_of(self.tensor());
  return with_values(base, facula::_pow(sparse_parts(base).values, exponent));
}

Tensor _threshold_backward(const Tensor& grad_output, const Tensor& self, const Scalar& threshold) {
  const Tensor pattern = is_sparse(self) ? coalesced_of(self) : coalesced_of(grad_output);
  const Tensor grad = ops::_values_by(grad_output, pattern, std::nullopt);
  const Tensor values = is_sparse(self) ? sparse_parts(pattern).values : ops::_values_by(self, pattern, std::nullopt);
  return with_values(pattern, facula::_threshold_backward(grad, values, threshold));
}

Tensor sum(const Tensor& self, std::optional<DType> dtype) { return facula::sum(sparse_parts(self).values, dtype); }

Tensor any(const Tensor& self, std::optional<IntList> dim, bool keepdim) {
  FACULA_CHECK((!dim || static_cast<int64_t>(dim->size()) == self.dim()) && !keepdim, ErrorKind::NotImplemented,
               "any: over some dimensions of a sparse tensor is not implemented, got dim of ", dim ? dim->size() : 0,
               " dimensions and keepdim=", keepdim ? "True" : "False");
  return facula::any(sparse_parts(coalesced_of(self)).values, std::nullopt, false);
}

Tensor linalg_vector_norm(const Tensor& self, const Scalar& ord, std::optional<IntList> dim, bool keepdim,
                          std::optional<DType> dtype) {
  const bool all = !dim || dim->empty() || static_cast<int64_t>(dim->size()) == self.dim();
  FACULA_CHECK(all && !keepdim, ErrorKind::Runtime,
               "norm: Only full reductions are supported on sparse tensors, got dim of ", dim ? dim->size() : 0,
               " dimensions and keepdim=", keepdim ? "True" : "False");
  return facula::linalg_vector_norm(sparse_parts(coalesced_of(self)).values, ord, std::nullopt, false, dtype);
}

// ---- copies

Tensor clone(const Tensor& self, std::optional<MemoryFormat>) {
  SparseParts parts = sparse_parts(self);
  parts.indices = facula::clone(parts.indices);
  if (parts.plain.defined()) parts.plain = facula::clone(parts.plain);
  parts.values = facula::clone(parts.values);
  return make_sparse(std::move(parts), self.sizes());
}

Tensor _to_device(const Tensor& self, std::optional<Device> device, DType dtype) {
  SparseParts parts = sparse_parts(self);
  parts.indices = facula::_to_device(parts.indices, device, parts.indices.dtype());
  if (parts.plain.defined()) parts.plain = facula::_to_device(parts.plain, device, parts.plain.dtype());
  parts.values = facula::_to_device(parts.values, device, dtype);
  return make_sparse(std::move(parts), self.sizes());
}

namespace {

Tensor without_entries(const Tensor& self, Device place, DType kind) {
  SparseParts parts = sparse_parts(self);
  const int64_t at = parts.plain.dim() - 1;
  Dims plain(parts.plain.sizes()), values(parts.values.sizes());
  plain[at] = values[at] = 0;
  parts.indices = facula::zeros(parts.indices.sizes(), parts.indices.dtype(), place);
  parts.plain = facula::empty(plain, parts.plain.dtype(), place);
  parts.values = facula::empty(values, kind, place);
  return make_sparse(std::move(parts), self.sizes());
}

/// The places of a compressed tensor with values that `make` gives in the form of its own.
template <class Make>
Tensor at_same_places(const char* op, const Tensor& self, std::optional<Device> device, Make&& make) {
  FACULA_CHECK(is_compressed(self), ErrorKind::NotImplemented, op, ": not implemented for COO tensors, got layout ",
               layout_of(self));
  SparseParts parts = sparse_parts(self);
  parts.indices = facula::_to_device(facula::clone(parts.indices), device, parts.indices.dtype());
  parts.plain = facula::_to_device(facula::clone(parts.plain), device, parts.plain.dtype());
  parts.values = make(parts.values);
  return make_sparse(std::move(parts), self.sizes());
}

}  // namespace

void zero_(const Tensor& self) {
  if (is_coo(self)) {
    const SparseParts& p = sparse_parts(self);
    Dims shape(p.values.sizes());
    shape[0] = 0;
    take_parts(self, make_coo(facula::empty({p.sparse_dim, 0}, DType::Int64, self.device()),
                              facula::empty(shape, self.dtype(), self.device()), self.sizes(), true));
  } else {
    take_parts(self, without_entries(self, self.device(), self.dtype()));
  }
}

void fill_(const Tensor& self, const Scalar& value) {
  FACULA_CHECK(is_compressed(self), ErrorKind::NotImplemented, "fill_: not implemented for COO tensors, got layout ",
               layout_of(self));
  facula::fill_(sparse_parts(self).values, value);
}

Tensor zeros_like(const Tensor& self, std::optional<MemoryFormat> format, std::optional<DType> dtype,
                  std::optional<Device> device) {
  const DType kind = dtype.value_or(self.dtype());
  const Device place = device.value_or(self.device());
  if (!is_coo(self)) return without_entries(self, place, kind);
  FACULA_CHECK(!format, ErrorKind::Runtime,
               "zeros_like: memory_format is only supported by strided tensors, got layout ", layout_of(self));
  const SparseParts& p = sparse_parts(self);
  Dims shape(p.values.sizes());
  shape[0] = 0;
  return make_coo(facula::empty({p.sparse_dim, 0}, DType::Int64, place), facula::empty(shape, kind, place),
                  self.sizes(), true);
}
Tensor ones_like(const Tensor& self, std::optional<MemoryFormat>, std::optional<DType> dtype,
                 std::optional<Device> device) {
  return at_same_places("ones_like", self, device,
                        [&](const Tensor& v) { return facula::ones_like(v, std::nullopt, dtype, device); });
}
Tensor full_like(const Tensor& self, const Scalar& fill_value, std::optional<MemoryFormat>, std::optional<DType> dtype,
                 std::optional<Device> device) {
  return at_same_places("full_like", self, device,
                        [&](const Tensor& v) { return facula::full_like(v, fill_value, std::nullopt, dtype, device); });
}
Tensor randn_like(const Tensor& self, Generator* generator, std::optional<MemoryFormat>, std::optional<DType> dtype,
                  std::optional<Device> device) {
  return at_same_places("randn_like", self, device,
                        [&](const Tensor& v) { return facula::randn_like(v, generator, std::nullopt, dtype, device); });
}
Tensor empty_like(const Tensor& self, std::optional<MemoryFormat> format, std::optional<DType> dtype,
                  std::optional<Device> device) {
  FACULA_CHECK(!is_coo(self) || !format, ErrorKind::Runtime,
               "empty_like: memory_format is only supported by strided tensors, got layout ", layout_of(self));
  if (is_coo(self)) return sparse::zeros_like(self, format, dtype, device);
  return at_same_places("empty_like", self, device,
                        [&](const Tensor& v) { return facula::empty_like(v, std::nullopt, dtype, device); });
}

}  // namespace facula::sparse

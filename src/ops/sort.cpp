// Sorting, selection by rank and search: checks, and the dimension in question moved to the end.
#include "ops/sort.h"

#include "core/checked.h"
#include "core/near_name.h"
#include "core/parallel.h"
#include "ops/contiguous.h"
#include "ops/index_support.h"
#include "raw_create.h"
#include "raw_sort.h"

namespace facula::ops {
namespace {

void check_ordered(const Tensor& t, const char* op, ErrorKind kind) {
  FACULA_CHECK(!t.is_complex(), kind, op, ": complex numbers have no order, got ", t.dtype());
}

// The sizes with `dim` last, and views of tensors that way.
struct DimLast {
  Dims order;  // dimensions of the original, `dim` last
  int64_t rows = 1, n = 1;

  DimLast(const Tensor& self, int64_t dim) {
    for (int64_t d = 0; d < self.dim(); ++d) {
      if (d == dim) continue;
      order.push_back(d);
      rows = wrapping_mul(rows, self.size(d));  // of no use beside a size of zero
    }
    if (self.dim()) {
      order.push_back(dim);
      n = self.size(dim);
    }
  }
  Tensor view(const Tensor& t) const {
    Dims sizes, strides;
    for (int64_t d : order) {
      sizes.push_back(t.size(d));
      strides.push_back(t.stride(d));
    }
    return make_view(t, sizes, strides, 0, false);
  }
  bool in_place(const Tensor& t) const { return t.is_contiguous() && (order.empty() || order.back() == t.dim() - 1); }
  /// A contiguous tensor, the dimension of which is its last, as a matrix.
  Tensor matrix(const Tensor& t, int64_t count) const {
    return t.dim() == 2 ? t : make_view(t, {rows, count}, {count, 1}, 0, false);
  }
  // A (rows, count) tensor that may be filled for `t`: its own memory when the dimension is last already.
  Tensor target(const Tensor& t, int64_t count) const {
    return in_place(t) ? matrix(t, count) : facula::empty({rows, count}, t.dtype(), t.device());
  }
  void give_back(const Tensor& t, const Tensor& filled) const {
    if (in_place(t)) return;
    Tensor there = view(t);
    copy_elements(there, make_view(filled, there.sizes(), contiguous_strides(there.sizes()), 0, false));
  }
  // The rows of `t`, copied where they do not lie contiguous.
  Tensor source(const Tensor& t) const {
    if (in_place(t)) return matrix(t, n);
    Tensor from = view(t), packed = facula::empty(from.sizes(), t.dtype(), t.device());
    copy_elements(packed, from);
    return matrix(packed, n);
  }
};

std::tuple<Tensor, Tensor> sorted(const Tensor& self, int64_t dim, bool descending, const char* op, const Out& out0,
                                  const Out& out1) {
  int64_t d = wrap_dim(dim, self.dim(), op);
  check_ordered(self, op, ErrorKind::Runtime);
  Tensor values = out0.given() ? out0.make(self.sizes(), self.dtype(), self.device())
                               : facula::empty(self.sizes(), self.dtype(), self.device());
  Tensor indices = out1.make(self.sizes(), DType::Int64, self.device());
  if (self.is_meta() || self.numel() == 0) return {std::move(values), std::move(indices)};
  DimLast rows(self, d);
  Tensor row_values = rows.target(values, rows.n), row_indices = rows.target(indices, rows.n);
  if (rows.in_place(self)) {
    copy_elements(row_values, rows.matrix(self, rows.n));
  } else {
    const Tensor from = rows.view(self);
    copy_elements(make_view(row_values, from.sizes(), contiguous_strides(from.sizes()), 0, false), from);
  }
  sort_kernel(self.device(), row_values, row_indices, descending);
  rows.give_back(values, row_values);
  rows.give_back(indices, row_indices);
  return {std::move(values), std::move(indices)};
}

// ---- search

bool to_the_right(bool right, std::optional<std::string_view> side, const char* op) {
  if (!side) return right;
  FACULA_CHECK(*side == "left" || *side == "right", ErrorKind::Runtime, op, ": side must be ",
               one_of({"left", "right"}, *side));
  FACULA_CHECK(!right || *side == "right", ErrorKind::Runtime, op,
               ": side and right contradict each other, got side='left' and right=True");
  return *side == "right";
}

void check_search(const Tensor& sequence, const Tensor& values, const Tensor& sorter, const char* op) {
  check_ordered(sequence, op, ErrorKind::NotImplemented);
  check_ordered(values, op, ErrorKind::NotImplemented);
  FACULA_CHECK(sequence.dim() > 0, ErrorKind::Runtime, op,
               ": the sequence needs at least one dimension, got a 0-d tensor");
  bool fits = sequence.dim() == 1;
  if (!fits && sequence.dim() == values.dim())
    fits = sequence.sizes().slice(0, static_cast<size_t>(sequence.dim() - 1)) ==
           values.sizes().slice(0, static_cast<size_t>(values.dim() - 1));
  FACULA_CHECK(fits, ErrorKind::Runtime, op,
               ": the sequence must be one-dimensional or agree with the values in all dimensions but the "
               "last, got shapes ",
               sequence.sizes(), " and ", values.sizes());
  if (!sorter.defined()) return;
  FACULA_CHECK(sorter.sizes() == sequence.sizes(), ErrorKind::Runtime, op,
               ": the sorter must have the sequence's shape ", sequence.sizes(), ", got ", sorter.sizes());
  FACULA_CHECK(sorter.dtype() == DType::Int64, ErrorKind::Runtime, op, ": the sorter must be int64, got ",
               sorter.dtype());
}

Tensor search(const Tensor& sequence, const Tensor& values, DType dtype, bool out_int32, bool right,
              const Tensor& sorter, const char* op, const Out& out) {
  check_search(sequence, values, sorter, op);
  FACULA_CHECK(!out_int32 || sequence.size(-1) < std::numeric_limits<int32_t>::max(), ErrorKind::Runtime, op,
               ": positions of a sequence of ", sequence.size(-1), " do not fit into int32, got out_int32=True");
  Tensor result = out.make(values.sizes(), out_int32 ? DType::Int32 : DType::Int64, sequence.device());
  if (result.is_meta() || values.numel() == 0) return result;
  Tensor s = as_contiguous(sequence, dtype), v = as_contiguous(values, dtype);
  int64_t n = s.size(-1), m = sequence.dim() == 1 ? v.numel() : v.size(-1), rows = v.numel() / m;
  auto as_rows = [&](const Tensor& t, int64_t width) {
    return make_view(t, {t.numel() / std::max<int64_t>(width, 1), width}, {width, 1}, 0, false);
  };
  Tensor table = n ? as_rows(s, n) : make_view(s, {rows, 0}, {0, 1}, 0, false);
  Tensor order = sorter.defined() && n ? as_rows(as_contiguous(sorter, DType::Int64), n) : Tensor();
  searchsorted_kernel(result.device(), as_rows(result, m), table, as_rows(v, m), order, right);
  return result;
}

// A number against a sequence is compared in the dtype that both fit into.
Tensor search_number(const Tensor& sequence, const Scalar& value, bool out_int32, bool right, const Tensor& sorter,
                     const char* op, const Out& out) {
  FACULA_CHECK(sequence.dim() == 1, ErrorKind::Runtime, op,
               ": for a number the sequence must be one-dimensional, got shape ", sequence.sizes());
  FACULA_CHECK(!value.is_complex(), ErrorKind::Runtime, op, ": complex numbers have no order, got ",
               value.to_complex());
  ResultType common;
  common.add(sequence.dtype(), 1);
  common.add(value);
  return search(sequence, scalar_tensor(value, common.get(), sequence.device()), common.get(), out_int32, right, sorter,
                op, out);
}

}  // namespace

std::tuple<Tensor, Tensor> sort(const Tensor& self, int64_t dim, bool descending, const Out& out0, const Out& out1) {
  return sorted(self, dim, descending, "sort", out0, out1);
}
std::tuple<Tensor, Tensor> sort(const Tensor& self, std::optional<bool>, int64_t dim, bool descending, const Out& out0,
                                const Out& out1) {
  return sorted(self, dim, descending, "sort", out0, out1);
}
Tensor argsort(const Tensor& self, int64_t dim, bool descending) {
  return std::get<1>(sorted(self, dim, descending, "argsort", {}, {}));
}
Tensor argsort(const Tensor& self, bool, int64_t dim, bool descending, const Out& out) {
  return std::get<1>(sorted(self, dim, descending, "argsort", {}, out));
}

std::tuple<Tensor, Tensor> topk(const Tensor& self, int64_t k, int64_t dim, bool largest, bool, const Out& out0,
                                const Out& out1) {
  int64_t d = wrap_dim(dim, self.dim(), "topk");
  check_ordered(self, "topk", ErrorKind::Runtime);
  FACULA_CHECK(self.dtype() != DType::Bool, ErrorKind::Runtime, "topk: expected a tensor of numbers, got ",
               self.dtype());
  FACULA_CHECK(k >= 0 && k <= (self.dim() ? self.size(d) : 1), ErrorKind::Runtime,
               "topk: k must not exceed the size of dimension ", dim, ", ", self.dim() ? self.size(d) : 1, ", got ", k);
  Dims shape(self.sizes());
  if (self.dim()) shape[d] = k;
  else if (k == 0) shape = {0};
  Tensor values = out0.make(shape, self.dtype(), self.device()),
         indices = out1.make(shape, DType::Int64, self.device());
  if (self.is_meta() || values.numel() == 0) return {std::move(values), std::move(indices)};
  DimLast rows(self, d);
  Tensor row_values = rows.target(values, k), row_indices = rows.target(indices, k);
  topk_kernel(self.device(), row_values, row_indices, rows.source(self), largest);
  rows.give_back(values, row_values);
  rows.give_back(indices, row_indices);
  return {std::move(values), std::move(indices)};
}

std::tuple<Tensor, Tensor> kthvalue(const Tensor& self, int64_t k, int64_t dim, bool keepdim, const Out& out0,
                                    const Out& out1) {
  wrap_dim(dim, self.dim(), "kthvalue");
  check_ordered(self, "kthvalue", ErrorKind::NotImplemented);
  FACULA_CHECK(self.dtype() != DType::Bool, ErrorKind::NotImplemented,
               "kthvalue: expected a tensor of numbers, got bool");
  check_out_apart(out0, {&self}, "kthvalue");
  int64_t d = wrap_dim(dim, self.dim(), "kthvalue"), n = self.dim() ? self.size(d) : 1;
  FACULA_CHECK(n > 0, ErrorKind::Index, "kthvalue: dimension ", dim, " must not be empty, got shape ", self.sizes());
  FACULA_CHECK(k >= 1 && k <= n, ErrorKind::Runtime, "kthvalue: k must lie in [1, ", n, "], got ", k);
  Dims shape(self.sizes());
  if (self.dim()) keepdim ? void(shape[d] = 1) : shape.erase(d);
  Tensor values = out0.make(shape, self.dtype(), self.device()),
         indices = out1.make(shape, DType::Int64, self.device());
  if (self.is_meta() || values.numel() == 0) return {std::move(values), std::move(indices)};
  DimLast rows(self, d);
  kthvalue_kernel(self.device(), make_view(values, {rows.rows, 1}, {1, 1}, 0, false),
                  make_view(indices, {rows.rows, 1}, {1, 1}, 0, false), rows.source(self), k - 1);
  return {std::move(values), std::move(indices)};
}

Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& self, bool out_int32, bool right,
                    std::optional<std::string_view> side, const Tensor& sorter, const Out& out) {
  DType common = promote(sorted_sequence.dtype(), self.dtype());
  return search(sorted_sequence, self, common, out_int32, to_the_right(right, side, "searchsorted"), sorter,
                "searchsorted", out);
}
Tensor searchsorted(const Tensor& sorted_sequence, const Scalar& self, bool out_int32, bool right,
                    std::optional<std::string_view> side, const Tensor& sorter, const Out& out) {
  return search_number(sorted_sequence, self, out_int32, to_the_right(right, side, "searchsorted"), sorter,
                       "searchsorted", out);
}
Tensor bucketize(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right, const Out& out) {
  FACULA_CHECK(boundaries.dim() == 1, ErrorKind::Runtime,
               "bucketize: the boundaries must be one-dimensional, got shape ", boundaries.sizes());
  DType common = promote(boundaries.dtype(), self.dtype());
  return search(to_dtype(boundaries, common), to_dtype(self, common), common, out_int32, right, Tensor(), "bucketize",
                out);
}
Tensor bucketize(const Scalar& self, const Tensor& boundaries, bool out_int32, bool right, const Out& out) {
  return search_number(boundaries, self, out_int32, right, Tensor(), "bucketize", out);
}

}  // namespace facula::ops

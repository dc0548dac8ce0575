// Ops that index one dimension: gather and scatter with an index per element, index_* with an index per
// position.
#include <cmath>

#include "core/near_name.h"
#include "ops/contiguous.h"
#include "ops/index_support.h"
#include "raw_elementwise.h"
#include "raw_index.h"

namespace facula::ops {
namespace {

// `dense` elements against places along dimension `dim` of target, whose other dimensions the two share.
IndexMap map_along(Tensor target, int64_t dim, Tensor index, const char* op, ErrorKind error) {
  IndexMap map;
  map.strides = Dims(target.strides());
  map.strides[dim] = 0;
  map.step = target.stride(dim);
  map.size = target.size(dim);
  map.target = std::move(target);
  map.index = std::move(index);
  map.op = op;
  map.error = error;
  return map;
}

// ---- gather, scatter

struct Scatter {
  Tensor index;  // int64, at least 1-d
  int64_t dim;
  bool empty;
};

Scatter check_scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor* src, const char* op) {
  Scatter s{index_as_int64(index, op, true), wrap_dim(dim, self.dim(), op), index.numel() == 0};
  s.index = at_least_1d(std::move(s.index));
  if (s.empty) return s;
  IntList self_sizes = self.sizes(), index_sizes = index.sizes();
  bool narrow = src && index.dim() == self.dim() && src->dim() > 0 && src->dim() < index.dim();
  for (int64_t d = 0; narrow && d < src->dim(); ++d) narrow = index.size(d) <= src->size(d);
  bool ranks = std::max<int64_t>(index.dim(), 1) == std::max<int64_t>(self.dim(), 1) &&
               (!src || std::max<int64_t>(index.dim(), 1) == std::max<int64_t>(src->dim(), 1));
  FACULA_CHECK(ranks, narrow ? ErrorKind::Index : ErrorKind::Runtime, op,
               ": the index must have as many dimensions as the tensors it goes with, got index of shape ", index_sizes,
               " for a tensor of shape ", self_sizes);
  for (int64_t d = 0; d < index.dim(); ++d) {
    bool fits = (d == s.dim || index.size(d) <= size_at_least_1d(self, d)) &&
                (!src || index.size(d) <= size_at_least_1d(*src, d));
    FACULA_CHECK(fits, ErrorKind::Runtime, op, ": the index must not be larger than self apart from dimension ", dim,
                 src ? ", nor than src" : "", ", got index of shape ", index_sizes, " for self of shape ", self_sizes);
  }
  return s;
}

// src where the index has positions
Tensor window(const Tensor& src, const Tensor& index) {
  if (src.sizes() == index.sizes()) return src;
  return make_view(src, index.sizes(), at_least_1d(src).strides(), 0, false);
}

void check_same_dtype(const Tensor& self, const Tensor& src, const char* op) {
  FACULA_CHECK(self.dtype() == src.dtype(), ErrorKind::Runtime, op,
               ": self and the source must have the same dtype, got ", self.dtype(), " and ", src.dtype());
}

void scatter_into(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Combine how,
                  const char* op) {
  wrap_dim(dim, self.dim(), op);
  check_same_dtype(self, src, op);
  Scatter s = check_scatter(self, dim, index, &src, op);
  if (s.empty || self.is_meta()) return;
  const Tensor values = window(src, s.index);
  scatter_kernel(self.device(), map_along(at_least_1d(self), s.dim, std::move(s.index), op, ErrorKind::Runtime), values,
                 how);
}

void scatter_into(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, Combine how,
                  const char* op) {
  Scatter s = check_scatter(self, dim, index, nullptr, op);
  Scalar number = number_in(value, self.dtype(), op);
  if (s.empty || self.is_meta()) return;
  scatter_kernel(self.device(), map_along(at_least_1d(self), s.dim, s.index, op, ErrorKind::Runtime),
                 expanded_number(number, self, s.index.sizes()), how);
}

/// What ops in place look at first: the dimension, then the memory.
void check_in_place(const Tensor& self, int64_t dim, std::initializer_list<const Tensor*> read, const char* op) {
  wrap_dim(dim, self.dim(), op);
  for (const Tensor* t : read) check_apart(self, *t, op);
}

Combine combine_named(std::string_view reduce) {
  if (reduce == "add") return Combine::Add;
  FACULA_CHECK(reduce == "multiply", ErrorKind::Runtime, "scatter: reduce must be ",
               one_of({"add", "multiply"}, reduce));
  return Combine::Multiply;
}

// ---- reductions into indexed places

struct Reduction {
  Combine how;
  bool mean = false;
  double identity =
      0;  // of a place that does not count itself; infinities stand for the dtype's lowest and highest value
};

Reduction reduction_named(std::string_view name, const char* op, bool sum) {
  if (sum && name == "sum") return {Combine::Add};
  if (name == "prod") return {Combine::Multiply, false, 1};
  if (name == "mean") return {Combine::Add, true};
  if (name == "amax") return {Combine::Max, false, -INFINITY};
  if (name == "amin") return {Combine::Min, false, INFINITY};
  throw_error(
      ErrorKind::Runtime, op, ": reduce must be ",
      sum ? one_of({"sum", "prod", "mean", "amax", "amin"}, name) : one_of({"prod", "mean", "amax", "amin"}, name));
}

Scalar identity_of(const Reduction& r, DType dtype) {
  if (!std::isinf(r.identity)) return Scalar(r.identity);
  return visit_dtype(dtype, [&]<class T>(TypeTag<T>) -> Scalar {
    if constexpr (std::is_integral_v<T>)
      return Scalar(r.identity < 0 ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max());
    else return Scalar(r.identity);
  });
}

void check_ordered(const Tensor& self, const Reduction& r, const char* op) {
  FACULA_CHECK(!self.is_complex() || r.how == Combine::Add || r.how == Combine::Multiply, ErrorKind::NotImplemented, op,
               ": complex numbers have no order, got ", self.dtype());
  FACULA_CHECK(!(r.mean && self.dtype() == DType::Bool), ErrorKind::Runtime, op, ": bool has no mean, got ",
               self.dtype());
}

// Reduces `source` into the places of `map`. The mean divides by how many elements came together (integers
// round down).
void reduce_into(const Tensor& self, int64_t dim, const IndexMap& map, const Tensor& source, const Reduction& r,
                 bool include_self) {
  Device device = self.device();
  if (!include_self)
    scatter_kernel(device, map,
                   expanded_number(number_in(identity_of(r, self.dtype()), self.dtype(), map.op), self, source.sizes()),
                   Combine::Assign);
  scatter_kernel(device, map, source, r.how);
  if (!r.mean) return;
  Tensor counts = facula::empty(map.target.sizes(), self.dtype(), device);
  fill_kernel(device, counts, Scalar(include_self ? 1 : 0));
  IndexMap count_map = map_along(counts, dim, map.index, map.op, map.error);
  scatter_kernel(device, count_map, expanded_number(Scalar(1), self, source.sizes()), Combine::Add);
  Tensor none = eq(counts, Operand(Scalar(0)));
  _where_into(counts, Into::Part, none, Operand(Scalar(1)), counts);
  if (is_inexact(self.dtype())) div_into(map.target, Into::Part, map.target, counts);
  else _div_floor_into(map.target, Into::Part, map.target, counts);
}

// ---- one index per position

struct Positions {
  Tensor index;  // int64, 1-d
  int64_t dim;
};

Positions check_positions(const Tensor& self, int64_t dim, const Tensor& index, const char* op) {
  FACULA_CHECK(index.dim() <= 1, ErrorKind::Index, op, ": the index must have one dimension, got shape ",
               index.sizes());
  return {at_least_1d(index_as_int64(index, op)), wrap_dim(dim, self.dim(), op)};
}

// The index of each position of `dim`, expanded to the shape of all elements.
Tensor spread(const Positions& p, IntList shape) {
  Dims strides(shape.size(), 0);
  strides[p.dim] = p.index.stride(0);
  return make_view(p.index, shape, strides, 0, false);
}

Dims selected_shape(const Tensor& self, const Positions& p) {
  Dims shape(at_least_1d(self).sizes());
  shape[p.dim] = p.index.numel();
  return shape;
}

// source of index_add, index_copy and index_reduce: of self's shape with one position per index; a 0-d one
// stands for one position where self is 0-d too, or is copied into
Tensor check_source(const Tensor& self, const Positions& p, const Tensor& source, const char* op, ErrorKind kind) {
  const bool copies = std::string_view(op).starts_with("index_copy");
  FACULA_CHECK(!copies || source.dim() == self.dim() || source.dim() == 0 || self.dim() == 0, ErrorKind::Index, op,
               ": the source must have as many dimensions as self, got shapes ", source.sizes(), " and ", self.sizes());
  check_same_dtype(self, source, op);
  Dims shape = selected_shape(self, p);
  const bool same_rank = source.dim() == self.dim();
  const bool one_each = copies || (same_rank && self.dim() == 0);
  if (source.dim() == 0 && one_each && p.index.numel() == 1 && count_elements(shape, op) == 1)
    return make_view(source, shape, Dims(shape.size(), 1), 0, false);
  bool counts_fit = source.dim() == 0 || (source.dim() == self.dim() && source.size(p.dim) == shape[p.dim]);
  if (one_each && counts_fit) kind = ErrorKind::Runtime;  // what does not fit is the slices
  FACULA_CHECK((same_rank || one_each) && at_least_1d(source).sizes() == IntList(shape), kind, op,
               ": the source must have shape ", shape, " (one position of dimension ", p.dim, " per index), got ",
               source.sizes());
  return at_least_1d(source);
}

IndexMap positions_map(const Tensor& self, const Positions& p, IntList shape, const char* op,
                       ErrorKind kind = ErrorKind::Index) {
  return map_along(at_least_1d(self), p.dim, spread(p, shape), op, kind);
}

void scatter_positions(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, Combine how,
                       const char* op, ErrorKind kind) {
  Positions p = check_positions(self, dim, index, op);
  Tensor values = check_source(self, p, source, op, kind);
  if (self.is_meta() || values.numel() == 0) return;
  const ErrorKind outside = self.dim() <= 1 ? ErrorKind::Index : kind;  // as PyTorch's loops have it
  scatter_kernel(self.device(), positions_map(self, p, values.sizes(), op, outside), values, how);
}

}  // namespace

Tensor gather(const Tensor& self, int64_t dim, const Tensor& index, bool, const Out& out) {
  Scatter s = check_scatter(self, dim, index, nullptr, "gather");
  Tensor result = out.make(index.sizes(), self.dtype(), self.device());
  if (s.empty || self.is_meta()) return result;
  const IndexMap map = map_along(at_least_1d(self), s.dim, std::move(s.index), "gather", ErrorKind::Runtime);
  if (result.dim()) gather_kernel(self.device(), result, map);
  else gather_kernel(self.device(), at_least_1d(result), map);
  return result;
}

Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const Out& out) {
  Tensor result = copy_to_write(self, out);
  scatter_into(result, dim, index, src, Combine::Assign, "scatter");
  return result;
}
void scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  check_in_place(self, dim, {&index, &src}, "scatter_");
  scatter_into(self, dim, index, src, Combine::Assign, "scatter_");
}

Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, const Out& out) {
  Tensor result = copy_to_write(self, out);
  scatter_into(result, dim, index, value, Combine::Assign, "scatter");
  return result;
}
void scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  check_in_place(self, dim, {&index}, "scatter_");
  scatter_into(self, dim, index, value, Combine::Assign, "scatter_");
}

Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce,
               const Out& out) {
  Combine how = combine_named(reduce);
  Tensor result = copy_to_write(self, out);
  scatter_into(result, dim, index, src, how, "scatter");
  return result;
}
void scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce) {
  Combine how = combine_named(reduce);
  check_in_place(self, dim, {&index, &src}, "scatter_");
  scatter_into(self, dim, index, src, how, "scatter_");
}

Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, std::string_view reduce,
               const Out& out) {
  Combine how = combine_named(reduce);
  Tensor result = copy_to_write(self, out);
  scatter_into(result, dim, index, value, how, "scatter");
  return result;
}
void scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, std::string_view reduce) {
  Combine how = combine_named(reduce);
  check_in_place(self, dim, {&index}, "scatter_");
  scatter_into(self, dim, index, value, how, "scatter_");
}

Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const Out& out) {
  Tensor result = copy_to_write(self, out);
  scatter_into(result, dim, index, src, Combine::Add, "scatter_add");
  return result;
}
void scatter_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  check_in_place(self, dim, {&index, &src}, "scatter_add_");
  scatter_into(self, dim, index, src, Combine::Add, "scatter_add_");
}

void scatter_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce,
                     bool include_self) {
  Reduction r = reduction_named(reduce, "scatter_reduce", true);
  check_in_place(self, dim, {&index, &src}, "scatter_reduce_");
  check_ordered(self, r, "scatter_reduce");
  check_same_dtype(self, src, "scatter_reduce");
  Scatter s = check_scatter(self, dim, index, &src, "scatter_reduce");
  if (s.empty || self.is_meta()) return;
  reduce_into(self, s.dim, map_along(at_least_1d(self), s.dim, s.index, "scatter_reduce", ErrorKind::Runtime),
              window(src, s.index), r, include_self);
}
Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce,
                      bool include_self, const Out& out) {
  Tensor result = copy_to_write(self, out);
  scatter_reduce_(result, dim, index, src, reduce, include_self);
  return result;
}

Tensor select_positions(const Tensor& self, int64_t dim, const Tensor& index, const Out& out, const char* op) {
  Positions p = check_positions(self, dim, index, op);
  FACULA_CHECK(self.dim() || index.numel() == 1, ErrorKind::Runtime, op,
               ": of a 0-d tensor one position is selected, got ", index.numel(), " indices");
  FACULA_CHECK(p.index.numel() == 0 || self.dim() == 0 || self.size(p.dim) > 0, ErrorKind::Runtime, op,
               ": a dimension with elements to select from, got dimension ", p.dim, " of ", self.sizes());
  Dims shape = selected_shape(self, p);
  Tensor result = out.make(self.dim() ? IntList(shape) : IntList(), self.dtype(), self.device());
  if (self.is_meta()) return result;
  if (result.numel() == 0) {  // positions are checked although there is nothing to take from there
    if (self.dim() && p.index.numel() && self.numel() == 0)
      select_positions(facula::empty({self.size(p.dim)}, self.dtype(), self.device()), 0, index, Out(), op);
    return result;
  }
  gather_kernel(self.device(), at_least_1d(result), positions_map(self, p, shape, op));
  return result;
}

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index, const Out& out) {
  return select_positions(self, dim, index, out, "index_select");
}

void index_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  check_in_place(self, dim, {&index, &source}, "index_add_");
  bool one = !alpha.is_complex() && alpha.to_double() == 1;
  const bool whole = !alpha.is_complex() && std::trunc(alpha.to_double()) == alpha.to_double();
  FACULA_CHECK(one || self.dtype() == DType::Bool || !is_bits(self.dtype()) || whole, ErrorKind::Runtime,
               "index_add: alpha must be an integer for an integer tensor, got ", alpha.to_double());
  Tensor scaled = one || source.is_meta() || source.numel() == 0
                      ? source
                      : mul(source, Operand(number_in(alpha, source.dtype(), "index_add")));
  scatter_positions(self, dim, index, scaled, Combine::Add, "index_add", ErrorKind::Runtime);
}
Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha,
                 const Out& out) {
  Tensor result = copy_to_write(self, out);
  index_add_(result, dim, index, source, alpha);
  return result;
}

void index_copy_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  check_in_place(self, dim, {&index, &source}, "index_copy_");
  FACULA_CHECK(index.dtype() == DType::Int64, ErrorKind::Runtime, "index_copy: the index must be int64, got ",
               index.dtype());
  scatter_positions(self, dim, index, source, Combine::Assign, "index_copy", ErrorKind::Index);
}
Tensor index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Out& out) {
  Tensor result = copy_to_write(self, out);
  index_copy_(result, dim, index, source);
  return result;
}

namespace {

/// `one`: a 0-d tensor of self's dtype and device.
void index_fill_from(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& one) {
  warn_of_internal_overlap(self, "index_fill_");
  check_apart(self, index, "index_fill_");
  FACULA_CHECK(index.dtype() == DType::Int64, ErrorKind::Index, "index_fill: the index must be int64, got ",
               index.dtype());
  Positions p = check_positions(self, dim, index, "index_fill");
  Dims shape = selected_shape(self, p);
  if (self.is_meta() || count_elements(shape, "index_fill") == 0) return;
  IndexMap map = positions_map(self, p, shape, "index_fill");
  map.wraps = true;
  scatter_kernel(self.device(), map, make_view(one, shape, Dims(shape.size(), 0), 0, false), Combine::Assign);
}

}  // namespace

void index_fill_(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  FACULA_CHECK(!value.is_complex() || self.is_complex(), ErrorKind::Runtime,
               "index_fill: expected a real number for a tensor of ", self.dtype(), ", got ", value);
  const Scalar number = number_in(value, self.dtype(), "index_fill");
  index_fill_from(self, dim, index, scalar_tensor(number, self.dtype(), self.device()));
}
Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, const Out& out) {
  Tensor result = copy_to_write(self, out);
  index_fill_(result, dim, index, value);
  return result;
}

void index_fill_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  FACULA_CHECK(value.dim() == 0, ErrorKind::Runtime,
               "index_fill: the value must be a number or a 0-d tensor, got shape ", value.sizes());
  if (value.is_cpu()) return index_fill_(self, dim, index, value.item());
  index_fill_from(self, dim, index, as_contiguous(value, self.dtype()));
}
Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value, const Out& out) {
  Tensor result = copy_to_write(self, out);
  index_fill_(result, dim, index, value);
  return result;
}

void index_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                   bool include_self) {
  Reduction r = reduction_named(reduce, "index_reduce", false);
  check_in_place(self, dim, {&index, &source}, "index_reduce_");
  check_ordered(self, r, "index_reduce");
  Positions p = check_positions(self, dim, index, "index_reduce");
  Tensor values = check_source(self, p, source, "index_reduce", ErrorKind::Runtime);
  if (self.is_meta() || values.numel() == 0) return;
  reduce_into(self, p.dim, positions_map(self, p, values.sizes(), "index_reduce"), values, r, include_self);
}
Tensor index_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                    bool include_self, const Out& out) {
  Tensor result = copy_to_write(self, out);
  index_reduce_(result, dim, index, source, reduce, include_self);
  return result;
}

}  // namespace facula::ops

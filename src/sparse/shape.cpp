// Positions that move: transposes, parts and joins of sparse tensors.
#include <algorithm>

#include "core/checked.h"
#include "functions.h"
#include "ops/split_join.h"
#include "sparse/support.h"
#include "sparse_kernels.h"

namespace facula::sparse {
namespace {

Tensor with_sizes(SparseParts parts, IntList sizes) { return make_sparse(std::move(parts), sizes); }

Tensor order_as_index(const Dims& order, Device device) {
  Tensor index = facula::empty({static_cast<int64_t>(order.size())}, DType::Int64, kCPU);
  std::copy(order.begin(), order.end(), index.data<int64_t>());
  return device.is_cpu() ? index : facula::_to_device(index, device, DType::Int64);
}

Layout flipped(Layout layout) {
  constexpr Layout other[] = {Layout::Strided,   Layout::SparseCoo, Layout::SparseCsc,
                              Layout::SparseCsr, Layout::SparseBsc, Layout::SparseBsr};
  return other[static_cast<int>(layout)];
}

// Rows and columns of a compressed layout change places with its name; batches and dense dimensions among themselves.
Tensor transpose_compressed(const Tensor& self, int64_t a, int64_t b) {
  SparseParts parts = sparse_parts(self);
  const int64_t batch = self.dim() - 2 - parts.dense_dim;
  Dims sizes(self.sizes());
  std::swap(sizes[a], sizes[b]);
  if (a >= batch && a < batch + 2 && b >= batch && b < batch + 2) {
    parts.layout = flipped(parts.layout);
    if (is_blocked(parts.layout)) parts.values = facula::transpose(parts.values, batch + 1, batch + 2);
    parts.values = facula::contiguous(parts.values, MemoryFormat::Contiguous);
    return with_sizes(std::move(parts), sizes);
  }
  FACULA_CHECK(a < batch && b < batch, ErrorKind::Runtime, "transpose: transposition with two dimensions of the kind ",
               "(batch or sparse) is supported, got dimensions ", a, " and ", b, " of ", parts.layout);
  parts.indices = facula::contiguous(facula::transpose(parts.indices, a, b), MemoryFormat::Contiguous);
  parts.plain = facula::contiguous(facula::transpose(parts.plain, a, b), MemoryFormat::Contiguous);
  parts.values = facula::contiguous(facula::transpose(parts.values, a, b), MemoryFormat::Contiguous);
  return with_sizes(std::move(parts), sizes);
}

}  // namespace

Tensor permute(const Tensor& self, IntList dims) {
  const int64_t ndim = self.dim();
  FACULA_CHECK(static_cast<int64_t>(dims.size()) == ndim, ErrorKind::Runtime, "permute: dims must name each of ", ndim,
               " dimensions, got ", dims);
  Dims order;
  std::vector<bool> seen(static_cast<size_t>(ndim));
  for (int64_t d : dims) {
    order.push_back(wrap_dim(d, ndim, "permute"));
    FACULA_CHECK(!seen[static_cast<size_t>(order.back())], ErrorKind::Runtime,
                 "permute: duplicate dims are not allowed, got ", dims);
    seen[static_cast<size_t>(order.back())] = true;
  }
  if (is_compressed(self)) {
    Dims moved;
    for (int64_t d = 0; d < ndim; ++d)
      if (order[d] != d) moved.push_back(d);
    if (moved.empty()) return share_sparse(self);
    FACULA_CHECK(moved.size() == 2, ErrorKind::Runtime, "permute: two dimensions of a compressed layout, got ", dims);
    return transpose_compressed(self, moved[0], moved[1]);
  }
  SparseParts parts = sparse_parts(self);
  Dims sizes, sparse_order, dense_order{0};
  bool same = true;
  for (int64_t i = 0; i < ndim; ++i) {
    const bool in_front = order[i] < parts.sparse_dim;
    FACULA_CHECK(in_front == (i < parts.sparse_dim), ErrorKind::Runtime, "permute: sparse dimensions, the first ",
                 parts.sparse_dim, ", and dense ones must stay apart, got ", dims);
    sizes.push_back(self.size(order[i]));
    if (in_front) same &= order[i] == i;
    if (in_front) sparse_order.push_back(order[i]);
    else dense_order.push_back(order[i] - parts.sparse_dim + 1);
  }
  if (!same) {
    parts.indices = facula::index_select(parts.indices, 0, order_as_index(sparse_order, self.device()));
    parts.coalesced = parts.indices.size(1) < 2;
  }
  parts.values = facula::permute(parts.values, dense_order);
  return with_sizes(std::move(parts), sizes);
}

Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1) {
  const int64_t a = wrap_dim(dim0, self.dim(), "transpose"), b = wrap_dim(dim1, self.dim(), "transpose");
  Dims order;
  for (int64_t d = 0; d < self.dim(); ++d) order.push_back(d == a ? b : d == b ? a : d);
  return sparse::permute(self, order);
}

Tensor t(const Tensor& self) {
  FACULA_CHECK(self.dim() <= 2, ErrorKind::Runtime, "t: at most two dimensions are expected, got ", self.dim());
  return self.dim() < 2 ? share_sparse(self) : sparse::transpose(self, 0, 1);
}

namespace {

/// The entries of a COO tensor that `keep` numbers, without a row of the indices where `drop` is given.
SparseParts chosen(const SparseParts& from, const Tensor& keep, int64_t drop) {
  SparseParts parts = from;
  parts.indices = facula::index_select(from.indices, 1, keep);
  parts.values = facula::index_select(from.values, 0, keep);
  if (drop < 0) return parts;
  const Tensor pair[] = {facula::narrow(parts.indices, 0, 0, drop),
                         facula::narrow(parts.indices, 0, drop + 1, from.sparse_dim - drop - 1)};
  parts.indices = facula::cat(TensorList(pair, 2), 0);
  --parts.sparse_dim;
  return parts;
}

Tensor where_true(const Tensor& there) { return facula::select(facula::nonzero(there), 1, 0); }

Tensor back_to(const Tensor& like, const Tensor& made) {
  if (is_coo(like) || !is_coo(made) || made.dim() - dense_dim_of(made) < 2 || is_blocked(layout_of(like))) return made;
  return in_layout_of(made, layout_of(like), {1, 1});
}

/// The matrices of a batch that `choose` takes of each part: places, values and blocks stay.
template <class F>
Tensor of_batches(const Tensor& self, IntList sizes, F&& choose) {
  SparseParts parts = sparse_parts(self);
  for (Tensor* part : {&parts.indices, &parts.plain, &parts.values})
    *part = facula::clone(choose(*part), MemoryFormat::Contiguous);
  return make_sparse(std::move(parts), sizes);
}

}  // namespace

Tensor select(const Tensor& self, int64_t dim, int64_t index) {
  const int64_t d = own_dim(self, dim, "select"), size = self.size(d);
  FACULA_CHECK(index >= -size && index < size, ErrorKind::Index, "select: index ", index,
               " out of range for tensor of size ", self.sizes(), " at dimension ", d);
  const int64_t at = index < 0 ? index + size : index;
  if (!is_coo(self)) {
    const int64_t batch = sparse_parts(self).indices.dim() - 1;
    FACULA_CHECK(batch == 0 || d < batch || d >= batch + 2, ErrorKind::Runtime,
                 "select: of a batch of compressed matrices no row or column can be taken, got dimension ", d, " of ",
                 self.sizes());
    if (d < batch) {
      Dims sizes(self.sizes());
      sizes.erase(static_cast<size_t>(d));
      return of_batches(self, sizes, [&](const Tensor& part) { return facula::select(part, d, at); });
    }
    return back_to(self, sparse::select(coo_of(self), d, at));
  }
  const SparseParts& p = sparse_parts(self);
  Dims sizes(self.sizes());
  sizes.erase(static_cast<size_t>(d));
  if (d >= p.sparse_dim) {
    SparseParts parts = p;
    parts.values = facula::select(p.values, d - p.sparse_dim + 1, at);
    --parts.dense_dim;
    return with_sizes(std::move(parts), sizes);
  }
  SparseParts parts = chosen(p, where_true(facula::eq(facula::select(p.indices, 0, d), at)), d);
  if (parts.sparse_dim == 0) return facula::sum(parts.values, Dims{0}, false, self.dtype());
  return with_sizes(std::move(parts), sizes);
}

Tensor slice(const Tensor& self, int64_t given_dim, int64_t given_start, int64_t given_end, int64_t step) {
  FACULA_CHECK(self.dim() > 0 && step > 0, ErrorKind::Runtime,
               "slice: expected a dimension and a positive step, got shape ", self.sizes(), " and step ", step);
  const int64_t dim = own_dim(self, given_dim, "slice"), size = self.size(dim);
  const auto inside = [&](int64_t bound) { return std::clamp<int64_t>(bound < 0 ? bound + size : bound, 0, size); };
  const int64_t start = inside(given_start), end = std::max(inside(given_end), start);
  Dims sizes(self.sizes());
  const int64_t count = end > start ? (end - start - 1) / step + 1 : 0;
  sizes[dim] = count;
  if (!is_coo(self) && dim < sparse_parts(self).plain.dim() - 1)
    return of_batches(self, sizes, [&](const Tensor& part) { return facula::slice(part, dim, start, end, step); });
  if (!is_coo(self)) return back_to(self, sparse::slice(coo_of(self), dim, start, end, step));
  const SparseParts& p = sparse_parts(self);
  SparseParts parts = p;
  if (dim >= p.sparse_dim) {
    parts.values = facula::slice(p.values, dim - p.sparse_dim + 1, start, end, step);
    return with_sizes(std::move(parts), sizes);
  }
  const Tensor row = facula::sub(facula::select(p.indices, 0, dim), start);
  Tensor there = facula::logical_and(facula::ge(row, 0), facula::lt(row, std::max<int64_t>(end - start, 0)));
  if (step > 1) there = facula::logical_and(there, facula::eq(facula::remainder(row, step), 0));
  parts = chosen(p, where_true(there), -1);
  const Tensor moved = facula::div(facula::sub(facula::select(parts.indices, 0, dim), start), step, "floor");
  facula::copy_(facula::select(parts.indices, 0, dim), moved, false);
  return with_sizes(std::move(parts), sizes);
}

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  const int64_t d = own_dim(self, dim, "index_select"), size = self.size(d);
  FACULA_CHECK(!is_sparse(index) && index.dim() <= 1, ErrorKind::Index,
               "index_select: index must be a strided vector, got ", index.sizes());
  FACULA_CHECK(index.dtype() == DType::Int64 || index.dtype() == DType::Int32, ErrorKind::Runtime,
               "index_select: index must be int32 or int64, got ", index.dtype());
  if (!is_coo(self)) return back_to(self, sparse::index_select(coo_of(self), d, index));
  const SparseParts& p = sparse_parts(self);
  const Tensor wanted = facula::to_dtype(facula::reshape(index, {-1}), DType::Int64);
  Dims sizes(self.sizes());
  sizes[d] = wanted.numel();
  if (d >= p.sparse_dim) {
    SparseParts parts = p;
    parts.values = facula::index_select(p.values, d - p.sparse_dim + 1, wanted);
    return with_sizes(std::move(parts), sizes);
  }
  const Tensor wrong = facula::logical_or(facula::lt(wanted, -size), facula::ge(wanted, size));
  FACULA_CHECK(!wanted.numel() || !facula::any(wrong).item().to_bool(), ErrorKind::Index,
               "index_select: index out of range for dimension ", d, " of size ", size, ", got indices of shape ",
               index.sizes());
  const Tensor place = facula::remainder(wanted, std::max<int64_t>(size, 1));
  // entries in the order of the dimension; every wanted index has a run of them
  auto [ordered, order] = facula::sort(facula::select(p.indices, 0, d), 0, false);
  const Tensor first = facula::searchsorted(ordered, place);
  const Tensor lengths = facula::sub(facula::searchsorted(ordered, place, false, true), first);
  const Tensor target = facula::repeat_interleave(lengths, std::nullopt);
  const Tensor before = facula::sub(facula::cumsum(lengths, 0), lengths);
  const Tensor within = facula::sub(facula::arange(Scalar(target.numel()), DType::Int64, self.device()),
                                    facula::index_select(before, 0, target));
  const Tensor source = facula::index_select(order, 0, facula::add(facula::index_select(first, 0, target), within));
  SparseParts parts = chosen(p, source, -1);
  facula::copy_(facula::select(parts.indices, 0, d), target, false);
  parts.coalesced = p.coalesced && d == 0;
  return with_sizes(std::move(parts), sizes);
}

Tensor unsqueeze(const Tensor& self, int64_t dim) {
  const int64_t d = wrap_dim(dim, self.dim() + 1, "unsqueeze");
  SparseParts parts = coo_parts("unsqueeze", self);
  Dims sizes(self.sizes());
  sizes.insert(static_cast<size_t>(d), 1);
  if (d > parts.sparse_dim) {
    parts.values = facula::unsqueeze(parts.values, d - parts.sparse_dim + 1);
    ++parts.dense_dim;
    return with_sizes(std::move(parts), sizes);
  }
  const Tensor rows[] = {facula::narrow(parts.indices, 0, 0, d),
                         facula::zeros({1, parts.indices.size(1)}, DType::Int64, self.device()),
                         facula::narrow(parts.indices, 0, d, parts.sparse_dim - d)};
  parts.indices = facula::cat(TensorList(rows, 3), 0);
  ++parts.sparse_dim;
  return with_sizes(std::move(parts), sizes);
}

Tensor squeeze(const Tensor& self, int64_t dim) {
  coo_parts("squeeze", self);
  const int64_t d = wrap_dim(dim, std::max<int64_t>(self.dim(), 1), "squeeze");
  return self.dim() == 0 || self.size(d) != 1 ? share_sparse(self) : sparse::select(self, d, 0);
}
Tensor squeeze(const Tensor& self) {
  Tensor made = self;
  for (int64_t d = self.dim() - 1; d >= 0; --d)
    if (self.size(d) == 1 && is_sparse(made)) made = sparse::squeeze(made, d);
  return made.is_same(self) ? share_sparse(self) : made;
}

Tensor cat(TensorList tensors, int64_t dim) {
  FACULA_CHECK(tensors.size() > 0, ErrorKind::Value, "cat: at least one tensor is expected, got none");
  const Tensor& first = tensors[0];
  for (const Tensor& t : tensors)
    FACULA_CHECK(is_coo(t), ErrorKind::Runtime, "cat: all tensors or none are COO, got layout ", layout_of(t));
  const int64_t d = own_dim(first, dim, "cat");
  const SparseParts& p = sparse_parts(first);
  std::vector<Tensor> indices, values;
  ResultType type;
  Dims sizes(first.sizes());
  sizes[d] = 0;
  for (const Tensor& t : tensors) {
    const SparseParts& q = sparse_parts(t);
    type.add(t.dtype(), 1);
    FACULA_CHECK(q.sparse_dim == p.sparse_dim && q.dense_dim == p.dense_dim, ErrorKind::Runtime,
                 "cat: all tensors must have as many sparse and dense dimensions, ", p.sparse_dim, " and ", p.dense_dim,
                 ", got ", q.sparse_dim, " and ", q.dense_dim);
    for (int64_t k = 0; k < t.dim(); ++k)  // as many as the first has: the sparse and the dense ones
      FACULA_CHECK(k == d || t.size(k) == sizes[k], ErrorKind::Runtime, "cat: all tensors must have one shape, ",
                   first.sizes(), ", but for the concatenated dimension, got ", t.sizes());
    sizes[d] = (Checked(sizes[d]) + t.size(d)).get("cat", "the sum of sizes", t.size(d), " and ", sizes[d]);
  }
  int64_t before = 0;
  for (const Tensor& t : tensors) {
    const SparseParts& q = sparse_parts(t);
    Tensor at = q.indices, of = facula::to_dtype(q.values, type.get());
    if (d < p.sparse_dim) {
      at = facula::clone(at);
      const Tensor row = facula::select(at, 0, d);
      facula::copy_(row, facula::add(row, before), false);
    } else {  // beside zeros for the others' part
      Dims shape(of.sizes());
      const int64_t k = d - p.sparse_dim + 1;
      shape[k] = before;
      const Tensor in_front = facula::zeros(shape, of.dtype(), t.device());
      shape[k] = sizes[d] - before - t.size(d);
      const Tensor three[] = {in_front, of, facula::zeros(shape, of.dtype(), t.device())};
      of = facula::cat(TensorList(three, 3), k);
    }
    before += t.size(d);
    indices.push_back(at);
    values.push_back(of);
  }
  return make_coo(facula::cat(indices, 1), facula::cat(values, 0), sizes, false);
}

Tensor stack(TensorList tensors, int64_t dim) {
  std::vector<Tensor> each;
  for (const Tensor& t : tensors) {
    FACULA_CHECK(is_coo(t), ErrorKind::Runtime, "stack: COO tensors are expected, got layout ", layout_of(t));
    each.push_back(sparse::unsqueeze(t, dim));
  }
  return sparse::cat(each, dim);
}

}  // namespace facula::sparse

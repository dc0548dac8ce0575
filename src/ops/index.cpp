// Indexing with tensors: rules, and the table of element offsets that kernels work from.
#include "ops/index.h"

#include "raw_ops.h"

namespace facula::ops {
namespace {

struct Geometry {
  IndexPlan plan;
  Dims index_shape;   // broadcast shape of the index tensors
  Dims result_shape;  // of self[indices]
  size_t at = 0;      // where index_shape stands in result_shape
};

// The dimensions indexed stay where they are when they are neighbours, and move to the front otherwise.
Geometry geometry(const Tensor& self, TensorList indices, const char* op) {
  FACULA_CHECK(static_cast<int64_t>(indices.size()) <= self.dim(), ErrorKind::Index, op, ": too many indices for a tensor of ", self.dim(),
               " dimensions, got ", indices.size());
  Geometry g;
  Dims indexed, whole;
  for (int64_t d = 0; d < self.dim(); ++d) {
    bool used = d < static_cast<int64_t>(indices.size()) && indices[d].defined();
    (used ? indexed : whole).push_back(d);
    if (!used) continue;
    FACULA_CHECK(is_integral(indices[d].dtype()), ErrorKind::Index, op, ": indices must be integers, got ", indices[d].dtype());
    try {
      g.index_shape = broadcast(g.index_shape, indices[d].sizes(), op);
    } catch (const Error&) {
      throw_error(ErrorKind::Index, op, ": shape mismatch: the index tensors must broadcast together, got ", g.index_shape, " and ", indices[d].sizes());
    }
  }
  bool neighbours = indexed.empty() || indexed.back() - indexed[0] + 1 == static_cast<int64_t>(indexed.size());
  g.at = neighbours && !indexed.empty() ? static_cast<size_t>(indexed[0]) : 0;
  for (int64_t d : whole) {
    g.plan.block_shape.push_back(self.size(d));
    g.plan.block_strides.push_back(self.stride(d));
  }
  for (size_t i = 0; i < whole.size() + 1; ++i) {
    if (i == g.at)
      for (int64_t s : g.index_shape) g.result_shape.push_back(s);
    if (i < whole.size()) g.result_shape.push_back(self.size(whole[i]));
  }
  if (self.is_meta()) return g;

  Tensor offsets = facula::empty(g.index_shape, DType::Int64);
  int64_t* table = offsets.data<int64_t>();
  std::fill_n(table, offsets.numel(), 0);
  for (int64_t d : indexed) {
    Tensor index = facula::empty(g.index_shape, DType::Int64);
    const Tensor& given = indices[d];
    copy_kernel(kCPU, index, make_view(given, g.index_shape, broadcast_strides(given.sizes(), given.strides(), g.index_shape), 0, false));
    const int64_t* at = index.data<int64_t>();
    int64_t size = self.size(d), step = self.stride(d);
    for (int64_t i = 0; i < index.numel(); ++i) {
      int64_t k = at[i];
      FACULA_CHECK(k >= -size && k < size, ErrorKind::Index, op, ": index ", k, " is out of bounds for dimension ", d, " with size ", size);
      table[i] += (k < 0 ? k + size : k) * step;
    }
  }
  g.plan.offsets = offsets;
  return g;
}

// `t` (contiguous or not, of result_shape) with the index dimensions first and one: (positions, block...).
Tensor positions_first(const Tensor& t, const Geometry& g) {
  Dims sizes, strides;
  for (size_t i = 0; i < g.index_shape.size(); ++i) {
    sizes.push_back(t.size(static_cast<int64_t>(g.at + i)));
    strides.push_back(t.stride(static_cast<int64_t>(g.at + i)));
  }
  for (int64_t d = 0; d < t.dim(); ++d) {
    bool index = d >= static_cast<int64_t>(g.at) && d < static_cast<int64_t>(g.at + g.index_shape.size());
    if (index) continue;
    sizes.push_back(t.size(d));
    strides.push_back(t.stride(d));
  }
  return make_view(t, sizes, strides, 0, false);
}

}  // namespace

Tensor nonzero(const Tensor& self, const Out& out) {
  FACULA_CHECK(!self.is_meta(), ErrorKind::NotImplemented, "nonzero: the shape of the result depends on values, got a meta tensor");
  int64_t count = count_nonzero_kernel(self.device(), self);
  Tensor result = out.make({count, self.dim()}, DType::Int64, self.device());
  nonzero_kernel(self.device(), result, self);
  return result;
}

Tensor index(const Tensor& self, TensorList indices) {
  Geometry g = geometry(self, indices, "index");
  Tensor result = facula::empty(g.result_shape, self.dtype(), self.device());
  if (!self.is_meta() && result.numel()) index_kernel(self.device(), positions_first(result, g), self, g.plan);
  return result;
}

Tensor index_put(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate) {
  FACULA_CHECK(self.dtype() == values.dtype(), ErrorKind::Runtime, "index_put: values must have the tensor's dtype ", self.dtype(), ", got ", values.dtype());
  Tensor result = facula::empty_like(self, self.dtype());
  Geometry g = geometry(result, indices, "index_put");
  FACULA_CHECK(broadcasts_to(values.sizes(), g.result_shape), ErrorKind::Runtime, "index_put: shape mismatch: values of shape ", values.sizes(),
               " cannot be broadcast to the indexing result of shape ", g.result_shape);
  if (self.is_meta()) return result;
  copy_kernel(self.device(), result, self);
  Tensor spread = make_view(values, g.result_shape, broadcast_strides(values.sizes(), values.strides(), g.result_shape), 0, false);
  if (spread.numel()) index_put_kernel(self.device(), result, g.plan, positions_first(spread, g), accumulate);
  return result;
}

}  // namespace facula::ops

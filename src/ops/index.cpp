// Indexing with tensors: self[indices] and writing to it, take and put.
#include "core/host.h"
#include "ops/contiguous.h"
#include "ops/deterministic.h"
#include "ops/index_support.h"
#include "raw_index.h"

namespace facula::ops {
namespace {

// Masks become the positions of their true elements, one index tensor per dimension that they cover.
/// What a program gives on the CPU beside a tensor of another device: indices, and single values.
Tensor moved_to(const Tensor& self, const Tensor& t, const char* op, const char* what) {
  if (t.device() == self.device()) return t;
  FACULA_CHECK(t.device().is_cpu(), ErrorKind::Runtime, op, ": ", what,
               " on the CPU or on the indexed tensor's device, ", self.device(), ", got ", t.device());
  Tensor there = facula::empty(t.sizes(), t.dtype(), self.device());
  copy_elements(there, t);
  return there;
}

std::vector<Tensor> without_masks(const Tensor& self, TensorList indices, const char* op) {
  std::vector<Tensor> plain;
  for (const Tensor& t : indices) {
    if (!t.defined() || (t.dtype() != DType::Bool && t.dtype() != DType::UInt8)) {
      plain.push_back(!t.defined() || t.dim() < 0 ? Tensor() : moved_to(self, t, op, "indices"));
      continue;
    }
    if (t.dtype() == DType::UInt8 && host.warn) host.warn("index: masks of uint8 are an old form; give one of bool");
    FACULA_CHECK(static_cast<int64_t>(plain.size()) + t.dim() <= self.dim(), ErrorKind::Index, op,
                 ": too many indices for tensor of dimension ", self.dim(), ", got a mask of ", t.dim());
    for (int64_t d = 0; d < t.dim(); ++d) {
      FACULA_CHECK(t.size(d) == self.size(static_cast<int64_t>(plain.size()) + d), ErrorKind::Index, op,
                   ": a mask must be as long as each dimension that it indexes, got a mask of shape ", t.sizes(),
                   " for shape ", self.sizes(), " at dimension ", static_cast<int64_t>(plain.size()) + d);
    }
    Tensor positions = moved_to(self, nonzero(t), op, "indices");
    for (int64_t d = 0; d < t.dim(); ++d)
      plain.push_back(make_view(positions, {positions.size(0)}, {positions.stride(0)}, d * positions.stride(1), false));
  }
  return plain;
}

struct Geometry {
  IndexMap map;       // over result_shape
  Dims index_shape;   // broadcast shape of the index tensors
  Dims result_shape;  // of self[indices]
};

Dims index_shape_of(const std::vector<Tensor>& indices, const char* op) {
  Dims shape;
  for (const Tensor& t : indices) {
    if (!t.defined()) continue;
    FACULA_CHECK(is_integral(t.dtype()), ErrorKind::Index, op, ": indices must be integers or bool, got ", t.dtype());
    bool fits = true;
    for (size_t i = 0; i < std::min<size_t>(shape.size(), static_cast<size_t>(t.dim())); ++i) {
      int64_t a = shape[shape.size() - 1 - i], b = t.size(t.dim() - 1 - static_cast<int64_t>(i));
      fits = fits && (a == b || a == 1 || b == 1);
    }
    FACULA_CHECK(fits, ErrorKind::Index, op, ": shape mismatch: the index tensors must broadcast together, got shapes ",
                 shape, " and ", t.sizes());
    shape = broadcast(shape, t.sizes(), op);
  }
  return shape;
}

Tensor spread_int64(const Tensor& index, IntList shape) {
  Tensor wide = index.dtype() == DType::Int64 ? index : as_contiguous(index, DType::Int64);
  return make_view(wide, shape, broadcast_strides(wide.sizes(), wide.strides(), shape), 0, false);
}

// Several index tensors folded into one, of element offsets from the lowest place they can name.
void fold(IndexMap& map, const Dims& dims, const std::vector<Tensor>& indices, IntList shape) {
  const Device device = map.target.device();
  Tensor table = facula::empty(shape, DType::Int64, device);
  fill_kernel(device, table, Scalar(0));
  int64_t lowest = 0, reach = 0;
  for (int64_t d : dims) {
    const int64_t size = map.target.size(d), step = map.target.stride(d), start = step < 0 ? (1 - size) * step : 0;
    if (step < 0) lowest += (size - 1) * step;
    reach += (size - 1) * std::abs(step);
    fold_index_kernel(device, table, as_contiguous(indices[static_cast<size_t>(d)], shape, DType::Int64),
                      FoldedIndex{d, size, step, start, map.op});
  }
  map.target = make_view(map.target, map.target.sizes(), map.target.strides(), lowest, false);
  map.index = table;
  map.step = 1;
  map.size = reach + 1;
}

// The dimensions indexed stay where they are when they are neighbors, and move to the front otherwise.
Geometry geometry(const Tensor& self, const std::vector<Tensor>& indices, const char* op) {
  FACULA_CHECK(static_cast<int64_t>(indices.size()) <= self.dim(), ErrorKind::Index, op,
               ": too many indices for tensor of dimension ", self.dim(), ", got ", indices.size());
  Geometry g;
  g.index_shape = index_shape_of(indices, op);
  Dims indexed, whole;
  for (int64_t d = 0; d < self.dim(); ++d)
    (d < static_cast<int64_t>(indices.size()) && indices[d].defined() ? indexed : whole).push_back(d);
  bool neighbors = indexed.empty() || indexed.back() - indexed[0] + 1 == static_cast<int64_t>(indexed.size());
  size_t at = neighbors && !indexed.empty() ? static_cast<size_t>(indexed[0]) : 0;
  for (size_t i = 0; i < whole.size() + 1; ++i) {
    if (i == at) {
      for (int64_t s : g.index_shape) {
        g.result_shape.push_back(s);
        g.map.strides.push_back(0);
      }
    }
    if (i == whole.size()) break;
    g.result_shape.push_back(self.size(whole[i]));
    g.map.strides.push_back(self.stride(whole[i]));
  }
  if (self.is_meta()) return g;
  int64_t places = count_elements(g.index_shape, op);
  for (int64_t d : indexed) {
    FACULA_CHECK(self.size(d) > 0 || places == 0, ErrorKind::Index, op, ": index is out of bounds for dimension ", d,
                 " with size 0");
  }
  g.map.op = op;
  g.map.target = self;
  if (count_elements(g.result_shape, op) == 0) return g;
  if (indexed.size() == 1) {
    int64_t d = indexed[0];
    g.map.index = spread_int64(indices[d], g.index_shape);
    g.map.step = self.stride(d);
    g.map.size = self.size(d);
    g.map.wraps = true;
  } else {
    fold(g.map, indexed, indices, g.index_shape);
  }
  Dims strides(g.result_shape.size(), 0);
  for (size_t i = 0; i < g.index_shape.size(); ++i) strides[at + i] = g.map.index.stride(static_cast<int64_t>(i));
  g.map.index = make_view(g.map.index, g.result_shape, strides, 0, false);
  return g;
}

void check_values(const Tensor& self, const Tensor& values, const Geometry& g) {
  FACULA_CHECK(self.dtype() == values.dtype(), ErrorKind::Runtime, "index_put: values must have the tensor's dtype ",
               self.dtype(), ", got ", values.dtype());
  FACULA_CHECK(broadcasts_to(values.sizes(), g.result_shape), ErrorKind::Runtime,
               "index_put: shape mismatch: values of shape ", values.sizes(),
               " cannot be broadcast to the indexing result of shape ", g.result_shape);
}

// A flat int64 index against the elements of self in order.
IndexMap flat_map(const Tensor& self, const Tensor& index, const char* op) {
  FACULA_CHECK(index.dtype() == DType::Int64, ErrorKind::Runtime, op, ": the index must be int64, got ", index.dtype());
  FACULA_CHECK(self.numel() > 0 || index.numel() == 0, ErrorKind::Index, op,
               ": nothing can be taken from an empty tensor, got index of shape ", index.sizes());
  IndexMap map;
  map.target = self;
  map.strides = Dims(static_cast<size_t>(index.dim()), 0);
  map.index = index;
  map.size = self.numel();
  map.wraps = true;
  map.op = op;
  return map;
}

}  // namespace

Tensor index(const Tensor& self, TensorList indices) {
  std::vector<Tensor> plain = without_masks(self, indices, "index");
  Geometry g = geometry(self, plain, "index");
  Tensor result = facula::empty(g.result_shape, self.dtype(), self.device());
  if (!self.is_meta() && result.numel()) gather_kernel(self.device(), result, g.map);
  return result;
}

void warn_of_internal_overlap(const Tensor& self, const char* op) {
  bool shared = false;
  for (int64_t i = 0; i < self.dim(); ++i) shared |= self.size(i) > 1 && self.stride(i) == 0;
  if (self.storage()->is_read_only() || !shared) return check_no_internal_overlap(self, op);
  if (!host.warn) return;
  host.warn((std::string(op) +
             ": in expanded tensors, as the written one, elements lie in the same place in memory, where "
             "the last write stays (clone it first)")
                .c_str());
}

void index_put_(const Tensor& self, TensorList indices, const Tensor& given, bool accumulate) {
  const Tensor values = given.dim() == 0 ? moved_to(self, given, "index_put", "a value") : given;
  FACULA_CHECK(values.device() == self.device(), ErrorKind::Runtime,
               "index_put: the tensor and values must be on the same device, got ", self.device(), " and ",
               values.device());
  warn_of_internal_overlap(self, "index_put_");
  std::vector<Tensor> plain = without_masks(self, indices, "index_put");
  Geometry g = geometry(self, plain, "index_put");
  check_values(self, values, g);
  if (self.is_meta() || count_elements(g.result_shape, "index_put") == 0) return;
  Tensor source = values;
  if (values.storage() == self.storage()) source = contiguous_copy(values);
  Tensor expanded =
      make_view(source, g.result_shape, broadcast_strides(source.sizes(), source.strides(), g.result_shape), 0, false);
  scatter_kernel(self.device(), g.map, expanded, accumulate ? Combine::Add : Combine::Assign);
}
Tensor index_put(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate) {
  Tensor result = copy_to_write(self, {});
  index_put_(result, indices, values, accumulate);
  return result;
}

Tensor take(const Tensor& self, const Tensor& index, const Out& out) {
  check_out_apart(out, {&self, &index}, "take");
  IndexMap map = flat_map(self, index, "take");
  Tensor result = out.make(index.sizes(), self.dtype(), self.device());
  if (self.is_meta() || result.numel() == 0) return result;
  map.target = as_contiguous(self);
  gather_kernel(self.device(), result, map);
  return result;
}

void put_(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  if (!accumulate) alert_not_deterministic("put_");
  check_apart(self, index, "put_");
  check_apart(self, source, "put_");
  FACULA_CHECK(self.dtype() == source.dtype(), ErrorKind::Runtime,
               "put: self and source must have the same dtype, got ", self.dtype(), " and ", source.dtype());
  FACULA_CHECK(index.numel() == source.numel(), ErrorKind::Index, "put: source must have one element per index, got ",
               source.numel(), " elements and ", index.numel(), " indices");
  IndexMap map = flat_map(self, index, "put");
  if (self.is_meta() || index.numel() == 0) return;
  Tensor flat = as_contiguous(index), values = as_contiguous(source), target = as_contiguous(self);
  int64_t n = index.numel();
  map.strides = Dims(1, 0);
  map.index = make_view(flat, {n}, {1}, 0, false);
  map.target = target;
  scatter_kernel(self.device(), map, make_view(values, {n}, {1}, 0, false),
                 accumulate ? Combine::Add : Combine::Assign);
  if (!target.is_same(self)) copy_elements(self, target);
}
Tensor put(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  Tensor result = copy_to_write(self, {});
  put_(result, index, source, accumulate);
  return result;
}

}  // namespace facula::ops

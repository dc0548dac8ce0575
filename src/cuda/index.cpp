// Gathering and scattering. What only copies works on elements of any type of their size, and on wider ones where rows
// lie one after the other. Scatters that combine sort the places first: the result does not depend on the order in
// which threads come.
#include "ops/index.h"

#include <bit>

#include "cuda/device.h"
#include "cuda/index_errors.h"
#include "cuda/kernel.h"
#include "cuda/kernels/index_args.h"
#include "cuda/sorting.h"

namespace facula::cuda {
namespace {

using Long = long long;

/// Adds a dimension, joined with the one before where all operands lie evenly.
void add_dim(IndexDims& to, Long size, Long dense, Long index, Long target) {
  if (size == 1) return;
  const int last = to.dims - 1;
  const auto even = [&](const Long* strides, Long stride) { return strides[last] * to.shape[last] == stride; };
  if (last >= 0 && even(to.dense, dense) && even(to.index, index) && even(to.target, target)) {
    to.shape[last] *= size;
    return;
  }
  FACULA_CHECK(to.dims < kMostIndexDims, ErrorKind::NotImplemented, current_op(), ": on CUDA, at most ", kMostIndexDims,
               " dimensions that do not lie evenly, got more");
  to.shape[to.dims] = size;
  to.dense[to.dims] = dense;
  to.index[to.dims] = index;
  to.target[to.dims++] = target;
}

IndexArgs arguments_of(const Tensor& dense, const IndexMap& map) {
  IndexArgs a{};
  for (int64_t d = dense.dim() - 1; d >= 0; --d)
    add_dim(a.all, dense.size(d), dense.stride(d), map.index.stride(d), map.strides[static_cast<size_t>(d)]);
  a.count = dense.numel();
  a.dense = dense.data();
  a.target = map.target.data();
  a.index = static_cast<const Long*>(map.index.data());
  a.step = map.step;
  a.size = map.size;
  a.wraps = map.wraps;
  a.reporter = reporter(dense.device().index, map.op, map.error);
  return a;
}

/// Joins neighbouring elements while rows of them lie one after the other in both operands; the size of what is moved.
int64_t widen(IndexArgs& a, int64_t item) {
  IndexDims& d = a.all;
  if (d.dims == 0 || d.dense[0] != 1 || d.target[0] != 1 || d.index[0] != 0) return item;
  while (item < 16 && d.shape[0] % 2 == 0 && a.step % 2 == 0) {
    const auto next = static_cast<uintptr_t>(2 * item);
    bool fits = reinterpret_cast<uintptr_t>(a.dense) % next == 0 && reinterpret_cast<uintptr_t>(a.target) % next == 0;
    for (int k = 1; k < d.dims; ++k) fits = fits && d.dense[k] % 2 == 0 && d.target[k] % 2 == 0;
    if (!fits) break;
    for (int k = 1; k < d.dims; ++k) d.dense[k] /= 2, d.target[k] /= 2;
    d.shape[0] /= 2;
    a.step /= 2;
    a.count /= 2;
    item *= 2;
  }
  return item;
}

DType counter(int64_t count) { return count <= INT32_MAX ? DType::UInt32 : DType::Int64; }

void move(const DeviceKernel& kernel, const Tensor& dense, const IndexMap& map) {
  if (dense.numel() == 0) return;
  const int device = dense.device().index;
  IndexArgs a = arguments_of(dense, map);
  const int64_t item = widen(a, dense.item_size());
  kernel(device, {bits_of(item), counter(a.count)}, grid_for(device, a.count), a);
}

void gather_cuda(const Tensor& out, const IndexMap& map) {
  static const DeviceKernel kernel{"index.cuh", "gather"};
  move(kernel, out, map);
}

/// One past the largest place that an index can name.
int64_t extent_of(const Tensor& dense, const IndexMap& map) {
  int64_t last = (map.size - 1) * map.step;
  for (int64_t d = 0; d < dense.dim(); ++d) last += (dense.size(d) - 1) * map.strides[static_cast<size_t>(d)];
  return std::max<int64_t>(last, 0) + 1;
}

/// The dimensions along which neither operand repeats a place are rows; the others make keys.
void divide(const Tensor& source, const IndexMap& map, ScatterArgs& s, IndexArgs& keys) {
  s.row = s.count = 1;
  for (int64_t d = source.dim() - 1; d >= 0; --d) {
    const Long size = source.size(d), dense = source.stride(d), index = map.index.stride(d),
               target = map.strides[static_cast<size_t>(d)];
    const bool is_row = index == 0 && target != 0;
    add_dim(is_row ? s.rows : s.keys, size, dense, index, target);
    (is_row ? s.row : s.count) *= size;
  }
  keys.all = s.keys;
  keys.count = s.count;
}

void combine(const IndexMap& map, const Tensor& source, Combine how) {
  static const DeviceKernel make_keys{"index.cuh", "scatter_keys"}, kernel{"index.cuh", "scatter_combine"};
  const Device where = source.device();
  const int device = where.index;
  IndexArgs a = arguments_of(source, map);
  ScatterArgs s{};
  divide(source, map, s, a);
  const int64_t extent = extent_of(source, map);
  const DType key = extent <= UINT32_MAX ? DType::UInt32 : DType::UInt64,
              number = s.count <= UINT32_MAX ? DType::UInt32 : DType::UInt64;
  Sorted keys{facula::empty({s.count}, key, where), facula::empty({s.count}, number, where)};
  make_keys(device, {key, number}, grid_for(device, s.count), a, keys.keys.data(), keys.numbers.data(),
            static_cast<Long>(extent));
  keys = radix_sort(keys, std::bit_width(static_cast<uint64_t>(extent)));
  s.dense = a.dense;
  s.target = a.target;
  s.places = keys.keys.data();
  s.order = keys.numbers.data();
  s.nowhere = extent;
  // many elements for each place: threads share one
  const int group = s.row < 32 && s.count >= 16 * map.size ? 32 : 1;
  kernel(device, {source.dtype(), key, number, static_cast<int>(how), group}, grid_for(device, s.count * s.row * group),
         s);
}

void scatter_cuda(const IndexMap& map, const Tensor& source, Combine how) {
  static const DeviceKernel assign{"index.cuh", "scatter_assign"};
  if (source.numel() == 0) return;
  if (how == Combine::Assign) move(assign, source, map);
  else combine(map, source, how);
}

void fold_index_cuda(const Tensor& table, const Tensor& index, const FoldedIndex& fold) {
  static const DeviceKernel kernel{"index.cuh", "fold_index"};
  const int device = table.device().index;
  kernel(device, {}, grid_for(device, index.numel()), static_cast<Long*>(table.data()),
         static_cast<const Long*>(index.data()), static_cast<Long>(index.numel()), static_cast<Long>(fold.size),
         static_cast<Long>(fold.step), static_cast<Long>(fold.start), reporter(device, fold.op, ErrorKind::Index));
}

}  // namespace

void register_index() {
  gather_kernel.set(DeviceType::CUDA, gather_cuda);
  scatter_kernel.set(DeviceType::CUDA, scatter_cuda);
  fold_index_kernel.set(DeviceType::CUDA, fold_index_cuda);
}

}  // namespace facula::cuda

// Gathering and scattering. What only copies works on elements of any type of their size, and on wider ones where rows
// lie one after the other. Scatters that combine sort the places first: the result does not depend on the order in
// which threads come.
#include "ops/index.h"

#include <algorithm>
#include <bit>
#include <cstdint>

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

/// Joins neighboring elements while rows of them lie one after the other in both operands; the size of what is moved.
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

/// How many neighbors of the innermost dimension a thread takes at once: they lie side by side in the dense operand
/// and in the index.
int64_t neighbors(const IndexArgs& a, int64_t item) {
  const IndexDims& d = a.all;
  if (d.dims == 0 || d.dense[0] != 1 || d.index[0] != 1) return 1;
  for (int64_t n = std::min<int64_t>(8, 32 / item); n > 1; n /= 2) {
    const int64_t together = std::min<int64_t>(n, 16 / item);  // elements of an access
    bool fits = d.shape[0] % n == 0 && reinterpret_cast<uintptr_t>(a.index) % 16 == 0 &&
                reinterpret_cast<uintptr_t>(a.dense) % static_cast<uintptr_t>(together * item) == 0;
    for (int k = 1; k < d.dims; ++k) fits = fits && d.dense[k] % together == 0 && d.index[k] % 2 == 0;
    if (fits) return n;
  }
  return 1;
}

/// Launches the kernel of few dimensions, unless these or sizes are too many for it.
bool move_neighbors(const IndexArgs& a, int64_t item, bool gathers, int device) {
  static const DeviceKernel kernel{"index.cuh", "move_places"};
  const int64_t many = neighbors(a, item);
  const IndexDims& d = a.all;
  bool fits = d.dims <= kMostPlaceDims && a.count / many <= INT32_MAX && a.size <= UINT32_MAX;
  for (const void* at : {static_cast<const void*>(a.dense), static_cast<const void*>(a.target)})
    fits = fits && reinterpret_cast<uintptr_t>(at) % static_cast<uintptr_t>(item) == 0;
  const auto small = [&](Long n) {
    fits = fits && n >= 0 && n <= UINT32_MAX;
    return static_cast<unsigned>(n);
  };
  PlaceArgs p{};
  p.threads = static_cast<unsigned>(a.count / many);
  p.size = small(a.size);
  p.step = small(a.step * item);
  p.beside = small(many > 1 ? d.target[0] * item : 0);
  for (int k = 0; k < d.dims && fits; ++k) {
    const int64_t units = k == 0 ? many : 1;
    p.shape[k] = fast_division(static_cast<unsigned>(d.shape[k] / units));
    p.dense[k] = small(d.dense[k] * units);
    p.index[k] = small(d.index[k] * units);
    p.target[k] = small(d.target[k] * units);
  }
  if (!fits) return false;
  p.of_dense = a.dense, p.of_target = a.target, p.of_index = a.index;
  p.reporter = a.reporter;
  kernel(device, {bits_of(item), static_cast<int>(many), std::max(d.dims, 1), a.wraps, p.beside != 0, gathers},
         {256, (p.threads + int64_t{255}) / 256}, p);
  return true;
}

void move(const DeviceKernel& kernel, const Tensor& dense, const IndexMap& map, bool gathers) {
  if (dense.numel() == 0) return;
  const int device = dense.device().index;
  IndexArgs a = arguments_of(dense, map);
  const int64_t item = widen(a, dense.item_size());
  if (!move_neighbors(a, item, gathers, device))
    kernel(device, {bits_of(item), counter(a.count)}, grid_for(device, a.count), a);
}

void gather_cuda(const Tensor& out, const IndexMap& map) {
  static const DeviceKernel kernel{"index.cuh", "gather"};
  move(kernel, out, map, true);
}

/// One past the largest place that an index can name.
int64_t extent_of(const Tensor& dense, const IndexMap& map) {
  int64_t last = (map.size - 1) * map.step;
  for (int64_t d = 0; d < dense.dim(); ++d) last += (dense.size(d) - 1) * map.strides[static_cast<size_t>(d)];
  return std::max<int64_t>(last, 0) + 1;
}

/// The dimensions along which neither operand repeats a place are rows; the others make keys.
struct Divided {
  IndexArgs keys;
  IndexDims rows{}, lie{};  // lie: how keys lie in the source
  int64_t row = 1;          // elements of a row
};
Divided divide(const Tensor& source, const IndexMap& map) {
  Divided made{arguments_of(source, map)};
  made.keys.all = {};
  made.keys.count = 1;
  for (int64_t d = source.dim() - 1; d >= 0; --d) {
    const Long size = source.size(d), dense = source.stride(d), index = map.index.stride(d),
               target = map.strides[static_cast<size_t>(d)];
    if (index == 0 && target != 0) {
      add_dim(made.rows, size, dense, index, target);
      made.row *= size;
    } else {
      add_dim(made.keys.all, size, dense, index, target);
      add_dim(made.lie, size, dense, 0, 0);
      made.keys.count *= size;
    }
  }
  return made;
}

/// How many neighbors of a row are one access in both operands, wherever a key lies.
int row_vector(const Divided& d, int64_t item) {
  if (d.rows.dims == 0 || d.rows.dense[0] != 1 || d.rows.target[0] != 1) return 1;
  int64_t n = 1;
  const auto fits = [&](int64_t more) {
    bool all = d.rows.shape[0] % more == 0 && d.keys.step % more == 0;
    for (const void* at : {d.keys.dense, d.keys.target})
      all = all && reinterpret_cast<uintptr_t>(at) % static_cast<uintptr_t>(more * item) == 0;
    for (int k = 1; k < d.rows.dims; ++k) all = all && d.rows.dense[k] % more == 0 && d.rows.target[k] % more == 0;
    for (int k = 0; k < d.keys.all.dims; ++k)
      all = all && d.keys.all.dense[k] % more == 0 && d.keys.all.target[k] % more == 0;
    return all;
  };
  while (n < 8 && 2 * n * item <= 16 && fits(2 * n)) n *= 2;
  return static_cast<int>(n);
}

/// Queues the sums of runs of sorted keys and then, as long as runs reach from part to part, of what is left of those.
void combine_sorted(SegmentArgs s, const Sorted& keys, DType dtype, int how, int vector, Device where) {
  static const DeviceKernel kernel{"index_segments.cuh", "combine_segments"};
  enum { kEvenRows, kAnyRows, kEdges };
  constexpr int64_t kShortest = 8, kLongest = 32;
  const DType key = keys.keys.dtype(), number = keys.numbers.dtype(), wide = compute_dtype(dtype);
  const Properties& device = properties(where.index);
  const int64_t room = int64_t{device.multiprocessors} * device.threads_per_multiprocessor, vectors = s.vectors.by;
  Tensor edges, edge_places;
  for (int source = s.keys.dims <= 1 ? kEvenRows : kAnyRows;; source = kEdges) {
    s.part = kLongest;
    while (source != kEdges && s.part > kShortest && s.count / s.part * vectors < room) s.part /= 2;
    while ((s.count / s.part + 1) * vectors > INT32_MAX) s.part *= 2;
    const int64_t parts = (s.count + s.part - 1) / s.part;
    s.threads = static_cast<unsigned>(parts * vectors);
    const Tensor read = edges, read_places = edge_places;  // until the kernel is queued
    if (parts > 1) {
      edges = facula::empty({2 * parts * vectors * vector}, wide, where);
      edge_places = facula::empty({2 * parts}, key, where);
    }
    s.edges = parts > 1 ? edges.data() : nullptr;
    s.edge_places = parts > 1 ? edge_places.data() : nullptr;
    kernel(where.index, {source == kEdges ? wide : dtype, dtype, key, number, how, vector, source},
           {256, (s.threads + int64_t{255}) / 256}, s);
    if (parts == 1) return;
    s.count = 2 * parts;
    s.places = s.edge_places;
    s.order = nullptr;
    s.dense = s.edges;
    s.keys.dims = 1;
    s.keys.dense[0] = vectors * vector;
  }
}

void combine(const IndexMap& map, const Tensor& source, Combine how) {
  static const DeviceKernel make_keys{"index.cuh", "scatter_keys"};
  const Device where = source.device();
  const Divided d = divide(source, map);
  const int64_t extent = extent_of(source, map), count = d.keys.count;
  const DType key = extent <= UINT32_MAX ? DType::UInt32 : DType::UInt64,
              number = count <= UINT32_MAX ? DType::UInt32 : DType::UInt64;
  Sorted keys{facula::empty({count}, key, where), facula::empty({count}, number, where)};
  make_keys(where.index, {key, number}, grid_for(where.index, count), d.keys, keys.keys.data(), keys.numbers.data(),
            static_cast<Long>(extent));
  keys = radix_sort(keys, std::bit_width(static_cast<uint64_t>(extent)));
  SegmentArgs s{};
  s.rows = d.rows;
  s.keys = d.lie;
  s.count = count;
  s.places = keys.keys.data();
  s.order = keys.numbers.data();
  s.dense = d.keys.dense;
  s.target = d.keys.target;
  s.nowhere = extent;
  const int vector = row_vector(d, source.item_size());
  constexpr int64_t kMostVectors = int64_t{1} << 30;  // of a launch
  for (s.first_vector = 0; s.first_vector < d.row / vector; s.first_vector += kMostVectors) {
    s.vectors = fast_division(static_cast<unsigned>(std::min<int64_t>(d.row / vector - s.first_vector, kMostVectors)));
    combine_sorted(s, keys, source.dtype(), static_cast<int>(how), vector, where);
  }
}

void scatter_cuda(const IndexMap& map, const Tensor& source, Combine how) {
  static const DeviceKernel assign{"index.cuh", "scatter_assign"};
  if (source.numel() == 0) return;
  if (how == Combine::Assign) move(assign, source, map, false);
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

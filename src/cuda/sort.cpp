// Sorting: rows that fit into shared memory by one block each, longer ones by digits of 8 bits.
#include "ops/sort.h"

#include "cuda/index_errors.h"
#include "cuda/kernels/sort_args.h"
#include "cuda/lines.h"
#include "cuda/sort.h"
#include "cuda/sorting.h"

namespace facula::cuda {
namespace {

constexpr DeviceKernel kSortShort{"sort.cuh", "sort_short"};
constexpr DeviceKernel kSortKeys{"sort.cuh", "sort_keys"};
constexpr DeviceKernel kGatherSorted{"sort.cuh", "gather_sorted"};
constexpr DeviceKernel kSearch{"sort.cuh", "searchsorted"};

constexpr int64_t kShort = 2048;  // elements

void sort_short(const SortArgs& s, DType dtype, int device) {
  int padded = 32;
  while (padded < s.n) padded *= 2;
  Grid grid = line_grid(device, s.rows, 8);
  grid.threads = static_cast<unsigned>(std::clamp(padded / 2, 32, 256));
  grid.shared_bytes = static_cast<unsigned>(padded * (4 + item_size(dtype)));
  kSortShort(device, {dtype}, grid, s, padded);
}

void sort_long(const SortArgs& s, const Tensor& values) {
  const int device = values.device().index;
  const DType keys = bits_of(values.item_size()), positions = s.n <= UINT32_MAX ? DType::UInt32 : DType::UInt64;
  const Grid grid = grid_for(device, s.rows * s.n);
  Sorted sorted{facula::empty(values.sizes(), keys, values.device()),
                facula::empty(values.sizes(), positions, values.device())};
  kSortKeys(device, {values.dtype(), positions}, grid, s, sorted.keys.data(), sorted.numbers.data());
  sorted = radix_sort(sorted, 8 * static_cast<int>(item_size(keys)));
  const Tensor before = ops::contiguous_copy(values);
  kGatherSorted(device, {values.dtype(), positions}, grid, s, static_cast<const void*>(before.data()),
                static_cast<const void*>(sorted.numbers.data()));
}

void topk_cuda(const Tensor& values, const Tensor& indices, const Tensor& in, bool largest) {
  if (values.numel() == 0) return;
  const int64_t rows = in.size(0), n = in.size(1), k = values.size(1);
  const Tensor sorted = ops::contiguous_copy(in), order = facula::empty({rows, n}, DType::Int64, in.device());
  sort_rows(sorted, order, largest);
  copy_elements(values, make_view(sorted, {rows, k}, {n, 1}, 0, false));
  copy_elements(indices, make_view(order, {rows, k}, {n, 1}, 0, false));
}

void kthvalue_cuda(const Tensor& values, const Tensor& indices, const Tensor& in, int64_t k) {
  if (values.numel() == 0) return;
  const int64_t rows = in.size(0), n = in.size(1);
  const Tensor sorted = ops::contiguous_copy(in), order = facula::empty({rows, n}, DType::Int64, in.device());
  sort_rows(sorted, order, false);
  copy_elements(values, make_view(sorted, {rows, 1}, {n, 1}, k, false));
  copy_elements(indices, make_view(order, {rows, 1}, {n, 1}, k, false));
}

void searchsorted_cuda(const Tensor& out, const Tensor& sequence, const Tensor& values, const Tensor& sorter,
                       bool right) {
  if (out.numel() == 0) return;
  const int device = out.device().index;
  const long long count = values.numel(), m = values.size(1), n = sequence.size(1),
                  step = sequence.size(0) == 1 ? 0 : n;
  const void* order = sorter.defined() ? sorter.data() : nullptr;
  kSearch(
      device, {right, values.dtype(), out.dtype()}, grid_for(device, count), count, m, n, step, sequence.data(),
      values.data(), order, out.data(),
      reporter(device, "searchsorted", ErrorKind::Runtime, "the sorter's entries must be positions in the sequence"));
}

}  // namespace

void sort_rows(const Tensor& values, const Tensor& indices, bool descending) {
  if (values.numel() == 0) return;
  const SortArgs s{values.size(0), values.size(1), values.data(),
                   indices.defined() ? reinterpret_cast<long long*>(indices.data<int64_t>()) : nullptr, descending};
  if (s.n <= kShort) sort_short(s, values.dtype(), values.device().index);
  else sort_long(s, values);
}

void register_sort() {
  constexpr auto cuda = DeviceType::CUDA;
  sort_kernel.set(cuda, sort_rows);
  topk_kernel.set(cuda, topk_cuda);
  kthvalue_kernel.set(cuda, kthvalue_cuda);
  searchsorted_kernel.set(cuda, searchsorted_cuda);
}

}  // namespace facula::cuda

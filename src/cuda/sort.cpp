// Sorting: rows that fit into shared memory by one block each, longer ones by digits of 8 bits. The first elements of
// long rows are selected before they are sorted.
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
constexpr DeviceKernel kSelectFirst{"sort.cuh", "select_first"};
constexpr DeviceKernel kNamePlaces{"sort.cuh", "name_places"};
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

/// Whether it is quicker to select the first k elements of rows than to sort them: long rows, and enough of them, since
/// each is one block's.
bool is_selected(int64_t rows, int64_t n, int64_t k, int device) {
  return n > kShort && k <= n / 8 && (n <= 1 << 16 || rows >= properties(device).multiprocessors);
}

/// Sorted rows' first k elements, or only the last of them, with their places; the results are (rows, k) or (rows, 1).
struct First {
  Tensor values, places;

  First(const Tensor& in, int64_t k, bool last, bool descending) {
    const int device = in.device().index;
    const long long rows = in.size(0), n = in.size(1), wide = last ? 1 : k;
    if (is_selected(rows, n, k, device)) {
      make(rows, wide, in);
      const SortArgs s{rows, n, values.data(), longs(places), descending};
      kSelectFirst(device, {in.dtype(), last}, line_grid(device, rows, 8), s, static_cast<long long>(k),
                   static_cast<const void*>(in.data()), n);
      if (!last) sort(device, wide, descending);
      return;
    }
    make(rows, n, in);
    copy_elements(values, in);
    sort_rows(values, places, descending);
    values = make_view(values, {rows, wide}, {n, 1}, k - wide, false);
    places = make_view(places, {rows, wide}, {n, 1}, k - wide, false);
  }

 private:
  static long long* longs(const Tensor& t) { return reinterpret_cast<long long*>(t.data<int64_t>()); }
  void make(int64_t rows, int64_t n, const Tensor& like) {
    values = facula::empty({rows, n}, like.dtype(), like.device());
    places = facula::empty({rows, n}, DType::Int64, like.device());
  }
  void sort(int device, long long k, bool descending) {
    const Tensor order = facula::empty(places.sizes(), DType::Int64, places.device());
    sort_rows(values, order, descending);
    kNamePlaces(device, {}, grid_for(device, order.numel()), static_cast<long long>(order.numel()), k,
                static_cast<const long long*>(longs(places)), longs(order));
    places = order;
  }
};

void topk_cuda(const Tensor& values, const Tensor& indices, const Tensor& in, bool largest) {
  if (values.numel() == 0) return;
  const First found(ops::as_contiguous(in), values.size(1), false, largest);
  copy_elements(values, found.values);
  copy_elements(indices, found.places);
}

void kthvalue_cuda(const Tensor& values, const Tensor& indices, const Tensor& in, int64_t k) {
  if (values.numel() == 0) return;
  const First found(ops::as_contiguous(in), k + 1, true, false);
  copy_elements(values, found.values);
  copy_elements(indices, found.places);
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

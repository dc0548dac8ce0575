// Histograms, and distinct elements by sorting.
#include "ops/histogram.h"

#include "cuda/kernels/histogram_args.h"
#include "cuda/lines.h"
#include "cuda/scan.h"
#include "cuda/sort.h"

namespace facula::cuda {
namespace {

constexpr DeviceKernel kCount{"histogram.cuh", "count_integers"};
constexpr DeviceKernel kLastCount{"histogram.cuh", "last_count"};
constexpr DeviceKernel kSumWeights{"histogram.cuh", "sum_weights"};
constexpr DeviceKernel kHistc{"histogram.cuh", "histc"};
constexpr DeviceKernel kEdgePlaces{"histogram.cuh", "edge_places"};
constexpr DeviceKernel kNumberSlices{"histogram.cuh", "number_slices"};
constexpr DeviceKernel kMergeSlices{"histogram.cuh", "merge_slices"};
constexpr DeviceKernel kMarkStarts{"histogram.cuh", "mark_starts"};
constexpr DeviceKernel kFindGroups{"histogram.cuh", "find_groups"};
constexpr DeviceKernel kGroupSizes{"histogram.cuh", "group_sizes"};
constexpr DeviceKernel kKeepFirst{"histogram.cuh", "keep_first"};
constexpr DeviceKernel kIsAmong{"histogram.cuh", "is_among"};

constexpr int64_t kMostShared = 8192;  // counters of a block

long long* numbers(const Tensor& t) { return t.defined() ? reinterpret_cast<long long*>(t.data<int64_t>()) : nullptr; }
Tensor integers(IntList sizes, Device device) { return facula::empty(sizes, DType::Int64, device); }

/// What a count finds: whether an element is outside, and a result.
Tensor nothing_found(Device device) {
  const Tensor found = integers({2}, device);
  fill_kernel(device, found, Scalar(int64_t{0}));
  return found;
}

/// Few blocks where each has counters of its own to write.
Grid count_grid(int device, int64_t n, int64_t kinds) {
  Grid grid = grid_for(device, n);
  if (kinds > kMostShared) return grid;
  grid.x = std::min<int64_t>(grid.x, int64_t{properties(device).multiprocessors} * 2);
  grid.shared_bytes = static_cast<unsigned>(4 * kinds);
  return grid;
}

/// Integers outside of the counts are left out; found[0] says whether there are any.
void count_into(const Tensor& counts, const Tensor& self, const Tensor& found) {
  const int device = self.device().index;
  const long long n = self.numel(), kinds = counts.numel();
  if (n == 0 || kinds == 0) return;
  kCount(device, {kinds <= kMostShared}, count_grid(device, n, kinds), n, numbers(self), kinds, numbers(counts),
         numbers(found));
}

/// Sums of the weights of equal integers; what has no place in `out` is left out.
void sum_weights(const Tensor& out, const Tensor& self, const Tensor& weights) {
  if (out.numel() == 0) return;
  const int device = self.device().index;
  const long long n = self.numel(), kinds = out.numel();
  const Tensor sorted = ops::contiguous_copy(self, {1, n}, DType::Int64), order = integers({1, n}, self.device());
  sort_rows(sorted, order, false);
  kSumWeights(device, {out.dtype()}, line_grid(device, kinds, 1), n, numbers(sorted), numbers(order), weights.data(),
              kinds, out.data());
}

void bincount_cuda(const Tensor& out, const Tensor& self, const Tensor& weights) {
  if (weights.defined()) return sum_weights(out, self, weights);
  count_into(out, self, nothing_found(self.device()));
}

int64_t item_of(const Tensor& vector, int64_t place) { return make_view(vector, {}, {}, place, false).item().to_int(); }

int64_t count_few_cuda(const Tensor& counts, const Tensor& self) {
  const int device = self.device().index;
  const Tensor found = nothing_found(self.device());
  count_into(counts, self, found);
  kLastCount(device, {}, Grid{256, 1}, static_cast<long long>(counts.numel()), numbers(counts), numbers(found));
  return item_of(found, 1);
}

void histc_cuda(const Tensor& out, const Tensor& self, double low, double high) {
  const int device = self.device().index;
  const long long n = self.numel(), bins = out.numel();
  if (n == 0) return;
  kHistc(device, {self.dtype(), bins <= kMostShared}, count_grid(device, n, bins), n, self.data(), bins, low, high,
         out.data());
}

void histogramdd_cuda(const Tensor& out, const Tensor& self, TensorList edges, const Tensor& weight) {
  if (out.numel() == 0 || self.size(0) == 0) return;
  FACULA_CHECK(self.size(1) <= kMostEdges, ErrorKind::NotImplemented, "histogramdd: on CUDA, at most ", kMostEdges,
               " coordinates, got ", self.size(1));
  const int device = self.device().index;
  const Tensor places = integers({self.size(0)}, self.device());
  EdgeArgs p{};
  p.points = self.size(0);
  p.coordinates = self.size(1);
  p.self = self.data();
  p.places = numbers(places);
  for (size_t d = 0; d < edges.size(); ++d) {
    p.edges[d] = edges[d].data();
    p.edge_count[d] = edges[d].numel();
  }
  kEdgePlaces(device, {self.dtype()}, grid_for(device, p.points), p);
  sum_weights(out, places, weight);
}

// ---- distinct elements

/// Slices in order, by merging runs that double in length.
Tensor order_of(const Tensor& slices) {
  const int device = slices.device().index;
  const long long n = slices.size(0), width = slices.size(1);
  Tensor order = integers({n}, slices.device()), merged = integers({n}, slices.device());
  kNumberSlices(device, {}, grid_for(device, n), n, numbers(order));
  for (long long run = 1; run < n; run *= 2, std::swap(order, merged))
    kMergeSlices(device, {slices.dtype()}, grid_for(device, n), n, width, run, slices.data(),
                 static_cast<const long long*>(numbers(order)), numbers(merged));
  return order;
}

/// For each slice, in the order, the number of its group, from 1 on.
Tensor number_groups(const Tensor& slices, const Tensor& order) {
  const int device = slices.device().index;
  const long long n = slices.size(0), width = slices.size(1);
  const Tensor groups = integers({1, n}, slices.device());
  kMarkStarts(device, {slices.dtype()}, grid_for(device, n), n, width, slices.data(), numbers(order), numbers(groups));
  running_sum(groups);
  return groups;
}

int64_t distinct_cuda(const Tensor& self, bool runs, const Tensor& inverse, const Tensor& first, const Tensor& counts) {
  const int device = self.device().index;
  const long long n = self.size(0);
  if (n == 0) return 0;
  Tensor order;
  if (!runs && self.size(1) == 1) {
    order = integers({1, n}, self.device());
    sort_rows(ops::contiguous_copy(make_view(self, {1, n}, {n, 1}, 0, false)), order, false);
  } else if (!runs) {
    order = order_of(self);
  }
  const Tensor groups = number_groups(self, order), starts = integers({n}, self.device());
  kFindGroups(device, {}, grid_for(device, n), n, numbers(groups), numbers(order), numbers(starts), numbers(first),
              numbers(inverse));
  kGroupSizes(device, {}, grid_for(device, n), n, numbers(groups), numbers(starts), numbers(counts));
  return item_of(groups, n - 1);
}

int64_t distinct_values_cuda(const Tensor& out, const Tensor& values) {
  const int device = values.device().index;
  const long long n = values.numel();
  if (n == 0) return 0;
  const Tensor groups = number_groups(make_view(values, {n, 1}, {1, 1}, 0, false), Tensor());
  const Tensor copied = ops::contiguous_copy(values);  // `out` may be the vector
  kKeepFirst(device, {values.dtype()}, grid_for(device, n), n, numbers(groups), copied.data(), out.data());
  return item_of(groups, n - 1);
}

void isin_cuda(const Tensor& out, const Tensor& self, const Tensor& among, bool invert) {
  if (out.numel() == 0) return;
  const int device = self.device().index;
  const long long n = self.numel(), count = among.numel();
  const Tensor sorted = facula::empty({1, count}, among.dtype(), among.device());
  copy_elements(sorted, make_view(among, {1, count}, {count, 1}, 0, false));
  sort_rows(sorted, Tensor(), false);
  kIsAmong(device, {self.dtype()}, grid_for(device, n), n, self.data(), count, sorted.data(), invert, out.data<bool>());
}

}  // namespace

void register_histogram() {
  constexpr auto cuda = DeviceType::CUDA;
  bincount_kernel.set(cuda, bincount_cuda);
  count_few_kernel.set(cuda, count_few_cuda);
  histc_kernel.set(cuda, histc_cuda);
  histogramdd_kernel.set(cuda, histogramdd_cuda);
  distinct_kernel.set(cuda, distinct_cuda);
  distinct_values_kernel.set(cuda, distinct_values_cuda);
  isin_kernel.set(cuda, isin_cuda);
}

}  // namespace facula::cuda

// Medians and most frequent elements by sorting.
#include "cuda/lines.h"
#include "cuda/sort.h"
#include "ops/reduce.h"

namespace facula::cuda {
namespace {

constexpr DeviceKernel kMedian{"median.cuh", "median"};
constexpr DeviceKernel kMode{"median.cuh", "mode"};

long long* places(const Tensor& t) { return reinterpret_cast<long long*>(t.data<int64_t>()); }

/// Lines as sorted rows, and where their elements were.
struct SortedLines {
  Tensor values, order;
  int64_t rows = 1, n = 1;

  SortedLines(DType compute, int64_t dim, const Tensor& in) {
    Dims sizes, strides;
    for (int64_t d = 0; d < in.dim(); ++d) {
      if (d == dim) continue;
      sizes.push_back(in.size(d));
      strides.push_back(in.stride(d));
      rows *= in.size(d);
    }
    if (in.dim()) {
      n = in.size(dim);
      sizes.push_back(n);
      strides.push_back(in.stride(dim));
    }
    const Tensor moved = make_view(in, sizes, strides, 0, false);
    values = make_view(ops::contiguous_copy(moved, sizes, compute), {rows, n}, {n, 1}, 0, false);
    order = facula::empty({rows, n}, DType::Int64, in.device());
    sort_rows(values, order, false);
  }
};

template <bool ignore_nan>
void median_cuda(DType compute, int64_t dim, const Tensor& in, const Tensor& values, const Tensor& positions) {
  if (values.numel() == 0) return;
  const SortedLines s(compute, dim, in);
  const int device = in.device().index;
  kMedian(device, {ignore_nan, compute, values.dtype()}, grid_for(device, s.rows), static_cast<long long>(s.rows),
          static_cast<long long>(s.n), s.values.data(), places(s.order), values.data(), places(positions));
}

void mode_cuda(DType compute, int64_t dim, const Tensor& in, const Tensor& values, const Tensor& positions) {
  if (values.numel() == 0) return;
  const SortedLines s(compute, dim, in);
  const int device = in.device().index;
  kMode(device, {compute, values.dtype()}, line_grid(device, s.rows, 8), static_cast<long long>(s.rows),
        static_cast<long long>(s.n), s.values.data(), places(s.order), values.data(), places(positions));
}

}  // namespace

void register_reduce_dim() {
  constexpr auto cuda = DeviceType::CUDA;
  median_kernel.set(cuda, median_cuda<false>);
  nanmedian_kernel.set(cuda, median_cuda<true>);
  mode_kernel.set(cuda, mode_cuda);
}

}  // namespace facula::cuda

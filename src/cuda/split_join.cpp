// Repeating and padding.
#include "ops/split_join.h"

#include <limits>

#include "cuda/index_errors.h"
#include "cuda/kernel.h"
#include "cuda/kernels/split_join_args.h"
#include "cuda/sorting.h"

namespace facula::cuda {
namespace {

using Long = long long;

/// The sums of the counts before each, which are checked.
Tensor checked_offsets(const Tensor& counts) {
  static const DeviceKernel check{"split_join.cuh", "check_counts"};
  const int device = counts.device().index;
  const int64_t n = counts.numel();
  check(device, {}, grid_for(device, n), static_cast<const Long*>(counts.data()), static_cast<Long>(n),
        static_cast<Long>(std::numeric_limits<int64_t>::max() / std::max<int64_t>(n, 1)),
        reporter(device, "repeat_interleave", ErrorKind::Runtime,
                 "repeats must not be negative, nor so large that their sum leaves 64 bits"));
  return offsets_of(counts);
}

int64_t repeat_total_cuda(const Tensor& counts) { return counts.numel() ? read_last(checked_offsets(counts)) : 0; }

void repeat_positions_cuda(const Tensor& positions, const Tensor& counts) {
  static const DeviceKernel kernel{"split_join.cuh", "repeat_positions"};
  const int device = positions.device().index;
  const int64_t total = positions.numel();
  const Tensor starts = checked_offsets(counts);
  kernel(device, {}, grid_for(device, std::max<int64_t>(total, 1)), static_cast<Long*>(positions.data()),
         static_cast<Long>(total), static_cast<const Long*>(starts.data()), static_cast<Long>(counts.numel()),
         reporter(device, "repeat_interleave", ErrorKind::Runtime, "output_size must be the sum of repeats"));
}

PadArgs arguments_of(const Tensor& to, const Tensor& from, const EdgePad& geometry) {
  PadArgs g{to.numel(), from.data(), to.data(), geometry.inner, {}};
  for (size_t k = 0; k < 3; ++k) {
    const EdgeAxis& a = geometry.axes[k];
    g.axes[k] = {a.in, a.out, a.first, a.length, a.lead, static_cast<int>(a.mode)};
  }
  return g;
}

void pad_edges_cuda(const Tensor& out, const Tensor& in, const EdgePad& geometry) {
  static const DeviceKernel kernel{"split_join.cuh", "pad_edges"};
  const int device = out.device().index;
  kernel(device, {bits_of(out.item_size())}, grid_for(device, out.numel()), arguments_of(out, in, geometry));
}

void add_edges_cuda(const Tensor& out, const Tensor& grad, const EdgePad& geometry) {
  static const DeviceKernel kernel{"split_join.cuh", "add_edges"};
  const int device = out.device().index;
  kernel(device, {out.dtype()}, grid_for(device, out.numel()), arguments_of(out, grad, geometry));
}

}  // namespace

void register_split_join() {
  constexpr auto cuda = DeviceType::CUDA;
  repeat_total_kernel.set(cuda, repeat_total_cuda);
  repeat_positions_kernel.set(cuda, repeat_positions_cuda);
  pad_edges_kernel.set(cuda, pad_edges_cuda);
  add_edges_kernel.set(cuda, add_edges_cuda);
}

}  // namespace facula::cuda

// Joining, repeating and padding.
#include "ops/split_join.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "cuda/index_errors.h"
#include "cuda/kernel.h"
#include "cuda/kernels/split_join_args.h"
#include "cuda/sorting.h"

namespace facula::cuda {
namespace {

using Long = long long;

constexpr DeviceKernel kJoin{"split_join.cuh", "join"};

/// What all rows and addresses are multiples of, in bytes: at most 16.
uint64_t unit_of(const Tensor& out, TensorList parts, int64_t outer) {
  uint64_t all = 16 | reinterpret_cast<uintptr_t>(out.data());
  for (const Tensor& t : parts)
    all |= reinterpret_cast<uintptr_t>(t.data()) | static_cast<uint64_t>(t.numel() / outer * t.item_size());
  return uint64_t{1} << std::countr_zero(all);
}

/// Up to kMost parts of a row, from place `at` of it on; the place behind them.
template <int kMost>
int64_t join_some(const Tensor& out, TensorList parts, int64_t outer, int64_t unit, int64_t at) {
  JoinArgs<kMost> args;
  args.outer = outer;
  args.row = out.numel() / outer * out.item_size() / unit;
  args.to = out.data();
  int64_t count = 0, longest = 0;
  for (const Tensor& t : parts) {
    const int64_t row = t.numel() / outer * t.item_size() / unit;
    if (row == 0) continue;
    args.parts[count++] = {t.data(), row, at};
    longest = std::max(longest, row);
    at += row;
  }
  Grid grid = grid_for(out.device().index, outer * longest);
  grid.y = count;
  kJoin(out.device().index, {bits_of(unit), kMost}, grid, args);
  return at;
}

void join_cuda(const Tensor& out, TensorList parts, int64_t outer) {
  constexpr size_t kFew = 8, kMany = 64;
  const auto unit = static_cast<int64_t>(unit_of(out, parts, outer));
  if (parts.size() <= kFew) {
    join_some<kFew>(out, parts, outer, unit, 0);
    return;
  }
  int64_t at = 0;
  for (size_t from = 0; from < parts.size(); from += kMany) {
    const TensorList some(parts.begin() + from, std::min(kMany, parts.size() - from));
    at = join_some<kMany>(out, some, outer, unit, at);
  }
}

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
  join_kernel.set(cuda, join_cuda);
  repeat_total_kernel.set(cuda, repeat_total_cuda);
  repeat_positions_kernel.set(cuda, repeat_positions_cuda);
  pad_edges_kernel.set(cuda, pad_edges_cuda);
  add_edges_kernel.set(cuda, add_edges_cuda);
}

}  // namespace facula::cuda

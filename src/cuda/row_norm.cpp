// Normalizations of rows.
#include "cuda/kernels/row_norm_args.h"
#include "cuda/lines.h"
#include "ops/norm.h"

namespace facula::cuda {
namespace {

/// The kernels for rows that registers hold, and for longer ones.
struct RowKernels {
  DeviceKernel row, long_row;
};
constexpr RowKernels kForward{{"row_norm.cuh", "row_norm"}, {"row_norm.cuh", "row_norm_long"}};
constexpr RowKernels kBackward{{"row_norm.cuh", "row_norm_backward"}, {"row_norm.cuh", "row_norm_long_backward"}};
constexpr DeviceKernel kSumsOfColumns{"row_norm.cuh", "row_sums_of_columns"};
constexpr DeviceKernel kSumsOfChannels{"row_norm.cuh", "row_sums_of_channels"};
constexpr DeviceKernel kMergeSums{"row_norm.cuh", "merge_row_sums"};

const void* data_or_null(const Tensor& t) { return t.defined() ? t.data() : nullptr; }

RowArgs row_args(const Tensor& self, const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                 const RowLayout& layout) {
  RowArgs p{};
  p.rows = layout.rows;
  p.groups = layout.groups;
  p.channels = layout.channels;
  p.inner = layout.inner;
  if (layout.inner > 0 && layout.length() <= INT32_MAX) p.by_inner = fast_division(static_cast<unsigned>(layout.inner));
  p.self = self.data();
  p.weight = data_or_null(weight);
  p.mean = mean.data();
  p.rstd = rstd.data();
  return p;
}

void run_rows(const RowKernels& kernels, const Tensor& self, DType compute, const RowArgs& p, bool centered) {
  if (p.rows == 0) return;
  const int device = self.device().index;
  const DType dtype = self.dtype();
  const int64_t n = p.channels * p.inner;
  RowShare share = row_share(n, dtype, {p.self, p.grad ? p.grad : p.self, p.out}, p.grad != nullptr);
  int form = (centered ? kCentered : 0) | (p.weight ? kHasWeight : 0) | (p.bias ? kHasBias : 0);
  if (p.inner > 1) form |= p.inner % row_vector(dtype) == 0 ? kOfVectors : kOfNeighbors;
  else share.whole = share.whole && begins_vector(p.weight, compute) && begins_vector(p.bias, compute);
  if (share.held) {
    if (share.whole) form |= kWholeRows;
    kernels.row(device, {dtype, share.warps, share.held, form}, line_grid(device, p.rows, share.warps), p);
  } else {
    const int wide = share.whole ? static_cast<int>(row_vector(dtype)) : 1;
    kernels.long_row(device, {dtype, wide, form | kWholeRows}, line_grid(device, p.rows, 8), p);
  }
}

void row_norm_cuda(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& self, const Tensor& weight,
                   const Tensor& bias, const RowLayout& layout, double eps, bool center) {
  RowArgs p = row_args(self, weight, mean, rstd, layout);
  p.bias = data_or_null(bias);
  p.eps = eps;
  p.out = out.data();
  run_rows(kForward, self, rstd.dtype(), p, center);
}

// ---- gradients of weights and biases

int64_t quotient_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

/// Into how many parts samples are divided, each of `least` of them or more, so that there are so many blocks.
int64_t sample_parts(int64_t samples, int64_t least, int64_t blocks, int64_t wanted) {
  constexpr int64_t kMostParts = 1024;
  return std::clamp<int64_t>(std::min(wanted / std::max<int64_t>(blocks, 1), samples / least), 1, kMostParts);
}

/// How a kernel for them is launched: `blocks` for each part.
struct SumsLaunch {
  const DeviceKernel& kernel;
  int wide;
  int64_t blocks, parts;
};
SumsLaunch sums_launch(const RowSumArgs& p, DType dtype, int device) {
  constexpr int64_t kColumns = 32, kRowsAtOnce = 32, kChannels = 8;  // of a block, in vectors or channels
  const int64_t wide = row_vector(dtype), results = p.groups * p.channels,
                blocks_at_once = int64_t{properties(device).multiprocessors} * 4;
  const bool begins = begins_vector(p.self, dtype) && begins_vector(p.grad, dtype);
  if (p.inner == 1) {
    const bool whole = begins && p.channels % wide == 0;
    const int64_t blocks = quotient_up(results, kColumns * (whole ? wide : 1));
    return {kSumsOfColumns, static_cast<int>(whole ? wide : 1), blocks,
            sample_parts(p.samples, kRowsAtOnce, blocks, blocks_at_once)};
  }
  const bool whole = begins && p.inner % wide == 0;
  const int64_t blocks = quotient_up(results, kChannels);
  return {kSumsOfChannels, static_cast<int>(whole ? wide : 1), blocks,
          sample_parts(p.samples, 1, blocks, 2 * blocks_at_once)};
}

void row_sums(const Tensor& weight, const Tensor& bias, RowSumArgs p, const Tensor& self, DType compute, int form) {
  const int64_t results = p.groups * p.channels;
  if (results == 0) return;
  const int device = self.device().index, outs = weight.defined() + bias.defined();
  const SumsLaunch launch = sums_launch(p, self.dtype(), device);
  p.part = std::max<int64_t>(quotient_up(p.samples, launch.parts), 1);
  const int64_t parts = std::max<int64_t>(quotient_up(p.samples, p.part), 1);
  Tensor made;
  if (parts > 1) made = facula::empty({outs, parts, results}, compute, self.device());
  char* room = parts > 1 ? static_cast<char*>(made.data()) : nullptr;
  if (weight.defined()) p.weight = parts > 1 ? room : weight.data();
  if (bias.defined()) p.bias = parts > 1 ? room + (outs - 1) * parts * results * item_size(compute) : bias.data();
  p.apart = results;
  launch.kernel(device, {self.dtype(), launch.wide, form}, Grid{256, launch.blocks, parts}, p);
  if (parts == 1) return;
  void* first = weight.defined() ? weight.data() : bias.data();
  void* second = outs == 2 ? bias.data() : nullptr;
  kMergeSums(device, {compute}, Grid{256, quotient_up(results, 32), outs}, static_cast<long long>(results),
             static_cast<int>(parts), made.data(), first, second);
}

void row_norm_backward_cuda(const RowGradients& made, const Tensor& grad, const Tensor& self, const Tensor& weight,
                            const Tensor& mean, const Tensor& rstd, const RowLayout& layout, bool center) {
  if (made.self.defined()) {
    RowArgs p = row_args(self, weight, mean, rstd, layout);
    p.grad = grad.data();
    p.out = made.self.data();
    run_rows(kBackward, self, rstd.dtype(), p, center);
  }
  if (!made.weight.defined() && !made.bias.defined()) return;
  RowSumArgs p{};
  p.samples = layout.rows / std::max<int64_t>(layout.groups, 1);
  p.groups = layout.groups;
  p.channels = layout.channels;
  p.inner = layout.inner;
  p.self = self.data();
  p.grad = grad.data();
  p.mean = mean.data();
  p.rstd = rstd.data();
  const int form =
      (center ? kCentered : 0) | (made.weight.defined() ? kHasWeight : 0) | (made.bias.defined() ? kHasBias : 0);
  row_sums(made.weight, made.bias, p, self, rstd.dtype(), form);
}

}  // namespace

void register_row_norm() {
  row_norm_kernel.set(DeviceType::CUDA, row_norm_cuda);
  row_norm_backward_kernel.set(DeviceType::CUDA, row_norm_backward_cuda);
}

}  // namespace facula::cuda

// Soft-max: a group of threads for each line.
#include "ops/softmax.h"

#include "cuda/lines.h"

namespace facula::cuda {
namespace {

/// The kernels for lines of any dimension, for rows that registers hold, and for longer ones.
struct LineKernels {
  DeviceKernel line, row, long_row;
};
constexpr LineKernels kForward{
    {"softmax.cuh", "softmax"}, {"softmax.cuh", "softmax_rows"}, {"softmax.cuh", "softmax_long"}};
constexpr LineKernels kBackward{{"softmax.cuh", "softmax_backward"},
                                {"softmax.cuh", "softmax_rows_backward"},
                                {"softmax.cuh", "softmax_long_backward"}};

/// `in` are the contiguous tensors that are read, of the dtype of the result.
template <class... In>
void run(const LineKernels& kernels, bool log, DType compute, int64_t dim, const Tensor& out, const In&... in) {
  const int device = out.device().index;
  const DType dtype = out.dtype();
  const LineShape s = line_shape(out, dim);
  if (s.inner != 1) {
    const int warps = line_warps(s);
    return kernels.line(device, {log, dtype, compute, dtype, warps, held_elements(s.n, warps)},
                        line_grid(device, line_count(s), warps), s, in.data()..., out.data());
  }
  const RowShare r = row_share(s.n, dtype, {in.data()..., out.data()}, sizeof...(In) == 2);
  if (r.held)
    kernels.row(device, {log, dtype, r.warps, r.held, r.whole}, line_grid(device, s.outer, r.warps), s.outer,
                static_cast<int>(s.n), in.data()..., out.data());
  else
    kernels.long_row(device, {log, dtype, r.wide}, line_grid(device, s.outer, 8), s.outer, s.n, in.data()...,
                     out.data());
}

template <bool log>
void forward(DType compute, int64_t dim, const Tensor& in, const Tensor& out) {
  if (out.numel()) run(kForward, log, compute, dim, out, ops::as_contiguous(in));
}

template <bool log>
void backward(DType compute, int64_t dim, const Tensor& grad, const Tensor& result, const Tensor& out) {
  if (out.numel())
    run(kBackward, log, compute, dim, out, ops::as_contiguous(grad, out.dtype()), ops::as_contiguous(result));
}

}  // namespace

void register_softmax() {
  constexpr auto cuda = DeviceType::CUDA;
  softmax_kernel.set(cuda, forward<false>);
  log_softmax_kernel.set(cuda, forward<true>);
  softmax_backward_kernel.set(cuda, backward<false>);
  log_softmax_backward_kernel.set(cuda, backward<true>);
}

}  // namespace facula::cuda

// Soft-max: a group of threads for each line.
#include "ops/softmax.h"

#include "cuda/lines.h"

namespace facula::cuda {
namespace {

constexpr DeviceKernel kSoftmax{"softmax.cuh", "softmax"};
constexpr DeviceKernel kSoftmaxBackward{"softmax.cuh", "softmax_backward"};

template <bool log>
void forward(DType compute, int64_t dim, const Tensor& in, const Tensor& out) {
  if (out.numel() == 0) return;
  const int device = out.device().index;
  const Tensor x = ops::as_contiguous(in);
  const LineShape s = line_shape(x, dim);
  const int warps = line_warps(s);
  kSoftmax(device, {log, x.dtype(), compute, out.dtype(), warps, held_elements(s.n, warps)},
           line_grid(device, line_count(s), warps), s, x.data(), out.data());
}

template <bool log>
void backward(DType compute, int64_t dim, const Tensor& grad, const Tensor& result, const Tensor& out) {
  if (out.numel() == 0) return;
  const int device = out.device().index;
  const Tensor y = ops::as_contiguous(result), g = ops::as_contiguous(grad, y.dtype());
  const LineShape s = line_shape(y, dim);
  const int warps = line_warps(s);
  kSoftmaxBackward(device, {log, y.dtype(), compute, out.dtype(), warps, held_elements(s.n, warps)},
                   line_grid(device, line_count(s), warps), s, g.data(), y.data(), out.data());
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

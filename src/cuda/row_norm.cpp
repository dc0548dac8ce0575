// Normalisations of rows.
#include "cuda/kernels/row_norm_args.h"
#include "cuda/lines.h"
#include "cuda/norm.h"

namespace facula::cuda {
namespace {

constexpr DeviceKernel kRowNorm{"row_norm.cuh", "row_norm"};
constexpr DeviceKernel kRowNormBackward{"row_norm.cuh", "row_norm_backward"};

const void* data_or_null(const Tensor& t) { return t.defined() ? t.data() : nullptr; }

RowArgs row_args(const Tensor& self, const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                 const RowLayout& layout, bool center) {
  RowArgs p{};
  p.rows = layout.rows;
  p.groups = layout.groups;
  p.channels = layout.channels;
  p.inner = layout.inner;
  p.self = self.data();
  p.weight = data_or_null(weight);
  p.mean = mean.data();
  p.rstd = rstd.data();
  p.center = center;
  return p;
}

void run_rows(const DeviceKernel& kernel, const Tensor& self, DType compute, const RowArgs& p) {
  if (p.rows == 0) return;
  const LineShape s{p.rows, p.channels * p.inner, 1};
  const int warps = line_warps(s), device = self.device().index;
  kernel(device, {self.dtype(), compute, warps, held_elements(s.n, warps)}, line_grid(device, p.rows, warps), p);
}

void row_norm_cuda(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& self, const Tensor& weight,
                   const Tensor& bias, const RowLayout& layout, double eps, bool center) {
  RowArgs p = row_args(self, weight, mean, rstd, layout, center);
  p.bias = data_or_null(bias);
  p.eps = eps;
  p.out = out.data();
  run_rows(kRowNorm, self, rstd.dtype(), p);
}

void row_norm_backward_cuda(const RowGradients& made, const Tensor& grad, const Tensor& self, const Tensor& weight,
                            const Tensor& mean, const Tensor& rstd, const RowLayout& layout, bool center) {
  if (made.self.defined()) {
    RowArgs p = row_args(self, weight, mean, rstd, layout, center);
    p.grad = grad.data();
    p.out = made.self.data();
    run_rows(kRowNormBackward, self, rstd.dtype(), p);
  }
  if (made.weight.defined() || made.bias.defined()) row_factor_sums(made, grad, self, mean, rstd, layout, center);
}

}  // namespace

void register_row_norm() {
  row_norm_kernel.set(DeviceType::CUDA, row_norm_cuda);
  row_norm_backward_kernel.set(DeviceType::CUDA, row_norm_backward_cuda);
}

}  // namespace facula::cuda

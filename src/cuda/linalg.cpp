#include "cuda/linalg.h"

#include <algorithm>

#include "core/kernel.h"
#include "cuda/device.h"
#include "cuda/index_errors.h"
#include "ops/linalg.h"
#include "ops/matmul.h"

namespace facula::cuda {

Tensor batch_of(const Tensor& t) {
  const int64_t rows = t.size(-2), columns = t.size(-1), each = rows * columns;
  int64_t count = 1;
  for (int64_t d = 0; d + 2 < t.dim(); ++d) count *= t.size(d);
  return make_view(t, {count, rows, columns}, {each, 1, std::max<int64_t>(rows, 1)}, 0, false);
}

Tensor new_matrices(const Tensor& like, int64_t rows, int64_t columns) {
  return flipped(facula::empty({like.size(0), columns, rows}, like.dtype(), like.device()));
}

void copy_matrices(const Tensor& out, const Tensor& in, bool conjugated) {
  const Tensor from = alias(in);
  if (conjugated && in.is_complex()) from.impl()->flags ^= kConjugate;
  copy_elements(out, from);
}

Tensor copy_of(const Tensor& t, bool conjugated) {
  const Tensor copy = new_matrices(t, t.size(1), t.size(2));
  copy_matrices(copy, t, conjugated);
  return copy;
}

void set_identity(const Tensor& t) {
  fill_kernel(t.device(), t, Scalar(0));
  fill_kernel(
      t.device(),
      make_view(t, {t.size(0), std::min(t.size(1), t.size(2))}, {t.stride(0), t.stride(1) + t.stride(2)}, 0, false),
      Scalar(1));
}

Grid grid_by_matrix(const Tensor& t, int64_t side) {
  const unsigned threads = side <= 32 ? 32 : side <= 64 ? 64 : side <= 128 ? 128 : 256;
  return {threads, std::min<int64_t>(t.size(0), grid_for(device_of(t), t.size(0) * threads, threads).x * 4)};
}

Grid grid_by_warp(const Tensor& t, int64_t count) { return grid_for(device_of(t), count * 32, 128); }

namespace {

long long wide(int64_t n) { return n; }

void det_cuda(const Tensor& out, const Tensor& lu, const Tensor& pivots) {
  static const DeviceKernel kernel{"linalg_solve.cuh", "determinant"};
  if (out.numel() == 0) return;
  kernel(device_of(out), {out.dtype()}, grid_by_warp(out, out.numel()), static_cast<const void*>(lu.data()),
         static_cast<const int*>(pivots.data<int>()), wide(out.numel()), wide(lu.size(-1)),
         static_cast<void*>(out.data()));
}

void slogdet_cuda(const Tensor& sign, const Tensor& logarithm, const Tensor& lu, const Tensor& pivots) {
  static const DeviceKernel kernel{"linalg_solve.cuh", "determinant_logarithm"};
  if (sign.numel() == 0) return;
  kernel(device_of(sign), {sign.dtype()}, grid_by_warp(sign, sign.numel()), static_cast<const void*>(lu.data()),
         static_cast<const int*>(pivots.data<int>()), wide(sign.numel()), wide(lu.size(-1)),
         static_cast<void*>(sign.data()), static_cast<void*>(logarithm.data()));
}

void lu_permutation_cuda(const Tensor& out, const Tensor& pivots) {
  static const DeviceKernel kernel{"linalg_solve.cuh", "permutation"};
  const int64_t rows = out.size(-1), count = out.numel() / (rows * rows);
  const int device = device_of(out);
  const Tensor order = facula::empty({count, rows}, DType::Int32, out.device());
  kernel(device, {out.dtype()}, grid_for(device, count), static_cast<const int*>(pivots.data<int>()), wide(count),
         wide(pivots.size(-1)), wide(rows), order.data<int>(), static_cast<void*>(out.data()),
         reporter(device, "lu_unpack", ErrorKind::Runtime, "pivots count from one up to the number of rows"));
}

void cross_cuda(const Tensor& out, const Tensor& a, const Tensor& b, int64_t inner) {
  static const DeviceKernel kernel{"linalg_solve.cuh", "cross"};
  if (out.numel() == 0) return;
  kernel(device_of(out), {out.dtype()}, grid_for(device_of(out), out.numel() / 3), static_cast<const void*>(a.data()),
         static_cast<const void*>(b.data()), static_cast<void*>(out.data()), wide(out.numel() / 3), wide(inner));
}

}  // namespace

void register_linalg() {
  constexpr auto cuda = DeviceType::CUDA;
  det_kernel.set(cuda, det_cuda);
  slogdet_kernel.set(cuda, slogdet_cuda);
  lu_permutation_kernel.set(cuda, lu_permutation_cuda);
  cross_kernel.set(cuda, cross_cuda);
}

}  // namespace facula::cuda

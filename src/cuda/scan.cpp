// Scans: a group of threads for each line or, where there are few long ones, for each part of a line.
#include "ops/scan.h"

#include "cuda/lines.h"
#include "cuda/scan.h"
#include "ops/reduce.h"

namespace facula::cuda {
namespace {

/// The kernels that scan with one of the operations of kernels/scan.cuh.
struct ScanKernels {
  DeviceKernel scan, totals, parts;
};
#define FACULA_SCAN(op)                                                                        \
  {                                                                                            \
    {"scan.cuh", "scan<facula::cuda::" #op}, {"scan.cuh", "scan_totals<facula::cuda::" #op}, { \
      "scan.cuh", "scan_parts<facula::cuda::" #op                                              \
    }                                                                                          \
  }
constexpr ScanKernels kSum = FACULA_SCAN(RunningSum), kProduct = FACULA_SCAN(RunningProduct),
                      kLogSum = FACULA_SCAN(RunningLogSum), kMax = FACULA_SCAN(RunningMax),
                      kMin = FACULA_SCAN(RunningMin);
#undef FACULA_SCAN

enum Mode { kWith, kBefore, kAfter };  // kernels/scan.cuh: ScanMode

void run_scan(const ScanKernels& kernels, Mode mode, DType compute, const ScanArgs& args, DType in, int device,
              bool alone = false) {
  constexpr int64_t kMostParts = 256, kStateBytes = 16;
  ScanArgs s = args;
  const int warps = alone ? 0 : line_warps(s.shape);
  s.parts = warps == 8 ? line_parts(device, s.shape, warps, kMostParts) : 1;
  s.part = (s.shape.n + s.parts - 1) / s.parts;
  s.parts = (s.shape.n + s.part - 1) / s.part;
  const int64_t lines = line_count(s.shape);
  Tensor before;
  if (s.parts > 1) {
    before = facula::empty({lines * s.parts * kStateBytes}, DType::UInt8,
                           Device{DeviceType::CUDA, static_cast<int8_t>(device)});
    s.before = before.data();
    kernels.totals(device, {in, compute, static_cast<int>(mode)}, line_grid(device, lines * s.parts, 8), s);
    kernels.parts(device, {compute}, line_grid(device, lines, 8), s);
  }
  kernels.scan(device, {in, compute, static_cast<int>(mode), warps}, line_grid(device, lines * s.parts, warps), s);
}

ScanArgs scan_args(const Tensor& in, int64_t dim, const Tensor& out) {
  ScanArgs s{};
  s.shape = line_shape(in, dim);
  s.in = in.data();
  s.out = out.data();
  return s;
}

template <const ScanKernels& kernels>
void scan_cuda(DType compute, int64_t dim, const Tensor& in, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor x = ops::as_contiguous(in);
  // the imaginary part of a logarithm depends on the order
  const bool alone = &kernels == &kLogSum && is_complex(compute);
  run_scan(kernels, kWith, compute, scan_args(x, dim, out), x.dtype(), out.device().index, alone);
}

template <const ScanKernels& kernels>
void extremum_cuda(DType compute, int64_t dim, const Tensor& in, const Tensor& values, const Tensor& positions) {
  if (values.numel() == 0) return;
  const Tensor x = ops::as_contiguous(in);
  ScanArgs s = scan_args(x, dim, values);
  s.positions = reinterpret_cast<long long*>(positions.data<int64_t>());
  run_scan(kernels, kWith, compute, s, x.dtype(), values.device().index);
}

void prod_others_cuda(DType compute, int64_t dim, const Tensor& in, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor x = ops::as_contiguous(in);
  for (const Mode mode : {kBefore, kAfter})
    run_scan(kProduct, mode, compute, scan_args(x, dim, out), x.dtype(), out.device().index);
}

}  // namespace

void running_sum(const Tensor& counts) {
  ScanArgs s{};
  s.shape = {counts.size(0), counts.size(1), 1};
  s.in = s.out = counts.data();
  run_scan(kSum, kWith, counts.dtype(), s, counts.dtype(), counts.device().index);
}

void register_scan() {
  constexpr auto cuda = DeviceType::CUDA;
  cumsum_kernel.set(cuda, scan_cuda<kSum>);
  cumprod_kernel.set(cuda, scan_cuda<kProduct>);
  logcumsumexp_kernel.set(cuda, scan_cuda<kLogSum>);
  cummax_kernel.set(cuda, extremum_cuda<kMax>);
  cummin_kernel.set(cuda, extremum_cuda<kMin>);
  prod_others_kernel.set(cuda, prod_others_cuda);
}

}  // namespace facula::cuda

// Scans: a group of threads for each line or, where there are few long ones, for each part of a line.
#include "ops/scan.h"

#include "cuda/lines.h"
#include "cuda/scan.h"
#include "cuda/tickets.h"
#include "ops/reduce.h"

namespace facula::cuda {
namespace {

/// The kernels that scan with one of the operations of kernels/scan.cuh.
struct ScanKernels {
  DeviceKernel scan, totals, totals_of_columns;
};
#define FACULA_SCAN(op)                                                                        \
  {                                                                                            \
    {"scan.cuh", "scan<facula::cuda::" #op}, {"scan.cuh", "scan_totals<facula::cuda::" #op}, { \
      "scan.cuh", "scan_totals_of_columns<facula::cuda::" #op                                  \
    }                                                                                          \
  }
constexpr ScanKernels kSum = FACULA_SCAN(RunningSum), kProduct = FACULA_SCAN(RunningProduct),
                      kLogSum = FACULA_SCAN(RunningLogSum), kMax = FACULA_SCAN(RunningMax),
                      kMin = FACULA_SCAN(RunningMin);
#undef FACULA_SCAN

enum Mode { kWith, kBefore, kAfter };  // kernels/scan.cuh: ScanMode

/// Divides lines into parts, so that the device is busy, and allocates their totals; how the blocks of these come.
Grid divide(ScanArgs& s, int warps, int device, Tensor& totals) {
  constexpr int64_t kMostParts = 256, kStateBytes = 16, kThreads = 256, kTurn = 4096;
  const int64_t lines = line_count(s.shape), strips = warps ? lines : (lines + kThreads - 1) / kThreads;
  s.parts = strips <= kTickets ? line_parts(device, s.shape, warps, kMostParts) : 1;
  s.part = (s.shape.n + s.parts - 1) / s.parts;
  if (warps) s.part = (s.part + kTurn - 1) / kTurn * kTurn;  // whole turns of a block
  s.parts = (s.shape.n + s.part - 1) / s.part;
  if (s.parts == 1) return {};
  totals = facula::empty({lines * s.parts * kStateBytes}, DType::UInt8,
                         Device{DeviceType::CUDA, static_cast<int8_t>(device)});
  s.before = totals.data();
  s.tickets = fold_ticket(device);
  return warps ? Grid{kThreads, lines * s.parts} : Grid{kThreads, strips, s.parts};
}

/// The largest access to neighbors of a row; 0 where it has none.
int access_bytes(const ScanArgs& s, DType in, DType out) {
  constexpr int64_t kBytes = 16;
  if (s.shape.inner > 1) return 0;
  const auto is_even = [&](const void* data, int64_t item) {
    return reinterpret_cast<uintptr_t>(data) % kBytes == 0 && s.shape.n * item % kBytes == 0;
  };
  const bool all = is_even(s.in, item_size(in)) && is_even(s.out, item_size(out)) && is_even(s.positions, 8);
  return static_cast<int>(all ? kBytes : item_size(in));
}

/// `compute` is of what is added up; `alone`: in the order of the elements, by one thread.
void run_scan(const ScanKernels& kernels, Mode mode, DType compute, const ScanArgs& args, DType in, DType out,
              int device, bool alone = false) {
  ScanArgs s = args;
  const int warps = alone ? 0 : line_warps(s.shape), bytes = warps ? access_bytes(s, in, out) : 0;
  s.part = s.shape.n;
  s.parts = 1;
  Tensor totals;
  if (!alone && warps != 1 && s.shape.n > 4) {
    const Grid grid = divide(s, warps, device, totals);
    if (s.parts > 1 && warps) kernels.totals(device, {in, compute, static_cast<int>(mode), bytes}, grid, s);
    if (s.parts > 1 && !warps) kernels.totals_of_columns(device, {in, compute, static_cast<int>(mode)}, grid, s);
  }
  kernels.scan(device, {in, compute, out, static_cast<int>(mode), warps, bytes},
               line_grid(device, line_count(s.shape) * s.parts, warps), s);
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
  run_scan(kernels, kWith, compute, scan_args(x, dim, out), x.dtype(), out.dtype(), out.device().index, alone);
}

template <const ScanKernels& kernels>
void extremum_cuda(DType compute, int64_t dim, const Tensor& in, const Tensor& values, const Tensor& positions) {
  if (values.numel() == 0) return;
  const Tensor x = ops::as_contiguous(in);
  ScanArgs s = scan_args(x, dim, values);
  s.positions = reinterpret_cast<long long*>(positions.data<int64_t>());
  run_scan(kernels, kWith, compute, s, x.dtype(), values.dtype(), values.device().index);
}

void prod_others_cuda(DType compute, int64_t dim, const Tensor& in, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor x = ops::as_contiguous(in);
  const bool is_direct = out.dtype() == compute;  // the second scan reads what the first one wrote
  const Tensor made = is_direct ? out : facula::empty(out.sizes(), compute, out.device());
  for (const Mode mode : {kBefore, kAfter})
    run_scan(kProduct, mode, compute, scan_args(x, dim, made), x.dtype(), compute, out.device().index);
  if (!is_direct) copy_elements(out, made);
}

}  // namespace

void running_sum(const Tensor& counts) {
  ScanArgs s{};
  s.shape = {counts.size(0), counts.size(1), 1};
  s.in = s.out = counts.data();
  run_scan(kSum, kWith, counts.dtype(), s, counts.dtype(), counts.dtype(), counts.device().index);
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

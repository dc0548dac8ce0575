#include "ops/sequence.h"

#include "cuda/kernel.h"

namespace facula::cuda {
namespace {

void progression_cuda(const Tensor& out, double base, double step, int64_t first) {
  static const DeviceKernel kernel{"sequence.cuh", "progression"};
  const int device = out.device().index;
  kernel(device, {out.dtype()}, grid_for(device, out.numel()), out.data(), static_cast<long long>(out.numel()), base,
         step, static_cast<long long>(first));
}

void whole_progression_cuda(const Tensor& out, int64_t base, int64_t step) {
  static const DeviceKernel kernel{"sequence.cuh", "whole_progression"};
  const int device = out.device().index;
  kernel(device, {out.dtype()}, grid_for(device, out.numel()), out.data(), static_cast<long long>(out.numel()),
         static_cast<long long>(base), static_cast<long long>(step));
}

}  // namespace

void register_sequence() {
  progression_kernel.set(DeviceType::CUDA, progression_cuda);
  whole_progression_kernel.set(DeviceType::CUDA, whole_progression_cuda);
}

}  // namespace facula::cuda

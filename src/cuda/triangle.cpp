#include "ops/triangle.h"

#include <algorithm>

#include "cuda/kernel.h"

namespace facula::cuda {
namespace {

void clear_triangle_cuda(const Tensor& out, int64_t diagonal, bool upper) {
  static const DeviceKernel kernel{"triangle.cuh", "clear_triangle"};
  if (out.numel() == 0) return;
  const int64_t rows = out.size(-2), columns = out.size(-1);
  kernel(out.device().index, {bits_of(out.item_size()), upper}, grid_for(out.device().index, out.numel()), out.data(),
         static_cast<long long>(out.numel()), static_cast<long long>(rows), static_cast<long long>(columns),
         static_cast<long long>(std::clamp(diagonal, -rows - 1, columns + 1)));
}

}  // namespace

void register_triangle() { clear_triangle_kernel.set(DeviceType::CUDA, clear_triangle_cuda); }

}  // namespace facula::cuda

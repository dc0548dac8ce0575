// Checks of values: the device flags what it finds, and the next call that waits throws.
#include "ops/checks.h"

#include "cuda/index_errors.h"
#include "cuda/kernel.h"
#include "ops/contiguous.h"
#include "ops/elementwise.h"

namespace facula::cuda {
namespace {

void check_values_cuda(const Tensor& given, const ValueCheck& check) {
  static const DeviceKernel kernel{"checks.cuh", "check_values"};
  const Tensor t = ops::as_contiguous(given);
  const int device = t.device().index;
  kernel(device, {t.dtype(), static_cast<int>(check.holds)}, grid_for(device, t.numel()),
         static_cast<const void*>(t.data()), static_cast<long long>(t.numel()), static_cast<double>(ops::kMostDegree),
         reporter(device, check.op, check.error, check.expected));
}

}  // namespace

void register_checks() { check_values_kernel.set(DeviceType::CUDA, check_values_cuda); }

}  // namespace facula::cuda

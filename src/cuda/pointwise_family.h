// Lists the family of an element-wise loop (family.h): its kernels for the dtypes and layouts that networks have.
#pragma once

#include <vector>

#include "cuda/compile.h"
#include "cuda/kernel.h"
#include "ops/kernel_table.h"

namespace facula::cuda {

/// Those of the loop, computed as the plan is; none where networks do not compute so.
std::vector<KernelSource> family_of(const DeviceLoop& loop, const Plan& plan);

}  // namespace facula::cuda

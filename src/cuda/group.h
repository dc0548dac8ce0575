// Runs groups of element-wise steps on the device (ops/group.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "cuda/kernel.h"

namespace facula::cuda {

/// How groups run. Ones that are seen for the second time are compiled on a thread of their own, and steps run one by
/// one, by the kernels of their ops, until that is done. FACULA_CUDA_GROUPS says so by these names.
enum class GroupMode : uint8_t {
  Background,  // that
  Wait,        // compiled at once, for tests
  Steps,       // always one by one
};
GroupMode group_mode();
void set_group_mode(std::string_view name);

/// What has been done in this process.
struct GroupCounts {
  int64_t launches = 0;  // kernels of groups
  int64_t in_steps = 0;  // groups whose steps ran one by one
  int64_t compiled = 0;  // kernels that are ready
  int64_t bytes = 0;     // that these launches read and write
};
GroupCounts count_groups();
/// Waits for the kernels that are being compiled.
void finish_groups();

}  // namespace facula::cuda

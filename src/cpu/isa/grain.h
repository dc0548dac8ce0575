// How many items of a loop a thread is worth starting for.
#pragma once

#include <algorithm>

#include "core/parallel.h"

namespace facula::cpu::FACULA_ISA {

inline int64_t grain_of(int64_t work_per_item) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(work_per_item, 1));
}

}  // namespace facula::cpu::FACULA_ISA

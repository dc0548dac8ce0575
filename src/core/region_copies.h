// Lets a compiled function make copies into existing memory itself.
#pragma once

#include "core/mode.h"
#include "core/tensor.h"

namespace facula {

/// Installed by src/region, and called while kWatchRegion is set, before the values of `source` are written into
/// `self`, where that is allowed. True: they are written, and not counted.
extern bool (*copy_begins)(const Tensor& self, const Tensor& source);

inline bool copied_by_region(const Tensor& self, const Tensor& source) {
  return __builtin_expect((watching() & kWatchRegion) != 0, 0) && copy_begins(self, source);
}

}  // namespace facula

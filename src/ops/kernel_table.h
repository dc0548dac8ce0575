// Declares the kernels of element-wise ops; those of other ops are declared in src/ops/<topic>.h.
#pragma once

#include "core/kernel.h"
#include "ops/iterator.h"

namespace facula {

/// CPU loops by loop id and compute dtype; null where the dtype is not instantiated.
extern LoopFn (*loop_table)[kDTypes];
/// By loop id: whether memory takes longer than the computation.
extern bool* light_loops;

/// Runs a plan on a device.
inline Kernel<void(const Plan&)> run_plan{"elementwise"};
/// Throws where values are to leave the meta device, which has none.
inline void check_has_values(const Tensor& src, Device to, const char* op) {
  FACULA_CHECK(!src.is_meta() || to.is_meta(), ErrorKind::NotImplemented, op,
               ": cannot copy out of a meta tensor, which has no data, got shape ", src.sizes(), " for ", to);
}

}  // namespace facula

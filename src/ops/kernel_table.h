// The only run-time choice left when an op runs: which device's kernel.
#pragma once

#include <array>

#include "core/device.h"
#include "core/dtype.h"
#include "ops/iterator.h"

namespace facula {

/// A kernel by device: `inline Kernel<void(const Tensor&, int64_t)> sort_kernel{"sort"};` in src/ops/<topic>.h,
/// `sort_kernel.set(DeviceType::CPU, sort_cpu)` in the backend's register function.
template <class Signature>
struct Kernel {
  const char* name;
  std::array<Signature*, kDeviceTypes> table = {};

  void set(DeviceType device, Signature* function) { table[static_cast<int>(device)] = function; }
  template <class... Args>
  auto operator()(Device device, Args&&... args) const {
    Signature* function = table[static_cast<int>(device.type)];
    FACULA_CHECK(function, ErrorKind::NotImplemented, name, ": no kernel for this device, got ", device);
    return function(std::forward<Args>(args)...);
  }
};

/// CPU loops by loop id and compute dtype; null where the dtype is not instantiated.
extern LoopFn (*loop_table)[kDTypes];

/// Runs a plan on a device.
inline Kernel<void(const Plan&)> run_plan{"elementwise"};
/// Copies elements between tensors of one shape, with dtype conversion; strided, conjugating when only one is.
inline Kernel<void(const Tensor& out, const Tensor& in)> copy_kernel{"copy_"};
/// Throws where values are to leave the meta device, which has none.
inline void check_has_values(const Tensor& src, Device to, const char* op) {
  FACULA_CHECK(!src.is_meta() || to.is_meta(), ErrorKind::NotImplemented, op,
               ": cannot copy out of a meta tensor, which has no data, got shape ", src.sizes(), " for ", to);
}

}  // namespace facula

// The only run-time choice left when an op runs: which device's kernel.
#pragma once

#include <algorithm>
#include <array>

#include "core/device.h"
#include "core/dtype.h"
#include "ops/iterator.h"

namespace facula {

/// More elements than memory holds: a tensor of them repeats its places, and a kernel that went over all would take
/// hours. Every kernel refuses them here; up to there it can be stopped (core/parallel.h).
constexpr int64_t kMostVisited = int64_t{1} << 42;

inline int64_t elements_visited(const Tensor& t) { return t.defined() ? t.numel() : 0; }
inline int64_t elements_visited(const Plan& plan) { return plan.numel; }
template <class T>
int64_t elements_visited(const T&) {
  return 0;
}

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
    const int64_t most = std::max({int64_t{0}, elements_visited(args)...});
    FACULA_CHECK(most <= kMostVisited, ErrorKind::Runtime, name, ": tensors of at most ", kMostVisited,
                 " elements, got one of ", most, " (expanded, it repeats what is in memory)");
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

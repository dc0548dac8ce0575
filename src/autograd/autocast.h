// Autocast. Inside a region (kModeAutocast), an op with an `autocast:` key gets its floating CPU tensors in another
// dtype:
//   lower      in the dtype of the region, bfloat16 or float16
//   float32    in float32
//   promote    in the widest dtype among them
//   unchanged  as they are: for ops made of ops that would cast
// float64, complex and integer tensors are never touched. Only the function and method forms cast; while such an op
// runs, the region is suspended, so that what the op is made of sees the dtypes that the op was given. The casts are
// recorded: gradients arrive in the dtype of the tensor that was cast.
//
// A float32 leaf that wants a gradient (a weight) is cast to `lower` once and kept until the outermost region ends, or
// until the leaf is written to.
#pragma once

#include "core/mode.h"
#include "ops/operand.h"

namespace facula {

inline uint32_t autocasting() { return thread_state.modes & kModeAutocast; }

/// The region of this thread, as the Python layer sets it; kModeAutocast says whether one is on.
struct AutocastState {
  DType dtype = DType::BFloat16;
  bool cache_enabled = true;
  int nesting = 0;
};
AutocastState& autocast_state();
void clear_autocast_cache();

inline DType autocast_lower() { return autocast_state().dtype; }
/// The widest dtype of a `promote` op's tensors. Throws for a half precision that is not the region's.
DType autocast_widest(const char* op, std::initializer_list<const Tensor*> tensors);
DType autocast_widest(const char* op, TensorList tensors);

/// `t` in `dtype` where autocast touches it, else `t`.
Tensor autocast_tensor(const Tensor& t, DType dtype);

/// An argument in the dtype of the op's policy.
template <class T>
class Autocast;
template <>
class Autocast<Tensor> {
 public:
  Autocast(const Tensor& t, DType dtype) : value_(autocast_tensor(t, dtype)) {}
  const Tensor& get() const { return value_; }

 private:
  Tensor value_;
};
template <>
class Autocast<std::vector<Tensor>> {
 public:
  Autocast(TensorList list, DType dtype) {
    for (const Tensor& t : list) values_.push_back(autocast_tensor(t, dtype));
  }
  TensorList get() const { return values_; }

 private:
  std::vector<Tensor> values_;
};

/// Suspends the region for a scope.
class AutocastPause {
 public:
  AutocastPause() : mode_(autocasting()) { thread_state.modes &= ~static_cast<uint32_t>(kModeAutocast); }
  ~AutocastPause() { thread_state.modes |= mode_; }
  AutocastPause(const AutocastPause&) = delete;

 private:
  uint32_t mode_;
};

}  // namespace facula

// Implements autocast. Inside a region, an op with an `autocast:` key receives its floating tensors in another dtype:
//   lower      in the dtype of the region, bfloat16 or float16
//   float32    in float32
//   promote    in the widest dtype among them
//   unchanged  as they are: for ops made of ops that would cast
//   refused    not at all: the op is an error there
//
// There is a region of the CPU and one of CUDA, each with its own policies. A region casts the tensors of its device.
// float64, complex and integer tensors are never cast. Only the function and method forms cast. While such an op runs,
// the regions for which it has a policy are suspended, so the ops inside it see the dtypes that it was given. The casts
// are recorded, so gradients arrive in the dtype of the tensor that was cast.
//
// A float32 leaf that requires a gradient (a weight) is cast to `lower` once. The cast is cached until the outermost
// region ends or the leaf is written to.
#pragma once

#include <array>

#include "core/mode.h"
#include "ops/operand.h"

namespace facula {

constexpr uint32_t kAutocast = kModeAutocast | kModeAutocastCuda;
/// Which of the regions this thread is in.
inline uint32_t autocasting(uint32_t regions = kAutocast) { return thread_state.modes & regions; }

/// The regions of this thread, as the Python layer sets them; the thread's modes say which are on. The CPU's is first.
struct AutocastState {
  std::array<DType, 2> dtypes = {DType::BFloat16, DType::Float16};
  bool cache_enabled = true;
  int nesting = 0;
};
AutocastState& autocast_state();
void clear_autocast_cache();

enum class AutocastPolicy : uint8_t { None, Unchanged, Lower, Float32, Promote, Refused };

/// What the regions that are on make of the tensors of a call.
class AutocastCall {
 public:
  AutocastCall(const char* op, AutocastPolicy cpu, AutocastPolicy cuda);
  /// An argument, before the first is cast; only policies that depend on arguments need it.
  void see(const Tensor& t);
  void see(TensorList list) {
    for (const Tensor& t : list) see(t);
  }
  void see(const Operand& operand) {
    if (operand.is_tensor()) see(operand.tensor());
  }
  Tensor cast(const Tensor& t) const;

 private:
  const char* op_;
  std::array<AutocastPolicy, 2> policies_;
  std::array<DType, 2> dtypes_;
};

/// `t` in `dtype` where a region touches it, else `t`.
Tensor autocast_tensor(const Tensor& t, DType dtype);
/// The lower precision of the region that touches `t`, if one does.
std::optional<DType> autocast_lower(const Tensor& t);

/// An argument of a call, cast.
template <class T>
class Autocast;
template <>
class Autocast<Tensor> {
 public:
  Autocast(const Tensor& t, const AutocastCall& call) : value_(call.cast(t)) {}
  const Tensor& get() const { return value_; }

 private:
  Tensor value_;
};
template <>
class Autocast<Operand> {
 public:
  Autocast(const Operand& operand, const AutocastCall& call)
      : value_(operand.is_tensor() ? call.cast(operand.tensor()) : Tensor()),
        operand_(value_.defined() ? Operand(value_) : operand) {}
  const Operand& get() const { return operand_; }

 private:
  Tensor value_;
  Operand operand_;
};
template <>
class Autocast<std::vector<Tensor>> {
 public:
  Autocast(TensorList list, const AutocastCall& call) {
    for (const Tensor& t : list) values_.push_back(call.cast(t));
  }
  TensorList get() const { return values_; }

 private:
  std::vector<Tensor> values_;
};

/// Suspends regions for a scope.
class AutocastPause {
 public:
  explicit AutocastPause(uint32_t regions = kAutocast) : modes_(autocasting(regions)) {
    thread_state.modes &= ~regions;
  }
  ~AutocastPause() { thread_state.modes |= modes_; }
  AutocastPause(const AutocastPause&) = delete;

 private:
  uint32_t modes_;
};

}  // namespace facula

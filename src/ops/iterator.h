// Defines the plan: operands of an element-wise op promoted, broadcast, ordered and with dimensions collapsed. A
// backend runs the plan; the plan owns nothing but shapes.
#pragma once

#include <array>

#include "ops/operand.h"

namespace facula {

/// What a loop reads: elements one after the other (step 1), or one number, `kRepeats` copies of it (step 0; for fewer
/// elements than that, as many copies). Loops of one input are given elements only.
struct LoopInput {
  const void* data;
  int64_t step = 1;
};
constexpr int64_t kRepeats = 64;

/// A vectorized loop over `n` contiguous elements: out[i] = f(in[0][i], in[1][i], ..., params).
using LoopFn = void (*)(int64_t n, void* out, const LoopInput* in, const void* params);

constexpr int kMaxInputs = 3;
constexpr int kMaxParams = 6;

/// Where the bytes of an operand live.
enum class Residency : uint8_t {
  Memory,  // of the device the plan runs on
  Number,  // in Plan::numbers, on the host: a device takes the value along, not the address
};

struct PlanOperand {
  char* data = nullptr;
  Residency residency = Residency::Memory;
  DType dtype = DType::Float32;
  Dims strides;  // bytes, innermost dimension first
};

struct Plan {
  int inputs = 0;
  int64_t numel = 0;
  Dims shape;                          // innermost dimension first
  DType compute = DType::Float32;      // what the loop reads
  DType loop_result = DType::Float32;  // what the loop writes
  uint16_t loop = 0;
  PlanOperand out;
  std::array<PlanOperand, kMaxInputs> in;
  // numbers among the inputs, already in the compute dtype; `in[i].data` points at them with strides of zero. A 0-d
  // tensor of the CPU beside tensors of another device is a number here.
  alignas(16) char numbers[kMaxInputs][16];
  alignas(16) char params[kMaxParams * 16];

  template <class See>
  void memory(See see) const {
    see(static_cast<const void*>(out.data));
    for (int i = 0; i < inputs; ++i)
      if (in[i].residency == Residency::Memory) see(static_cast<const void*>(in[i].data));
  }
};

/// Strides of `sizes` seen as `shape` (zero where broadcast).
Dims broadcast_strides(IntList sizes, IntList strides, IntList shape);

/// Fills shape and strides of the plan from logical ones and merges dimensions that lie evenly for every operand.
void collapse(Plan& plan, IntList shape, List<Dims> strides, const Dims& order);

/// The plan of out[...] = in[...], where `in` broadcasts to out.
Plan copy_plan(const Tensor& out, const Tensor& in);

}  // namespace facula

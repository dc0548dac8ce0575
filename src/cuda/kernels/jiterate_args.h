// What a kernel around a program's own function is given; read by both compilers.
#pragma once

namespace facula::cuda {

constexpr int kMostJitDims = 16, kMostJitOperands = 16, kMostJitValues = 16;

struct JitOperand {
  void* data;
  int dtype;
  long long strides[kMostJitDims];  // bytes, innermost dimension first
};

struct JitArgs {
  long long numel;
  int dims;
  long long shape[kMostJitDims];                 // innermost dimension first
  JitOperand operands[kMostJitOperands];         // results, then inputs
  alignas(16) char values[kMostJitValues * 16];  // numbers of the compute dtype, one after the other
};

}  // namespace facula::cuda

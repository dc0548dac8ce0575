// What element-wise kernels are given; read by both compilers.
#pragma once

namespace facula::cuda {

constexpr int kMostDims = 16, kMostInputs = 3, kMostParameters = 6;

struct PointwiseOperand {
  void* data;
  int dtype;
  bool is_number;                // of the compute dtype, in `numbers`
  long long strides[kMostDims];  // bytes, innermost dimension first
};

struct PointwiseArgs {
  long long numel;
  int dims;
  long long shape[kMostDims];  // innermost dimension first
  PointwiseOperand out, in[kMostInputs];
  alignas(16) char numbers[kMostInputs][16];
  alignas(16) char parameters[kMostParameters * 16];
};

}  // namespace facula::cuda

// What the kernel of a group of element-wise steps is given; read by both compilers. Which of these a kernel reads, and
// where a number lies, is in its text (cuda/group_text.cpp).
#pragma once

namespace facula::cuda {

constexpr int kMostGroupInputs = 20, kMostGroupOutputs = 48, kMostGroupDims = 6, kMostGroupSteps = 48,
              kGroupValueBytes = 1536;

struct GroupInput {
  const void* data;
  long long strides[kMostGroupDims];  // bytes, innermost dimension first
};

struct GroupArgs {
  long long numel;
  long long shape[kMostGroupDims];  // innermost dimension first
  GroupInput in[kMostGroupInputs];  // those that are not read in order come first
  void* out[kMostGroupOutputs];     // written in order
  unsigned zero[kMostGroupSteps];   // zeros that the compiler does not know (apart)
  alignas(16) char values[kGroupValueBytes];
};

}  // namespace facula::cuda

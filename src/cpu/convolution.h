// Settings of convolution on the CPU.
#pragma once

namespace facula::cpu {

/// Whether images stay channels-last inside while programs see plain strides (core/tensor.h). Returns what held before.
bool set_private_layouts(bool wanted);

}  // namespace facula::cpu

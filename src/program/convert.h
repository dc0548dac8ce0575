// Changes a program as a whole: the mode of its ops, the dtype or the device of its numbers. The tensors that it holds
// are left to who holds them.
#pragma once

#include "program/program.h"

namespace facula {

/// Whether an op does what it does in training: dropout, batch norm.
bool is_training(const Program& program);
/// Every op that can do either.
void set_training(Program& program, bool on);
/// All floating-point numbers, which must be of one dtype, become those of another: what is expected of inputs, and the
/// dtypes that ops are given. A NotImplementedError where there are several.
void set_floating(Program& program, DType dtype);
void set_device(Program& program, Device device);

}  // namespace facula

// Prints what facula-run says of a program.
#pragma once

#include <string>

#include "program/program.h"

namespace facula {

/// Dtype and sizes: "float32[s0, 8]".
std::string described(const TensorMeta& meta);
std::string described(const ProgramValue& value);
/// Followed by spaces, for columns.
std::string padded(std::string text, size_t width = 24);

/// Inputs, outputs, what is held, ops.
void list_program(const Program& program);

}  // namespace facula

// Handles ops that groups begin or end with, beside loops and rows.
#pragma once

#include <cstdint>

namespace facula {

/// Conversions, joined tensors, folds of all elements.
bool is_end_op(uint16_t id);

}  // namespace facula

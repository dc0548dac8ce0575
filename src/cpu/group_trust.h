// Checks whether code gives the bits of the loop that it replaces.
#pragma once

#include "cpu/emit_run.h"

namespace facula::cpu {

/// Runs both once, on numbers that show how a product is rounded that is added to something: whether a compiler joins
/// the two is its own affair, and a rule (emit_steps.cpp) says what those do that were tried.
bool is_as_its_loop(const emit::Rule& rule, DType compute, emit::Level level);

}  // namespace facula::cpu

// Passes: each changes a program in place, and leaves one that verifies.
#pragma once

#include "program/program.h"

namespace facula {

/// Removes nodes whose results nobody uses, but for those that write, or draw random numbers. Inputs stay.
void remove_dead(Program& program);
/// Computes nodes that depend on constants only, in order, once and for all; what they make becomes a constant.
/// Nodes whose results share memory with what is written later stay, and so do those that write or draw.
void fold_constants(Program& program);
/// Takes values that nothing defines any more out of the numbering, after nodes were removed.
void renumber(Program& program);

}  // namespace facula

// Passes: each changes a program in place, and leaves one that verifies.
#pragma once

#include <span>

#include "program/program.h"

namespace facula {

/// Removes nodes whose results nobody uses, but for those that write, or draw random numbers. Inputs stay.
void remove_dead(Program& program);
/// Computes nodes that depend on constants only, in order, once and for all; what they make becomes a constant.
/// Nodes whose results share memory with what is written later stay, and so do those that write or draw.
void fold_constants(Program& program);
/// Takes values that nothing defines any more out of the numbering, after nodes were removed.
void renumber(Program& program);

// Passes that run a program once, on examples, and record what it runs below autograd (program/inner.h). The examples
// are not written to, generators are put back, and what the program holds is as before.

/// The program in ops that have kernels: composites opened up, casts of autocast and views written down. `examples`
/// are the user's inputs; with none, the program runs on the meta device, where a program that reads values cannot.
std::shared_ptr<Program> decompose(const Program& program, std::span<const Value> examples);

struct JointOptions {
  int loss = -1;                // the output whose gradients are wanted, a scalar; -1: all, times cotangents
  bool differentiable = false;  // the gradients can be differentiated once more, by applying joint() to the result
};
struct Joint {
  std::shared_ptr<Program> program;
  size_t results = 0;            // the outputs of the program that it was made from; after them come gradients,
  std::vector<int> gradient_of;  // each of one of the inputs of `program`, by number
};
/// Forward and backward in one program: its outputs, then the gradients of every parameter and user's input that
/// requires one and has a part in the loss. Without a loss the cotangents of its floating-point outputs are inputs of
/// the user behind the others, tangents_0 and so on.
Joint joint(const Program& program, std::span<const Value> examples, const JointOptions& options);

}  // namespace facula

// Determines what nodes do besides returning results, and to whose memory. All passes use this one analysis. It says
// what may happen, from the rows of the table, whatever a run receives.
//   - A write reaches what is written, and whatever that may be a view of, back to where the memory was made. A result
//     of the schema's ops shows memory of their first tensor or of one that they write to, if any.
//   - Tensors that the program holds may lie in the same memory, so a write to one is a write to all.
//   - A node that calls a graph which writes to its inputs writes to all of its own arguments.
#pragma once

#include "program/program.h"

namespace facula {

/// Writes all elements of its first argument, whatever they were.
bool fills(const BoxedOp& op);

/// Some node may draw random numbers, or do what its row does not state.
bool may_draw(const Program& program);

class Effects {
 public:
  explicit Effects(const Program& program);

  /// Some node may write to the memory of this value, before or behind it.
  bool is_written(int value) const { return written_[static_cast<size_t>(value)]; }
  /// The caller gets what may lie on the memory of this value, and could write to it.
  bool is_given_out(int value) const { return given_out_[static_cast<size_t>(value)]; }

 private:
  using Values = std::vector<bool>;
  void find_writes(const ProgramNode& node);
  static void reach_sources(const ProgramNode& node, Values& values);
  static void reach_shared(const Program& program, Values& values);
  Values written_, given_out_;
};

}  // namespace facula

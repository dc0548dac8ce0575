// Determines what nodes do besides giving results, and to whose memory. It is the one analysis that passes use. It says
// what may be, from what the rows of the table state, whatever a run receives.
//   - A write reaches what is written, and whatever that may be a view of, back to where the memory was made. A result
//     of the schema's ops shows memory of their first tensor or of one that they write to, if any.
//   - Tensors that the program holds may lie on one memory: what writes to one writes to all.
//   - A node that calls a graph which writes to what it is given writes to all that it is given itself.
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

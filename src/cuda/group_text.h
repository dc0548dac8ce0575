// Prints the text of a group's kernel. Numbers, sizes and strides are its arguments. The text depends on how steps are
// linked, on their loops and dtypes, and on which of four ways reads an input.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/compile.h"
#include "ops/group.h"

namespace facula::cuda {

enum class Reading : char {
  InOrder,   // element after element
  Row,       // one after the other in the innermost dimension, at multiples of a vector's size
  Repeated,  // one element for the innermost dimension
  Apart,
};

/// How a group is laid out as a kernel.
struct GroupForm {
  int wide = 1;                   // elements of a vector, which a thread reads at once
  int warps = 0, held = 0;        // of steps on rows: of a group of threads, and each thread's elements of a row,
  bool whole = true;              // which are vectors; they lie at multiples of their size
  bool small = true;              // element numbers fit 32 bits
  bool in_order = true;           // every input is
  std::vector<uint16_t> inputs;   // values, those first that are not read in order
  std::vector<uint16_t> outputs;  // values
  std::vector<Reading> readings;  // of the inputs
  std::vector<int> offsets;       // of numbers, by value
  std::vector<int> parameters;    // offset of a step's numbers
  int used = 0;                   // bytes of all of these
};

/// None for a group that a kernel's arguments have no room for, or with steps that no kernel takes.
std::optional<GroupForm> form_of(const Group& group);
/// All that the text depends on.
std::string key_of(const Group& group, const GroupForm& form);
KernelSource text_of(const Group& group, const GroupForm& form);

}  // namespace facula::cuda

// Describes ops by their numbers, by which storages remember who wrote to them last.
#pragma once

#include <cstdint>

namespace facula {

/// What is known of an op besides its kernel.
struct OpInfo {
  const char* name;
  const char* overload;   // "" for the only one
  const char* arguments;  // as the schema states them: "Tensor self, *, Scalar alpha=1"
  bool is_view;           // it reads and writes no elements
};
const OpInfo& op_info(uint16_t id);

/// Name of an op, for messages; 0 is "an op" that is not known.
const char* op_name(uint16_t id);

}  // namespace facula

// Every op has a number, by which storages remember who wrote to them last.
#pragma once

#include <cstdint>

namespace facula {

/// Name of an op, for messages; 0 is "an op" that is not known.
const char* op_name(uint16_t id);

}  // namespace facula

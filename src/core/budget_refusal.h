// Composes the error text where a memory budget refuses a request.
#pragma once

#include <cstddef>
#include <string>

#include "core/device.h"

namespace facula {

/// "98.0 MiB".
std::string size_text(size_t bytes);

/// "linear: cannot get 98.0 MiB within the memory budget of 400 MiB: " and why not. Begins with `op` where the budget
/// does not know the op that runs. No lock may be held.
std::string budget_refusal(Device device, const char* op, size_t bytes, size_t budget, size_t held);

}  // namespace facula

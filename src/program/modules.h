// Reads what a file of PyTorch says of the modules in which its ops ran.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "program/json.h"

namespace facula {

/// Paths in the order in which they were first called, each with the name of its class; none where a file says nothing.
std::vector<std::pair<std::string, std::string>> called_modules(const Json& graph);

}  // namespace facula

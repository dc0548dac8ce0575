// The name that somebody may have meant: for errors about names that are not there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace facula::python {

/// The candidate that differs from `name` by the fewest edits (a letter more, less, another or two exchanged), at most
/// one for every six letters of both, as in Python's own suggestions; empty where none is so near.
std::string near_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace facula::python

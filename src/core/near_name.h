// Finds the name that somebody may have meant, for errors about unknown names and words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace facula {

/// The candidate that differs from `name` by the fewest edits (a letter more, less, another or two exchanged), at most
/// one for every six letters of both, as in Python's own suggestions; empty where none is so near.
std::string near_name(std::string_view name, const std::vector<std::string>& candidates);

/// `. Did you mean: 'cuda'?` for a name near to a candidate, else nothing.
std::string suggestion(std::string_view name, const std::vector<std::string>& candidates);

/// `'left' or 'right'`.
std::string alternatives(const std::vector<std::string>& words);

/// `'left' or 'right', got 'lef'. Did you mean: 'left'?`: the end of an error about an argument that is one of a few
/// words.
std::string one_of(const std::vector<std::string>& words, std::string_view given);

}  // namespace facula

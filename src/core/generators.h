// Defines who owns generators. Whoever makes one owns it with others, and whoever stores a pointer to one takes a
// share.
#pragma once

#include <memory>
#include <vector>

#include "core/generator.h"

namespace facula {

/// The generator with owners, known by its address from now on.
std::shared_ptr<Generator> owned(std::unique_ptr<Generator> generator);
/// A share in a generator; of one that nobody owns, as the default ones, which never die, a plain pointer.
std::shared_ptr<Generator> share(Generator* generator);

/// The default generators of all devices that are loaded, the CPU's first.
std::vector<Generator*> default_generators();

}  // namespace facula

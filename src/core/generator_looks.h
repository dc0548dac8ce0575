// Notifies a backend that a program has read a generator's state, and may set it again later to get the same numbers. A
// backend that draws by a library with states of its own then begins these anew.
#pragma once

#include "core/generator.h"

namespace facula {

/// Said by whoever has been given the state.
void note_look(const Generator& generator);
/// Set by a backend; null: none wants to know.
extern void (*look_hook)(const Generator& generator);

}  // namespace facula

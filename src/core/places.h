// Represents lines of the host language by numbers: where a tensor was made, or a kernel queued. Python installs the
// functions (a program in C++ has none, and its numbers are 0).
#pragma once

#include <cstdint>
#include <string>

#include "core/host.h"

namespace facula {

/// "train.py:12 in step" of a number of `host.capture_stack`: the innermost line that is not the package's; empty where
/// it is not known. Takes the interpreter lock: not to be called with a lock that others want while they have that one.
extern std::string (*place_text)(uint32_t stack);

/// The number of a stack of one line, the one that `place_text` names for the calling thread: a tenth of the time.
extern uint32_t (*capture_line)();
inline uint32_t line_here() { return capture_line ? capture_line() : 0; }
/// Where the calling thread is. Half a microsecond.
inline uint32_t place_here() { return host.capture_stack ? host.capture_stack() : 0; }
inline std::string text_of_place(uint32_t place) { return place && place_text ? place_text(place) : std::string(); }

}  // namespace facula

// Exported programs from C++: `facula::Program::load("model.pt2")`, called, inspected, trained. Beside it
// "facula/facula.h", for tensors and functions. `facula::load()` comes before anything else.
#pragma once

#include "program/loaded.h"

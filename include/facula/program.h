// Exported programs from C++: `facula::Program::load("model.pt2")`, called, inspected, trained. Beside it
// "facula/facula.h", for tensors and functions.
#pragma once

#include "cxx/ready.h"
#include "program/loaded.h"

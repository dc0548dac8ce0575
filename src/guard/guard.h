// Implements a second device without hardware, which finds code that takes for granted that memory is the host's.
//
// Its memory is one arena that is inaccessible (PROT_NONE) except for its own kernels while they run; those are the
// CPU's. A host access to it is a segmentation fault, which a handler reports with the last kernel and a backtrace. So
// code that works on this device makes no host access, and a device with memory of its own needs nothing but kernels.
#pragma once

#include <cstdint>

namespace facula::guard {

/// Puts the device into the tables; once, before the first tensor on it. Python calls it "guard".
void enable();
bool enabled();

/// How often the host has needed a value from the device so far: on a device with a queue, a wait.
uint64_t waits();
/// Bytes of the arena that are in use.
uint64_t used_bytes();

}  // namespace facula::guard

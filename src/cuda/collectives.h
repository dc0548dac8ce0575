// Declares what collectives between devices (src/distributed/nccl.cpp) need from src/cuda.
#pragma once

#include <exception>

#include "cuda/library.h"

namespace facula::cuda {

/// NCCL. The first call opens it.
const OpenedLibrary& opened_collectives();
/// What the next call throws that waits for a device, for work that was given up and has no results; null forgets it.
void fail_next_wait(std::exception_ptr error);

}  // namespace facula::cuda

// What kernels find wrong with values (indices outside, labels outside, checks of values). A kernel cannot throw,
// and one that stops poisons the process: so the first thread that finds something writes it into a record of its
// device, which the host can read, the kernel leaves the element out, and the next call that waits for the device
// throws.
#pragma once

#include "cuda/kernels/report.h"

namespace facula::cuda {

/// The record of a device, for kernels.
ErrorRecord* error_record(int device);
/// Throws what was found since the last call.
void throw_index_error(int device);

}  // namespace facula::cuda

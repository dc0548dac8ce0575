// Reports wrong values that kernels find (indices outside, labels outside, checks of values). A kernel cannot throw,
// and one that stops poisons the process. So the first thread that finds something writes it into a record of its
// device, which the host can read, the kernel leaves the element out, and the next call that waits for the device
// throws.
#pragma once

#include "core/error.h"
#include "core/places.h"
#include "cuda/device.h"
#include "cuda/kernels/report.h"

namespace facula::cuda {

/// The record of a device, for kernels.
inline std::array<std::atomic<ErrorRecord*>, detail::kMostDevices> error_records{};
ErrorRecord* make_error_record(int device);
inline ErrorRecord* error_record(int device) {
  ErrorRecord* record = error_records[static_cast<size_t>(device)].load(std::memory_order_acquire);
  return __builtin_expect(record != nullptr, 1) ? record : make_error_record(device);
}
/// What kernels report with; the texts live as long as the process. `expected` is for values: what should hold.
inline Reporter reporter(int device, const char* op, ErrorKind kind, const char* expected = "") {
  return {error_record(device), op, expected, static_cast<int>(kind), line_here()};
}
/// Throws what was found since the last call.
void throw_index_error(int device);

}  // namespace facula::cuda

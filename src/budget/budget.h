// A memory budget: a bound on the bytes of a device, which its allocator keeps (core/budget_hooks.h). When a request
// would pass it, bytes that only autograd holds go, and are made again when a backward pass wants them.
//
//   cell.h    what stands for saved bytes          choose.h  which of them go
//   record.h  how they were made                   repeat.h  how they are made again
//   report.h  what a user reads                   together.h  steps that are made again at once
//
// Without a budget nothing here runs. Cells outlive the budget under which they were made, as long as the graph.
#pragma once

#include <atomic>
#include <functional>

#include "core/mode.h"
#include "core/tensor.h"

namespace facula::budget {

/// Sets the bound of a device, 0 for none. What is held already stays.
void set_budget(Device device, size_t bytes);
size_t budget_of(Device device);
/// Calls f(device) for each one that has a budget.
void each_budget(const std::function<void(Device)>& f);

/// Whether a CUDA device has ever had one.
extern std::atomic<bool> cuda_has_budget;

/// While one lives, this thread records also where no gradients are: what runs inside a function of the program's own
/// whose results have a history.
class RecordsAnyway {
 public:
  RecordsAnyway();
  ~RecordsAnyway();
  RecordsAnyway(const RecordsAnyway&) = delete;
};
/// Whether calls of this thread are recorded.
bool records();

/// After a backward pass: warns, once for each bound, where more than half of the step's time went into ops that ran
/// again.
/// Whoever calls from the host language calls it then: the warning may be an error.
void warn_of_dear_step(Device device);

/// Samples what is held now, for pictures, where it has changed much.
void note_memory(Device device);

}  // namespace facula::budget

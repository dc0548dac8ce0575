// Declares the memory budget: a bound on the bytes of a device, which its allocator respects (core/budget_hooks.h). If
// a request would exceed it, bytes that only autograd holds are evicted, and computed again when a backward pass needs
// them.
//
//   cell.h    what stands for saved bytes          choose.h   which of them are evicted
//   record.h  how they were computed               repeat.h   how they are computed again
//   report.h  what a user reads                    together.h steps that are computed again at once
//
// Without a budget nothing here runs. Cells outlive the budget under which they were made, as long as their graph
// lives.
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

/// Remembers that a CUDA device has had a budget.
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

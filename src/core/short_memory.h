// Declares what compiled functions and a memory budget know of each other.
//   - Recipes hold what they read, while a budget can evict the results of ops and of the ops before them. So once
//     memory has been short, compiled functions run op by op under bounds like that one.
#pragma once

#include <atomic>

#include "core/device.h"

namespace facula {

/// Memory has been short under a bound like one that is on.
extern std::atomic<bool> memory_is_short;
inline bool is_memory_short() { return memory_is_short.load(std::memory_order_relaxed); }

/// Installed by src/region: lets go of what a compiled function of this thread has made and only a tape holds, if its
/// recipes can make it again. Called from inside of allocations. Returns how many bytes went.
extern size_t (*let_go_of_waiting)(Device device);

}  // namespace facula

// States whether several threads may change the history of one tensor at the same time.
#pragma once

#include <atomic>

namespace facula {

/// Set by a host language whose threads run at the same time. Histories are then exchanged and read under a lock; where
/// the language has a lock of its own, which whoever changes a tensor holds, they need none.
extern constinit std::atomic<bool> histories_are_shared;

}  // namespace facula

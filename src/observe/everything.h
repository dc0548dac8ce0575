// States whether everything waits that can, including products of backward passes, which are computed without an
// OpScope otherwise.
#pragma once

#include "core/mode.h"

namespace facula {

/// Installed by src/region: of the region that is on on this thread.
extern bool (*everything_waits)();

inline bool does_everything_wait() {
  return __builtin_expect((watching() & kWatchRegion) != 0, 0) && everything_waits && everything_waits();
}

}  // namespace facula

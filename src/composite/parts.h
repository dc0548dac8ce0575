// Limits the number of views that an op may return.
#pragma once

#include <cstdint>

#include "core/error.h"

namespace facula {

/// More than any program wants; a count with a few zeros too many must not fill the memory with views.
inline void check_parts(const char* op, int64_t parts) {
  constexpr int64_t most = 1 << 24;
  FACULA_CHECK(parts <= most, ErrorKind::Runtime, op, ": expected at most ", most, " parts, got ", parts);
}

}  // namespace facula

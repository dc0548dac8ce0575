// Issues warnings that a process gives once.
#pragma once

#include <atomic>

namespace facula {

/// They are given every time while this is true (set_warn_always).
extern std::atomic<bool> warn_always;
/// Warns unless `given` says that it has been.
void warn_once(std::atomic<bool>& given, const char* text);

}  // namespace facula

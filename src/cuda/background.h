// Threads that do what no call should wait for: compiling. Two lists: groups of compiled functions, one after the
// other, which a program waits for in its own way; and families of kernels (family.h), on two threads of low priority,
// which begin when the program itself has not compiled anything for a while.
#pragma once

#include <functional>

namespace facula::cuda {

enum class Urgency { Soon, Whenever };

/// `work` throws nothing and does not call Python. What has not begun when the process ends is not done; what has is
/// waited for then. A forked child begins with empty lists.
void in_background(Urgency urgency, std::function<void()> work);
/// How much of it has not begun.
size_t waiting_in_background(Urgency urgency);
/// Waits until all of it is done, without the pause.
void finish_background(Urgency urgency);
/// Said before and after a call compiles something itself.
void note_foreground_work();

}  // namespace facula::cuda

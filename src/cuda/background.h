// Runs threads for work that no call should wait for: compiling. There are two lists. Groups of compiled functions are
// compiled one after the other, and a program waits for them in its own way. Families of kernels (family.h) are
// compiled on two threads of low priority, which begin when the program itself has not compiled anything for a while.
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

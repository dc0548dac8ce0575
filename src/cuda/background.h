// A thread that does what no call should wait for, one thing after the other.
#pragma once

#include <functional>

namespace facula::cuda {

/// `work` throws nothing and does not call Python. What has not begun when the process ends is not done.
void in_background(std::function<void()> work);
/// Waits until all of it is done.
void finish_background();

}  // namespace facula::cuda

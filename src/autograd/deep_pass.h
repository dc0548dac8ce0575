// Runs passes that are nested thousands deep: the stack of a thread, and a language's limit of nested calls, hold few.
#pragma once

#include <functional>

namespace facula {

/// How many passes run inside of each other on this thread.
int pass_depth();
/// At such a depth the next pass is worth a thread of its own.
constexpr int kDeepPass = 60;
/// Calls `work` on another thread and waits for it. That thread goes on where this one is: its passes are inside of
/// those that run here, run the nodes that this thread runs, and record, or do not, as this thread does. What is
/// queued for the end of the outermost pass is queued here. `work` throws nothing.
void run_on_another_thread(const std::function<void()>& work);

}  // namespace facula

#include "core/mode.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace facula {
namespace {

struct Threads {
  std::mutex lock;
  std::vector<ThreadState*> known;
  uint32_t everywhere = 0;  // what threads begin with
};

// Never destroyed: threads end until the very end of the process.
Threads& threads() {
  static Threads* instance = new Threads;
  return *instance;
}

}  // namespace

void set_watch_everywhere(uint32_t bits, bool on) {
  Threads& all = threads();
  std::lock_guard guard(all.lock);
  all.everywhere = on ? all.everywhere | bits : all.everywhere & ~bits;
  for (ThreadState* state : all.known) {
    if (on) state->watch.fetch_or(bits, std::memory_order_relaxed);
    else state->watch.fetch_and(~bits, std::memory_order_relaxed);
  }
}

namespace {

class Known {
 public:
  Known() {
    Threads& all = threads();
    std::lock_guard guard(all.lock);
    all.known.push_back(&thread_state);
    thread_state.watch.fetch_and(~uint32_t{kUnknownThread}, std::memory_order_relaxed);
    thread_state.watch.fetch_or(all.everywhere, std::memory_order_relaxed);
  }
  ~Known() {
    Threads& all = threads();
    std::lock_guard guard(all.lock);
    std::erase(all.known, &thread_state);
  }
};

}  // namespace

void know_this_thread() { static thread_local Known known; }

void threads_lock() { threads().lock.lock(); }
void threads_unlock() { threads().lock.unlock(); }
void threads_forget_others() {
  std::erase_if(threads().known, [](ThreadState* state) { return state != &thread_state; });
}

}  // namespace facula

// Makes a thread wait for what it has to look at again and again: first at once, then less and less often.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace facula::distributed {

class Pause {
 public:
  /// How long it looks without a pause, the longest nap and the first one, in microseconds. What looks without a pause
  /// yields afterwards, and naps from one millisecond on.
  Pause(int spins, int longest, int first = 2) : spins_(spins), longest_(longest), first_(first), nap_(first) {}
  void reset() {
    looks_ = 0;
    nap_ = first_;
    yields_ = false;
  }
  /// Whether the waits are naps already.
  bool next() {
    if (looks_++ == 0) since_ = Clock::now();
    if (spins_ > 0 && looks_ % 16 != 0 && nap_ == first_ && !yields_) return false;
    const auto waited = Clock::now() - since_;
    yields_ = waited > std::chrono::microseconds(spins_);
    if (spins_ > 0 && waited < std::chrono::milliseconds(1)) {
      if (yields_) sched_yield();
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(nap_));
    nap_ = std::min(nap_ + std::max(nap_ / 8, 1), longest_);
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point since_;
  int spins_, longest_, first_, looks_ = 0, nap_;
  bool yields_ = false;
};

}  // namespace facula::distributed

// Controls how loops check whether the user wants to stop (core/parallel.h), for code that holds a lock meanwhile and
// for tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace facula {

/// A mutex that is held around loops but lies open while they ask, because asking takes the interpreter's lock and may
/// run a program's code, whose threads may want this one. It is open to fork(), too, when a thread waits there for all
/// that are held. A thread holds one at a time.
class HeldAroundLoops {
 public:
  explicit HeldAroundLoops(std::mutex& mutex);
  ~HeldAroundLoops();
  HeldAroundLoops(const HeldAroundLoops&) = delete;

 private:
  friend class Opened;
  void close();
  void open();
  std::mutex& mutex_;
};

/// What the thread holds around its loops lies open while this lives.
class Opened {
 public:
  Opened();
  ~Opened();
  Opened(const Opened&) = delete;

 private:
  HeldAroundLoops* held_;
};

/// Asks in the midst of work that is not a loop over a range, such as a sort: says how much was done, in elements.
class LongWork {
 public:
  void did(int64_t elements) {
    if (__builtin_expect((left_ -= elements) <= 0, 0)) ask();
  }

 private:
  static constexpr int64_t kBetween = 1 << 17;
  void ask();
  int64_t left_ = kBetween;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// After so much time a loop asks again. Tests set 0 and count.
void set_ask_interval(int milliseconds);
int ask_interval();

}  // namespace facula

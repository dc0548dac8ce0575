// Switches between stacks, on which the threads of a kernel wait at a barrier. A switch is a dozen instructions; no
// system call, no operating-system thread for each thread of a block.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace facula::emulator {

class Fiber {
 public:
  /// The stack that the calling thread runs on.
  Fiber() = default;
  /// A stack of its own, on which `run` is called at the first switch; `run` never returns.
  explicit Fiber(void (*run)());
  ~Fiber();
  Fiber(const Fiber&) = delete;

  /// Leaves `from`, which runs now, and goes on where this one stopped.
  void resume(Fiber& from);

 private:
#if defined(__x86_64__)
  void* top_ = nullptr;
#else
  ucontext_t context_{};
#endif
  char* stack_ = nullptr;
};

}  // namespace facula::emulator

// Everything that must see ops sits behind one thread-local word: when it is zero, no op looks further.
#pragma once

#include <cstdint>

namespace facula {

enum Mode : uint32_t {
  kModeProfile = 1u << 0,
  kModeAutocast = 1u << 2,
  kModeAnomaly = 1u << 4,
  kModePython = 1u << 5,  // __torch_function__ modes
  kModeInference = 1u << 6,
  kModeSavedHooks = 1u << 7,  // saved_tensors_hooks of this thread
  kModeVmap = 1u << 8,        // a vmap runs, so that random numbers may be each example's own
};

struct ThreadState {
  uint32_t modes = 0;
  bool grad_enabled = true;
  bool forward_grad_enabled = true;
};

// initial-exec: a plain load from the thread pointer instead of a call.
inline thread_local ThreadState thread_state __attribute__((tls_model("initial-exec")));

class GradMode {
 public:
  static bool enabled() { return thread_state.grad_enabled; }
  explicit GradMode(bool enabled) : before_(thread_state.grad_enabled) { thread_state.grad_enabled = enabled; }
  ~GradMode() { thread_state.grad_enabled = before_; }
  GradMode(const GradMode&) = delete;

 private:
  bool before_;
};

}  // namespace facula

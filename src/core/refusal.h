// Whether an exception that leaves an op says that nothing was written.
//
// Ops check their arguments before kernels write. So an Error that was thrown outside of kernels is a refusal, and one
// that leaves a kernel may have come halfway; a kernel that refuses before it writes says so (throw_refusal()). What
// was thrown otherwise (by Python, without memory) is taken as written. Nothing of this costs a call that succeeds.
#pragma once

#include "core/error.h"

namespace facula {

/// Whether the Error that this thread has thrown and nobody has caught yet was thrown before anything was written.
bool refused_before_writing() noexcept;
/// An exception leaves a kernel.
[[gnu::cold]] void note_halfway() noexcept;
[[noreturn, gnu::cold]] void throw_refusal_message(ErrorKind kind, std::initializer_list<MessagePart> parts);

/// Throws out of a kernel that has written nothing.
template <class... Args>
[[noreturn, gnu::cold, gnu::always_inline]] inline void throw_refusal(ErrorKind kind, const Args&... parts) {
  throw_refusal_message(kind, {MessagePart(parts)...});
}

/// Around a kernel: an exception may leave memory half written.
class KernelRun {
 public:
  KernelRun() = default;
  ~KernelRun() {
    if (!ended_) note_halfway();
  }
  void end() { ended_ = true; }
  KernelRun(const KernelRun&) = delete;

 private:
  bool ended_ = false;
};

}  // namespace facula

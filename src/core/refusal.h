// Determines whether an op that ends by an exception has written anything.
//
// Ops check their arguments before kernels write. So an Error that was thrown outside of kernels is a refusal, and one
// that leaves a kernel may have come halfway. A kernel that refuses before it writes says so (throw_refusal()). Other
// exceptions (from Python, or for lack of memory) are taken as written. A call that succeeds pays nothing for this.
#pragma once

#include "core/error.h"

namespace facula {

/// Returns whether the Error that leaves this thread's op now was thrown before anything was written.
bool refused_before_writing() noexcept;
/// Notes that an exception leaves a kernel.
[[gnu::cold]] void note_halfway() noexcept;
[[noreturn, gnu::cold]] void throw_refusal_message(ErrorKind kind, std::initializer_list<MessagePart> parts);

/// Throws out of a kernel that has written nothing.
template <class... Args>
[[noreturn, gnu::cold, gnu::always_inline]] inline void throw_refusal(ErrorKind kind, const Args&... parts) {
  throw_refusal_message(kind, {MessagePart(parts)...});
}

/// Lives around a kernel, in which an exception may leave memory half written.
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

// What a compiled function does with a call, and how it finds out what is faster.
//
//   Look    the call runs eagerly, and its ops are noted. Nothing to put off: Pass.
//   Learn   two calls are followed; what nobody asks for is found out.
//   Trial   eager and followed calls by turns, with a clock. Followed calls take less time: Follow, else Pass.
//   Follow  ops are put off as the recording says.
//   Pass    the function is called.
//
// Both ways run the same Python and give the same bits, so they can be exchanged at any call. A trial compares calls on
// tensors of the same sizes only. Follow and Pass end after kTrusted calls, and Pass when tensors have other sizes.
#pragma once

#include <array>
#include <chrono>

#include "region/region.h"

namespace facula {

enum class CompileState : uint8_t { Look, Learn, Trial, Follow, Pass };
const char* name(CompileState state);

class CompiledCode {
 public:
  Work work;
  CompileState state = CompileState::Look;
  bool never_follows = false;   // a backend that runs eagerly
  bool always_follows = false;  // for tests: no trial, nothing passes
  int64_t calls = 0;

  /// How a call is made.
  struct Way {
    bool region = false, follows = false, timed = false;
  };
  /// `sizes`: a number that stands for the sizes of the tensors among the arguments.
  Way begin(uint64_t sizes);
  /// After a call that took `nanoseconds`; `failed`: it raised.
  void end(const Way& way, int64_t nanoseconds, bool failed);
  void reset();

 private:
  static constexpr int kLearned = 2, kTried = 8, kTrusted = 1000, kLooks = 64;
  void become(CompileState next);
  bool is_worth_following() const;
  void judge();

  uint64_t sizes_ = 0;
  int in_state_ = 0;  // calls
  int looks_ = 0;
  std::array<int64_t, kTried> eager_{}, followed_{};
};

}  // namespace facula

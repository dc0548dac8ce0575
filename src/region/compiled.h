// Decides what a compiled function does with a call, and finds out what is faster.
//
//   Look    the call runs eagerly, and its ops are noted. If no op can be deferred: Pass.
//   Learn   two calls are followed, to find out which results nobody needs.
//   Trial   eager and followed calls alternate and are timed. If followed calls take less time, or no more time and
//           release much memory that only a tape holds: Follow, else Pass.
//   Follow  ops are deferred as the recording says.
//   Pass    the function is called. After kStable calls, if a call takes less than kTiny, the host language is
//           requested to provide steps that make a call without its interpreter. They are tried as followed calls are.
//   Replay  the steps make the calls.
//
// Both ways run the same Python and give the same bits, so they can be exchanged at any call. A trial only compares
// calls on tensors of the same sizes. If groups run on a device that works while Python goes on, a clock does not see
// them. There is no trial then, and calls are followed if fewer bytes are moved. Follow and Pass end after kTrusted
// calls, and Pass also when tensors have new sizes. A function of which most calls take ways that no recording knows is
// called as it is.
#pragma once

#include <array>
#include <chrono>
#include <optional>

#include "region/region.h"

namespace facula {

enum class CompileState : uint8_t { Look, Learn, Trial, Follow, Pass, Replay };
const char* name(CompileState state);

class CompiledCalls {
 public:
  explicit CompiledCalls(std::shared_ptr<Work> shared) : work(std::move(shared)) {}
  ~CompiledCalls();
  CompiledCalls(const CompiledCalls&) = delete;

  /// A number by which the nodes that its calls record know it. Backward passes through them are looked at, tried and
  /// followed as calls are, each kind for itself.
  uint16_t number();

  const std::shared_ptr<Work> work;  // of all functions with this code
  std::mutex one_at_a_time;          // of backward passes
  CompileState state = CompileState::Look;
  bool never_follows = false;                                  // a backend that runs eagerly
  bool always_follows = false;                                 // for tests: no trial, nothing passes
  bool may_replay = false;                                     // steps may be requested
  bool always_replays = false;                                 // for tests: at once, without a trial
  int64_t calls = 0, replays = 0;                              // in all; made by steps
  std::shared_ptr<StretchTree> stretches, backward_stretches;  // of a backend of its own; null: there is none

  /// Whether this call, on tensors of these sizes, is one of many that only call the function: then it is counted, and
  /// there is nothing else to do.
  bool passes(uint64_t sizes) {
    if (state != CompileState::Pass || sizes != sizes_ || always_follows || in_state_ >= patience_) return false;
    ++calls;
    if (!never_follows) ++in_state_;
    return true;
  }
  /// A call that steps have made: there is nothing else to do.
  void replayed() {
    ++calls;
    ++replays;
    missed_ <<= 1;
  }

  /// How a call is made. `replays`: by steps, where that is possible. `prepares`: whoever knows the language is called
  /// for steps when the call is over, and prepared() called. `asks`: it would be recorded for the first time with
  /// tensors of these sizes, so that the settings are read before, and reported afterwards.
  struct Way {
    bool region = false, follows = false, timed = false, asks = false, replays = false, prepares = false;
    uint64_t sizes = 0;
  };
  /// `sizes`: a number that stands for the sizes of the tensors among the arguments.
  Way begin(uint64_t sizes);
  /// How a call went.
  struct Outcome {
    int64_t nanoseconds = 0;
    bool failed = false;  // it raised
    bool missed = false;  // no recording knew its way, or steps did not fit it
  };
  void end(const Way& way, const Outcome& outcome);
  /// Whether the call took less than kTiny. If not, the next one is timed too, since something else may have
  /// interrupted this one; no steps are requested after kLong such calls.
  bool is_tiny(int64_t nanoseconds);
  /// Steps were found, or not, when they were requested.
  void prepared(bool found);
  /// A call by steps that did not fit the world any more; whether others are worth asking for.
  bool replaces_steps();
  static constexpr int64_t kTiny = 50'000;  // nanoseconds: beyond, what Python costs does not show
  void reset();
  /// Whether ops of the next call will be put off, as far as is known.
  bool will_follow() const;

 private:
  static constexpr int kLearned = 2, kTried = 8, kTrusted = 1000, kLooks = 64, kMostMisses = 16;  // of 20 calls
  static constexpr int kStable = 500, kReplaced = 8, kLong = 8;
  void become(CompileState next);
  bool is_worth_following() const;
  std::optional<bool> judged_by_bytes() const;
  bool lets_go() const;
  bool nothing_waited() const;
  void judge();
  bool has_looked_at(uint64_t sizes) const;

  uint16_t number_ = 0;
  uint64_t sizes_ = 0;
  std::vector<uint64_t> looked_;  // sizes with which a call was recorded
  bool looks_again_ = false;      // because so many calls have passed
  bool doubted_ = false;          // a trial has given a small gain, and there is another one
  int in_state_ = 0;              // calls
  int patience_ = kTrusted;       // calls that pass before something else is tried
  bool replayed_ = false;         // steps were requested
  bool tries_steps_ = false;      // the trial is of them
  int replaced_ = 0;
  int long_ = 0;             // calls that took too long for steps
  int64_t prepared_at_ = 0;  // calls
  int looks_ = 0;
  uint32_t missed_ = 0;  // a bit for each of the last calls that followed
  std::array<int64_t, kTried> eager_{}, followed_{};
};

/// Whether the next backward pass through nodes of this number will be followed.
bool next_pass_follows(uint16_t compiled);

}  // namespace facula

// Defines regions: the time in which a compiled function runs on a thread.
//   - The first call runs eagerly, and its ops are noted. In later calls, an op is deferred if its place in the
//     recording says so. It becomes a step of an Instance (region/instance.h), and its result is a tensor without
//     bytes.
//   - An op is deferred with the operands of its own call, so nothing can be stale, and errors are raised where they
//     are in eager execution. A call that takes another way than its recordings runs eagerly from there on, and becomes
//     a recording itself.
//   - Code that needs bytes gets them through core/recipe.h. When a region ends, everything that is alive is computed.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "region/instance.h"
#include "region/stretch.h"

namespace facula {

/// Installed by the host language: the line of the program that runs, as a number.
extern uint32_t (*line_of_program)();

/// What is known of one piece of code, by all functions that are compiled from it.
struct Work {
  std::mutex lock;  // of the list and of the counts in recordings; threads may run one function, and backward without
                    // the interpreter's lock
  std::vector<std::shared_ptr<Recording>> recordings;  // the last used first
  size_t limit = 64;                                   // recordings that are cached
  int64_t misses = 0;
  bool keeps_places = false;  // the place of every op is noted
};

class Region {
 public:
  /// Begins a region on this thread, where none is on. `follows`: ops may be put off; else they are only noted.
  /// `compiled` is the number that nodes remember.
  Region(Work& work, bool follows, uint16_t compiled = 0);
  /// Ends it without making anything: after leave(), or when Python has raised.
  ~Region();
  Region(const Region&) = delete;

  /// Makes what is alive, and keeps what was learned.
  void leave();

  static Region* current();
  /// Whether ops of this thread come to a region: there is one, and it is not paused.
  static bool is_on() { return (watching() & kWatchRegion) != 0; }
  std::shared_ptr<const Recording> recording() const { return recording_; }

  bool op_begins(const OpCall& call);
  void op_ends(const OpCall& call, bool failed);
  void value_needed(const char* what);
  /// A tensor is about to be written into memory that exists. True: it is done, but not counted.
  bool copy_begins(const Tensor& self, const Tensor& source);
  bool records() const { return records_; }
  bool follows() const { return follows_; }
  /// Notified of every demand of a call that is recorded; what it throws leaves the function that asks.
  void (*on_value)(const Demand& demand) = nullptr;
  /// Asked before the rest of a call that no recording knows is recorded.
  bool (*on_miss)(void* context) = nullptr;
  void* context = nullptr;
  /// Puts ops off in the place of the region: for backends of their own.
  StretchRun* stretches = nullptr;
  /// Whether what only a tape holds may be left without bytes: the next backward pass is followed.
  bool tape_may_wait = false;

 private:
  bool follow(const OpCall& call);
  bool switch_recording(const OpCall& call);
  void miss();
  void note(const OpCall& call);
  bool put_off(const OpCall& call);
  bool put_off_rows(const OpCall& call, const RowCall& row_call);
  bool put_off_write(ElementCall& call, const RecordedPlace& place);
  bool put_off_end(const OpCall& call);
  bool put_off_cast(const OpCall& call);
  bool put_off_fold(const OpCall& call);
  bool put_off_join(const OpCall& call);
  bool write_real(ElementCall& call);
  Ref<Instance> open_with(const TensorImpl* waiting);
  Ref<Instance> instance_for(const ElementCall& call);
  Ref<Instance> join(ElementCall& call);
  bool is_in(const Instance& instance);
  void finish(Instance& instance);
  void note_what_is_read(const OpCall& call);
  void look_at_memory(int64_t bytes);
  size_t let_go_of_waiting();

  Region* const outer_;  // that is paused
  const uint16_t outer_compiled_;
  Work& work_;
  std::shared_ptr<Recording> recording_;  // that is followed, or made
  size_t cursor_ = 0;                     // the op that comes next
  bool follows_, records_ = false;
  bool adds_ = false;         // a step to an instance, whose lock is held
  int depth_ = 0;             // ops inside ops
  size_t noted_ = 0;          // the op that runs now, for op_ends()
  int64_t unseen_bytes_ = 0;  // since the last look at memory
  Recording::Counts counts_;
  int16_t begun_ = 0;  // groups of this call
  std::vector<Ref<Instance>> open_, all_;
};

}  // namespace facula

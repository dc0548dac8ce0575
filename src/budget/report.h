// Reports to the user what a memory budget did: sums by op and line, the last events, memory over time.
//   - There is one report per device. Every note takes its lock for a few instructions, and no other lock.
//   - Sums only grow. The sums of a stretch are the difference of those at its end and at its begin. Values that cannot
//     be subtracted (the highest, the smallest budget that would be enough) are stored by watches, one for each
//     stretch.
//   - Any thread may make a note, from inside any kernel. Nothing here runs an op or calls the interpreter.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/places.h"
#include "core/shape.h"

namespace facula::budget {

/// Who made bytes: an op, and a line of the program as in core/places.h (0: not known).
struct MadeBy {
  uint16_t op = 0;
  uint32_t place = 0;
  bool operator==(const MadeBy&) const = default;
};

extern std::atomic<bool> places_are_wanted;  // from the first pressure on
/// The line of the program that runs now, once a budget has been short of memory; 0 before.
inline uint32_t place_here() {
  return __builtin_expect(places_are_wanted.load(std::memory_order_relaxed), 0) ? line_here() : 0;
}

/// Why bytes went: a request needed them, or they have been copied elsewhere.
enum class Cause : uint8_t { Request, MovedAway };

enum class EventKind : uint8_t { LetGo, Again, MovedAway, MovedBack, Copied };

/// Sizes of a tensor in little room: most have a few dimensions of less than 2^32.
class EventSizes {
 public:
  EventSizes() = default;
  explicit EventSizes(IntList sizes);
  Dims dims() const;

 private:
  static constexpr size_t kInline = 6;
  uint32_t few_[kInline] = {};
  uint32_t count_ = 0;
  std::shared_ptr<const Dims> many_;  // where they do not fit
};

struct Event {
  int64_t time = 0;  // monotonic clock, nanoseconds
  EventKind kind = EventKind::LetGo;
  DType dtype = DType::Float32;
  bool shaped = false;  // whether sizes and dtype are known
  MadeBy by;
  uint64_t bytes = 0;
  uint64_t ns = 0;  // that it took
  EventSizes sizes;
};

/// Sums of one op and line.
struct Row {
  MadeBy by;
  uint64_t let_go = 0, let_go_bytes = 0;
  uint64_t again = 0, again_bytes = 0, again_ns = 0;
  uint64_t moved = 0, moved_bytes = 0, moved_ns = 0;  // away and back
};

/// Tensors that were copied since NumPy or others can write to them.
struct Copied {
  Dims sizes;
  DType dtype;
  uint32_t place;
  uint64_t count, bytes;
};

struct Sample {
  int64_t time = 0;
  uint64_t held = 0;       // bytes that the allocator has given out
  uint64_t saved = 0;      // of them: in cells that saved values hold
  uint64_t gone = 0;       // bytes that saved values hold and that are not here
  uint64_t gradients = 0;  // of leaves, made by the backward pass that runs or ran last
};

struct Pass {
  int64_t begin, end;  // end 0: it runs
};

/// From the end of a backward pass to the end of the next on the same thread: of the CPU in processor time of that.
struct LastStep {
  uint64_t ns = 0;         // 0: not known, it was the first
  uint64_t again_ns = 0;   // of ops that ran again
  uint64_t most_gone = 0;  // bytes that saved values held and that were not here, at most
};

struct Totals {
  std::vector<Row> rows;
  std::vector<Copied> copied;
  uint64_t passes = 0;                        // backward passes that have ended
  int64_t last_pass_end = 0;                  // monotonic clock, nanoseconds; 0: none has
  uint64_t rooms = 0;                         // how often memory was short
  uint64_t steps_ns = 0, steps_again_ns = 0;  // sums of what LastStep has, of steps whose time is known
};

/// Highest values and sums since a watch began.
struct Highest {
  uint64_t held = 0;
  uint64_t plain = 0;     // held, with what was let go and is still wanted
  uint64_t smallest = 0;  // the smallest budget that would have done
  uint64_t let_go = 0;    // bytes
};

class Report {
 public:
  static constexpr size_t kMostValues = 65536;

  explicit Report(Device device) : by_wall_(!device.is_cpu()) {}

  // ---- notes
  void note_let_go(MadeBy by, IntList sizes, DType dtype, size_t bytes, Cause cause);
  /// One op ran again, and made `bytes`.
  void note_again(MadeBy by, size_t bytes, uint64_t ns);
  void note_moved(MadeBy by, size_t bytes, bool back, uint64_t ns);
  /// Bytes that others can write to were copied into a recipe.
  void note_copied(IntList sizes, DType dtype, size_t bytes, uint32_t place);
  /// A request of `request` bytes found `held`, of which `can_go` can be made again. Where others than saved values
  /// make room, too, less would have gone: a bound that held is enough, until note_refused() says that it was not.
  void note_room(size_t held, size_t can_go, size_t request, size_t bound = SIZE_MAX);
  /// A request was refused, for which this budget would have done.
  void note_refused(size_t smallest);
  /// A backward pass, the outermost one of a thread.
  void note_pass(bool begins);
  /// What is held now, at the end of an op; `gone`: bytes that saved values hold and that are not here.
  void note_sample(size_t held, size_t saved_here, size_t gone = 0);
  /// A leaf was given a gradient that it did not have.
  void note_gradient(size_t bytes);

  // ---- readers
  Totals totals() const;
  /// Those from `since` on that are still known, oldest first.
  std::vector<Event> events(int64_t since) const;
  std::vector<Sample> samples(int64_t since) const;
  std::vector<Pass> passes(int64_t since) const;
  LastStep last_step() const;
  /// Bytes that were let go since the last watch began.
  uint64_t let_go_bytes() const;
  /// The smallest budget that would have done since then.
  uint64_t smallest() const;
  /// Bytes of gradients that leaves got in the backward pass that runs or ran last.
  uint64_t new_gradients() const;

  uint32_t begin_watch(size_t held);
  Highest watched(uint32_t watch) const;
  void end_watch(uint32_t watch);

 private:
  struct ByHash {
    size_t operator()(MadeBy by) const { return (size_t{by.place} << 16 | by.op) * 0x9E3779B97F4A7C15u >> 16; }
  };
  /// The last kMostValues of what was added.
  template <class T>
  class Ring {
   public:
    void add(const T& value) {
      if (values_.size() < kMostValues) values_.push_back(value);
      else values_[next_] = value;
      next_ = (next_ + 1) % kMostValues;
    }
    T& last() { return values_[(next_ + kMostValues - 1) % kMostValues]; }
    /// Those whose `time` is not before `since`, oldest first.
    std::vector<T> from(int64_t since, int64_t T::* time) const {
      std::vector<T> found;
      const size_t first = values_.size() < kMostValues ? 0 : next_;
      for (size_t i = 0; i < values_.size(); ++i) {
        const T& value = values_[(first + i) % values_.size()];
        if (value.*time >= since) found.push_back(value);
      }
      return found;
    }

   private:
    std::vector<T> values_;
    size_t next_ = 0;
  };
  Row& row_of(MadeBy by);

  mutable std::mutex lock_;
  std::unordered_map<MadeBy, size_t, ByHash> row_numbers_;
  std::vector<Row> rows_;
  std::vector<Copied> copied_;
  Ring<Event> events_;
  Ring<Sample> samples_;
  Ring<Pass> passes_;
  uint64_t ended_passes_ = 0, rooms_ = 0, gradients_ = 0;
  int64_t last_pass_end_ = 0;
  int running_passes_ = 0;
  uint64_t again_ns_ = 0, again_before_ = 0, most_gone_ = 0;
  LastStep step_;
  uint64_t steps_ns_ = 0, steps_again_ns_ = 0;
  struct StepTime {
    std::thread::id thread;
    uint64_t ns = 0;
  };
  const bool by_wall_;                            // the device has a clock of its own, and works while threads wait
  StepTime last_pass_;                            // at its end
  std::map<uint32_t, Highest> watches_{{0, {}}};  // the first one never ends
  uint32_t last_watch_ = 0;
};

/// The report of a device: the CPU's, or that of a CUDA device; -1 is the first.
Report& report_of(Device device);
/// A backward pass has ended, in every report where it began.
void note_pass_ends();

/// Nanoseconds of the monotonic clock, which times of reports are in.
int64_t report_clock();

}  // namespace facula::budget

// Runs groups on the CPU: chunk by chunk through the loops of the steps. A chunk of every value fits the L1 cache; what
// a step gives to the next lies in a room, which is given to another value after the last step that reads it. Streams
// that lie one after the other are read where they are, others are packed, as elementwise.cpp does.
#include "ops/group.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/positions.h"
#include "cpu/isa/stream.h"
#include "ops/kernel_table.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kGroupChunk = 512;               // elements
constexpr int64_t kRoomBytes = kGroupChunk * 16;   // for the widest dtype
constexpr int64_t kAskedBytes = int64_t{1} << 20;  // streams from here on do not fit the L2 cache: lines are asked for

using Kind = GroupValue::Kind;

/// Memory of one thread for the chunks of values that have no place of their own.
class Rooms {
 public:
  explicit Rooms(size_t count, int64_t item) : pitch_(kGroupChunk * item + 320) {
    block_.resize(count * static_cast<size_t>(pitch_) + 64);
    first_ = block_.data() + (-reinterpret_cast<uintptr_t>(block_.data()) & 63);
  }
  char* operator[](size_t i) const { return first_ + static_cast<int64_t>(i) * pitch_; }

 private:
  int64_t pitch_;  // from one room to the next: at other places within pages
  std::vector<char> block_;
  char* first_;
};

/// What a step does to a chunk, with addresses.
struct ReadyStep {
  LoopFn loop;
  LoopInput in[kMaxInputs];
  struct Conversion {
    const char** from = nullptr;  // where the chunk of the value is now; null: the loop reads it as it is
    DType to, dtype;
    char* room;
  } converted[kMaxInputs];
  char** out;  // where the chunk of the result goes
  char* made;  // the loop's result before it is converted; null: it is not
  DType loop_result, dtype;
  const char* params;
};

bool is_flat(const Group& group, const GroupValue& v) {
  int64_t expected = item_size(v.dtype);
  for (size_t d = 0; d < group.shape.size(); ++d) {
    if (v.strides[d] != expected) return false;
    expected *= group.shape[d];
  }
  return true;
}

/// How values are held, found once for a run.
struct Layout {
  enum class Way : uint8_t { Flat, Packed, Number, Written, Sent, Room };
  std::vector<Way> ways;
  std::vector<uint16_t> rooms;  // of what is Packed, Sent or Room
  size_t room_count = 0, conversions = 0;
  int64_t item = 1;  // of the widest dtype
  bool by_rows = false;

  explicit Layout(const Group& group) : ways(group.values.size()), rooms(group.values.size()) {
    for (size_t i = 0; i < ways.size(); ++i) {
      const GroupValue& v = group.values[i];
      item = std::max(item, item_size(v.dtype));
      if (v.kind == Kind::Number) ways[i] = Way::Number;
      else if (v.kind == Kind::Stream) ways[i] = is_flat(group, v) ? Way::Flat : Way::Packed;
      else if (!v.data) ways[i] = Way::Room;
      else ways[i] = BlockWriter<char>::is_worth(group.numel * item_size(v.dtype)) ? Way::Sent : Way::Written;
      by_rows = by_rows || ways[i] == Way::Packed;
      if (ways[i] == Way::Packed || ways[i] == Way::Sent) rooms[i] = static_cast<uint16_t>(room_count++);
    }
    for (const GroupStep& s : group.steps) item = std::max({item, item_size(s.compute), item_size(s.loop_result)});
    give_rooms(group);
  }

 private:
  /// Rooms for results that nobody else wants, each until the last step that reads it.
  void give_rooms(const Group& group) {
    std::vector<int> last(ways.size(), -1);
    for (size_t s = 0; s < group.steps.size(); ++s)
      for (int k = 0; k < group.steps[s].inputs; ++k) last[group.steps[s].in[k]] = static_cast<int>(s);
    std::vector<uint16_t> free;
    for (size_t s = 0; s < group.steps.size(); ++s) {
      const GroupStep& step = group.steps[s];
      if (ways[step.out] == Way::Room) {
        if (free.empty()) free.push_back(static_cast<uint16_t>(room_count++));
        rooms[step.out] = free.back();
        free.pop_back();
      }
      for (int k = 0; k < step.inputs; ++k) {
        const uint16_t v = step.in[k];
        if (ways[v] != Way::Room || last[v] != static_cast<int>(s)) continue;
        last[v] = -2;  // once, also where it is read twice
        free.push_back(rooms[v]);
      }
    }
  }
};
using Way = Layout::Way;

/// A thread's part of a run.
class Part {
 public:
  Part(const Group& group, const Layout& layout)
      : group_(group),
        layout_(layout),
        rooms_(layout.room_count + kMaxInputs + 1, layout.item),
        now_(group.values.size()),
        numbers_(static_cast<size_t>(std::ranges::count(layout.ways, Way::Number))) {
    size_t number = 0;
    for (size_t i = 0; i < now_.size(); ++i) {
      const GroupValue& v = group.values[i];
      if (layout.ways[i] == Way::Number) {
        numbers_[number].set(item_size(v.dtype), v.number);
        now_[i] = numbers_[number++].bytes;
      } else if (layout.ways[i] == Way::Flat || layout.ways[i] == Way::Written) {
        now_[i] = v.data;
        moving_.push_back(i);
      } else {
        now_[i] = rooms_[layout.rooms[i]];
      }
    }
    for (const GroupStep& step : group.steps) steps_.push_back(ready(step));
  }

  void run(int64_t from, int64_t to) {
    for (const size_t i : moving_) now_[i] += from * item_size(group_.values[i].dtype);
    Position at(group_.shape, from);
    const bool whole_rows = layout_.by_rows && group_.shape[0] >= kGroupChunk / 4;
    while (from < to) {
      int64_t count = std::min(kGroupChunk, to - from);
      if (whole_rows) count = std::min(count, at.left_in_row());
      if (layout_.by_rows) find_rows(at, count);
      run_chunk(from, count);
      from += count;
      for (const size_t i : moving_) now_[i] += count * item_size(group_.values[i].dtype);
      if (layout_.by_rows) advance(at, count);
    }
#if defined(__x86_64__)
    _mm_sfence();  // other threads see what was sent in order
#endif
  }

 private:
  ReadyStep ready(const GroupStep& step) {
    ReadyStep r{};
    r.loop = loop_table[step.loop][index(step.compute)];
    FACULA_CHECK(r.loop, ErrorKind::NotImplemented, "group: no CPU loop for dtype ", step.compute);
    for (int k = 0; k < step.inputs; ++k) {
      const uint16_t v = step.in[k];
      const GroupValue& value = group_.values[v];
      r.in[k].step = layout_.ways[v] == Way::Number ? 0 : 1;
      r.in[k].data = now_[v];
      r.converted[k] = {const_cast<const char**>(&now_[v]), step.compute, value.dtype,
                        rooms_[layout_.room_count + static_cast<size_t>(k)]};
    }
    r.out = &now_[step.out];
    r.dtype = group_.values[step.out].dtype;
    r.loop_result = step.loop_result;
    r.made = r.dtype != r.loop_result ? rooms_[layout_.room_count + kMaxInputs] : nullptr;
    r.params = step.params;
    return r;
  }

  /// Where the chunk of every stream lies that is not read in order.
  void find_rows(const Position& at, int64_t count) {
    for (size_t i = 0; i < now_.size(); ++i) {
      if (layout_.ways[i] != Way::Packed) continue;
      const GroupValue& v = group_.values[i];
      PlanOperand operand;
      operand.data = v.data;
      operand.dtype = v.dtype;
      operand.strides = v.strides;
      if (v.strides[0] == item_size(v.dtype) && count <= at.left_in_row()) {
        now_[i] = v.data + at.offset(operand);
      } else {
        now_[i] = rooms_[layout_.rooms[i]];
        pack(operand, at, count, v.dtype, now_[i]);
      }
    }
  }

  void advance(Position& at, int64_t count) const {
    while (count > 0) {
      const int64_t step = std::min(count, at.left_in_row());
      at.advance(step);
      count -= step;
    }
  }

  void run_chunk(int64_t from, int64_t count) {
    const int64_t steps = static_cast<int64_t>(steps_.size());
    for (int64_t s = 0; s < steps; ++s) {
      ask_for_next(from + count, count, s, steps);
      const ReadyStep& step = steps_[static_cast<size_t>(s)];
      LoopInput in[kMaxInputs];
      for (int k = 0; k < kMaxInputs && step.converted[k].from; ++k) {
        const auto& c = step.converted[k];
        in[k] = {*c.from, step.in[k].step};
        if (c.to == c.dtype || in[k].step == 0) continue;
        cast(c.to, c.dtype, count, c.room, *c.from);
        in[k].data = c.room;
      }
      loop_into(step, in, count);
    }
    for (size_t i = 0; i < now_.size(); ++i) {
      if (layout_.ways[i] != Way::Sent) continue;
      const int64_t item = item_size(group_.values[i].dtype);
      send_block(group_.values[i].data + from * item, now_[i], count * item);
    }
  }

  static void loop_into(const ReadyStep& step, LoopInput* in, int64_t count) {
    if (!step.made) return step.loop(count, *step.out, in, step.params);
    step.loop(count, step.made, in, step.params);
    cast(step.dtype, step.loop_result, count, *step.out, step.made);
  }

  /// Asks memory for a share of the next chunk's lines before each step, so that they come while it computes.
  void ask_for_next(int64_t from, int64_t count, int64_t step, int64_t steps) const {
    if (from >= group_.numel) return;
    constexpr int64_t kLine = 64;
    for (const size_t i : moving_) {
      const int64_t item = item_size(group_.values[i].dtype);
      if (group_.numel * item < kAskedBytes) continue;
      const int64_t lines = count * item / kLine, first = lines * step / steps, last = lines * (step + 1) / steps;
      const char* next = now_[i] + count * item;
      for (int64_t line = first; line < last; ++line) __builtin_prefetch(next + line * kLine);
    }
  }

  const Group& group_;
  const Layout& layout_;
  Rooms rooms_;
  std::vector<char*> now_;  // where the chunk of every value is
  std::vector<Repeated> numbers_;
  std::vector<size_t> moving_;
  std::vector<ReadyStep> steps_;
};

void run_group_cpu(const Group& group) {
  const Layout layout(group);
  LockRelease release(group.numel > kGrain);
  const int64_t grain = std::max<int64_t>(kGroupChunk, kGrain / static_cast<int64_t>(group.steps.size()));
  parallel_for(0, group.numel, grain, [&](int64_t from, int64_t to) { Part(group, layout).run(from, to); });
}

}  // namespace

void register_group() { run_group.set(DeviceType::CPU, run_group_cpu); }

}  // namespace facula::cpu::FACULA_ISA

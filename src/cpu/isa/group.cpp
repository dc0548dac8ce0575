// Runs groups on the CPU, block by block through the loops of the steps. A block of every value fits the near caches;
// what a step gives to the next lies in a room, which is given to another value after the last step that reads it.
// Streams that lie one after the other are read where they are, others are packed, as elementwise.cpp does.
//
// Where steps look at rows, a block is some whole rows. Their kernels are those that the ops run alone, on the rows of
// the block: a row's result does not depend on how many rows there are.
#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/group_ends.h"
#include "cpu/isa/group_layout.h"
#include "cpu/isa/half.h"
#include "ops/kernel_table.h"

namespace facula::cpu::FACULA_ISA {
namespace {

// Of all streams: memory is far, and lines are prefetched. From the third cache they come sooner by the processor's own
// asking, which has more lines under way than a program can have.
constexpr int64_t kAskedBytes = int64_t{24} << 20;

using Kind = GroupValue::Kind;

/// A tensor over a room, for kernels that take tensors.
class RoomTensor {
 public:
  RoomTensor(DType dtype, int64_t rows, int64_t row) : tensor_(empty({rows, row}, dtype)), row_(row) {}
  const Tensor& at(char* data, int64_t rows) {
    TensorImpl* impl = tensor_.impl();
    if (impl->dims[0] != rows) set_sizes(impl, {rows, row_}, {row_, 1});
    impl->data = data;
    return tensor_;
  }

 private:
  Tensor tensor_;
  int64_t row_;
};

/// A thread's part of a run.
class Part {
 public:
  Part(const Group& group, const Layout& layout, FoldEnds* folds = nullptr)
      : group_(group),
        layout_(layout),
        folds_(folds),
        rooms_(layout.room_count + kOwnRooms, layout.room_bytes(group)),
        now_(group.values.size()) {
    for (size_t i = 0; i < now_.size(); ++i) {
      const GroupValue& v = group.values[i];
      switch (layout.ways[i]) {
        case Way::Number: now_[i] = number_bytes(v); break;
        case Way::Row: now_[i] = v.data; break;
        case Way::Inside: break;
        case Way::OfAll: break;
        case Way::Flat:
        case Way::Written:
          now_[i] = v.data;
          moving_.push_back(i);
          break;
        default:
          now_[i] = rooms_[layout.rooms[i]];
          if (layout.ways[i] == Way::Packed) packed_.emplace_back(i, operand_of(v));
          if (layout.ways[i] == Way::Placed) placed_.emplace_back(i, operand_of(v));
          if (layout.ways[i] == Way::Joined) joined_.emplace_back(i, *v.joined);
          if (layout.ways[i] != Way::Repeated) break;
          pack(operand_of(v), Position(group.shape, 0), filled(), v.dtype, now_[i]);
          repeated_.emplace_back(i, now_[i]);
      }
    }
    for (const GroupStep& step : group.steps) ready_.push_back(ready(step));
    if (layout.runs)
      callers_ = RunCaller::all(group, *layout.runs, [&](size_t s, size_t k) { return ready_[s].number[k]; });
    int64_t bytes = 0;
    for (size_t i = 0; i < now_.size(); ++i)
      if (group.values[i].data) bytes += group.numel * item_size(group.values[i].dtype);
    // code alone waits for memory as it goes: asking before it takes a third longer (Zen 4)
    const bool calls = !joined_.empty() || std::ranges::find(layout.run_of, nullptr) != layout.run_of.end();
    asks_ = calls && bytes >= kAskedBytes;
    if (asks_) find_far();
    if (!group_.row) return;
    row_shape_ = Dims(IntList(group.shape).slice(1, group.shape.size() - 1));
    if (row_shape_.empty()) row_shape_.push_back(1);
    for (const GroupStep& step : group.steps) {
      if (!step.rows) continue;
      tensors_.push_back(tensor_of(step.in[0]));
      for (int k = 0; k < step.outs; ++k) tensors_.push_back(tensor_of(step.out[static_cast<size_t>(k)]));
    }
  }

  void run(int64_t from, int64_t to) {
    for (const size_t i : moving_) now_[i] += from * item_size(group_.values[i].dtype);
    Position at(group_.shape, from);
    const int64_t block = layout_.block;
    const bool whole_rows = !group_.row && layout_.by_rows && group_.shape[0] >= kGroupBlock / 4;
    while (from < to) {
      int64_t count = std::min(block, to - from);
      if (whole_rows || (!repeated_.empty() && at.index[0] > 0)) count = std::min(count, at.left_in_row());
      if (layout_.folds) count = find_folded(from, count);
      if (layout_.by_rows) find_rows(at, count);
      for (const auto& [i, first] : repeated_) now_[i] = first + at.index[0] * item_size(group_.values[i].dtype);
      for (JoinedBlocks& joined : joined_) joined.make(from, count, now_[joined.value]);
      if (!far_.empty()) find_next(at, count);
      if (group_.row) run_rows(from, count);
      else run_block(from, count);
      send(from, count);
      if (!placed_.empty()) place(at, count);
      from += count;
      if (layout_.folds) enter_folds(from);
      for (const size_t i : moving_) now_[i] += count * item_size(group_.values[i].dtype);
      if (layout_.by_rows || !repeated_.empty()) advance(at, count);
    }
#if defined(__x86_64__)
    _mm_sfence();  // other threads see what was sent in order
#endif
  }

 private:
  static constexpr size_t kOwnRooms = kMaxInputs + 1;  // for operands and a result before or after a conversion

  int64_t filled() const { return std::min(block_of(group_), group_.numel); }
  char* own_room(size_t k) const { return rooms_[layout_.room_count + k]; }
  DType dtype_of(uint16_t value) const { return group_.values[value].dtype; }

  /// A step's loop, and the numbers that it reads.
  struct Ready {
    LoopFn loop = nullptr;
    DType reads, writes;  // what the loop does of elements; numbers are in the compute dtype in any case
    std::array<const Repeated*, kMaxInputs> number = {};
  };

  static char* number_bytes(const GroupValue& v) {
    return const_cast<char*>(v.kind == Kind::Number ? v.number : v.data);
  }

  /// The loop that the op runs alone: where all elements are of one narrow float, there may be one that reads and
  /// writes it (half.h).
  Ready ready(const GroupStep& step) {
    Ready r;
    if (step.rows || step.copies || step.fold) return r;
    for (size_t k = 0; k < step.inputs; ++k) {
      const uint16_t v = step.in[k];
      if (layout_.ways[v] != Way::Number) continue;
      numbers_.emplace_back().set(step.compute, dtype_of(v), now_[v]);
      r.number[k] = &numbers_.back();
    }
    const DType half = dtype_of(step.out[0]);
    if (step.compute == DType::Float32 && is_half(half) && is_of(half, step)) r.loop = half_loop(step.loop, half);
    r.reads = r.writes = half;
    if (r.loop) return r;
    r.loop = loop_table[step.loop][index(step.compute)];
    r.reads = step.compute;
    r.writes = step.loop_result;
    return r;
  }
  bool is_of(DType half, const GroupStep& step) const {
    constexpr int64_t kShort = 48;  // as elementwise.cpp has it
    for (size_t k = 0; k < step.inputs; ++k) {
      const GroupValue& v = group_.values[step.in[k]];
      const Way way = layout_.ways[step.in[k]];
      if (way == Way::Number) continue;
      const bool in_rows =
          v.kind != Kind::Stream || way == Way::Flat || (v.strides[0] == item_size(half) && group_.shape[0] >= kShort);
      if (v.dtype != half || !in_rows) return false;
    }
    return true;
  }

  static PlanOperand operand_of(const GroupValue& v) {
    PlanOperand operand;
    operand.data = v.data;
    operand.dtype = v.dtype;
    operand.strides = v.strides;
    return operand;
  }

  /// How many elements lie one after the other from a place on: the rest of a row, or of the rows that are in order.
  static int64_t left_in_order(const Position& at, const PlanOperand& operand) {
    int64_t whole = 1, done = 0;
    for (size_t d = 0; d < at.shape.size(); ++d) {
      if (operand.strides[d] != whole * item_size(operand.dtype)) break;
      done += at.index[d] * whole;
      whole *= at.shape[d];
    }
    return whole - done;
  }

  /// Where the block of every stream lies that is not read in order, and of what is not written so.
  void find_rows(const Position& at, int64_t count) {
    for (const auto& [i, operand] : placed_)
      now_[i] = is_in_row(operand, at, count) ? operand.data + at.offset(operand) : rooms_[layout_.rooms[i]];
    for (const auto& [i, operand] : packed_) {
      if (is_in_row(operand, at, count)) {
        now_[i] = operand.data + at.offset(operand);
      } else {
        now_[i] = rooms_[layout_.rooms[i]];
        pack(operand, at, count, operand.dtype, now_[i]);
      }
    }
  }

  static bool is_in_row(const PlanOperand& operand, const Position& at, int64_t count) {
    return operand.strides[0] == item_size(operand.dtype) && count <= left_in_order(at, operand);
  }

  /// Puts blocks that were made in a room to where they lie.
  void place(const Position& at, int64_t count) const {
    for (const auto& [i, operand] : placed_)
      if (!is_in_row(operand, at, count)) unpack(operand, at, count, now_[i]);
  }

  /// The blocks of values that folds read; those of folds end where theirs do.
  int64_t find_folded(int64_t from, int64_t count) {
    const int64_t done = from % kFoldBlock;
    for (size_t i = 0; i < now_.size(); ++i)
      if (layout_.ways[i] == Way::Folded) now_[i] = rooms_[layout_.rooms[i]] + done * item_size(group_.values[i].dtype);
    return std::min(count, kFoldBlock - done);
  }
  void enter_folds(int64_t end) {
    if (end % kFoldBlock != 0 && end != group_.numel) return;
    const int64_t first = (end - 1) / kFoldBlock * kFoldBlock;
    for (const GroupStep& step : group_.steps) {
      if (!step.fold) continue;
      const GroupValue& v = group_.values[step.in[0]];
      const char* values = layout_.ways[step.in[0]] == Way::Folded ? rooms_[layout_.rooms[step.in[0]]]
                                                                   : v.data + first * item_size(v.dtype);
      folds_->enter(step, first, end - first, values);
    }
  }

  static void advance(Position& at, int64_t count) {
    while (count > 0) {
      const int64_t step = std::min(count, at.left_in_row());
      at.advance(step);
      count -= step;
    }
  }

  void send(int64_t from, int64_t count) const {
    for (size_t i = 0; i < now_.size(); ++i) {
      if (layout_.ways[i] != Way::Sent) continue;
      const int64_t item = item_size(group_.values[i].dtype);
      send_block(group_.values[i].data + from * item, now_[i], count * item);
    }
  }

  void run_block(int64_t from, int64_t count) {
    size_t runs = 0;
    for (size_t s = 0; s < group_.steps.size(); ++s) {
      ask_for_next(from + count, count, s);
      if (!layout_.run_of[s]) loop(s, count);
      else if (layout_.run_of[s]->first == s) callers_[runs++].run(now_, count);
    }
  }

 public:
  /// Computes `count` elements of one value, at most a block: of a part of joined values.
  void make_one(size_t value, int64_t from, int64_t count, char* to) {
    const GroupValue& v = group_.values[value];
    const Position at(group_.shape, from);
    if (v.kind == Kind::Stream) return pack(operand_of(v), at, count, v.dtype, to);
    for (const size_t i : moving_) now_[i] = group_.values[i].data + from * item_size(group_.values[i].dtype);
    if (layout_.by_rows) find_rows(at, count);
    now_[value] = to;
    for (size_t s = 0; s < group_.steps.size(); ++s) loop(s, count);
  }

 private:
  /// Whole rows, `count` elements together.
  void run_rows(int64_t from, int64_t count) {
    const int64_t rows = count / group_.row;
    find_elements_of_rows(from / group_.row, rows);
    size_t tensors = 0, runs = 0;
    const auto is_row = [&](uint16_t value) { return layout_.ways[value] == Way::Row; };
    for (size_t s = 0; s < group_.steps.size(); ++s) {
      const GroupStep& step = group_.steps[s];
      ask_for_next(from + count, count, s);
      if (const GroupRun* run = layout_.run_of[s]) {
        if (run->first == s) callers_[runs++].run_rows(now_, rows, is_row);
      } else if (step.rows) {
        look_at_rows(step, rows, tensors);
      } else if (step.per_row) {
        loop(s, rows);
      } else {
        loop_over_rows(s, rows);
      }
    }
    for (size_t i = 0; i < now_.size(); ++i) {  // what has one element for each row goes to memory
      const GroupValue& v = group_.values[i];
      if (layout_.ways[i] != Way::OfRows || v.kind != Kind::Result || !v.data) continue;
      const int64_t item = item_size(v.dtype);
      std::memcpy(v.data + from / group_.row * item, now_[i], static_cast<size_t>(rows * item));
    }
  }

  /// Packs the elements of streams that have one for each row.
  void find_elements_of_rows(int64_t first, int64_t rows) {
    for (size_t i = 0; i < now_.size(); ++i) {
      const GroupValue& v = group_.values[i];
      if (layout_.ways[i] != Way::OfRows || v.kind != Kind::Stream) continue;
      PlanOperand operand = operand_of(v);
      operand.strides.erase(0);
      if (operand.strides.empty()) operand.strides.push_back(0);
      pack(operand, Position(row_shape_, first), rows, v.dtype, now_[i]);
    }
  }

  RoomTensor tensor_of(uint16_t value) const {
    return {dtype_of(value), rows_of_block(group_), group_.values[value].per_row ? 1 : group_.row};
  }

  void look_at_rows(const GroupStep& step, int64_t rows, size_t& tensors) {
    const Tensor& in = tensors_[tensors++].at(now_[step.in[0]], rows);
    const Tensor* outs[kMaxResults];
    for (size_t k = 0; k < step.outs; ++k) outs[k] = &tensors_[tensors++].at(now_[step.out[k]], rows);
    (*step.rows)(in, outs);
  }

  /// Runs a loop over `count` elements of every value.
  void loop(size_t s, int64_t count) {
    const GroupStep& step = group_.steps[s];
    if (step.fold) return;  // when its block is full
    if (step.copies)
      return cast(dtype_of(step.out[0]), dtype_of(step.in[0]), count, now_[step.out[0]], now_[step.in[0]]);
    LoopInput in[kMaxInputs];
    for (int k = 0; k < step.inputs; ++k) in[k] = input(s, k, count);
    loop_into(s, in, now_[step.out[0]], count);
  }

  LoopInput input(size_t s, int k, int64_t count) const {
    const uint16_t v = group_.steps[s].in[static_cast<size_t>(k)];
    if (const Repeated* number = ready_[s].number[static_cast<size_t>(k)]) return {number->bytes, 0};
    if (dtype_of(v) == ready_[s].reads) return {now_[v]};
    char* room = own_room(static_cast<size_t>(k));
    cast(ready_[s].reads, dtype_of(v), count, room, now_[v]);
    return {room};
  }

  void loop_into(size_t s, const LoopInput* in, char* out, int64_t count) const {
    const Ready& ready = ready_[s];
    const GroupStep& step = group_.steps[s];
    const DType dtype = dtype_of(step.out[0]);
    if (dtype == ready.writes) return ready.loop(count, out, in, step.params);
    char* room = own_room(kMaxInputs);
    ready.loop(count, room, in, step.params);
    cast(dtype, ready.writes, count, out, room);
  }

  /// The same where some operands have one element for each row, which is repeated along the row, or one row for all.
  void loop_over_rows(size_t s, int64_t rows) {
    const GroupStep& step = group_.steps[s];
    const int64_t row = group_.row;
    bool of_rows[kMaxInputs] = {}, one_row[kMaxInputs] = {}, any_of_rows = false, any_one_row = false;
    for (size_t k = 0; k < step.inputs; ++k) {
      any_of_rows |= of_rows[k] = layout_.ways[step.in[k]] == Way::OfRows;
      any_one_row |= one_row[k] = layout_.ways[step.in[k]] == Way::Row;
    }
    if ((!any_of_rows && !any_one_row) || step.copies) return loop(s, rows * row);
    LoopInput in[kMaxInputs];
    for (int k = 0; k < step.inputs; ++k)
      in[k] = of_rows[k] ? LoopInput{own_room(static_cast<size_t>(k)), row < kLongRow ? 1 : 0}
                         : input(s, k, one_row[k] ? row : rows * row);
    if (row < kLongRow) {
      for (int k = 0; k < step.inputs; ++k)
        if (of_rows[k]) repeat_elements(s, k, rows);
      return loop_into(s, in, now_[step.out[0]], rows * row);
    }
    Repeated numbers[kMaxInputs];
    char* out = now_[step.out[0]];
    for (int64_t r = 0; r < rows; ++r, out += row * item_size(dtype_of(step.out[0]))) {
      for (size_t k = 0; k < step.inputs; ++k) {
        if (!of_rows[k]) continue;
        const uint16_t v = step.in[k];
        numbers[k].set(step.compute, dtype_of(v), now_[v] + r * item_size(dtype_of(v)));
        in[k].data = numbers[k].bytes;
      }
      loop_into(s, in, out, row);
      for (size_t k = 0; k < step.inputs; ++k)
        if (in[k].step && !one_row[k])
          in[k].data = static_cast<const char*>(in[k].data) + row * item_size(ready_[s].reads);
    }
  }

  /// Short rows: every element as often as the row is long, in the room of operand `k`.
  void repeat_elements(size_t s, int k, int64_t rows) const {
    const uint16_t v = group_.steps[s].in[static_cast<size_t>(k)];
    const DType to_dtype = ready_[s].reads;
    const char* elements = now_[v];
    const int64_t item = item_size(to_dtype);
    char* to = own_room(static_cast<size_t>(k));
    for (int64_t r = 0; r < rows; ++r) {
      char element[16];
      cast(to_dtype, dtype_of(v), 1, element, elements + r * item_size(dtype_of(v)));
      for (int64_t i = 0; i < group_.row; ++i, to += item) std::memcpy(to, element, static_cast<size_t>(item));
    }
  }

  /// Asks memory for a share of the next block's lines before each step, so that they come while it computes: to the
  /// second cache, as the first one has no room for two blocks of all values. Streams are a page long at a time, too
  /// short for what the processor asks for by itself.
  void ask_for_next(int64_t from, int64_t count, size_t step) const {
    if (!asks_ || from >= group_.numel) return;
    const int64_t steps = static_cast<int64_t>(group_.steps.size()), s = static_cast<int64_t>(step);
    for (const size_t i : moving_) {
      const int64_t bytes = count * item_size(group_.values[i].dtype);
      ask_for_lines(now_[i] + bytes, bytes, s, steps);
    }
    for (const auto& [next, bytes] : next_) ask_for_lines(next, bytes, s, steps);
  }
  static void ask_for_lines(const char* next, int64_t bytes, int64_t step, int64_t steps) {
    constexpr int64_t kLine = 64;
    const int64_t lines = bytes / kLine, last = lines * (step + 1) / steps;
    for (int64_t line = lines * step / steps; line < last; ++line) __builtin_prefetch(next + line * kLine, 0, 2);
    asm volatile("");  // without it, GCC takes this for a function without effects and drops its calls
  }
  /// Where the next block lies of what is not read or written in order.
  void find_next(Position at, int64_t count) {
    next_.clear();
    advance(at, count);
    if (at.index.back() >= group_.shape.back()) return;
    for (const PlanOperand* operand : far_)
      next_.emplace_back(operand->data + at.offset(*operand), std::min(count, at.left_in_row()) * operand->strides[0]);
  }
  /// What has long rows, but streams that follow another one in a short distance, as slices of one tensor do.
  void find_far() {
    constexpr int64_t kLong = 512, kNear = int64_t{128} << 10;  // bytes
    for (const auto* list : {&packed_, &placed_}) {
      for (const auto& [i, operand] : *list) {
        const int64_t item = item_size(operand.dtype);
        const bool follows = std::ranges::any_of(packed_, [&](const auto& other) {
          const PlanOperand& o = other.second;
          const int64_t ahead = o.data - operand.data;
          return list == &packed_ && o.strides == operand.strides && ahead > 0 && ahead < kNear;
        });
        if (operand.strides[0] == item && group_.shape[0] * item >= kLong && !follows) far_.push_back(&operand);
      }
    }
  }

  /// A value that is made of parts.
  struct JoinedBlocks {
    JoinedBlocks(size_t value, const Joined& joined) : value(value), joined(joined), turns(joined.parts.size()) {
      for (size_t p = 0; p < turns.size(); ++p) {
        turns[p].layout = std::make_unique<Layout>(joined.parts[p].group, true);
        turns[p].part = std::make_unique<Part>(joined.parts[p].group, *turns[p].layout);
      }
    }
    void make(int64_t from, int64_t count, char* to) {
      const int64_t item = item_size(joined.parts[0].group.values[joined.parts[0].value].dtype);
      int64_t first = 0;
      for (size_t p = 0; p < turns.size(); first += joined.parts[p++].length) {
        const auto make = [&, p](int64_t at, int64_t n, char* place) {
          turns[p].part->make_one(joined.parts[p].value, at, n, place);
        };
        join_part({joined.length, first, joined.parts[p].length, item}, from, count, to, make);
      }
    }

    struct Turn {
      std::unique_ptr<Layout> layout;
      std::unique_ptr<Part> part;
    };
    size_t value;
    const Joined& joined;
    std::vector<Turn> turns;
  };

  const Group& group_;
  const Layout& layout_;
  FoldEnds* const folds_;
  Rooms rooms_;
  std::vector<char*> now_;  // where the block of every value is
  std::deque<Repeated> numbers_;
  std::vector<Ready> ready_;
  std::vector<size_t> moving_;
  std::vector<std::pair<size_t, PlanOperand>> packed_, placed_;
  std::vector<JoinedBlocks> joined_;
  std::vector<std::pair<size_t, char*>> repeated_;
  std::vector<RoomTensor> tensors_;
  std::vector<RunCaller> callers_;  // of the runs, in order
  Dims row_shape_;
  std::vector<const PlanOperand*> far_;  // of these, whose next rows are asked for:
  std::vector<std::pair<const char*, int64_t>> next_;
  bool asks_ = false;
};

void check_loops(const Group& group) {
  for (const GroupStep& step : group.steps) {
    const bool known = step.rows || step.copies || step.fold || loop_table[step.loop][index(step.compute)];
    FACULA_CHECK(known, ErrorKind::NotImplemented, "group: no CPU loop for dtype ", step.compute);
  }
  for (const GroupValue& v : group.values)
    for (size_t p = 0; v.joined && p < v.joined->parts.size(); ++p) check_loops(v.joined->parts[p].group);
}

void run_group_cpu(const Group& group) {
  check_loops(group);
  const Layout layout(group);
  LockRelease release(group.numel > kGrain);
  const int64_t steps = static_cast<int64_t>(group.steps.size());
  if (layout.folds) {
    FoldEnds folds(group);
    parallel_for(0, folds.blocks(), std::max<int64_t>(1, kGrain / steps / kFoldBlock), [&](int64_t from, int64_t to) {
      Part(group, layout, &folds).run(from * kFoldBlock, std::min(group.numel, to * kFoldBlock));
    });
    return folds.finish();
  }
  if (!group.row)
    return parallel_for(0, group.numel, std::max(kGroupBlock, kGrain / std::max<int64_t>(1, steps)),
                        [&](int64_t from, int64_t to) { Part(group, layout).run(from, to); });
  const int64_t grain = std::max<int64_t>(1, kGrain / steps / group.row);
  parallel_for(0, group.numel / group.row, grain,
               [&](int64_t from, int64_t to) { Part(group, layout).run(from * group.row, to * group.row); });
}

}  // namespace

void register_group() { run_group.set(DeviceType::CPU, run_group_cpu); }

}  // namespace facula::cpu::FACULA_ISA

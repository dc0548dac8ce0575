// How the values of a group are held while it runs block by block: see group.cpp.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "cpu/isa/fold.h"
#include "cpu/isa/group_runs.h"
#include "cpu/isa/positions.h"
#include "cpu/isa/stream.h"
#include "ops/group.h"

namespace facula::cpu::FACULA_ISA {

constexpr int64_t kGroupBlock = 1024;  // elements
constexpr int64_t kRowsBlock = 2048;   // where rows are looked at
constexpr int64_t kCodeBlock = 32768;  // where code has all steps, and all values are in memory
constexpr int64_t kLongRow = 64;       // elements: a loop over one row is worth its call
static_assert(kFoldBlock % kGroupBlock == 0);

inline int64_t rows_of_block(const Group& group) { return std::max<int64_t>(1, kRowsBlock / group.row); }
inline int64_t block_of(const Group& group) { return group.row ? rows_of_block(group) * group.row : kGroupBlock; }

/// Memory of one thread for the blocks of values that have no place of their own.
class Rooms {
 public:
  Rooms(size_t count, int64_t bytes) : pitch_((bytes + 63) / 64 * 64 + 320) {
    block_ = std::make_unique_for_overwrite<char[]>(count * static_cast<size_t>(pitch_) + 64);
    first_ = block_.get() + (-reinterpret_cast<uintptr_t>(block_.get()) & 63);
  }
  char* operator[](size_t i) const { return first_ + static_cast<int64_t>(i) * pitch_; }

 private:
  int64_t pitch_;  // from one room to the next: at other places within pages
  std::unique_ptr<char[]> block_;
  char* first_;
};

/// Whether the elements lie one after the other in the order of the group.
inline bool is_flat(const Group& group, const GroupValue& v) {
  int64_t expected = item_size(v.dtype);
  for (size_t d = 0; d < group.shape.size(); ++d) {
    if (v.strides[d] != expected) return false;
    expected *= group.shape[d];
  }
  return true;
}

/// Whether all rows are the same one, which lies in order.
inline bool is_one_row(const GroupValue& v) {
  if (v.strides[0] != item_size(v.dtype)) return false;
  return std::all_of(v.strides.begin() + 1, v.strides.end(), [](int64_t s) { return s == 0; });
}

/// The same where a block is some of these rows.
inline bool is_repeated(const Group& group, const GroupValue& v) {
  const int64_t row = group.shape[0];
  return row <= block_of(group) && block_of(group) % row == 0 && is_one_row(v);
}

/// Whether a stream is one number for all elements, which every step that reads it can take as such: a loop of one
/// input is given elements only.
inline bool is_number(const Group& group, size_t value) {
  const GroupValue& v = group.values[value];
  if (!std::all_of(v.strides.begin(), v.strides.end(), [](int64_t s) { return s == 0; })) return false;
  return std::ranges::none_of(group.steps, [&](const GroupStep& s) {
    const auto end = s.in.begin() + s.inputs;
    return std::find(s.in.begin(), end, value) != end && s.inputs == 1;
  });
}

/// How the blocks of a value are held.
enum class Way : uint8_t {
  Flat,      // a stream that is read where it lies
  Packed,    // a stream whose blocks are packed, or read where they lie when they happen to do in one row
  Repeated,  // a stream of one row, packed once
  Number,
  Row,      // a stream of one long row, where rows are looked at: read where it lies
  OfRows,   // one element for each row, in a room
  Written,  // a result that is written to memory by the loop,
  Sent,     // or around the caches, from a room,
  Placed,   // or to where it lies, row by row
  Room,
  Folded,  // a result that a fold reads by blocks of its own, in a room that holds such a block
  OfAll,   // one element, of a fold
  Inside,  // a result that never leaves the registers of a run
  Joined,  // made of parts, in a room
};

/// How values are held, found once for a run.
struct Layout {
  std::vector<Way> ways;
  std::vector<uint16_t> rooms;
  size_t room_count = 0;
  int64_t item = 1;  // of the widest dtype
  bool by_rows = false;
  bool folds = false;
  int64_t block = 0;  // elements
  std::shared_ptr<const GroupRuns> runs;
  std::vector<const GroupRun*> run_of;  // by step; null where a loop is called

  /// `inner`: of a part of joined values, which is computed at any place.
  explicit Layout(const Group& group, bool inner = false) : ways(group.values.size()), rooms(group.values.size()) {
    for (const GroupStep& s : group.steps) folds = folds || s.fold;
    for (size_t i = 0; i < ways.size(); ++i) {
      const GroupValue& v = group.values[i];
      item = std::max(item, item_size(v.dtype));
      ways[i] = way_of(group, i);
      if (inner && ways[i] == Way::Repeated) ways[i] = Way::Packed;
      by_rows = by_rows || ways[i] == Way::Packed || ways[i] == Way::Placed;
      if (is_kept(ways[i])) rooms[i] = static_cast<uint16_t>(room_count++);
    }
    for (const GroupStep& s : group.steps) item = std::max({item, item_size(s.compute), item_size(s.loop_result)});
    run_of.resize(group.steps.size());
    if (!inner) find_runs(group);
    give_rooms(group);
    // from block to block memory has little to do, so blocks are long where nothing of them stays in a room
    const bool kept = group.row || room_count || run_of.empty() || !run_of[0] || run_of[0]->end < run_of.size();
    block = kept ? block_of(group) : kCodeBlock;
  }
  int64_t room_bytes(const Group& group) const { return (folds ? kFoldBlock : block_of(group)) * item; }

 private:
  static bool is_kept(Way way) {
    switch (way) {
      case Way::Packed:
      case Way::Repeated:
      case Way::OfRows:
      case Way::Sent:
      case Way::Placed:
      case Way::Folded:
      case Way::Joined: return true;
      default: return false;
    }
  }

  static bool is_folded(const Group& group, size_t value) {
    return std::ranges::any_of(group.steps, [&](const GroupStep& s) { return s.fold && s.in[0] == value; });
  }

  static Way way_of(const Group& group, size_t i) {
    const GroupValue& v = group.values[i];
    if (v.of_all) return Way::OfAll;
    if (v.per_row) return Way::OfRows;
    if (v.kind == GroupValue::Kind::Number) return Way::Number;
    if (v.kind == GroupValue::Kind::Joined) return Way::Joined;
    if (v.kind == GroupValue::Kind::Stream) {
      if (is_flat(group, v)) return Way::Flat;
      if (is_number(group, i)) return Way::Number;
      if (group.row >= kLongRow && is_one_row(v)) return Way::Row;
      return is_repeated(group, v) ? Way::Repeated : Way::Packed;
    }
    if (!v.data) return is_folded(group, i) ? Way::Folded : Way::Room;
    if (v.is_placed() && !is_flat(group, v)) return Way::Placed;
    if (is_folded(group, i)) return Way::Written;
    return BlockWriter<char>::is_worth(group.numel * item_size(v.dtype)) ? Way::Sent : Way::Written;
  }

  void find_runs(const Group& group) {
    std::vector<Held> held(ways.size(), Held::Elements);
    for (size_t i = 0; i < ways.size(); ++i) {
      if (ways[i] == Way::Number) held[i] = Held::Number;
      if (ways[i] == Way::OfRows) held[i] = group.row < kLongRow ? Held::Unfit : Held::OfRows;
    }
    runs = runs_of(group, held, kRunLevel);
    if (!runs) return;
    for (const GroupRun& run : runs->runs)
      for (size_t s = run.first; s < run.end; ++s) run_of[s] = &run;
    for (size_t i = 0; i < ways.size(); ++i)
      if (runs->inside[i]) ways[i] = Way::Inside;
  }

  /// Rooms for results that nobody else wants, each until the last step that reads it, or the end of that step's run.
  void give_rooms(const Group& group) {
    const auto end_of = [&](size_t s) { return static_cast<int>(run_of[s] ? run_of[s]->end - 1 : s); };
    std::vector<int> last(ways.size(), -1);
    for (size_t s = 0; s < group.steps.size(); ++s)
      for (int k = 0; k < group.steps[s].inputs; ++k) last[group.steps[s].in[k]] = end_of(s);
    std::vector<uint16_t> free;
    for (size_t s = 0; s < group.steps.size(); ++s) {
      const GroupStep& step = group.steps[s];
      for (int k = 0; k < step.outs; ++k) {
        const uint16_t v = step.out[static_cast<size_t>(k)];
        if (ways[v] != Way::Room) continue;
        if (free.empty()) free.push_back(static_cast<uint16_t>(room_count++));
        rooms[v] = free.back();
        free.pop_back();
      }
      if (end_of(s) != static_cast<int>(s)) continue;
      for (size_t t = run_of[s] ? run_of[s]->first : s; t <= s; ++t) {
        for (int k = 0; k < group.steps[t].inputs; ++k) {
          const uint16_t v = group.steps[t].in[k];
          if (ways[v] != Way::Room || last[v] != static_cast<int>(s)) continue;
          last[v] = -2;  // once, also where it is read twice
          free.push_back(rooms[v]);
        }
      }
    }
  }
};

}  // namespace facula::cpu::FACULA_ISA

// What groups begin and end with besides loops: parts that are joined, results that lie elsewhere, folds of all
// elements.
#pragma once

#include <cstring>
#include <vector>

#include "cpu/isa/by_size.h"
#include "cpu/isa/fold.h"
#include "cpu/isa/group_layout.h"

namespace facula::cpu::FACULA_ISA {

/// Puts `count` elements from flat element `from` on to where they lie.
inline void unpack(const PlanOperand& operand, Position at, int64_t count, const char* elements) {
  const int64_t item = item_size(operand.dtype);
  for (int64_t done = 0; done < count;) {
    const StridedRows rows = at.next(count - done, operand);
    scatter(item, rows, operand.data + at.offset(operand), elements + done * item);
    done += rows.count * rows.length;
    at.advance(rows);
  }
}

/// Where the elements of a part stand among those that are joined.
struct PartPlace {
  int64_t row;            // elements of all parts, before they come again
  int64_t first, length;  // those of the part in a row
  int64_t item;           // bytes
};

/// `rows` times `length` bytes, from one after the other to `pitch` bytes apart.
inline void spread_pieces(char* to, int64_t pitch, const char* from, int64_t length, int64_t rows) {
  constexpr int64_t kVector = 32, kMost = 16 * kVector;
  if (length == 4 || length == 8) {
    visit_size(length, [&]<class T>(TypeTag<T>) {
      constexpr auto item = static_cast<int64_t>(sizeof(T));
      for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * pitch, from + r * item, sizeof(T));
    });
  } else if (length % kVector == 0 && length <= kMost) {
    for (int64_t r = 0; r < rows; ++r, to += pitch, from += length)
      for (int64_t i = 0; i < length; i += kVector) std::memcpy(to + i, from + i, kVector);
  } else {
    for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * pitch, from + r * length, static_cast<size_t>(length));
  }
}

/// Makes the elements of a part among the joined elements [from, from + count) that go to `to`; make(at, n, place)
/// makes elements [at, at + n) of the part, at most a block of them. Short pieces are made together.
template <class Make>
void join_part(const PartPlace& p, int64_t from, int64_t count, char* to, Make make) {
  const int64_t end = from + count;
  int64_t r = from / p.row;
  const auto piece = [&](int64_t row) {  // of a row that is not there as a whole, or long
    const int64_t begin = row * p.row + p.first, low = std::max(begin, from), high = std::min(begin + p.length, end);
    for (int64_t at = low; at < high; at += kGroupBlock)
      make(row * p.length + at - begin, std::min(kGroupBlock, high - at), to + (at - from) * p.item);
  };
  if (p.length == 0) return;
  const int64_t together = kGroupBlock / p.length;
  if (together < 2) {
    for (; r * p.row < end; ++r) piece(r);
    return;
  }
  if (from % p.row != 0) piece(r++);
  alignas(64) char made[kGroupBlock * 16];
  for (int64_t rows; (rows = std::min(together, end / p.row - r)) > 0; r += rows) {
    make(r * p.length, rows * p.length, made);
    spread_pieces(to + (r * p.row + p.first - from) * p.item, p.row * p.item, made, p.length * p.item, rows);
  }
  if (r * p.row < end) piece(r);
}

/// The folds of all elements with which a group ends. Their blocks, and the order in which these are merged, are those
/// of a fold alone.
class FoldEnds {
 public:
  explicit FoldEnds(const Group& group) : group_(group) {
    for (const GroupStep& step : group.steps) count_ += step.fold != nullptr;
    ends_.reserve(count_);  // folders refer to their arguments
    for (const GroupStep& step : group.steps) {
      if (!step.fold) continue;
      End& end = ends_.emplace_back();
      end.args = {.compute = group.values[step.in[0]].dtype, .divisor = step.divisor};
      end.result = group.values[step.out[0]].data;
      end.step = &step;
      end.accumulators.resize(static_cast<size_t>(blocks() * kWidestFold));
    }
  }
  FoldEnds(const FoldEnds&) = delete;

  int64_t blocks() const { return (group_.numel + kFoldBlock - 1) / kFoldBlock; }

  /// The block of `n` values that begins with element `first`. Threads enter blocks at once.
  void enter(const GroupStep& step, int64_t first, int64_t n, const char* values) {
    for (End& end : ends_) {
      if (end.step != &step) continue;
      const Folder folder = folder_of(*step.fold, end.args, end.result);
      folder.rows(folder, values, 0, 1, n, nullptr, 0, end.accumulators.data() + first / kFoldBlock * folder.acc_size);
    }
  }
  void finish() {
    for (End& end : ends_) {
      const Folder folder = folder_of(*end.step->fold, end.args, end.result);
      merge_blocks(folder, end.accumulators.data(), group_.numel);
    }
  }

 private:
  static constexpr int64_t kWidestFold = 16;  // bytes of an accumulator
  struct End {
    FoldArgs args;
    void* result = nullptr;
    const GroupStep* step = nullptr;
    std::vector<char> accumulators;
  };
  const Group& group_;
  size_t count_ = 0;
  std::vector<End> ends_;
};

}  // namespace facula::cpu::FACULA_ISA

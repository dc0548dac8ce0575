// Notes what runs, as it runs, in rows of one size in flat lists. There is no text, no map and no block of memory for
// an op, an argument or a value by itself, so that noting an op costs some hundred nanoseconds. A program is made of
// the rows in the end (program/record.h), and names only then.
#pragma once

#include "core/storage.h"
#include "program/program.h"

namespace facula {

struct TraceArgument {
  enum class Kind : uint8_t { Constant, Ref, Refs, Ints };
  Kind kind;
  uint32_t at;         // of a Ref the value; else where it begins in `constants`, `refs` or `ints`
  uint32_t count = 1;  // of a list
};

struct TraceRow {
  const BoxedOp* op;
  uint32_t arguments;  // where its own begin: as many as the op has
  uint32_t results;    // the first of its values, which lie side by side
  uint32_t lengths;    // where the lengths begin of its results that are lists
  uint32_t place;      // a number of who records: where the program was
  bool no_grad;
};

/// A value, with what its tensor showed when it was met. A share in the storage keeps its address from being another's.
struct TraceValue {
  Ref<Storage> storage;  // null: a number, or no tensor
  int64_t offset = 0;    // bytes
  uint32_t dims = 0;     // where its sizes begin, with the strides behind
  uint32_t ndim = 0;
  Value::Kind kind = Value::Kind::Tensor;
  DType dtype = DType::Float32;
  Device device = kCPU;
  bool contiguous = true, conjugate = false, requires_grad = false;
};

/// Numbers by hash. The caller says what is equal: `same(number)`.
class NumberTable {
 public:
  template <class Same>
  int find(uint64_t hash, Same&& same) const {
    if (slots_.empty()) return -1;
    for (size_t at = hash & mask();; at = (at + 1) & mask()) {
      const Slot& slot = slots_[at];
      if (slot.number < 0 || (slot.hash == hash && same(slot.number))) return slot.number;
    }
  }
  /// In the place of an equal one, if there is one; true when there was none.
  template <class Same>
  bool put(uint64_t hash, int number, Same&& same) {
    if (used_ * 2 >= slots_.size()) grow(slots_.size() * 2);
    size_t at = hash & mask();
    while (slots_[at].number >= 0 && !(slots_[at].hash == hash && same(slots_[at].number))) at = (at + 1) & mask();
    const bool fresh = slots_[at].number < 0;
    used_ += fresh;
    slots_[at] = {hash, number};
    return fresh;
  }
  /// Room for so many.
  void reserve(size_t count) {
    if (count * 2 > slots_.size()) grow(count * 2);
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    int number = -1;  // none
  };
  size_t mask() const { return slots_.size() - 1; }
  void grow(size_t size);
  std::vector<Slot> slots_;  // a power of two, half of them free
  size_t used_ = 0;
};

class Trace {
 public:
  std::vector<TraceRow> rows;
  std::vector<TraceArgument> arguments;
  std::vector<Value> constants;
  std::vector<int> refs;  // -1: none
  std::vector<int64_t> ints;
  std::vector<uint32_t> lengths;
  std::vector<TraceValue> values;
  std::vector<int64_t> dims;

  /// Room for so many rows and what belongs to them.
  void reserve(size_t count);
  /// A row, whose arguments and results follow.
  void begin(const BoxedOp& op, uint32_t place, bool no_grad);
  void put_ref(int value) { arguments.push_back({TraceArgument::Kind::Ref, static_cast<uint32_t>(value)}); }
  void put_refs(std::span<const int> values);
  void put_ints(IntList list);
  void put(Value constant);
  void put(Arg argument);

  int add_value(const Tensor& tensor);
  int add_value(Value::Kind kind);
  /// Of which elements of which memory a tensor shows, and as what; and whether a value is of the same.
  static uint64_t hash_of(const Tensor& tensor);
  bool shows_same(int value, const Tensor& tensor) const;

  /// As programs have them.
  Arg argument(const TraceArgument& argument) const;
  TensorMeta meta(int value) const;
};

}  // namespace facula

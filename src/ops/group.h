// Groups: element-wise steps over one space of elements, which are computed chunk by chunk. What one step gives to the
// next stays in the cache, and what nobody else wants is never written to memory. Every step is the loop that its op
// runs alone, on the same elements: results are the same, bit for bit.
#pragma once

#include <vector>

#include "core/kernel.h"
#include "ops/iterator.h"
#include "ops/reduce.h"

namespace facula {

struct GroupValue {
  enum class Kind : uint8_t {
    Stream,  // elements in memory, read in the order of the group
    Number,  // one number for all elements, in the compute dtype of the step that reads it
    Result,  // of a step; dense, in the order of the group
  };
  Kind kind = Kind::Stream;
  DType dtype = DType::Float32;
  char* data = nullptr;  // of a result: null where it is not written to memory
  Dims strides;          // of a stream: bytes, innermost dimension first
  bool per_row = false;  // of a result: one element for each row, or of a stream that is read so
  alignas(16) char number[16] = {};
};

struct GroupStep {
  enum class Kind : uint8_t {
    Loop,      // element by element
    Fold,      // a row to one element, by `fold`
    Extremum,  // a row to its extremum and the position of that, by `extremum`
  };
  Kind kind = Kind::Loop;
  bool per_row = false;  // of a loop: over one element for each row
  const FoldKernel* fold = nullptr;
  FoldArgs fold_args{};
  const PositionKernel* extremum = nullptr;
  uint16_t positions = 0;  // the second result of an extremum
  uint16_t loop = 0;
  DType compute = DType::Float32;      // what the loop reads
  DType loop_result = DType::Float32;  // what the loop writes
  uint8_t inputs = 0;
  uint16_t out = 0;  // value numbers
  std::array<uint16_t, kMaxInputs> in = {};
  alignas(16) char params[kMaxParams * 16] = {};
};

struct Group {
  int64_t numel = 0;
  int64_t row = 0;  // the length of a row where steps look at rows, which then are dimension 0; else 0
  Dims shape;       // innermost dimension first
  std::vector<GroupValue> values;
  std::vector<GroupStep> steps;

  template <class See>
  void memory(See see) const {
    for (const GroupValue& v : values)
      if (v.data) see(static_cast<const void*>(v.data));
  }
};

/// Orders the dimensions and merges those that lie evenly for every stream, but rows that steps look at. Before,
/// `strides` of the streams are bytes in the order of `sizes`.
void collapse(Group& group, IntList sizes, const Dims& order);

/// Runs the steps in their order and writes the results that have a place.
inline Kernel<void(const Group&)> run_group{"group"};

}  // namespace facula

// Groups: element-wise steps over one space of elements, which are computed chunk by chunk. What one step gives to the
// next stays in the cache, and what nobody else wants is never written to memory. Every step is the loop that its op
// runs alone, on the same elements: results are the same, bit for bit.
#pragma once

#include <vector>

#include "core/kernel.h"
#include "ops/iterator.h"

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
  alignas(16) char number[16] = {};
};

struct GroupStep {
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
  Dims shape;  // innermost dimension first
  std::vector<GroupValue> values;
  std::vector<GroupStep> steps;

  template <class See>
  void memory(See see) const {
    for (const GroupValue& v : values)
      if (v.data) see(static_cast<const void*>(v.data));
  }
};

/// Orders the dimensions and merges those that lie evenly for every stream. Before, `strides` of the streams are bytes
/// in the order of `sizes`.
void collapse(Group& group, IntList sizes, const Dims& order);

/// Runs the steps in their order and writes the results that have a place.
inline Kernel<void(const Group&)> run_group{"group"};

}  // namespace facula

// Defines groups: element-wise steps over one space of elements, which are computed chunk by chunk. What one step gives
// to the next stays in the cache, and what nobody else needs is never written to memory. Every step is the loop that
// its op runs alone, on the same elements: results are the same, bit for bit.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/kernel.h"
#include "ops/iterator.h"
#include "ops/reduce.h"

namespace facula {

struct Joined;

struct GroupValue {
  enum class Kind : uint8_t {
    Stream,  // elements in memory, read in the order of the group
    Number,  // one number for all elements, in the compute dtype of the step that reads it
    Result,  // of a step; dense, in the order of the group, where no strides say otherwise
    Joined,  // the elements of parts, which take turns
  };
  Kind kind = Kind::Stream;
  DType dtype = DType::Float32;
  char* data = nullptr;  // of a result: null where it is not written to memory
  Dims strides;          // of a stream, and of a result that goes to memory of its own kind: bytes, innermost first
  bool per_row = false;  // of a result: one element for each row, or of a stream that is read so
  bool of_all = false;   // of a result: one element, of a fold
  std::shared_ptr<const Joined> joined;
  alignas(16) char number[16] = {};

  bool is_placed() const { return kind == Kind::Stream || (kind == Kind::Result && !strides.empty()); }
};

/// What a step makes of some rows of the group: tensors of them, or of one element for each.
using RowFunction = std::function<void(const Tensor& rows, const Tensor* const* results)>;
constexpr int kMaxResults = 3;

/// What such a step computes, for engines that print kernels.
enum class RowWork : uint8_t { Other, Sum, Max, Min, FirstMax, FirstMin, Softmax, LogSoftmax, Norm };

struct GroupStep {
  uint8_t inputs = 0, outs = 1;
  std::array<uint16_t, kMaxInputs> in = {};  // value numbers
  std::array<uint16_t, kMaxResults> out = {};
  bool copies = false;                      // the result is the input, converted; else
  const FoldKernel* fold = nullptr;         // of all elements; else
  std::shared_ptr<const RowFunction> rows;  // of rows; else a loop over elements, which is:
  RowWork work = RowWork::Other;
  double divisor = 1;  // of a sum; of a norm: what is added to the variance
  bool center = false, has_weight = false,
       has_bias = false;  // of a norm; the latter are in[1] and in[2], if not the CPU's
  bool per_row = false;   // over one element for each row
  uint16_t loop = 0;
  DType compute = DType::Float32;      // what the loop reads
  DType loop_result = DType::Float32;  // what the loop writes
  alignas(16) char params[kMaxParams * 16] = {};
};

struct Group {
  int64_t numel = 0;
  int64_t row = 0;  // the length of a row where steps look at rows, which then are dimension 0; else 0
  Dims shape;       // innermost dimension first
  std::vector<GroupValue> values;
  std::vector<GroupStep> steps;

  template <class See>
  void memory(See see) const;
};

/// What `cat` and `stack` make: of every `length` elements, the first ones are the next of the first part, and so on.
/// A part is a value of a group of its own, which is computed where it is needed and nowhere written.
struct Joined {
  struct Part {
    int64_t length = 0;
    Group group;
    uint16_t value = 0;
  };
  int64_t length = 0;
  std::vector<Part> parts;
};

template <class See>
void Group::memory(See see) const {
  for (const GroupValue& v : values) {
    if (v.data) see(static_cast<const void*>(v.data));
    if (!v.joined) continue;
    for (const Joined::Part& part : v.joined->parts) part.group.memory(see);
  }
}

/// Orders the dimensions and merges those that lie evenly for every stream, but rows that steps look at. Before,
/// `strides` of the streams are bytes in the order of `sizes`.
void collapse(Group& group, IntList sizes, const Dims& order);

/// Runs the steps in their order and writes the results that have a place.
inline Kernel<void(const Group&)> run_group{"group"};

/// On devices other than the CPU: whether a group can look at rows of that length with the bits that the op gives.
/// There a row belongs to a group of threads that takes its elements in an order which its length and dtype say.
constexpr bool can_take_rows(RowWork work, int64_t length) {
  constexpr int64_t kLongest = 4096;
  return work != RowWork::Other && length <= kLongest;
}

/// Installed by devices whose work goes to streams: makes one the calling thread's current stream, and gives the one
/// that was.
inline Stream (*exchange_stream)(Stream stream) = nullptr;
/// While it lives, work of this thread goes to the stream.
class OnStream {
 public:
  explicit OnStream(Stream stream) {
    if (!stream.device.is_cpu() && exchange_stream) before_ = exchange_stream(stream);
  }
  ~OnStream() {
    if (!before_.device.is_cpu()) exchange_stream(before_);
  }
  OnStream(const OnStream&) = delete;

 private:
  Stream before_{kCPU};
};

}  // namespace facula

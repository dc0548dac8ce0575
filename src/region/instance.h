// Groups of one call while they wait.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/recipe.h"
#include "ops/group.h"
#include "ops/semantics.h"
#include "region/recording.h"

namespace facula {

/// An element-wise op as it was called.
struct ElementCall {
  const ops::ElementwiseOp* op = nullptr;
  int inputs = 0, params = 0;
  std::array<Operand, kMaxInputs> input{Scalar(0), Scalar(0), Scalar(0)};
  std::array<Scalar, kMaxParams> param;
  ops::ElementwiseShape derived;
  std::array<int, kMaxInputs> waiting = {-1, -1, -1};  // the values of the instance that the inputs are
};

/// An op on rows, the last dimension of its operand, as it was called.
struct RowCall {
  const Tensor* self = nullptr;
  std::shared_ptr<const RowFunction> function;
  RowWork work = RowWork::Other;
  double divisor = 1;
  struct Result {
    DType dtype;
    Dims sizes;
    bool per_row;
  };
  std::vector<Result> results;
  std::vector<Tensor> others;  // that the function reads
};

/// Where the op stands in the recording of its call.
struct RecordedPlace {
  std::shared_ptr<Recording> recording;
  size_t position = 0;
  RecordedOp& op() const { return recording->ops[position]; }
};

/// Element-wise ops on one space of elements that were put off until one of their results is needed. It is made of what
/// the ops were called with, derived as eager execution derives it, and every step runs the loop that its op runs
/// alone. One thread adds steps; any thread may need a result.
class Instance final : public Recipe {
 public:
  Instance(const ops::ElementwiseShape& space, int16_t number)
      : number(number),
        stream(current_stream(space.device)),
        sizes_(space.sizes),
        strides_(space.strides[0]),
        order_(space.order) {
    constexpr size_t kUsual = 16;
    values_.reserve(kUsual);
    inputs_.reserve(kUsual);
    steps_.reserve(kUsual);
    outs_.reserve(kUsual);
  }

  const int16_t number;  // among those of the call
  const Stream stream;   // on which its ops were called

  bool has_space(const ops::ElementwiseShape& space) const {
    return sizes_ == space.sizes && strides_ == space.strides[0] && is_here(space.device);
  }
  /// Whether the ops of this thread on the device go where its ops were called.
  bool is_here(Device device) const {
    return stream.device == device && (device.is_cpu() || stream == current_stream(device));
  }
  /// Whether steps look at its rows, and elements of the shape stand for one row each.
  bool has_rows(IntList sizes) const { return row_ && IntList(kept_sizes()) == sizes; }
  /// Whether more steps may come: it has not run, and has room.
  bool is_open() const;
  size_t step_count() const { return steps_.size(); }

  /// The value that the tensor shows as a whole, a result of this instance without bytes, which steps can read; -1 for
  /// another tensor.
  int value_of(const TensorImpl* tensor) const;
  /// Adds a step, whose result is a tensor without bytes. False: another thread has just closed it.
  bool add(const ElementCall& call, const RecordedPlace& place, Tensor& result);
  /// Adds a step that writes to the result `into`, one of its operands.
  bool add_write(const ElementCall& call, const RecordedPlace& place, size_t into);
  /// Adds an op on rows.
  bool add_rows(const RowCall& call, const RecordedPlace& place, List<ResultSlot> results);
  /// Whether rows are short enough, and lie in order.
  bool can_look_at_rows() const;
  /// The result that the tensor is, as value_of().
  int result_of(const TensorImpl* tensor) const;

  void make(size_t which) override;
  bool reads(const Storage* storage) const override;
  /// Makes all results that somebody holds, together.
  void make_all();

  /// The bytes of inputs that nobody else holds any more.
  int64_t held_bytes() const;

  struct Outcome {
    int64_t runs = 0, steps = 0;
    int64_t never_made = 0, bytes_saved = 0;  // results, and their bytes
    int64_t not_moved = 0;                    // bytes between steps, less what is read again
  };
  /// What became of it, which the recordings learn.
  Outcome finish();

 private:
  struct Result {
    uint16_t value;
    RecordedPlace place;
    Dims sizes, strides;
    const Storage* storage = nullptr;
    bool made = false;
  };
  bool is_elsewhere(const Operand& o) const { return o.impl() && o.impl()->storage->device != stream.device; }
  std::array<Scalar, kMaxInputs> numbers_beside(const ElementCall& call) const;
  bool add_step(const ElementCall& call, const RecordedPlace& place, std::optional<size_t> into);
  void read_inputs_late(const ElementCall& call);
  std::vector<size_t> choose_written(size_t which) const;
  Group part_for(const std::vector<size_t>& written, std::vector<uint16_t>& number) const;
  void forget_inputs();
  int64_t bytes_not_moved() const;
  uint16_t stream_of(const Tensor& tensor, Dims strides, bool per_row);
  uint16_t result_value(DType dtype, bool per_row);
  Dims kept_sizes() const;
  uint16_t number_of(DType compute, const Scalar& number);

  const Dims sizes_, strides_, order_;
  mutable std::mutex lock_;  // of what follows; held for some stores only
  std::atomic<bool> open_ = true;
  std::atomic<bool> ends_ = false;  // the region does: whatever is alive will be wanted
  std::vector<GroupValue> values_;  // addresses are found when it runs
  std::vector<Tensor> inputs_;      // of streams, by value
  std::vector<Tensor> others_;      // that steps on rows read besides
  std::vector<GroupStep> steps_;
  std::vector<Result> outs_;  // by the number of the result
  int64_t row_ = 0;           // the length of rows, where steps look at them
  int64_t streams_ = 0, runs_ = 0;
};

}  // namespace facula

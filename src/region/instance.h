// Holds the groups of one call while they wait.
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

/// Whether there are groups on the device.
inline bool has_groups(Device device) { return run_group.table[static_cast<size_t>(device.type)]; }
/// Flags of tensors that neither wait nor are read late.
constexpr uint32_t kNotPutOff = kConjugate | kBatched | kPythonDispatch | kPrivateLayout | kSparse;
inline bool can_wait(const TensorImpl* t) {
  if (!t || (t->flags & kNotPutOff) || !has_groups(t->storage->device)) return false;
  return (t->flags & kDeferred) || can_be_read_late(t->storage);
}

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
  bool center = false;
  struct Result {
    DType dtype;
    Dims sizes;
    bool per_row;
  };
  std::vector<Result> results;
  std::vector<Tensor> others;  // that the function reads
};

/// Tensors that are joined along a dimension, in one that has their places.
struct JoinCall {
  std::vector<Tensor> parts;     // each waits in a group, or has its bytes; all of one dtype
  Dims sizes;                    // of the result, which is contiguous
  int64_t inner = 1;             // elements of the dimensions behind the one along which they are joined
  std::vector<int64_t> lengths;  // of the parts along it
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
  bool has_rows(IntList sizes) const {
    if (!row_) return false;
    const size_t outer = sizes_.size() - 1;
    return IntList(keepdim_sizes()) == sizes || (sizes.size() == outer && IntList(sizes_).slice(0, outer) == sizes);
  }
  /// Whether more steps may come: it has not run, and has room.
  bool is_open() const;
  size_t step_count() const { return steps_.size(); }

  /// The value that the tensor shows as a whole, a result of this instance without bytes, which a step over `sizes` can
  /// read: `strides` of the tensor seen so, in elements, lead to the elements in their order. -1 for another tensor.
  int value_of(const TensorImpl* tensor, IntList sizes, IntList strides) const;
  const Dims& sizes() const { return sizes_; }
  bool has_rows() const { return row_ > 0; }
  int64_t numel() const {
    int64_t count = 1;
    for (const int64_t size : sizes_) count *= size;
    return count;
  }
  bool is_contiguous() const { return strides_ == contiguous_strides(sizes_); }
  /// Adds a step, whose result is a tensor without bytes. False: another thread has just closed it.
  bool add(const ElementCall& call, const RecordedPlace& place, Tensor& result);
  /// Adds a step that writes to the result `into`, one of its operands.
  bool add_write(const ElementCall& call, const RecordedPlace& place, size_t into);
  /// Adds a value converted to another dtype: one that waits, or a stream.
  bool add_cast(const ElementCall& call, DType dtype, const RecordedPlace& place, Tensor& result);
  /// Adds a fold of all elements of a value.
  bool add_fold(int value, const FoldKernel& fold, double divisor, const RecordedPlace& place, Tensor& result);
  /// Adds joined tensors. Parts that wait are made blockwise where they are needed, if that is cheap, else before.
  bool add_join(const JoinCall& call, const RecordedPlace& place, Tensor& result);
  /// Runs what is needed for a write of the call's result, or of a value, to memory that exists, as its last step.
  /// Results that nobody has wanted so far stay without bytes, but those that read what is overwritten. False: the
  /// operands are better made first.
  bool write(const ElementCall& call, const Tensor& into);
  bool write_value(int value, const Tensor& into);
  /// Adds an op on rows; `waiting` is its operand as a value, or -1.
  bool add_rows(const RowCall& call, const RecordedPlace& place, List<ResultSlot> results, int waiting);
  /// Whether rows are short enough, and lie in order.
  bool can_look_at_rows() const;
  /// The result that the tensor is, as value_of().
  int result_of(const TensorImpl* tensor) const;
  /// A value that waits in a group of the same space which takes no more steps, as one of this: its steps are taken
  /// over (region/absorb.cpp). -1: it has to be made.
  int absorb(const TensorImpl* tensor);
  /// An op that is dear, and runs at once, reads the tensor.
  void will_be_read(const TensorImpl* tensor);

  void make(size_t which) override;
  bool reads(const Storage* storage) const override;
  /// The call ends: no more steps come, and all results that somebody holds are made, together. `tape_may_wait`: but
  /// those that only a tape holds, where that takes no more memory (region/tape.cpp).
  void end(bool tape_may_wait);
  /// Lets go of bytes that only a tape holds, and that can be made again of what others hold. Returns how many.
  int64_t let_go_of_saved();
  /// No more steps come.
  void close();

  /// The bytes of inputs that nobody else holds any more.
  int64_t held_bytes() const;
  /// Whether they are many beside the results that wait for them.
  bool holds_too_much() const;

  struct Outcome {
    int64_t runs = 0, steps = 0;
    int64_t never_made = 0, bytes_saved = 0;  // results, and their bytes
    int64_t not_moved = 0;                    // bytes between steps, less what is read again
  };
  /// What became of it, which the recordings learn.
  Outcome finish();

 private:
  static constexpr size_t kMostSteps = 48;
  static constexpr int64_t kMostStreams = 16;
  static constexpr int64_t kLeastLetGo = int64_t{64} << 10;  // bytes of a result

  struct Result {
    uint16_t value;
    RecordedPlace place;
    Dims sizes, strides;
    const Storage* storage = nullptr;
    bool made = false;
    bool for_tape = false;               // when the region ended, only saved values of nodes held it
    bool read_at_once = false;           // by an op that is dear, which may be the last to read it but for the tape
    bool made_by_chance = false;         // another value has to be written, not this one
    const Instance* taken_by = nullptr;  // by whom it was absorbed last
  };
  bool is_elsewhere(const Operand& o) const { return o.impl() && o.impl()->storage->device != stream.device; }
  std::array<Scalar, kMaxInputs> numbers_beside(const ElementCall& call) const;
  /// Memory that exists, to which a run writes a value as its last step.
  struct Target {
    uint16_t value;
    const Tensor& into;
  };
  uint16_t add_loop(const ElementCall& call, DType result, const std::array<Scalar, kMaxInputs>& numbers);
  /// Values of another instance that were taken over: which values they are here.
  struct Taken {
    Ref<Instance> from;
    std::vector<uint16_t> here;
  };
  struct Cone;
  static std::optional<Cone> cone_of(const Instance& from, uint16_t value, const std::vector<uint16_t>& here);
  std::vector<uint16_t>& taken_from(Instance& from);
  uint16_t stream_like(const GroupValue& stream, const Tensor& tensor);
  void take(const Instance& from, const Cone& cone, std::vector<uint16_t>& here);
  int absorb_result(Instance& from, Result& result, std::optional<Cone>& cone);
  bool is_worth_taking(const Instance& from, const Result& result, const Cone& cone) const;
  void write_dear(Result& result, const std::vector<uint16_t>& dear);
  bool is_made_by_step(uint16_t value) const { return values_[value].kind == GroupValue::Kind::Result; }
  void check_taken(const ElementCall& call);
  std::vector<bool> read_again(const std::vector<size_t>& written) const;
  void read_written(uint16_t value, const Tensor& tensor);
  void read_instead(uint16_t value, const Tensor& tensor);
  bool add_step(const ElementCall& call, const RecordedPlace& place, std::optional<size_t> into);
  Tensor promise(uint16_t value, const Dims& sizes, const Dims& strides);
  bool can_write_to(const Tensor& into) const;
  bool part_of(uint16_t value, Joined::Part& part, std::vector<Tensor>& inputs) const;
  static void read_joined(Group& group);
  static void read_part(const Tensor& t, Joined::Part& part, std::vector<Tensor>& inputs);
  std::vector<bool> readers_of(const Tensor& memory) const;
  void run(const std::vector<size_t>& written, const Target* target);
  void place_target(Group& group, const std::vector<uint16_t>& number, const Target& target) const;
  bool write_last(const Tensor& into, const std::function<uint16_t()>& add);
  void read_inputs_late(const ElementCall& call);
  std::vector<size_t> choose_written(size_t which, const Tensor* changes = nullptr) const;
  Group part_for(std::vector<bool> needed, std::vector<uint16_t>& number) const;
  void forget_inputs(const std::vector<bool>& needed);
  int64_t bytes_not_moved() const;
  void name_factors(GroupStep& step, const std::vector<Tensor>& factors);
  void leave_to_tape();
  bool may_be_let_go(const Result& r) const;
  void forget_unneeded_inputs();
  int64_t result_bytes(const Result& r) const;
  int64_t input_bytes(bool only_held) const;
  uint16_t stream_of(const Tensor& tensor, Dims strides, bool per_row);
  uint16_t result_value(DType dtype, bool per_row);
  Dims keepdim_sizes() const;
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
  std::vector<Taken> taken_;
  int64_t row_ = 0;     // the length of rows, where steps look at them
  bool folds_ = false;  // all elements of a value
  int64_t streams_ = 0, runs_ = 0;
  mutable bool lent_ = false;  // another instance computes a value of this one by itself
};

/// Marks the values that the results of a run are made of.
std::vector<bool> needed_values(const std::vector<GroupStep>& steps, const std::vector<GroupValue>& values,
                                std::vector<bool> needed);

}  // namespace facula

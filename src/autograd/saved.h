// Defines the values that a node saves for its derivative, and the checks that are made when they are used.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "autograd/node.h"
#include "core/budget_hooks.h"
#include "core/may_wait.h"
#include "ops/operand.h"

namespace facula {

/// What a formula may ask of an argument without its data.
struct TensorInfo {
  TensorInfo() = default;
  explicit TensorInfo(const Tensor& t) {
    if (!t.defined()) return;
    sizes_ = Dims(t.sizes());
    strides_ = Dims(t.strides());
    dtype_ = t.dtype();
    device_ = t.device();
    numel_ = t.numel();
    storage_offset_ = t.storage_offset();
    storage_size_ = static_cast<int64_t>(t.storage()->nbytes) / t.item_size();
  }
  explicit TensorInfo(const Operand& o) : TensorInfo(o.tensor()) {
    if (!o.is_tensor()) dtype_ = o.scalar().dtype();
  }
  IntList sizes() const { return sizes_; }
  IntList strides() const { return strides_; }
  int64_t size(int64_t d) const { return sizes_[static_cast<size_t>(d < 0 ? d + dim() : d)]; }
  int64_t dim() const { return static_cast<int64_t>(sizes_.size()); }
  int64_t numel() const { return numel_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  bool is_complex() const { return facula::is_complex(dtype_); }
  bool is_floating() const { return facula::is_floating(dtype_); }
  int64_t item_size() const { return facula::item_size(dtype_); }
  int64_t storage_offset() const { return storage_offset_; }
  /// Elements of this dtype that the storage holds.
  int64_t storage_size() const { return storage_size_; }
  const TensorInfo& info() const { return *this; }

 private:
  Dims sizes_, strides_;
  DType dtype_ = DType::Float32;
  Device device_;
  int64_t numel_ = 1, storage_offset_ = 0, storage_size_ = 1;
};

inline std::vector<TensorInfo> info_of_list(TensorList tensors) {
  std::vector<TensorInfo> infos;
  for (const Tensor& t : tensors) infos.emplace_back(t);
  return infos;
}

/// A user's saved_tensors_hooks pair: made when a tensor is saved, called when it is used.
struct PackedTensor {
  virtual ~PackedTensor() = default;
  virtual Tensor unpack() = 0;
};

/// Installed by src/budget: what stands for a tensor whose storage a cell has; null where none has it. Unpacking gives
/// a tensor without history on that storage, or on another one with the same bytes, version and last writer.
extern std::unique_ptr<PackedTensor> (*save_in_cell)(const Tensor& tensor);

/// Who wrote to a storage last, with the source lines where known (anomaly mode records them).
struct WriteRecord {
  uint32_t version = 0;
  std::string traceback;
};
/// In anomaly mode: remembers the lines that have just written to the tensor.
void record_write(const Tensor& written);
inline void note_write(const Tensor& written) {
  if (__builtin_expect(thread_state.modes & kModeAnomaly, 0)) record_write(written);
}

class SavedTensor {
 public:
  SavedTensor() = default;
  /// `is_output`: the tensor is a result of the node itself and must not keep that node alive.
  SavedTensor(const Tensor& tensor, bool is_output) {
    if (!tensor.defined()) return;
    constexpr uint32_t kSpecial = kInference | kDeferred | kMayWait | kInCell;
    if (__builtin_expect(is_output || (tensor.flags() & kSpecial) || (thread_state.modes & kModeSavedHooks), 0)) {
      save_special(tensor, is_output);
      return;
    }
    tensor_ = tensor;
    version_ = tensor.storage()->current_version();
  }
  /// The tensor as it was when saved; throws when it was written to since, or let go.
  Tensor unpack(const Node& node) const {
    bool plain = tensor_.defined() && !reattach_ && tensor_.storage()->current_version() == version_;
    return __builtin_expect(plain, 1) ? tensor_ : unpack_special(node);
  }
  void reset() {
    tensor_ = Tensor();
    packed_.reset();
  }

 private:
  void save_special(const Tensor& tensor, bool is_output);
  void save_cell(const Tensor& tensor);
  Tensor unpack_special(const Node& node) const;
  Tensor reattached(const Tensor& tensor, const Node& node) const;

  Tensor tensor_;
  std::unique_ptr<PackedTensor> packed_;
  uint32_t version_ = 0;
  uint32_t flags_ = 0;
  uint32_t slot_ = 0;
  bool waits_ = false;  // `packed_` stands for the tensor itself, whose bytes may not exist
  bool is_output_ = false;
  bool reattach_ = false;
};

class SavedOperand {
 public:
  SavedOperand() = default;
  explicit SavedOperand(const Operand& operand)
      : is_tensor_(operand.is_tensor()), is_number_(!operand.is_tensor()), scalar_(operand.scalar()) {
    if (is_tensor_) tensor_ = SavedTensor(operand.tensor(), false);
  }
  struct Unpacked {
    Tensor tensor;
    Scalar scalar;
    operator Operand() const { return tensor.defined() ? Operand(tensor) : Operand(scalar); }
    /// For formulas that need a tensor: a number becomes a 0-d one in double precision, which promotes nothing.
    operator Tensor() const {
      if (tensor.defined()) return tensor;
      return scalar_tensor(scalar, scalar.is_complex()    ? DType::Complex128
                                   : scalar.is_floating() ? DType::Float64
                                                          : scalar.dtype());
    }
  };
  /// A number is saved as well: it is let go with the rest, so that another pass is refused as it is beside tensors.
  Unpacked unpack(const Node& node) const {
    return is_tensor_ || (is_number_ && node.freed) ? Unpacked{tensor_.unpack(node), {}} : Unpacked{Tensor(), scalar_};
  }
  void reset() { tensor_.reset(); }

 private:
  bool is_tensor_ = false, is_number_ = false;
  SavedTensor tensor_;
  Scalar scalar_;
};

/// Visits the values a node saves, by the names of the op's arguments and results. What is not overridden is not
/// visited.
class SavedVisitor {
 public:
  explicit SavedVisitor(const Node& node) : node_(node) {}
  virtual ~SavedVisitor() = default;
  void operator()(const char* name, const SavedTensor& t) {
    if (wants(name)) tensor(t.unpack(node_));
  }
  void operator()(const char* name, const SavedOperand& o) {
    if (!wants(name)) return;
    SavedOperand::Unpacked value = o.unpack(node_);
    if (value.tensor.defined()) tensor(value.tensor);
    else number(value.scalar);
  }
  void operator()(const char* name, const std::vector<SavedTensor>& list) {
    if (!wants(name)) return;
    std::vector<Tensor> values;
    for (const SavedTensor& t : list) values.push_back(t.unpack(node_));
    tensors(values);
  }
  void operator()(const char* name, const TensorInfo& info) {
    if (wants(name)) ints(info.sizes());
  }
  void operator()(const char* name, const std::vector<TensorInfo>&) {
    if (wants(name)) none();
  }
  void operator()(const char* name, const Dims& d) {
    if (wants(name)) ints(d);
  }
  void operator()(const char* name, const Scalar& s) {
    if (wants(name)) number(s);
  }
  void operator()(const char* name, const std::string& s) {
    if (wants(name)) text(s);
  }
  void operator()(const char* name, const std::vector<double>& list) {
    if (wants(name)) floats(list);
  }
  void operator()(const char* name, DType d) {
    if (wants(name)) dtype(d);
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (value) (*this)(name, *value);
    else if (wants(name)) none();
  }
  template <class T>
  void operator()(const char* name, const T& value) {
    if (!wants(name)) return;
    if constexpr (std::is_arithmetic_v<T>) number(Scalar(value));
    else none();
  }

 protected:
  virtual bool wants(const char* name) = 0;
  virtual void tensor(const Tensor& t) = 0;
  virtual void tensors(const std::vector<Tensor>& list) = 0;
  virtual void number(const Scalar& s) = 0;
  virtual void ints(IntList list) = 0;
  virtual void floats(const std::vector<double>& list) = 0;
  virtual void text(const std::string& s) = 0;
  virtual void dtype(DType d) = 0;
  virtual void none() = 0;

 private:
  const Node& node_;
};

inline std::vector<SavedTensor> save_list(TensorList tensors) {
  std::vector<SavedTensor> saved;
  saved.reserve(tensors.size());
  for (const Tensor& t : tensors) saved.emplace_back(t, false);
  return saved;
}
inline std::vector<Tensor> unpack_list(const std::vector<SavedTensor>& saved, const Node& node) {
  std::vector<Tensor> tensors;
  for (const SavedTensor& s : saved) tensors.push_back(s.unpack(node));
  return tensors;
}

}  // namespace facula

// Values that a node keeps for its derivative, and the checks made when they are used.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "autograd/node.h"
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

/// A user's saved_tensors_hooks pair: made when a tensor is saved, asked when it is used.
struct PackedTensor {
  virtual ~PackedTensor() = default;
  virtual Tensor unpack() = 0;
};
/// Installed by the Python layer; null when no hooks are active on this thread.
inline thread_local PackedTensor* (*pack_saved_tensor)(const Tensor&) = nullptr;

class SavedTensor {
 public:
  SavedTensor() = default;
  /// `is_output`: the tensor is a result of the node itself and must not keep that node alive.
  SavedTensor(const Tensor& tensor, bool is_output);
  /// The tensor as it was when saved; throws when it was written to since, or let go.
  Tensor unpack(const Node& node) const;
  void reset();

 private:
  Tensor tensor_;
  uint32_t version_ = 0;
  uint32_t slot_ = 0;
  bool is_output_ = false;
  bool reattach_ = false;
  std::shared_ptr<PackedTensor> packed_;
};

class SavedOperand {
 public:
  SavedOperand() = default;
  explicit SavedOperand(const Operand& operand) : is_tensor_(operand.is_tensor()), scalar_(operand.scalar()) {
    if (is_tensor_) tensor_ = SavedTensor(operand.tensor(), false);
  }
  struct Unpacked {
    Tensor tensor;
    Scalar scalar;
    operator Operand() const { return tensor.defined() ? Operand(tensor) : Operand(scalar); }
    /// For formulas that need a tensor: a number becomes a 0-d one in double precision, which promotes nothing.
    operator Tensor() const {
      if (tensor.defined()) return tensor;
      return scalar_tensor(scalar, scalar.is_complex() ? DType::Complex128 : scalar.is_floating() ? DType::Float64 : scalar.dtype());
    }
  };
  Unpacked unpack(const Node& node) const {
    return is_tensor_ ? Unpacked{tensor_.unpack(node), {}} : Unpacked{Tensor(), scalar_};
  }
  void reset() { tensor_.reset(); }

 private:
  bool is_tensor_ = false;
  SavedTensor tensor_;
  Scalar scalar_;
};

inline std::vector<SavedTensor> save_list(TensorList tensors) {
  std::vector<SavedTensor> saved;
  for (const Tensor& t : tensors) saved.emplace_back(t, false);
  return saved;
}
inline std::vector<Tensor> unpack_list(const std::vector<SavedTensor>& saved, const Node& node) {
  std::vector<Tensor> tensors;
  for (const SavedTensor& s : saved) tensors.push_back(s.unpack(node));
  return tensors;
}

}  // namespace facula

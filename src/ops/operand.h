// Defines what an element-wise op takes: a tensor, or a Python number that never becomes one.
#pragma once

#include <optional>

#include "core/tensor.h"

namespace facula {

class Operand {
 public:
  Operand(const Tensor& tensor) : impl_(tensor.impl()) {}
  Operand(TensorImpl* impl) : impl_(impl) {}
  Operand(const Scalar& scalar) : scalar_(scalar) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Operand(T number) : scalar_(number) {}
  Operand(std::complex<double> number) : scalar_(number) {}

  bool is_tensor() const { return impl_ != nullptr; }
  TensorImpl* impl() const { return impl_; }
  const Scalar& scalar() const { return scalar_; }
  /// The tensor, sharing ownership; undefined for a number.
  Tensor tensor() const { return Tensor::share(impl_); }
  uint32_t flags() const { return impl_ ? impl_->flags : 0; }
  bool requires_grad() const { return flags() & kRequiresGrad; }
  bool is_complex() const { return impl_ ? facula::is_complex(impl_->dtype) : scalar_.is_complex(); }
  DType dtype() const { return impl_ ? impl_->dtype : scalar_.dtype(); }

 private:
  TensorImpl* impl_ = nullptr;  // borrowed: an operand lives only during a call
  Scalar scalar_;
};

/// PyTorch's result_type: tensors with dimensions outrank 0-d tensors, which outrank numbers, within a dtype class.
class ResultType {
 public:
  void add(DType dtype, int64_t ndim) { merge(ndim > 0 ? dim_ : zero_, dtype); }
  void add(const Scalar& scalar) { merge(number_, scalar.is_complex() ? complex_of_number() : scalar.dtype()); }
  void add(const Operand& operand) {
    if (operand.impl()) add(operand.impl()->dtype, operand.impl()->ndim);
    else add(operand.scalar());
  }
  DType get() const {
    std::optional<DType> best = dim_;
    best = combine(best, zero_);
    best = combine(best, number_);
    return best.value_or(default_dtype());
  }

 private:
  static DType complex_of_number() { return complex_dtype(default_dtype()); }
  static void merge(std::optional<DType>& slot, DType dtype) { slot = slot ? promote(*slot, dtype) : dtype; }
  /// `lower` counts only when its class is higher.
  static std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
    if (!higher) return lower;
    if (!lower || dtype_class(*lower) <= dtype_class(*higher)) return higher;
    // a float tensor with a complex number: the number takes the tensor's precision
    if (is_complex(*lower) && is_floating(*higher))
      return complex_dtype(*higher == DType::BFloat16 ? DType::Float32 : *higher);
    return is_complex(*lower) || is_floating(*lower) ? *lower : promote(*higher, *lower);
  }
  std::optional<DType> dim_, zero_, number_;
};

}  // namespace facula

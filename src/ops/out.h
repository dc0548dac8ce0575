// Where a native op writes: fresh memory, or the caller's `out=` tensor.
#pragma once

#include "ops/operand.h"

namespace facula {

class Out {
 public:
  /// No `out=`: results are allocated.
  Out() = default;
  /// Which dtypes `given` may have beside that of the result: none, or every one of no lower class.
  enum class Cast { None, Class };
  /// `given` receives the result; when it shares memory with an input, the op works on fresh memory and finish()
  /// copies.
  Out(const char* op, const Tensor& given, std::initializer_list<const Tensor*> inputs, Cast cast);
  Out(const char* op, const Tensor& given, TensorList inputs, Cast cast);

  bool given() const { return given_.defined(); }
  /// The tensor the caller gave; undefined without one.
  const Tensor& tensor() const { return given_; }
  /// What a factory takes from `out=` where the caller names none.
  DType dtype_or(DType other) const { return given() ? given_.dtype() : other; }
  Device device_or(Device other) const { return given() ? given_.device() : other; }
  /// A contiguous tensor to fill.
  Tensor make(IntList sizes, DType dtype, Device device) const;
  /// Puts what the op made into the tensor the caller gave (resizing and casting as `out=` allows).
  void finish(const Tensor& made) const;

 private:
  const char* op_ = "";
  Tensor given_;
  bool aliased_ = false;
  Cast cast_ = Cast::Class;
};

/// Makes `out` have `sizes`: a no-op when it does, a resize (with PyTorch's warning unless empty) otherwise.
void resize_output(const Tensor& out, IntList sizes, const char* op);
/// Changes sizes in place, growing the storage when needed.
void resize_tensor(const Tensor& self, IntList sizes, IntList strides);
}  // namespace facula

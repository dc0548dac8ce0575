// Makes copies in the form that a kernel needs, where the tensor is. On meta they have the shape alone; an undefined
// tensor stays undefined.
#pragma once

#include "core/kernel.h"

namespace facula::ops {

/// A dense tensor in a memory format, with uninitialized elements.
Tensor empty_in(MemoryFormat format, IntList sizes, DType dtype, Device device, const char* op);

/// A fresh contiguous tensor of `shape`, to which `t` broadcasts.
/// A UserWarning, once in a process, where a conversion drops imaginary parts. (To bool none is dropped.)
void warn_of_lost_parts(DType from, DType to);
Tensor contiguous_copy(const Tensor& t, IntList shape, DType dtype);
inline Tensor contiguous_copy(const Tensor& t) { return contiguous_copy(t, t.sizes(), t.dtype()); }

/// The tensor itself where it is so already.
inline Tensor as_contiguous(const Tensor& t, IntList shape, DType dtype) {
  return t.is_contiguous() && t.dtype() == dtype && t.sizes() == shape ? t : contiguous_copy(t, shape, dtype);
}
inline Tensor as_contiguous(const Tensor& t, DType dtype) {
  return t.defined() ? as_contiguous(t, t.sizes(), dtype) : t;
}
inline Tensor as_contiguous(const Tensor& t) {
  return !t.defined() || t.is_contiguous() ? t : contiguous_copy(t, t.sizes(), t.dtype());
}
/// Of a tensor that is made for it: a reference more would be counted for nothing, which two locked instructions do.
inline Tensor as_contiguous(Tensor&& t) {
  return !t.defined() || t.is_contiguous() ? std::move(t) : contiguous_copy(t, t.sizes(), t.dtype());
}

/// What is read contiguously: the tensor itself where it is so already, and no reference counted, else a copy.
class Contiguous {
 public:
  explicit Contiguous(const Tensor& t) : given_(&t) {
    if (t.defined() && !t.is_contiguous()) own_ = contiguous_copy(t);
  }
  Contiguous(const Tensor& t, DType dtype) : given_(&t) {
    if (t.defined() && !(t.is_contiguous() && t.dtype() == dtype)) own_ = contiguous_copy(t, t.sizes(), dtype);
  }
  Contiguous(const Contiguous&) = delete;
  const Tensor& get() const { return own_.defined() ? own_ : *given_; }

 private:
  const Tensor* given_;
  Tensor own_;
};

/// A copy, or the tensor itself, in a memory format.
Tensor as_contiguous(const Tensor& t, MemoryFormat format, DType dtype);
inline Tensor as_contiguous(const Tensor& t, MemoryFormat format) { return as_contiguous(t, format, t.dtype()); }

/// Contiguous, and where the host can read it: on a device with a queue this waits.
Tensor on_host(const Tensor& t);
/// Host numbers as a vector on `device`.
Tensor vector_on(IntList numbers, Device device);

}  // namespace facula::ops

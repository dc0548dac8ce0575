// Decides where a native op writes: fresh memory, or the caller's `out=` tensor.
#pragma once

#include <optional>

#include "core/write.h"
#include "ops/operand.h"

namespace facula {

class Out {
 public:
  /// No `out=`: results are allocated.
  Out() = default;
  /// Which dtypes `given` may have beside that of the result: none, or every one of no lower class. A
  /// factory resizes `given` without a warning (Quiet), and may give all elements one value (Filled), so that those
  /// of `given` may share a place.
  enum class Cast { None, Class, Quiet, Filled };
  /// `given` receives the result; when it shares memory with one of `beside` (arguments, other results), the op works
  /// on fresh memory and finish() copies. Throws where `given` must not be written.
  template <class... Beside>
  Out(const char* op, uint16_t id, const Tensor& given, Cast cast, const Beside&... beside)
      : op_(op), id_(id), given_(given), cast_(cast) {
    check();
    (see(beside), ...);
  }

  bool given() const { return given_.defined(); }
  /// The tensor the caller gave; undefined without one.
  const Tensor& tensor() const { return given_; }
  /// What a factory takes from `out=` where the caller names none.
  DType dtype_or(DType other) const { return given() ? given_.dtype() : other; }
  Device device_or(Device other) const { return given() ? given_.device() : other; }
  /// A contiguous tensor to fill. From here on the tensor of the caller may be written, until this object dies.
  Tensor make(IntList sizes, DType dtype, Device device) const;
  /// Puts what the op made into the tensor the caller gave (resizing and casting as `out=` allows).
  void finish(const Tensor& made) const;

 private:
  void check() const;
  void see(const Tensor& t) { aliased_ |= t.defined() && share_bytes(t.storage(), given_.storage()); }
  void see(const Operand& o) { aliased_ |= o.is_tensor() && share_bytes(o.impl()->storage, given_.storage()); }
  void see(TensorList list) {
    for (const Tensor& t : list) see(t);
  }
  template <class T>
    requires(!std::is_convertible_v<const T&, TensorList> && !std::is_convertible_v<const T&, const Operand&>)
  void see(const T&) {}  // no tensor
  const char* op_ = "";
  uint16_t id_ = 0;
  Tensor given_;
  mutable std::optional<WriteScope> write_;  // once the result may lie in the given tensor
  bool aliased_ = false;
  Cast cast_ = Cast::Class;
};

/// Makes `out` have `sizes`: a no-op when it does, a resize (with PyTorch's warning unless empty or `quiet`) otherwise.
void resize_output(const Tensor& out, IntList sizes, const char* op, bool quiet = false);
/// Changes sizes in place, growing the storage when needed.
void resize_tensor(const Tensor& self, IntList sizes, IntList strides);
}  // namespace facula

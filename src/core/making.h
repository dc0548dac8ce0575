// Notes for which tensor the thread makes a storage. Allocators of devices store it, so that errors can name what holds
// memory.
#pragma once

#include "core/device.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace facula {

struct MadeTensor {
  IntList sizes;
  DType dtype;
};
extern thread_local constinit const MadeTensor* made_tensor __attribute__((tls_model("initial-exec")));

/// Noted for as long as it lives; not for the CPU, whose allocator does not ask.
class Making {
 public:
  Making(IntList sizes, DType dtype, Device device) : tensor_{sizes, dtype}, before_(made_tensor) {
    if (!device.is_cpu()) made_tensor = &tensor_;
  }
  ~Making() { made_tensor = before_; }
  Making(const Making&) = delete;

 private:
  MadeTensor tensor_;
  const MadeTensor* before_;
};

}  // namespace facula

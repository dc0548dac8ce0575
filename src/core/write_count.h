// Which in-place writes are counted. Saved values remember the count of their storage, so that backward notices a write.
#pragma once

#include "core/tensor.h"

namespace facula {

/// A flag beside those of TensorFlag: on what `.data` gives, and on views of that, unless writes through it count.
constexpr uint32_t kUncounted = 1u << 15;

/// Whether writes through `.data` count, so that backward reports them. PyTorch's programs expect silence.
inline bool data_writes_counted = true;

inline void count_write(const Tensor& written, uint16_t op) {
  if (!(written.flags() & kUncounted)) written.storage()->bump_version(op);
}

}  // namespace facula

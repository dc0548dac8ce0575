// Marks views that one function returned together, such as those of unbind().
#pragma once

#include "core/tensor.h"

namespace facula {

/// The views of unbind, split and chunk, and views of them: a flag of tensors. A write to one of them in place would
/// change the history of all; where writes are recorded it is refused (check_writable), as PyTorch does.
constexpr uint32_t kOneOfSeveral = 1u << 27;

inline std::vector<Tensor> one_of_several(std::vector<Tensor> views) {
  for (const Tensor& view : views)
    if (view.impl()->base) view.impl()->flags |= kOneOfSeveral;
  return views;
}

}  // namespace facula

// Declares kernels of repeating, and of padding with the tensor's own elements.
#pragma once

#include <algorithm>
#include <array>

#include "kernels/choices.h"
#include "ops/kernel_table.h"

namespace facula {

/// The sum of counts (int64, contiguous); throws where one is negative, or the sum too large.
inline Kernel<int64_t(const Tensor& counts)> repeat_total_kernel{"repeat_interleave"};
/// positions (int64) = position i of `counts` as often as it says; throws unless they fill `positions`.
inline Kernel<void(const Tensor& positions, const Tensor& counts)> repeat_positions_kernel{"repeat_interleave"};

/// out = the parts one after the other, `outer` rounds in each of which every part gives its next elements. All are
/// contiguous and of one dtype. A device without it copies part by part.
inline Kernel<void(const Tensor& out, TensorList parts, int64_t outer)> join_kernel{"cat"};

using kernels::PadMode;

/// One dimension: `out` places show elements of `in`. `length` elements from `first` on appear in order from place
/// `lead` on (which may lie before the first place), what is beyond them follows from the mode.
struct EdgeAxis {
  int64_t in = 1, out = 1, first = 0, length = 1, lead = 0;
  PadMode mode = PadMode::Replicate;

  int64_t source(int64_t place) const {
    const int64_t at = place - lead;
    if (at >= 0 && at < length) return first + at;
    switch (mode) {
      case PadMode::Reflect: return first + (at < 0 ? -at : 2 * (length - 1) - at);
      case PadMode::Circular: return first + (at < 0 ? at + length : at - length);
      default: return first + (at < 0 ? 0 : length - 1);
    }
  }
};
/// outer x axes x inner elements, in this order in memory.
struct EdgePad {
  int64_t outer = 1, inner = 1;
  std::array<EdgeAxis, 3> axes;
};
/// out = the padded `in`; out (of in's shape) += the transpose of that, applied to `grad`. In the latter case not for
/// integers.
inline Kernel<void(const Tensor& out, const Tensor& in, const EdgePad& geometry)> pad_edges_kernel{"pad"};
inline Kernel<void(const Tensor& out, const Tensor& grad, const EdgePad& geometry)> add_edges_kernel{"pad"};

}  // namespace facula

// Computes where a view lies in the memory of its base, so that a change of the base can be applied to the view.
#pragma once

#include "core/checked.h"
#include "functions.h"

namespace facula {

// Where the elements of a tensor lie in its storage, counted in elements. A real view of a complex base is described
// over the real and imaginary parts of that base; a dimension that runs backwards forwards, to be turned round by
// oriented().
struct ViewGeometry {
  Dims sizes, strides, backwards;
  int64_t offset = 0;

  ViewGeometry(const Tensor& t, bool as_parts) : sizes(t.sizes()), strides(t.strides()) {
    int64_t item = t.item_size();
    if (as_parts && t.is_complex()) {
      for (int64_t& s : strides) s = wrapping_mul(s, 2);
      sizes.push_back(2);
      strides.push_back(1);
      item /= 2;
    }
    offset = t.byte_offset() / item;
    for (size_t i = 0; i < strides.size(); ++i) {
      if (strides[i] >= 0) continue;
      offset += (sizes[i] - 1) * strides[i];
      strides[i] = -strides[i];
      backwards.push_back(static_cast<int64_t>(i));
    }
  }

  /// From the tensor's own order of elements to forward strides, and back.
  Tensor oriented(Tensor t) const {
    for (int64_t d : backwards)
      t = negative_slice(t, d, sizes[static_cast<size_t>(d)] - 1, sizes[static_cast<size_t>(d)], -1);
    return t;
  }
};

/// Returns whether one shows complex numbers where the other shows their parts: then places are counted in parts.
inline bool needs_parts(const TensorImpl* base, const TensorImpl* view) {
  return is_complex(base->dtype) != is_complex(view->dtype);
}

inline Tensor parts_of(const Tensor& t) { return t.is_complex() ? view_as_real(resolve_conj(t)) : t; }
inline Tensor numbers_of(const Tensor& parts) { return view_as_complex(contiguous(parts, MemoryFormat::Contiguous)); }

}  // namespace facula

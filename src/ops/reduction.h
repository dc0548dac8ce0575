// Defines what reductions over dimensions have in common: which dimensions, and the shape that remains.
#pragma once

#include "core/tensor.h"
#include "ops/out.h"

namespace facula::ops {

struct Reduction {
  /// `dim` missing or empty reduces over all dimensions.
  Reduction(const Tensor& self, std::optional<IntList> dim, bool keepdim, const char* op);
  /// Refuses to reduce over nothing, for reductions that have no identity.
  void require_elements(const Tensor& self, bool dim_given, const char* op,
                        ErrorKind without_dim = ErrorKind::Runtime) const;

  Dims keepdim_shape;      // the input's shape with reduced sizes one
  Dims shape;              // the result's shape
  int64_t count = 1;       // elements per result
  int64_t empty_dim = -1;  // a reduced dimension of size zero
};

/// Gives a contiguous tensor that nobody else knows yet another shape of as many elements: without the view that would
/// be a tensor more.
void take_shape(const Tensor& fresh, IntList shape);

}  // namespace facula::ops

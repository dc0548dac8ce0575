// Declares kernels of interpolation and grid sampling.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// A sparse matrix along one dimension: output o is the sum of weight[k] * input[index[k]] for first[o] <= k
/// < first[o + 1].
struct FilterTaps {
  int64_t in = 0, out = 0;
  bool copies = false;          // every output is one input
  Tensor first, index, weight;  // on the kernel's device: int64, int64 and float64

  template <class See>
  void memory(See see) const {
    see(first);
    see(index);
    see(weight);
  }
};

/// Applies taps to contiguous memory seen as (outer, in, inner); float32 and float64, any dtype when the taps
/// copy.
inline Kernel<void(const Tensor& out, const Tensor& in, int64_t outer, int64_t inner, const FilterTaps& taps)>
    resample_kernel{"interpolate"};

struct GridSampling {
  int interpolation;  // 0 linear, 1 nearest, 2 cubic
  int padding;        // 0 zeros, 1 border, 2 reflection
  bool align_corners;
};
// float32 and float64. `grid` and results are contiguous, `input` dense; input gradients are added.
inline Kernel<void(const Tensor& out, const Tensor& input, const Tensor& grid, const GridSampling& how)>
    grid_sampler_kernel{"grid_sampler"};
inline Kernel<void(const Tensor& input_gradient, const Tensor& gradient, const Tensor& grid, const GridSampling& how)>
    grid_sampler_input_kernel{"grid_sampler"};
inline Kernel<void(const Tensor& grid_gradient, const Tensor& gradient, const Tensor& input, const Tensor& grid,
                   const GridSampling& how)>
    grid_sampler_grid_kernel{"grid_sampler"};

}  // namespace facula

// Kernels of interpolation and grid sampling.
#pragma once

#include <vector>

#include "ops/kernel_table.h"

namespace facula {

/// A sparse matrix along one dimension: output o is the sum of weight[k] * input[index[k]] for first[o] <= k
/// < first[o + 1].
struct Taps {
  int64_t in = 0;
  std::vector<int64_t> first{0}, index;
  std::vector<double> weight;

  int64_t out() const { return static_cast<int64_t>(first.size()) - 1; }
  /// Every output is one input.
  bool copies() const;
  Taps transposed() const;
};

/// Applies taps to contiguous memory seen as (outer, in, inner); float32 and float64, any dtype when the taps
/// copy.
inline Kernel<void(const Tensor& out, const Tensor& in, int64_t outer, int64_t inner, const Taps& taps)>
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

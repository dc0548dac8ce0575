// Kernels of pooling.
#pragma once

#include <array>
#include <vector>

#include "ops/kernel_table.h"

namespace facula {

/// The windows along one dimension: output o looks at inputs begin[o], begin[o] + step, ... below end[o].
struct PoolAxis {
  int64_t in = 1, step = 1;
  std::vector<int64_t> begin{0}, end{1};
  std::vector<double> divisor{1};  // what the sum of a window is divided by, along this dimension

  int64_t out() const { return static_cast<int64_t>(begin.size()); }
};

/// Up to three spatial dimensions; missing ones come first, with size one.
struct PoolGeometry {
  std::array<PoolAxis, 3> axes;
  double divisor = 0;  // in place of the product of the axes' divisors, unless zero
};

/// The sizes after batch and channels.
inline IntList spatial_part(const Tensor& t) { return t.sizes().slice(2, t.sizes().size() - 2); }

// Tensors are (N, C, spatial...), dense, all in one memory format: contiguous or channels-last.
inline Kernel<void(const Tensor& out, const Tensor& indices, const Tensor& in, const PoolGeometry& geometry)>
    max_pool_kernel{"max_pool"};
inline Kernel<void(const Tensor& out, const Tensor& in, const PoolGeometry& geometry)> avg_pool_kernel{"avg_pool"};
/// Adds into `out`, which has the input's shape; float32 and float64.
inline Kernel<void(const Tensor& out, const Tensor& in, const PoolGeometry& geometry)> avg_pool_transpose_kernel{
    "avg_pool"};
/// out[plane][indices] += or = values. Gives the first index out of range, or -1.
inline Kernel<int64_t(const Tensor& out, const Tensor& values, const Tensor& indices, bool accumulate)>
    scatter_planes_kernel{"max_unpool"};
inline Kernel<int64_t(const Tensor& out, const Tensor& in, const Tensor& indices)> gather_planes_kernel{"max_unpool"};

}  // namespace facula

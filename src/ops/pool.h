// Declares kernels of pooling.
#pragma once

#include <algorithm>
#include <array>

#include "ops/kernel_table.h"

namespace facula {

/// The windows along one dimension, as a rule: output o looks at inputs begin(o), begin(o) + step, ... below end(o).
struct PoolAxis {
  int64_t in = 1, out = 1;
  bool adaptive = false;  // even shares of the input; the rest is for windows that slide
  int64_t kernel = 1, stride = 1, padding = 0;
  int64_t step = 1;             // dilation
  bool counts_padding = false;  // in the divisor

  /// (o * in + more) / out, for o from 0 to out and more below out.
  int64_t share(int64_t o, int64_t more) const {
    constexpr int64_t kShort = int64_t{1} << 31;
    if (in < kShort && out < kShort) return (o * in + more) / out;
    return static_cast<int64_t>((__int128{o} * in + more) / out);
  }
  int64_t begin(int64_t o) const {
    if (adaptive) return share(o, 0);
    const int64_t at = o * stride - padding;
    return at >= 0 ? at : at + (-at + step - 1) / step * step;
  }
  int64_t end(int64_t o) const {
    if (adaptive) return share(o + 1, out - 1);
    return std::max(begin(o), std::min(o * stride - padding + step * (kernel - 1) + 1, in));
  }
  /// What the sum of a window is divided by, along this dimension.
  double divisor(int64_t o) const {
    if (adaptive || !counts_padding) return static_cast<double>(end(o) - begin(o));
    const int64_t at = o * stride - padding;
    return static_cast<double>(std::min(at + kernel, in + padding) - at);
  }
};

/// Up to three spatial dimensions; missing ones come first, with size one.
struct PoolGeometry {
  std::array<PoolAxis, 3> axes;
  double divisor = 0;  // in place of the product of the axes' divisors, unless zero
};

/// The sizes after batch and channels.
inline IntList spatial_part(const Tensor& t) { return t.sizes().slice(2, t.sizes().size() - 2); }

// Tensors are (N, C, spatial...), dense, all in one memory format: contiguous or channels-last. `indices` may be
// undefined with floating-point tensors.
inline Kernel<void(const Tensor& out, const Tensor& indices, const Tensor& in, const PoolGeometry& geometry)>
    max_pool_kernel{"max_pool"};
/// Windows of `kernel` whose places are drawn: `samples` (N, C, dimensions) in [0, 1), contiguous, of the input's
/// dtype. In two dimensions the first sample is of the width. Tensors are contiguous.
inline Kernel<void(const Tensor& out, const Tensor& indices, const Tensor& in, const Tensor& samples,
                   std::array<int64_t, 3> kernel)>
    fractional_max_pool_kernel{"fractional_max_pool"};
inline Kernel<void(const Tensor& out, const Tensor& in, const PoolGeometry& geometry)> avg_pool_kernel{"avg_pool"};
/// Into `out`, which has the input's shape and holds zeros; float32 and float64.
inline Kernel<void(const Tensor& out, const Tensor& in, const PoolGeometry& geometry)> avg_pool_transpose_kernel{
    "avg_pool"};
/// out[plane][indices] += or = values. These throw, as `op`, where an index lies outside of its plane.
inline Kernel<void(const Tensor& out, const Tensor& values, const Tensor& indices, bool accumulate, const char* op)>
    scatter_planes_kernel{"max_unpool"};
inline Kernel<void(const Tensor& out, const Tensor& in, const Tensor& indices, const char* op)> gather_planes_kernel{
    "max_unpool"};

}  // namespace facula

// Declares kernels of the normalizations. Tensors are contiguous; statistics, weight and bias have the compute dtype.
#pragma once

#include <vector>

#include "core/findings.h"
#include "ops/kernel_table.h"

namespace facula {

/// How the elements of a row-normalized tensor are laid out: rows x channels x inner; the row's group is row % groups.
struct RowLayout {
  int64_t rows, groups, channels, inner;
  int64_t length() const { return channels * inner; }
};

/// Writes `out`, and mean (untouched without center) and reciprocal deviation of every row.
inline Kernel<void(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& self, const Tensor& weight,
                   const Tensor& bias, const RowLayout& layout, double eps, bool center)>
    row_norm_kernel{"_row_norm"};
/// The gradients, undefined where not requested; those of weight and bias have groups * channels elements.
struct RowGradients {
  Tensor self, weight, bias;

  template <class See>
  void memory(See see) const {
    for (const Tensor* t : {&self, &weight, &bias})
      if (t->defined()) see(*t);
  }
};
inline Kernel<void(const RowGradients& made, const Tensor& grad, const Tensor& self, const Tensor& weight,
                   const Tensor& mean, const Tensor& rstd, const RowLayout& layout, bool center)>
    row_norm_backward_kernel{"_row_norm_backward"};

/// The same for channels: outer x channels x inner, statistics per channel; or several `samples` of outer x channels
/// one after the other, in channels-last memory (inner 1), with statistics and factors of their own: samples x
/// channels.
struct ChannelLayout {
  int64_t outer, channels, inner, samples = 1;
  int64_t count() const { return outer * inner; }
};

/// Mean and biased variance of every channel.
inline Kernel<void(const Tensor& mean, const Tensor& variance, const Tensor& self, const ChannelLayout& layout)>
    channel_moments_kernel{"_channel_norm"};
/// Of every channel rstd = 1 / sqrt(variance + eps), scale = rstd * weight and shift = bias - mean * scale, each
/// rounded once; weight and bias may be undefined. A device without it computes them by ops.
inline Kernel<void(const Tensor& rstd, const Tensor& scale, const Tensor& shift, const Tensor& mean,
                   const Tensor& variance, const Tensor& weight, const Tensor& bias, double eps)>
    channel_factors_kernel{"_channel_norm"};
/// out = self * scale + shift.
inline Kernel<void(const Tensor& out, const Tensor& self, const Tensor& scale, const Tensor& shift,
                   const ChannelLayout& layout)>
    channel_affine_kernel{"_channel_norm"};

/// A loop of another op over the elements of a result, in place, while these are in the cache.
struct FollowingLoop {
  LoopFn loop = nullptr;
  const void* params = nullptr;
  const void* other = nullptr;  // elements of a second operand, which lie as those of the result; null: there is none
};
struct FollowingLoops {
  std::vector<FollowingLoop> loops;

  template <class See>
  void memory(See see) const {
    for (const FollowingLoop& f : loops)
      if (f.other) see(f.other);
  }
};
/// out = self * scale + shift, and then the loops; float32 and float64 on the CPU.
inline Kernel<void(const Tensor& out, const Tensor& self, const Tensor& scale, const Tensor& shift,
                   const ChannelLayout& layout, const FollowingLoops& following)>
    channel_affine_then_kernel{"_channel_norm"};

namespace ops {
/// What _channel_norm gave in training, from what it noted (core/findings.h), and its result after the loops.
std::tuple<Tensor, Tensor, Tensor> channel_norm_again(const Tensor& self, const Tensor& weight, const Tensor& bias,
                                                      const Findings& found, double eps,
                                                      const FollowingLoops& following);
}  // namespace ops

/// Sums over each channel of grad, and of grad * (self - mean).
inline Kernel<void(const Tensor& total, const Tensor& centered, const Tensor& grad, const Tensor& self,
                   const Tensor& mean, const ChannelLayout& layout)>
    channel_sums_kernel{"_channel_norm_backward"};
/// out = grad * a + self * b + c.
inline Kernel<void(const Tensor& out, const Tensor& grad, const Tensor& self, const Tensor& a, const Tensor& b,
                   const Tensor& c, const ChannelLayout& layout)>
    channel_combine_kernel{"_channel_norm_backward"};

}  // namespace facula

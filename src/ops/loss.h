// Declares kernels of the losses over classes. Tensors are contiguous: scores (N, C, S), classes (N, S) as int64;
// weights and sums have the compute dtype and may be undefined where that is said.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

struct ClassLoss {
  int64_t samples, classes, inner;
  int64_t ignore_index;
  double label_smoothing;
  const char* op;  // for the error about a class outside
};

/// Losses of every position (N, S), and their weights; `weight` may be undefined. Throws an IndexError where a class is
/// neither in [0, classes) nor ignore_index, as the other kernels do.
inline Kernel<void(const Tensor& losses, const Tensor& weights, const Tensor& self, const Tensor& target,
                   const Tensor& weight, const ClassLoss& p)>
    nll_kernel{"nll_loss"};
/// grad_input = 0 but for -scale * weight at the classes; `scale` is (N, S) or has one element.
inline Kernel<void(const Tensor& grad_input, const Tensor& scale, const Tensor& target, const Tensor& weight,
                   const ClassLoss& p)>
    nll_backward_kernel{"nll_loss"};
/// Fills log_sum (2, N, S) as well: the largest scores, and the logarithms of the sums of exponentials relative to
/// them.
inline Kernel<void(const Tensor& losses, const Tensor& weights, const Tensor& self, const Tensor& target,
                   const Tensor& weight, const Tensor& log_sum, const ClassLoss& p)>
    cross_entropy_kernel{"cross_entropy"};
inline Kernel<void(const Tensor& grad_input, const Tensor& scale, const Tensor& self, const Tensor& target,
                   const Tensor& weight, const Tensor& log_sum, const ClassLoss& p)>
    cross_entropy_backward_kernel{"cross_entropy"};
/// The sums of up to kMostTotaled losses (divided by that of the weights if `mean`) and of their weights, at once. A
/// device without it takes ops.
inline Kernel<void(const Tensor& loss, const Tensor& total_weight, const Tensor& losses, const Tensor& weights,
                   bool mean)>
    class_total_kernel{"cross_entropy"};
constexpr int64_t kMostTotaled = 1 << 16;
/// The same from the scores of at most kFewPositions, with what class_total_kernel makes of the losses: of the negative
/// log likelihood where `log_sum` is undefined. A device without it takes the two.
inline Kernel<void(const Tensor& loss, const Tensor& total_weight, const Tensor& self, const Tensor& target,
                   const Tensor& weight, const Tensor& log_sum, const ClassLoss& p, bool mean)>
    few_losses_kernel{"cross_entropy"};
constexpr int64_t kFewPositions = 64;
inline Kernel<void(const Tensor& out, const Tensor& target, const Tensor& weight, const ClassLoss& p)>
    class_weights_kernel{"cross_entropy"};

/// One label sequence after another: the labels of sequence n start at targets + offset[n], `stride` apart.
struct CtcInputs {
  int64_t steps, batch, classes, longest;
  int64_t blank;
  Tensor input_lengths, target_lengths, offsets;  // int64, one per sequence

  template <class See>
  void memory(See see) const {
    see(input_lengths);
    see(target_lengths);
    see(offsets);
  }
};
inline Kernel<void(const Tensor& loss, const Tensor& log_alpha, const Tensor& log_probs, const Tensor& targets,
                   const CtcInputs& p)>
    ctc_kernel{"ctc_loss"};
/// `scale` (N) is the incoming gradient, zero for sequences that take no part.
inline Kernel<void(const Tensor& grad_input, const Tensor& scale, const Tensor& log_probs, const Tensor& targets,
                   const Tensor& loss, const Tensor& log_alpha, const CtcInputs& p)>
    ctc_backward_kernel{"ctc_loss"};

}  // namespace facula

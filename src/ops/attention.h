// Declares attention in one pass, and the soft-max of attention scores under a mask.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// `scores` and `out` are contiguous. `mask` has the shape of the scores by its strides, and a contiguous last
/// dimension; its dtype is bool or theirs. It may be undefined.
inline Kernel<void(const Tensor& out, const Tensor& scores, const Tensor& mask, bool is_causal)>
    attention_weights_kernel{"scaled_dot_product_attention"};

struct AttentionOptions {
  double scale;
  double dropout;  // the probability that a weight is dropped
  bool is_causal;
  bool by_library = false;  // see LibraryAttention
};

/// Query (..., L, E), key (..., S, E) and value (..., S, V) have the same batch dimensions and any strides. The mask
/// (..., L, S) is bool, of the compute dtype or, on CUDA, of the query's, and the seed, one int64, says what dropout
/// keeps; either may be undefined.
struct AttentionInputs {
  const Tensor &query, &key, &value, &mask, &seed;

  template <class See>
  void memory(See see) const {
    for (const Tensor* t : {&query, &key, &value, &mask, &seed})
      if (t->defined()) see(*t);
  }
};
/// What a pass forwards left, and the gradient of `out`; `sums` (..., L) are logarithms of sums of exponentials.
struct AttentionResults {
  const Tensor &grad, &out, &sums;

  template <class See>
  void memory(See see) const {
    for (const Tensor* t : {&grad, &out, &sums}) see(*t);
  }
};
struct AttentionGradients {
  const Tensor &query, &key, &value;

  template <class See>
  void memory(See see) const {
    for (const Tensor* t : {&query, &key, &value}) see(*t);
  }
};

/// The last dimension of `out` has stride one, and `sums`, in the compute dtype, is contiguous.
inline Kernel<void(const Tensor& out, const Tensor& sums, const AttentionInputs& in, const AttentionOptions& options)>
    attention_kernel{"scaled_dot_product_attention"};
/// The last dimensions of the gradients have stride one.
inline Kernel<void(const AttentionGradients& gradients, const AttentionInputs& in, const AttentionResults& results,
                   const AttentionOptions& options)>
    attention_backward_kernel{"scaled_dot_product_attention"};
/// The factors, 0 or 1 / (1 - p), that dropout gives the weights; `out` is contiguous.
inline Kernel<void(const Tensor& out, const Tensor& seed, double p)> attention_kept_kernel{
    "scaled_dot_product_attention"};

/// A call that a library of the device might compute; keys and values may have fewer heads than the query.
struct LibraryAttention {
  const Tensor &query, &key, &value, &mask;
  double dropout, scale;
  bool is_causal, enable_gqa, with_gradients;
};
/// Why the library does not compute it; empty where it does. Null where there is no library.
inline std::string (*why_no_library_attention)(const LibraryAttention& call) = nullptr;

/// Seconds that a device is thought to take for a call in one pass, and written with ops, and whether it has so much
/// memory that ops may keep all scores.
struct AttentionTimes {
  double one_pass, in_ops;
  bool scores_fit;
};
/// Null where no device predicts.
inline AttentionTimes (*predicted_attention_times)(const LibraryAttention& call) = nullptr;

}  // namespace facula

// What attention is given; read by both compilers.
#pragma once

namespace facula::cuda {

constexpr int kMostBatchDims = 8;

/// A batch of matrices; strides in elements, batch dimensions outermost first. Batch dimensions of all operands have
/// the same sizes.
struct AttentionMatrix {
  void* data;  // null where there is none
  long long row, column, batch[kMostBatchDims];
};

struct AttentionArgs {
  long long heads, queries, keys, size, value_size;
  int batch_dims;
  long long batch_sizes[kMostBatchDims];
  AttentionMatrix query, key, value, mask, out;
  void* sums;
  const long long* seed;
  double scale, dropout;
  bool is_causal, mask_is_bool, mask_has_pairs;  // pairs: neighbours can be loaded at once
  // backwards
  AttentionMatrix grad, grad_query, grad_key, grad_value;
  void* delta;  // of each row, the gradient times the result
};

/// Scores of rows under a mask.
struct WeightsArgs {
  long long rows, length, queries;
  int batch_dims;
  long long batch_sizes[kMostBatchDims + 1], batch[kMostBatchDims + 1];  // the mask's, of all dimensions but the last
  const void *scores, *mask;
  void* out;
  bool is_causal;
};

}  // namespace facula::cuda

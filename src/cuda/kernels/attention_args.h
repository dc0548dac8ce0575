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
  bool is_causal, mask_is_bool, mask_has_pairs;  // two neighbors of a row can be loaded at once
  // keys in parts, of so many tiles (attention_tensor_parts.cuh)
  int parts, part_tiles;
  float *made, *made_sums;
  unsigned* tickets;
  // backwards
  AttentionMatrix grad, grad_query, grad_key, grad_value;
  void* delta;  // of each row, the gradient times the result
};

// Of attention on tensor cores, for heads of so many bytes in blocks of 64 `groups` rows: how many keys are in a tile
// forwards, and keys or queries backwards, so that sums stay in registers and several blocks of a processor have room.
constexpr int kTensorThreads = 128;
constexpr int tensor_keys(int bytes) { return bytes > 256 ? 16 : bytes > 128 ? 32 : 64; }
constexpr int tensor_others(int bytes, int groups) {
  return bytes * groups > 384 ? 16 : bytes > 128 || groups > 1 ? 32 : 64;
}
/// Bytes of dynamic shared memory: one side of the rows forwards and two backwards, and two tiles of both sides of what
/// they meet; backwards also 16 bytes of each query of a tile.
constexpr int tensor_shared(int bytes, int groups) { return (64 * groups + 4 * tensor_keys(bytes)) * bytes; }
constexpr int tensor_shared_backward(int bytes, int groups) {
  return (128 * groups + 4 * tensor_others(bytes, groups)) * bytes + 2 * tensor_others(bytes, groups) * 16;
}
// Of attention in parts of the keys: keys of a tile, rows of queries that there is room for, and the most parts, and
// groups of 16 rows of a block.
constexpr int kPartKeys = 64, kPartQueries = 32, kMostParts = 64, kMostPartGroups = 2;
/// Bytes of dynamic shared memory: queries and two tiles of both sides; then what four warps have made of 16 `groups`
/// rows.
constexpr int tensor_shared_parts(int bytes, int size, int groups) {
  const int tiles = (kPartQueries + 4 * kPartKeys) * bytes, made = 4 * 16 * groups * (size + 8) * 4;
  return tiles > made ? tiles : made;
}
/// Masks: there is none, truth, float32, or numbers of the dtype that is multiplied.
constexpr int kNoMask = 0, kTruthMask = 1, kFloatMask = 2, kOwnMask = 3;

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

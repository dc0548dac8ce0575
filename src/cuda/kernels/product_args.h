// What products are given; read by both compilers.
#pragma once

namespace facula::cuda {

/// How a batch of products is divided. Sizes are those of the largest of the batch.
struct ProductTiles {
  long long batch, rows, columns, inner;
  long long parts, part;  // the inner dimension in parts, each of `part`; of several, results go to `partial`
  void* partial;          // parts x batch x rows x columns sums
};

/// out = alpha a b + beta out + bias; strides in elements.
struct MatricesArgs {
  ProductTiles tiles;
  const void *a, *b, *bias;
  void* out;
  long long a_batch, a_row, a_column, b_batch, b_row, b_column, out_batch, out_row;
  bool has_alpha, has_beta;
  alignas(16) char alpha[16], beta[16];  // of the type that sums have
};

/// Products by the tensor cores (matmul_tensor.cuh).
struct TensorProducts {
  /// How factors go to them: as they are; float32 rounded to 19 bits, or as the sum of two such numbers.
  enum Precision : int { kAsIs, kTf32, kWhole };
  /// Pieces of both sides that are in shared memory at once, bytes of a line in each, and elements of 32 bits between
  /// rows that are read by elements.
  static constexpr int kStages = 4, kPieceBytes = 64, kPad = 8;
  /// Shared memory of a block, whose tile has 16 size rows and columns.
  static constexpr unsigned bytes(int size) { return 2u * kStages * kPieceBytes * unsigned(16 * size + kPad); }
  static constexpr unsigned threads(int size) { return size == 8 ? 256 : 128; }
};

/// The three maps of a convolution: y = x * w. Missing dimensions come first, with size one.
struct ConvArgs {
  ProductTiles tiles;
  void *x, *y, *w;  // w is contiguous
  const void* bias;
  long long images, channels, outputs;  // of one group
  long long in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
  long long x_image, x_channel, x_strides[3], y_image, y_channel, y_strides[3];
  long long classes[3], tap_step[3];  // of positions that the same taps reach; how far apart those are
  bool channels_inner;                // channels lie next to each other
};

}  // namespace facula::cuda

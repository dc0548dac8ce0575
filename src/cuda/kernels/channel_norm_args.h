// What the kernels of the normalizations of channels are given; read by both compilers.
#pragma once

#include "fast_division.h"

namespace facula::cuda {

/// Results, each of `count` elements, that `parts` threads or groups share: element e of result r lies at
/// r / channels * sample_step + e / inner * outer_step + r % channels * inner + e % inner.
struct ChannelArgs {
  long long results, count, part, parts, channels, inner, sample_step, outer_step;
  const void *self, *grad, *mean;
  void *states, *first, *second;
};

/// Vectors of channels. Of contiguous planes `count` are the vectors of a channel in all images; where channels lie
/// side by side they are the rows of a sample, and `lanes` vectors of a row are one block's.
struct ChannelPartArgs {
  unsigned count, part, parts;   // part: of the count, for a block that folds
  FastDivision vectors, pieces;  // vectors of a plane, or of a row; blocks of a channel, or of a strip of lanes
  unsigned image_bytes, row_bytes, lanes, strips;
  const void *self, *grad, *mean, *a, *b, *c;
  void *states, *first, *second, *out;
  unsigned* tickets;
};

/// Element-wise work with factors of channels: outer x channels x inner elements in each of several samples.
struct FactorArgs {
  long long numel, outer, channels, inner, samples;
  const void *self, *grad, *a, *b, *c;
  void* out;
};

}  // namespace facula::cuda

// What the kernels of the normalisations of channels are given; read by both compilers.
#pragma once

namespace facula::cuda {

/// Results, each of `count` elements, that `parts` threads or groups share: element e of result r lies at
/// r / channels * sample_step + e / inner * outer_step + r % channels * inner + e % inner.
struct ChannelArgs {
  long long results, count, part, parts, channels, inner, sample_step, outer_step;
  const void *self, *grad, *mean;
  void *states, *first, *second;
};

/// Element-wise work with factors of channels: outer x channels x inner elements in each of several samples.
struct FactorArgs {
  long long numel, outer, channels, inner, samples;
  const void *self, *grad, *a, *b, *c;
  void* out;
};

}  // namespace facula::cuda

// What the kernels of the losses are given; read by both compilers.
#pragma once

#include "report.h"

namespace facula::cuda {

/// What label smoothing spreads over the other classes: nothing, the same to each, or by their weights.
enum Spread : int { kNoSpread, kPlainSpread, kWeightedSpread };

/// Scores (samples, classes, inner), classes and what comes of them (samples, inner).
struct ClassArgs {
  long long samples, classes, inner, ignore_index;
  double keep, share;  // of label smoothing: 1 - s, and s / classes
  bool smooths, one_scale;
  const void* self;
  const long long* target;
  const void *weight, *scale;
  void* log_sum;
  const double* weight_total;
  void *losses, *weights, *out;
  Reporter reporter;
};

/// See CtcInputs. `room` and `links` hold 2 x (2 * longest + 1) elements for each sequence.
struct CtcArgs {
  long long steps, batch, classes, longest, blank;
  const long long *input_lengths, *target_lengths, *offsets, *targets;
  const void *log_probs, *scale;
  void *loss, *log_alpha, *grad_input, *room;
  long long* links;
  Reporter reporter;
};

}  // namespace facula::cuda

// Kernels of recurrent cells: one time step over the rows of a batch. All memory is contiguous.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

enum class RnnMode : uint8_t { Tanh, Relu, Lstm, Gru };

/// Gates per hidden unit, and values per hidden unit that a step leaves for its derivative.
constexpr int64_t gate_factor(RnnMode mode) { return mode == RnnMode::Lstm ? 4 : mode == RnnMode::Gru ? 3 : 1; }
constexpr int64_t saved_factor(RnnMode mode) { return mode == RnnMode::Lstm || mode == RnnMode::Gru ? 4 : 1; }

struct RnnStep {
  RnnMode mode;
  DType dtype;
  int64_t rows, hidden;
  const void *gates_x, *gates_h;  // (rows, factor * hidden)
  const void* bias;               // of gates_h, or null
  void *h, *c;                    // (rows, hidden), updated; c only of an LSTM
  void *saved, *h_before, *c_before;
  void* output;  // a copy of the new h
};

struct RnnStepBackward {
  RnnMode mode;
  DType dtype;
  int64_t rows, hidden;
  const void *saved, *h_before, *c_before;
  const void* grad_output;  // or null
  void *grad_h, *grad_c;    // of the step's results, turned into those of its inputs (but for the way through gates_h)
  void *grad_gates, *grad_gates_h;  // the latter only of a GRU, where they differ
};

inline Kernel<void(const RnnStep&)> rnn_step_kernel{"_rnn_layer"};
inline Kernel<void(const RnnStepBackward&)> rnn_step_backward_kernel{"_rnn_layer"};
/// to += from, element by element.
inline Kernel<void(const Tensor& to, const Tensor& from)> rnn_accumulate_kernel{"_rnn_layer"};

}  // namespace facula

// Declares a recurrent layer over all its steps, and its kernels: one time step over the rows of a batch.
#pragma once

#include <algorithm>

#include "ops/kernel_table.h"

namespace facula {

enum class RnnMode : uint8_t { Tanh, Relu, Lstm, Gru };

/// Gates per hidden unit, and values per hidden unit that a step leaves for its derivative.
constexpr int64_t gate_factor(RnnMode mode) { return mode == RnnMode::Lstm ? 4 : mode == RnnMode::Gru ? 3 : 1; }
constexpr int64_t saved_factor(RnnMode mode) { return mode == RnnMode::Lstm || mode == RnnMode::Gru ? 4 : 1; }

/// Memory of the kernels is contiguous.
struct RnnStep {
  RnnMode mode;
  DType dtype;
  int64_t rows, hidden;
  const void *gates_x, *gates_h;  // (rows, factor * hidden)
  const void* bias;               // of gates_h, or null
  void *h, *c;                    // (rows, hidden), updated; c only of an LSTM
  void *saved, *h_before, *c_before;
  void* output;  // a copy of the new h

  template <class See>
  void memory(See see) const {
    for (const void* p : {gates_x, gates_h, bias, static_cast<const void*>(h), static_cast<const void*>(c),
                          static_cast<const void*>(saved), static_cast<const void*>(h_before),
                          static_cast<const void*>(c_before), static_cast<const void*>(output)})
      see(p);
  }
};

struct RnnStepBackward {
  RnnMode mode;
  DType dtype;
  int64_t rows, hidden;
  const void *saved, *h_before, *c_before;
  const void* grad_output;  // or null
  void *grad_h, *grad_c;    // of the step's results, turned into those of its inputs (but for the way through gates_h)
  void *grad_gates, *grad_gates_h;  // the latter only of a GRU, where they differ

  template <class See>
  void memory(See see) const {
    for (const void* p :
         {saved, h_before, c_before, grad_output, static_cast<const void*>(grad_h), static_cast<const void*>(grad_c),
          static_cast<const void*>(grad_gates), static_cast<const void*>(grad_gates_h)})
      see(p);
  }
};

inline Kernel<void(const RnnStep&)> rnn_step_kernel{"_rnn_layer"};
inline Kernel<void(const RnnStepBackward&)> rnn_step_backward_kernel{"_rnn_layer"};

/// The rows of the steps in memory, which of a packed sequence never increase.
struct RnnLayout {
  RnnMode mode;
  bool reverse;
  std::vector<int64_t> batch_sizes, offsets;  // rows of every step, and where they start
  int64_t hidden, total = 0;

  RnnLayout(RnnMode m, bool backwards, IntList sizes, int64_t hidden_size)
      : mode(m), reverse(backwards), batch_sizes(sizes.vec()), hidden(hidden_size) {
    for (int64_t rows : batch_sizes) {
      offsets.push_back(total);
      total += rows;
    }
  }
  int64_t steps() const { return static_cast<int64_t>(batch_sizes.size()); }
  /// The time of the i-th step that is run.
  size_t time(int64_t i) const { return static_cast<size_t>(reverse ? steps() - 1 - i : i); }
  /// Of the rows of the i-th step those that an earlier one had; the others start from the initial state.
  int64_t rows_before(int64_t i) const { return i == 0 ? 0 : std::min(batch_sizes[time(i)], batch_sizes[time(i - 1)]); }
};

/// What the steps leave for the derivative, for every row of every step.
struct RnnTrace {
  Tensor saved, h_before, c_before;
  RnnTrace() = default;
  RnnTrace(const RnnLayout& layout, const Tensor& like);
};

struct RnnResult {
  Tensor output, h, c;
};

struct RnnGradients {
  Tensor gates, h0, c0, weight, bias;
};

/// A network of layers, for a library that computes all of it at once.
struct RnnNetwork {
  RnnMode mode;
  int64_t input, hidden, projected, layers;  // features; `projected` is 0 where an LSTM has no projection
  bool biased, bidirectional, is_packed, training;
  double dropout;                    // between layers, in training
  std::vector<int64_t> batch_sizes;  // the rows of every step, which never increase

  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t output() const { return projected ? projected : hidden; }
  int64_t steps() const { return static_cast<int64_t>(batch_sizes.size()); }
  /// Of each layer and direction: w_ih, w_hh[, b_ih, b_hh][, w_hr].
  size_t weights_each() const { return 2 + (biased ? 2 : 0) + (projected ? 1 : 0); }
};
/// Input (rows of all steps, features); states (layers * directions, batch, features), the cell's only of an LSTM.
struct RnnNetworkInputs {
  Tensor input, h, c;
  std::vector<Tensor> weights;

  template <class See>
  void memory(See see) const {
    for (const Tensor* t : {&input, &h, &c})
      if (t->defined()) see(*t);
    for (const Tensor& t : weights) see(t);
  }
};
/// `reserve` is what the library keeps for the derivative, only in training. As gradients, those that are not given
/// are undefined.
struct RnnNetworkResults {
  Tensor output, h, c, reserve;

  template <class See>
  void memory(See see) const {
    for (const Tensor* t : {&output, &h, &c, &reserve})
      if (t->defined()) see(*t);
  }
};

/// Whether a library computes the network in this dtype and on this device; null where there is none.
inline bool (*library_takes_rnn)(const RnnNetwork& network, DType dtype, Device device) = nullptr;
inline Kernel<void(const RnnNetwork&, const RnnNetworkInputs&, RnnNetworkResults&)> rnn_network_kernel{"rnn"};
/// `gradients` are of the inputs, and undefined before; those of the weights only where they are wanted.
inline Kernel<void(const RnnNetwork&, const RnnNetworkInputs&, const RnnNetworkResults& forward,
                   const RnnNetworkResults& given, bool weights_wanted, RnnNetworkInputs& gradients)>
    rnn_network_backward_kernel{"rnn"};
/// Copies of the weights in the one block of memory that the library reads.
inline Kernel<void(const RnnNetwork&, const RnnNetworkInputs&, std::vector<Tensor>& copies)> rnn_flatten_kernel{"rnn"};

namespace ops {

/// Throws where tensors do not have the sizes of the network.
void check_rnn_network(const RnnNetwork& network, const RnnNetworkInputs& inputs);
void check_rnn_weights(const RnnNetwork& network, const std::vector<Tensor>& weights);

RnnMode rnn_mode(std::string_view mode);
void check_rnn_layer(const RnnLayout& layout, const Tensor& gates, const Tensor& h0, const Tensor& c0,
                     const Tensor& weight, const Tensor& bias);
RnnResult rnn_forward(const RnnLayout& layout, const Tensor& gates, const Tensor& h0, const Tensor& c0,
                      const Tensor& weight, const Tensor& bias, const RnnTrace& trace);
/// Which of the gradients that cost a product are of use.
struct RnnWanted {
  bool h0, weight, bias;
};
/// `grads` of output, h and (of an LSTM) c; undefined ones are zero. Gradients that are not wanted have no values.
RnnGradients rnn_backward(const RnnLayout& layout, const Tensor& weight, const RnnTrace& trace, const Tensor* grads,
                          IntList state_sizes, RnnWanted wanted);

}  // namespace ops
}  // namespace facula

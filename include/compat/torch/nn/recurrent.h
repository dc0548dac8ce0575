// Recurrent networks, their cells, and sequences of several lengths packed in one tensor.
#pragma once

#include <torch/nn/containers.h>
#include <torch/nn/functional.h>

namespace torch::nn {

#define TORCH_RECURRENT_OPTIONS(Name)                                               \
  Name(int64_t input, int64_t hidden) : input_size_(input), hidden_size_(hidden) {} \
  TORCH_ARG(int64_t, input_size);                                                   \
  TORCH_ARG(int64_t, hidden_size);                                                  \
  TORCH_ARG(bool, bias) = true
#define TORCH_LAYERS                    \
  TORCH_ARG(int64_t, num_layers) = 1;   \
  TORCH_ARG(bool, batch_first) = false; \
  TORCH_ARG(double, dropout) = 0.0;     \
  TORCH_ARG(bool, bidirectional) = false
struct RNNOptions {
  TORCH_RECURRENT_OPTIONS(RNNOptions);
  TORCH_LAYERS;
  TORCH_ARG(Word, nonlinearity) = kTanh;
};
struct LSTMOptions {
  TORCH_RECURRENT_OPTIONS(LSTMOptions);
  TORCH_LAYERS;
  TORCH_ARG(int64_t, proj_size) = 0;  // of the hidden state; 0: as it is
};
struct GRUOptions {
  TORCH_RECURRENT_OPTIONS(GRUOptions);
  TORCH_LAYERS;
};
struct RNNCellOptions {
  TORCH_RECURRENT_OPTIONS(RNNCellOptions);
  TORCH_ARG(Word, nonlinearity) = kTanh;
};
struct LSTMCellOptions {
  TORCH_RECURRENT_OPTIONS(LSTMCellOptions);
};
struct GRUCellOptions {
  TORCH_RECURRENT_OPTIONS(GRUCellOptions);
};
#undef TORCH_LAYERS
#undef TORCH_RECURRENT_OPTIONS

namespace utils::rnn {

/// Steps of all sequences that are that long, one behind the other; how many there are at each step.
class PackedSequence {
 public:
  PackedSequence() = default;
  explicit PackedSequence(Tensor data, Tensor batch_sizes, Tensor sorted_indices = {}, Tensor unsorted_indices = {})
      : data_(std::move(data)),
        batch_sizes_(std::move(batch_sizes)),
        sorted_indices_(std::move(sorted_indices)),
        unsorted_indices_(std::move(unsorted_indices)) {}
  const Tensor& data() const { return data_; }
  const Tensor& batch_sizes() const { return batch_sizes_; }
  const Tensor& sorted_indices() const { return sorted_indices_; }
  const Tensor& unsorted_indices() const { return unsorted_indices_; }
  PackedSequence to(const TensorOptions& options) const {
    return PackedSequence(data_.to(options), batch_sizes_, sorted_indices_, unsorted_indices_);
  }

 private:
  Tensor data_, batch_sizes_, sorted_indices_, unsorted_indices_;
};

/// Of a batch (steps, sequences, ...) whose sequences have these lengths.
PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, bool batch_first = false,
                                    bool enforce_sorted = true);
/// The batch, and the lengths.
std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence, bool batch_first = false,
                                               double padding_value = 0.0, optional<int64_t> total_length = nullopt);
Tensor pad_sequence(TensorList sequences, bool batch_first = false, double padding_value = 0);
PackedSequence pack_sequence(TensorList sequences, bool enforce_sorted = true);
/// Of a permutation: where each number stands in it.
Tensor invert_permutation(const Tensor& permutation);

}  // namespace utils::rnn

namespace detail {

/// What the three kinds of networks share; one step of a layer is an op.
struct RecurrentShape {
  const char* mode;  // the op's name of the cell
  int64_t gates, input_size, hidden_size, num_layers;
  bool bias, batch_first, bidirectional;
  double dropout;
  int64_t proj_size = 0;
  int64_t state_size() const { return proj_size ? proj_size : hidden_size; }
};
struct RecurrentRun {
  Tensor output, h, c;
};
RecurrentRun run_network(const RecurrentShape& shape, const std::vector<Tensor>& weights, bool training,
                         const Tensor& input, const Tensor& h0, const Tensor& c0);
RecurrentRun run_packed(const RecurrentShape& shape, const std::vector<Tensor>& weights, bool training,
                        const utils::rnn::PackedSequence& input, const Tensor& h0, const Tensor& c0);

}  // namespace detail

/// Parameters of all layers and directions.
template <class Derived>
class RecurrentImpl : public Cloneable<Derived> {
 public:
  void reset() override;
  void reset_parameters();
  void flatten_parameters() {}
  std::vector<Tensor> all_weights() const { return weights_; }

 protected:
  detail::RecurrentShape shape() const;
  std::vector<Tensor> weights_;
};

class LSTMImpl : public RecurrentImpl<LSTMImpl> {
 public:
  using State = std::tuple<Tensor, Tensor>;
  LSTMImpl(int64_t input, int64_t hidden) : LSTMImpl(LSTMOptions(input, hidden)) {}
  explicit LSTMImpl(const LSTMOptions& o);
  void pretty_print(std::ostream& stream) const override;
  std::tuple<Tensor, State> forward(const Tensor& input, optional<State> state = {});
  std::tuple<utils::rnn::PackedSequence, State> forward_with_packed_input(const utils::rnn::PackedSequence& input,
                                                                          optional<State> state = {});
  LSTMOptions options;
};
TORCH_MODULE(LSTM);

#define TORCH_RECURRENT(Name)                                                                                         \
  class Name##Impl : public RecurrentImpl<Name##Impl> {                                                               \
   public:                                                                                                            \
    Name##Impl(int64_t input, int64_t hidden) : Name##Impl(Name##Options(input, hidden)) {}                           \
    explicit Name##Impl(const Name##Options& o);                                                                      \
    void pretty_print(std::ostream& stream) const override;                                                           \
    std::tuple<Tensor, Tensor> forward(const Tensor& input, Tensor hx = {});                                          \
    std::tuple<utils::rnn::PackedSequence, Tensor> forward_with_packed_input(const utils::rnn::PackedSequence& input, \
                                                                             Tensor hx = {});                         \
    Name##Options options;                                                                                            \
  };                                                                                                                  \
  TORCH_MODULE(Name)
TORCH_RECURRENT(RNN);
TORCH_RECURRENT(GRU);
#undef TORCH_RECURRENT

/// Parameters of a cell.
template <class Derived>
class CellImpl : public Cloneable<Derived> {
 public:
  void reset() override;
  void reset_parameters();
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;

 protected:
  std::tuple<Tensor, Tensor> step(const char* mode, const Tensor& input, const Tensor& h, const Tensor& c) const;
};
#define TORCH_CELL(Name, Result, Argument)                                                  \
  class Name##Impl : public CellImpl<Name##Impl> {                                          \
   public:                                                                                  \
    Name##Impl(int64_t input, int64_t hidden) : Name##Impl(Name##Options(input, hidden)) {} \
    explicit Name##Impl(const Name##Options& o);                                            \
    void pretty_print(std::ostream& stream) const override;                                 \
    Result forward(const Tensor& input, Argument hx = {});                                  \
    Name##Options options;                                                                  \
  };                                                                                        \
  TORCH_MODULE(Name)
using CellState = std::tuple<Tensor, Tensor>;
TORCH_CELL(RNNCell, Tensor, const Tensor&);
TORCH_CELL(GRUCell, Tensor, const Tensor&);
TORCH_CELL(LSTMCell, CellState, optional<CellState>);
#undef TORCH_CELL

}  // namespace torch::nn

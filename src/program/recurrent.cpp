#include "program/recurrent.h"

#include "functions.h"

namespace facula::recurrent {
namespace {

struct Network {
  const char* mode;
  TensorList params;
  bool has_biases;
  int64_t num_layers;
  double dropout;
  bool train, bidirectional, batch_first;

  int64_t directions() const { return bidirectional ? 2 : 1; }
  /// Of parameters, by layer and direction: w_ih, w_hh[, b_ih, b_hh][, w_hr].
  size_t each(bool projected) const { return (has_biases ? 4 : 2) + projected; }

  /// The hidden state of a projected LSTM is smaller than the cell's.
  static bool is_projected(const Tensor& h, const Tensor& c) { return c.defined() && h.size(2) != c.size(2); }

  void check(const Tensor& input, const Tensor& h, const Tensor& c) const {
    FACULA_CHECK(input.dim() == 3 && h.dim() == 3 && (!c.defined() || c.dim() == 3), ErrorKind::Runtime, mode,
                 ": inputs and states of three dimensions are expected, got ", input.dim(), " and ", h.dim());
    FACULA_CHECK(num_layers > 0 && num_layers <= INT32_MAX, ErrorKind::Runtime, mode,
                 ": at least one layer is expected, got ", num_layers);
    const auto count = static_cast<size_t>(num_layers * directions());
    const size_t wanted = count * each(is_projected(h, c));
    FACULA_CHECK(params.size() == wanted, ErrorKind::Runtime, mode, ": ", wanted, " parameters are expected, got ",
                 params.size());
    for (const Tensor& one : params)
      FACULA_CHECK(one.defined(), ErrorKind::Runtime, mode, ": parameters are expected, got None");
    const auto states = static_cast<int64_t>(count);
    FACULA_CHECK(h.size(0) == states && (!c.defined() || c.size(0) == states), ErrorKind::Runtime, mode, ": ", states,
                 " states are expected, got ", h.size(0));
  }

  /// One layer in one direction, of inputs (T, B, features).
  Three layer(const Tensor& x, size_t place, const Tensor& h, const Tensor& c) const {
    const bool projected = c.defined() && h.size(1) != c.size(1);
    const Tensor* own = params.begin() + place * each(projected);
    const int64_t steps = x.size(0), rows = x.size(1);
    const Tensor gates = linear(x, own[0], has_biases ? own[2] : Tensor());
    if (projected) return projected_layer(gates, own, place % 2 == 1 && bidirectional, h, c);
    const std::vector<int64_t> sizes(static_cast<size_t>(steps), rows);
    auto [output, h_n, c_n] = _rnn_layer(reshape(gates, {steps * rows, gates.size(2)}), h, c, own[1],
                                         has_biases ? own[3] : Tensor(), mode, sizes, place % 2 == 1 && bidirectional);
    return {reshape(output, {steps, rows, output.size(1)}), h_n, c_n};
  }

  /// The steps of a layer whose hidden state is a product with w_hr.
  Three projected_layer(const Tensor& gates, const Tensor* own, bool reverse, Tensor h, Tensor c) const {
    const int64_t steps = gates.size(0), hidden = c.size(1);
    FACULA_CHECK(gates.size(2) == 4 * hidden, ErrorKind::Runtime, mode, ": gates of ", 4 * hidden,
                 " values are expected, got ", gates.size(2));
    const Tensor bias = has_biases ? own[3] : Tensor(), projection = own[has_biases ? 4 : 2];
    std::vector<Tensor> outputs(static_cast<size_t>(steps));
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t at = reverse ? steps - 1 - i : i;
      const Tensor sums = select(gates, 0, at) + linear(h, own[1], bias);
      const auto part = [&](int64_t k) { return slice(sums, 1, k * hidden, (k + 1) * hidden, 1); };
      c = sigmoid(part(1)) * c + sigmoid(part(0)) * tanh(part(2));
      h = linear(sigmoid(part(3)) * tanh(c), projection, {});
      outputs[static_cast<size_t>(at)] = h;
    }
    FACULA_CHECK(steps > 0, ErrorKind::Runtime, mode, ": at least one step is expected, got none");
    return {stack(outputs, 0), h, c};
  }

  Three run(const Tensor& input, const Tensor& h, const Tensor& c) const {
    check(input, h, c);
    Tensor x = batch_first ? transpose(input, 0, 1) : input;
    std::vector<Tensor> last_h, last_c;
    for (int64_t i = 0; i < num_layers; ++i) {
      std::vector<Tensor> outputs;
      for (int64_t d = 0; d < directions(); ++d) {
        const int64_t place = i * directions() + d;
        auto [output, h_n, c_n] =
            layer(x, static_cast<size_t>(place), select(h, 0, place), c.defined() ? select(c, 0, place) : Tensor());
        outputs.push_back(output);
        last_h.push_back(h_n);
        last_c.push_back(c_n);
      }
      x = outputs.size() == 1 ? outputs[0] : cat(outputs, 2);
      if (dropout > 0 && train && i + 1 < num_layers) x = facula::dropout(x, dropout, true);
    }
    return {batch_first ? transpose(x, 0, 1) : x, stack(last_h, 0), c.defined() ? stack(last_c, 0) : Tensor()};
  }
};

Two without_cells(const Network& network, const Tensor& input, const Tensor& h) {
  auto [output, h_n, c_n] = network.run(input, h, {});
  return {output, h_n};
}

}  // namespace

Three lstm(const Tensor& input, TensorList hx, TensorList params, bool has_biases, int64_t num_layers, double dropout,
           bool train, bool bidirectional, bool batch_first) {
  FACULA_CHECK(hx.size() == 2 && hx[0].defined() && hx[1].defined(), ErrorKind::Runtime,
               "lstm: two states are expected, got ", hx.size());
  return Network{"LSTM", params, has_biases, num_layers, dropout, train, bidirectional, batch_first}.run(input, hx[0],
                                                                                                         hx[1]);
}
Two gru(const Tensor& input, const Tensor& hx, TensorList params, bool has_biases, int64_t num_layers, double dropout,
        bool train, bool bidirectional, bool batch_first) {
  return without_cells({"GRU", params, has_biases, num_layers, dropout, train, bidirectional, batch_first}, input, hx);
}
Two rnn_tanh(const Tensor& input, const Tensor& hx, TensorList params, bool has_biases, int64_t num_layers,
             double dropout, bool train, bool bidirectional, bool batch_first) {
  return without_cells({"RNN_TANH", params, has_biases, num_layers, dropout, train, bidirectional, batch_first}, input,
                       hx);
}
Two rnn_relu(const Tensor& input, const Tensor& hx, TensorList params, bool has_biases, int64_t num_layers,
             double dropout, bool train, bool bidirectional, bool batch_first) {
  return without_cells({"RNN_RELU", params, has_biases, num_layers, dropout, train, bidirectional, batch_first}, input,
                       hx);
}

}  // namespace facula::recurrent

// A recurrent layer as one node: all steps forwards in one call, all steps backwards in another. When the gradient must
// itself be differentiable, the layer is written out in ops and differentiated by the engine.
#include "autograd/engine.h"
#include "autograd/function_support.h"
#include "autograd/rnn_network.h"
#include "functions.h"
#include "ops/matmul.h"
#include "ops/rnn.h"

namespace facula {
namespace {

/// One step in differentiable ops: the new (h, c).
std::pair<Tensor, Tensor> written_out(RnnMode mode, const Tensor& x, const Tensor& h, const Tensor& c,
                                      const Tensor& weight, const Tensor& bias) {
  Tensor recurrent = linear(h, weight, bias);
  int64_t n = h.size(1);
  auto part = [n](const Tensor& t, int64_t k) { return slice(t, 1, k * n, (k + 1) * n, 1); };
  if (mode == RnnMode::Lstm) {
    Tensor sums = x + recurrent;
    Tensor next = sigmoid(part(sums, 1)) * c + sigmoid(part(sums, 0)) * tanh(part(sums, 2));
    return {sigmoid(part(sums, 3)) * tanh(next), next};
  }
  if (mode == RnnMode::Gru) {
    Tensor reset = sigmoid(part(x, 0) + part(recurrent, 0)), update = sigmoid(part(x, 1) + part(recurrent, 1));
    Tensor fresh = tanh(part(x, 2) + reset * part(recurrent, 2));
    return {(h - fresh) * update + fresh, c};
  }
  Tensor sums = x + recurrent;
  return {mode == RnnMode::Relu ? relu(sums) : tanh(sums), c};
}

/// Of a packed sequence only the first rows take part in a step; the others keep their state.
Tensor first_rows(const Tensor& state, int64_t rows) {
  return !state.defined() || state.size(0) == rows ? state : slice(state, 0, 0, rows, 1);
}
Tensor with_first_rows(const Tensor& state, const Tensor& first) {
  if (!state.defined() || state.size(0) == first.size(0)) return first;
  return cat({first, slice(state, 0, first.size(0), state.size(0), 1)}, 0);
}

class RnnLayerBackward final : public Node {
 public:
  RnnLayerBackward(RnnLayout layout, std::string_view mode) : layout_(std::move(layout)), mode_(mode) {}
  std::string name() const override { return "RnnLayerBackward0"; }

  void apply(const Tensor* grads, Tensor* results) override {
    Tensor weight = weight_.unpack(*this);
    if (rnn_apply_to_each(*this, grads, cell(grads), results)) return;
    if (GradMode::enabled()) return apply_differentiably(grads, results);
    const Tensor sum = sum_so_far(weight);
    // one row of gates is the gradient of the bias as well
    const bool bias_is_gates = recurrent_sums_are_gates() && layout_.total == 1 && !are_ops_seen();
    const Tensor h_before = h_before_.unpack(*this);
    auto [gates, h0, c0, of_weight, of_bias] = _rnn_steps_backward(
        grads[0], grads[1], cell(grads), weight, saved_.unpack(*this), h_before, c_before_.unpack(*this), mode_,
        layout_.batch_sizes, layout_.reverse, h0_.unpack(*this).size(0), wants(kH0), wants(kWeight) && !sum.defined(),
        wants(kBias) && !bias_is_gates);
    if (sum.defined()) {
      materialize_bytes(gates);
      materialize_bytes(h_before);
      ops::linear_weight_gradient(sum, gates, h_before, true);
      of_weight = sum;
    }
    if (bias_is_gates) of_bias = gates;
    const Tensor* found[] = {&gates, &h0, &c0, &of_weight, &of_bias};
    for (size_t i = 0; i < edge_count(); ++i)
      if (wants(i)) results[i] = *found[i];
  }
  void release_saved() override {
    for (SavedTensor* s : {&gates_, &h0_, &c0_, &weight_, &bias_, &saved_, &h_before_, &c_before_}) s->reset();
  }

  SavedTensor gates_, h0_, c0_, weight_, bias_;
  SavedTensor saved_, h_before_, c_before_;  // of all steps

 private:
  static constexpr size_t kH0 = 1, kWeight = 3, kBias = 4;  // their edges

  /// The gradient of the cell state; only an LSTM has that result.
  Tensor cell(const Tensor* grads) const { return layout_.mode == RnnMode::Lstm ? grads[2] : Tensor(); }

  /// Returns true if what the weight and its bias give is added to the gates as they are, which the new gate of a GRU
  /// does not do.
  bool recurrent_sums_are_gates() const { return layout_.mode != RnnMode::Gru; }
  /// Takes the sum that has arrived for the weight of a cell that runs step by step: products are added to it.
  Tensor sum_so_far(const Tensor& weight) const {
    const bool plain = recurrent_sums_are_gates() && wants(kWeight) && !are_ops_seen() && weight.device().is_cpu();
    return plain ? take_partial_sum(kWeight, weight.sizes(), weight.dtype()) : Tensor();
  }

  void apply_differentiably(const Tensor* grads, Tensor* results) {
    // Stand-ins for the inputs: the gradients are taken with respect to them, and reach the inputs through them.
    Tensor inputs[] = {gates_.unpack(*this), h0_.unpack(*this), c0_.unpack(*this), weight_.unpack(*this),
                       bias_.unpack(*this)};
    for (Tensor& t : inputs)
      if (t.defined()) t = alias_view(t);
    std::vector<Edge> roots, wanted;
    std::vector<Tensor> seeds;
    auto seed = [&](const Tensor& result, const Tensor& grad) {
      if (!result.defined() || !grad.defined() || !(result.flags() & kRecorded)) return;
      roots.push_back(gradient_edge(result.impl()));
      seeds.push_back(grad);
    };
    Tensor h = inputs[1], c = inputs[2];
    for (int64_t i = 0; i < layout_.steps(); ++i) {
      int64_t at = layout_.offsets[layout_.time(i)], rows = layout_.batch_sizes[layout_.time(i)];
      auto [next_h, next_c] = written_out(layout_.mode, slice(inputs[0], 0, at, at + rows, 1), first_rows(h, rows),
                                          first_rows(c, rows), inputs[3], inputs[4]);
      if (grads[0].defined()) seed(next_h, slice(grads[0], 0, at, at + rows, 1));
      h = with_first_rows(h, next_h);
      c = with_first_rows(c, next_c);
    }
    seed(h, grads[1]);
    if (layout_.mode == RnnMode::Lstm) seed(c, grads[2]);
    std::vector<size_t> places;
    for (size_t i = 0; i < edge_count(); ++i) {
      if (!wants(i)) continue;
      wanted.push_back(gradient_edge(inputs[i].impl()));
      places.push_back(i);
    }
    if (roots.empty()) return;
    std::vector<Tensor> found = run_backward(
        roots, seeds, wanted, {.keep_graph = true, .create_graph = true, .accumulate = false, .follows = kRecorded});
    for (size_t k = 0; k < places.size(); ++k) results[places[k]] = found[k];
  }

  RnnLayout layout_;
  std::string mode_;
};
}  // namespace

std::tuple<Tensor, Tensor, Tensor> _rnn_layer(const Tensor& gates, const Tensor& h0, const Tensor& c0,
                                              const Tensor& weight_hh, const Tensor& bias_hh, std::string_view mode,
                                              IntList batch_sizes, bool reverse) {
  uint32_t flags = flags_of(gates) | flags_of(h0) | flags_of(c0) | flags_of(weight_hh) | flags_of(bias_hh);
  if (flags & kBatched) {
    Batch batch("rnn", gates, h0, c0, weight_hh, bias_hh);
    return batch.loop([&](const Batch::Example& e) {
      return _rnn_layer(e(gates), e(h0), e(c0), e(weight_hh), e(bias_hh), mode, batch_sizes, reverse);
    });
  }
  check_one_device("rnn", gates, h0, c0, weight_hh, bias_hh);
  FACULA_CHECK(h0.dim() == 2, ErrorKind::Runtime, "rnn: expected a hidden state of shape (batch, hidden), got ",
               h0.sizes());
  auto [output, h, c, saved, h_before, c_before] =
      _rnn_steps(gates, h0, c0, weight_hh, bias_hh, mode, batch_sizes, reverse);
  uint32_t recorded_flags = recorded_flags_of(gates) | recorded_flags_of(h0) | recorded_flags_of(c0) |
                            recorded_flags_of(weight_hh) | recorded_flags_of(bias_hh);
  if (recorded_flags) {
    const RnnLayout layout(ops::rnn_mode(mode), reverse, batch_sizes, h0.size(1));
    auto node = Ref<RnnLayerBackward>::adopt(new RnnLayerBackward(layout, mode));
    node->flags = recorded_flags;
    for (const Tensor* t : {&gates, &h0, &c0, &weight_hh, &bias_hh}) add_edges(*node, *t);
    node->gates_ = SavedTensor(gates, false);
    node->h0_ = SavedTensor(h0, false);
    node->c0_ = SavedTensor(c0, false);
    node->weight_ = SavedTensor(weight_hh, false);
    node->bias_ = SavedTensor(bias_hh, false);
    node->saved_ = SavedTensor(saved, false);
    node->h_before_ = SavedTensor(h_before, false);
    node->c_before_ = SavedTensor(c_before, false);
    set_history(output, node.get());
    set_history(h, node.get());
    if (layout.mode == RnnMode::Lstm) set_history(c, node.get());
  }
  return {output, h, c};
}

namespace {

void check_cell(RnnMode mode, const Tensor& input, const Tensor& h, const Tensor& c, const Tensor& weight_ih,
                const Tensor& weight_hh) {
  const char* cell = mode == RnnMode::Lstm ? "LSTMCell" : mode == RnnMode::Gru ? "GRUCell" : "RNNCell";
  FACULA_CHECK(weight_ih.dim() == 2 && weight_hh.dim() == 2, ErrorKind::Runtime, cell,
               ": weights have 2 dimensions, got shapes ", weight_ih.sizes(), " and ", weight_hh.sizes());
  FACULA_CHECK(input.dim() == 2 && input.size(1) == weight_ih.size(1), ErrorKind::Runtime, cell,
               ": the input must have ", weight_ih.size(1), " features, got shape ", input.sizes());
  const IntList states[] = {h.sizes(), mode == RnnMode::Lstm && c.defined() ? c.sizes() : h.sizes()};
  for (IntList sizes : states) {
    FACULA_CHECK(sizes.size() == 1 || sizes.size() == 2, ErrorKind::Value, cell,
                 ": the hidden state must have 1 or 2 dimensions, got ", sizes.size());
    const Dims wanted{input.size(0), weight_hh.size(1)};
    FACULA_CHECK(sizes == IntList(wanted), ErrorKind::Runtime, cell, ": hidden states must be ", IntList(wanted),
                 ", got ", sizes);
  }
}

}  // namespace

std::tuple<Tensor, Tensor> _rnn_step(const Tensor& input, const Tensor& h, const Tensor& c, const Tensor& weight_ih,
                                     const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh,
                                     std::string_view mode_name) {
  const RnnMode mode = ops::rnn_mode(mode_name);
  check_cell(mode, input, h, c, weight_ih, weight_hh);
  const Tensor gates = linear(input, weight_ih, bias_ih);
  const Tensor& state = mode == RnnMode::Lstm ? c : h;
  const bool wide = gates.dtype() == DType::Float32 || gates.dtype() == DType::Float64;
  if (wide && state.defined() && state.dtype() == gates.dtype() && !gates.is_meta()) {
    auto [output, next_h, next_c] = _rnn_layer(gates, h, c, weight_hh, bias_hh, mode_name, {gates.size(0)}, false);
    return {next_h, next_c};
  }
  auto [next_h, next_c] = written_out(mode, gates, h, c, weight_hh, bias_hh);
  if (mode != RnnMode::Lstm) next_c = facula::empty({0}, next_h.dtype(), next_h.device());
  return {next_h, next_c};
}

}  // namespace facula

// A recurrent layer as one node: all steps forwards in one call, all steps backwards in another. When the gradient must
// itself be differentiable, the layer is written out in ops and differentiated by the engine.
#include "ops/rnn.h"

#include "autograd/engine.h"
#include "autograd/function_support.h"
#include "functions.h"
#include "raw_ops.h"

namespace facula {
namespace {

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
};

RnnMode parse_mode(std::string_view mode) {
  constexpr std::pair<std::string_view, RnnMode> kModes[] = {
      {"RNN_TANH", RnnMode::Tanh}, {"RNN_RELU", RnnMode::Relu}, {"LSTM", RnnMode::Lstm}, {"GRU", RnnMode::Gru}};
  for (const auto& [name, value] : kModes)
    if (name == mode) return value;
  throw_error(ErrorKind::Value, "rnn: expected a mode of RNN_TANH, RNN_RELU, LSTM or GRU, got '", mode, "'");
}

Tensor dense(const Tensor& t) {
  return !t.defined() || t.is_contiguous() ? t : ops::clone(t, MemoryFormat::Contiguous);
}
Tensor dense_copy(const Tensor& t) { return ops::clone(t, MemoryFormat::Contiguous); }

/// The first `rows` rows of a contiguous matrix.
Tensor top_rows(const Tensor& t, int64_t rows) { return make_view(t, {rows, t.size(1)}, t.strides(), 0, false); }

char* row(const Tensor& t, int64_t at) {
  return t.defined() ? t.data<char>() + at * t.size(1) * t.item_size() : nullptr;
}

/// What a step leaves for its derivative, for every row of every step.
struct Trace {
  Tensor saved, h_before, c_before;
  Trace() = default;
  Trace(const RnnLayout& layout, const Tensor& like) {
    auto made = [&](int64_t factor) {
      return facula::empty({layout.total, factor * layout.hidden}, like.dtype(), like.device());
    };
    saved = made(saved_factor(layout.mode));
    h_before = made(1);
    if (layout.mode == RnnMode::Lstm) c_before = made(1);
  }
};

struct RnnResult {
  Tensor output, h, c;
};

RnnResult run_forward(const RnnLayout& layout, const Tensor& gates, const Tensor& h0, const Tensor& c0,
                      const Tensor& weight, const Tensor& bias, const Trace& trace) {
  bool lstm = layout.mode == RnnMode::Lstm;
  RnnResult r{facula::empty({layout.total, layout.hidden}, gates.dtype(), gates.device()), dense_copy(h0),
              lstm ? dense_copy(c0) : facula::empty({0}, gates.dtype(), gates.device())};
  Tensor turned = ops::transpose(weight, 0, 1);
  for (int64_t i = 0; i < layout.steps(); ++i) {
    int64_t rows = layout.batch_sizes[layout.time(i)], at = layout.offsets[layout.time(i)];
    Tensor recurrent = dense(ops::mm(top_rows(r.h, rows), turned, {}));
    rnn_step_kernel(gates.device(),
                    RnnStep{layout.mode, gates.dtype(), rows, layout.hidden, row(gates, at), recurrent.data(),
                            bias.defined() ? bias.data() : nullptr, r.h.data(), lstm ? r.c.data() : nullptr,
                            row(trace.saved, at), row(trace.h_before, at), row(trace.c_before, at), row(r.output, at)});
  }
  return r;
}

struct RnnGradients {
  Tensor gates, h0, c0, weight, bias;
};

RnnGradients run_backward_steps(const RnnLayout& layout, const Tensor& weight, const Trace& trace, const Tensor* grads,
                                IntList state_sizes) {
  bool lstm = layout.mode == RnnMode::Lstm, gru = layout.mode == RnnMode::Gru;
  DType dtype = weight.dtype();
  auto zeros_or = [&](const Tensor& given) {
    return given.defined() ? dense_copy(given) : ops::zeros(state_sizes, dtype, weight.device(), {});
  };
  Tensor grad_output = dense(grads[0]);
  RnnGradients g;
  g.h0 = zeros_or(grads[1]);
  if (lstm) g.c0 = zeros_or(grads[2]);
  int64_t width = gate_factor(layout.mode) * layout.hidden;
  g.gates = facula::empty({layout.total, width}, dtype, weight.device());
  Tensor through = gru ? facula::empty({layout.total, width}, dtype, weight.device()) : g.gates;
  for (int64_t i = layout.steps(); i-- > 0;) {
    int64_t rows = layout.batch_sizes[layout.time(i)], at = layout.offsets[layout.time(i)];
    rnn_step_backward_kernel(
        weight.device(),
        RnnStepBackward{layout.mode, dtype, rows, layout.hidden, row(trace.saved, at), row(trace.h_before, at),
                        row(trace.c_before, at), row(grad_output, at), g.h0.data(), lstm ? g.c0.data() : nullptr,
                        row(g.gates, at), gru ? row(through, at) : nullptr});
    Tensor step = make_view(through, {rows, width}, through.strides(), at * width, false);
    rnn_accumulate_kernel(weight.device(), top_rows(g.h0, rows), dense(ops::mm(step, weight, {})));
  }
  g.weight = ops::mm(ops::transpose(through, 0, 1), trace.h_before, {});
  g.bias = ops::sum(through, std::optional<IntList>(IntList{0}), false, std::optional<DType>(), {});
  return g;
}

/// One step in differentiable ops: the new (h, c).
std::pair<Tensor, Tensor> written_out(RnnMode mode, const Tensor& x, const Tensor& h, const Tensor& c,
                                      const Tensor& weight, const Tensor& bias) {
  Tensor recurrent = mm(h, transpose(weight, 0, 1));
  if (bias.defined()) recurrent = recurrent + bias;
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
  explicit RnnLayerBackward(RnnLayout layout) : layout_(std::move(layout)) {}
  std::string name() const override { return "RnnLayerBackward0"; }

  void apply(const Tensor* grads, Tensor* results) override {
    Tensor weight = weight_.unpack(*this);
    if (is_batched(grads[0]) || is_batched(grads[1]) || is_batched(cell(grads))) return apply_to_each(grads, results);
    if (GradMode::enabled()) return apply_differentiably(grads, results);
    RnnGradients g = run_backward_steps(layout_, dense(weight), trace_, grads, h0_.unpack(*this).sizes());
    Tensor* found[] = {&g.gates, &g.h0, &g.c0, &g.weight, &g.bias};
    for (size_t i = 0; i < edge_count(); ++i)
      if (wants(i)) results[i] = *found[i];
  }
  void release_saved() override {
    for (SavedTensor* s : {&gates_, &h0_, &c0_, &weight_, &bias_}) s->reset();
    trace_ = {};
  }

  SavedTensor gates_, h0_, c0_, weight_, bias_;
  Trace trace_;

 private:
  /// The gradient of the cell state; only an LSTM has that result.
  Tensor cell(const Tensor* grads) const { return layout_.mode == RnnMode::Lstm ? grads[2] : Tensor(); }

  // Gradients that stand for batches (vmap): one after the other.
  void apply_to_each(const Tensor* grads, Tensor* results) {
    Batch batch("rnn", grads[0], grads[1], cell(grads));
    std::vector<Tensor> found = batch.loop([&](const Batch::Example& e) {
      Tensor own[] = {e(grads[0]), e(grads[1]), e(cell(grads))};
      std::vector<Tensor> made(edge_count());
      apply(own, made.data());
      return made;
    });
    std::copy(found.begin(), found.end(), results);
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
    std::vector<Tensor> found =
        run_backward(roots, seeds, wanted, {.keep_graph = true, .create_graph = true, .accumulate = false});
    for (size_t k = 0; k < places.size(); ++k) results[places[k]] = found[k];
  }

  RnnLayout layout_;
};

void check_layer(const RnnLayout& layout, const Tensor& gates, const Tensor& h0, const Tensor& c0, const Tensor& weight,
                 const Tensor& bias) {
  int64_t width = gate_factor(layout.mode) * layout.hidden;
  FACULA_CHECK(gates.dim() == 2 && gates.size(0) == layout.total && gates.size(1) == width, ErrorKind::Runtime,
               "rnn: expected projected inputs of shape (", layout.total, ", ", width, "), got ", gates.sizes());
  FACULA_CHECK(weight.dim() == 2 && weight.size(0) == width && weight.size(1) == layout.hidden, ErrorKind::Runtime,
               "rnn: expected a recurrent weight of shape (", width, ", ", layout.hidden, "), got ", weight.sizes());
  FACULA_CHECK(!bias.defined() || (bias.dim() == 1 && bias.numel() == width), ErrorKind::Runtime,
               "rnn: expected a bias of ", width, " elements, got shape ", bias.sizes());
  FACULA_CHECK(layout.mode != RnnMode::Lstm || (c0.defined() && c0.sizes() == h0.sizes()), ErrorKind::Runtime,
               "rnn: expected a cell state of shape ", h0.sizes(), ", got ", c0.defined() ? c0.sizes() : IntList());
  int64_t rows = h0.size(0);
  for (int64_t size : layout.batch_sizes) {
    FACULA_CHECK(size > 0 && size <= rows, ErrorKind::Runtime, "rnn: expected batch sizes that never increase from ",
                 h0.size(0), ", got ", IntList(layout.batch_sizes));
    rows = size;
  }
  for (const Tensor* t : {&h0, &c0, &weight, &bias})
    FACULA_CHECK(!t->defined() || t->dtype() == gates.dtype(), ErrorKind::Runtime, "rnn: expected one dtype, ",
                 gates.dtype(), ", got ", t->dtype());
}

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
  RnnLayout layout(parse_mode(mode), reverse, batch_sizes, h0.size(1));
  check_layer(layout, gates, h0, c0, weight_hh, bias_hh);
  Trace trace(layout, gates);
  RnnResult r = run_forward(layout, dense(gates), h0, c0, dense(weight_hh), dense(bias_hh), trace);
  uint32_t marks = marks_of(gates) | marks_of(h0) | marks_of(c0) | marks_of(weight_hh) | marks_of(bias_hh);
  if (marks) {
    auto node = Ref<RnnLayerBackward>::adopt(new RnnLayerBackward(layout));
    node->marks = marks;
    for (const Tensor* t : {&gates, &h0, &c0, &weight_hh, &bias_hh}) add_edges(*node, *t);
    node->gates_ = SavedTensor(gates, false);
    node->h0_ = SavedTensor(h0, false);
    node->c0_ = SavedTensor(c0, false);
    node->weight_ = SavedTensor(weight_hh, false);
    node->bias_ = SavedTensor(bias_hh, false);
    node->trace_ = trace;
    set_history(r.output, node.get());
    set_history(r.h, node.get());
    if (layout.mode == RnnMode::Lstm) set_history(r.c, node.get());
  }
  return {r.output, r.h, r.c};
}

}  // namespace facula

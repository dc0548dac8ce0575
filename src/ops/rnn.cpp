#include "ops/rnn.h"

#include <limits>

#include "core/checked.h"
#include "ops/contiguous.h"
#include "ops/matmul.h"
#include "raw_ops.h"

namespace facula {
namespace {

char* row(const Tensor& t, int64_t at) {
  return t.defined() ? t.data<char>() + at * t.size(1) * t.item_size() : nullptr;
}

}  // namespace

RnnTrace::RnnTrace(const RnnLayout& layout, const Tensor& like) {
  auto made = [&](int64_t factor) {
    return facula::empty({layout.total, factor * layout.hidden}, like.dtype(), like.device());
  };
  saved = made(saved_factor(layout.mode));
  h_before = made(1);
  if (layout.mode == RnnMode::Lstm) c_before = made(1);
}

namespace ops {

RnnMode rnn_mode(std::string_view mode) {
  constexpr std::pair<std::string_view, RnnMode> kModes[] = {
      {"RNN_TANH", RnnMode::Tanh}, {"RNN_RELU", RnnMode::Relu}, {"LSTM", RnnMode::Lstm}, {"GRU", RnnMode::Gru}};
  for (const auto& [name, value] : kModes)
    if (name == mode) return value;
  throw_error(ErrorKind::Value, "rnn: expected a mode of RNN_TANH, RNN_RELU, LSTM or GRU, got '", mode, "'");
}

void check_rnn_layer(const RnnLayout& layout, const Tensor& gates, const Tensor& h0, const Tensor& c0,
                     const Tensor& weight, const Tensor& bias) {
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
    FACULA_CHECK(size >= 0 && size <= rows, ErrorKind::Runtime, "rnn: expected batch sizes that never increase from ",
                 h0.size(0), ", got ", IntList(layout.batch_sizes));
    rows = size;
  }
  for (const Tensor* t : {&h0, &c0, &weight, &bias})
    FACULA_CHECK(!t->defined() || t->dtype() == gates.dtype(), ErrorKind::Runtime, "rnn: expected one dtype, ",
                 gates.dtype(), ", got ", t->dtype());
}

namespace {

/// A tensor of the network has those sizes, and the dtype and the place of another.
void need(const Tensor& t, const char* what, const Dims& sizes, const Tensor& like) {
  FACULA_CHECK(t.defined() && t.sizes() == IntList(sizes), ErrorKind::Runtime, "rnn: expected ", what, " of shape ",
               IntList(sizes), ", got ", t.defined() ? t.sizes() : IntList());
  FACULA_CHECK(t.dtype() == like.dtype() && t.device() == like.device(), ErrorKind::Runtime, "rnn: expected ", what,
               " of dtype ", like.dtype(), " on ", like.device(), ", got ", t.dtype(), " on ", t.device());
}

}  // namespace

void check_rnn_weights(const RnnNetwork& n, const std::vector<Tensor>& weights) {
  const size_t each = n.weights_each(), all = static_cast<size_t>(n.layers * n.directions()) * each;
  FACULA_CHECK(weights.size() == all && all > 0, ErrorKind::Runtime, "rnn: expected ", all, " weights, got ",
               weights.size());
  const int64_t gates = gate_factor(n.mode) * n.hidden;
  for (size_t i = 0; i < all; i += each) {
    const bool first = i < static_cast<size_t>(n.directions()) * each;
    need(weights[i], "a weight", {gates, first ? n.input : n.directions() * n.output()}, weights[0]);
    need(weights[i + 1], "a recurrent weight", {gates, n.output()}, weights[0]);
    for (size_t b = 2; n.biased && b < 4; ++b) need(weights[i + b], "a bias", {gates}, weights[0]);
    if (n.projected) need(weights[i + each - 1], "a projection", {n.projected, n.hidden}, weights[0]);
  }
}

void check_rnn_network(const RnnNetwork& n, const RnnNetworkInputs& in) {
  int64_t rows = 0, before = std::numeric_limits<int64_t>::max();
  for (const int64_t each : n.batch_sizes) {
    FACULA_CHECK(each > 0 && each <= before, ErrorKind::Runtime, "rnn: expected batch sizes that never increase, got ",
                 IntList(n.batch_sizes));
    rows += before = each;
  }
  FACULA_CHECK(rows > 0, ErrorKind::Runtime, "rnn: expected at least one step, got none");
  const int64_t states = n.layers * n.directions(), batch = n.batch_sizes[0];
  need(in.input, "an input", {rows, n.input}, in.input);
  need(in.h, "a hidden state", {states, batch, n.output()}, in.input);
  if (n.mode == RnnMode::Lstm) need(in.c, "a cell state", {states, batch, n.hidden}, in.input);
  check_rnn_weights(n, in.weights);
  need(in.weights[0], "a weight", Dims(in.weights[0].sizes()), in.input);
}

namespace {

RnnLayout layout_of(std::string_view mode, bool reverse, IntList batch_sizes, const Tensor& states, const char* what) {
  FACULA_CHECK(states.dim() == 2, ErrorKind::Runtime, "rnn: expected ", what, ", got ", states.sizes());
  FACULA_CHECK(states.dtype() == DType::Float32 || states.dtype() == DType::Float64, ErrorKind::NotImplemented,
               "rnn: expected float32 or float64, got ", states.dtype());
  Checked total = 0;
  for (const int64_t size : batch_sizes) {
    FACULA_CHECK(size >= 0, ErrorKind::Runtime, "rnn: expected batch sizes from 0 on, got ", batch_sizes);
    total += size;
  }
  total.get("rnn", "the sum of the batch sizes", batch_sizes);
  return RnnLayout(rnn_mode(mode), reverse, batch_sizes, states.size(1));
}

}  // namespace

RnnResult rnn_forward(const RnnLayout& layout, const Tensor& gates, const Tensor& h0, const Tensor& c0,
                      const Tensor& weight, const Tensor& bias, const RnnTrace& trace) {
  const bool lstm = layout.mode == RnnMode::Lstm;
  const Tensor x = as_contiguous(gates), b = as_contiguous(bias);
  RnnResult r{facula::empty({layout.total, layout.hidden}, gates.dtype(), gates.device()), contiguous_copy(h0),
              lstm ? contiguous_copy(c0) : facula::empty({0}, gates.dtype(), gates.device())};
  const Tensor recurrent_weight = as_contiguous(weight);
  int64_t width = gate_factor(layout.mode) * layout.hidden;
  const Tensor recurrent = facula::empty({h0.size(0), width}, gates.dtype(), gates.device());
  MatrixProduct product;  // recurrent = h weight^T
  product.dtype = gates.dtype();
  product.columns = product.out_row = width;
  product.inner = layout.hidden;
  product.a = {r.h.data<char>(), 0, std::max<int64_t>(layout.hidden, 1), 1};
  product.b = {recurrent_weight.data<char>(), 0, 1, std::max<int64_t>(layout.hidden, 1)};
  product.out = recurrent.data<char>();
  if (recurrent_weight.is_same(weight)) product.weights = weight.storage();
  for (int64_t i = 0; i < layout.steps(); ++i) {
    int64_t rows = product.rows = layout.batch_sizes[layout.time(i)], at = layout.offsets[layout.time(i)];
    if (rows == 0) continue;
    matrix_product_kernel(gates.device(), product);
    rnn_step_kernel(gates.device(),
                    RnnStep{layout.mode, gates.dtype(), rows, layout.hidden, row(x, at), recurrent.data(),
                            b.defined() ? b.data() : nullptr, r.h.data(), lstm ? r.c.data() : nullptr,
                            row(trace.saved, at), row(trace.h_before, at), row(trace.c_before, at), row(r.output, at)});
  }
  return r;
}

RnnGradients rnn_backward(const RnnLayout& layout, const Tensor& weight, const RnnTrace& trace, const Tensor* grads,
                          IntList state_sizes, RnnWanted wanted) {
  bool lstm = layout.mode == RnnMode::Lstm, gru = layout.mode == RnnMode::Gru;
  DType dtype = weight.dtype();
  const Tensor recurrent = as_contiguous(weight);
  auto zeros_or = [&](const Tensor& given) {
    return given.defined() ? contiguous_copy(given) : ops::zeros(state_sizes, dtype, weight.device(), {});
  };
  Tensor grad_output = as_contiguous(grads[0]);
  RnnGradients g;
  g.h0 = zeros_or(grads[1]);
  if (lstm) g.c0 = zeros_or(grads[2]);
  int64_t width = gate_factor(layout.mode) * layout.hidden;
  g.gates = facula::empty({layout.total, width}, dtype, weight.device());
  Tensor through = gru ? facula::empty({layout.total, width}, dtype, weight.device()) : g.gates;
  MatrixProduct product;  // h0 += through weight
  product.dtype = dtype;
  product.columns = product.out_row = layout.hidden;
  product.inner = width;
  product.b = {recurrent.data<char>(), 0, std::max<int64_t>(layout.hidden, 1), 1};
  product.beta = 1;
  product.out = g.h0.data<char>();
  if (recurrent.is_same(weight)) product.weights = weight.storage();
  for (int64_t i = layout.steps(); i-- > 0;) {
    int64_t rows = layout.batch_sizes[layout.time(i)], at = layout.offsets[layout.time(i)];
    if (rows == 0) continue;
    rnn_step_backward_kernel(
        weight.device(),
        RnnStepBackward{layout.mode, dtype, rows, layout.hidden, row(trace.saved, at), row(trace.h_before, at),
                        row(trace.c_before, at), row(grad_output, at), g.h0.data(), lstm ? g.c0.data() : nullptr,
                        row(g.gates, at), gru ? row(through, at) : nullptr});
    product.rows = wanted.h0 ? rows : layout.rows_before(i);
    if (product.rows == 0) continue;
    product.a = {row(through, at), 0, std::max<int64_t>(width, 1), 1};
    matrix_product_kernel(weight.device(), product);
  }
  if (wanted.weight) g.weight = ops::mm(ops::transpose(through, 0, 1), trace.h_before, {});
  if (wanted.bias) g.bias = ops::sum(through, std::optional<IntList>(IntList{0}), false, std::optional<DType>(), {});
  return g;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> _rnn_steps(const Tensor& gates, const Tensor& h0,
                                                                      const Tensor& c0, const Tensor& weight_hh,
                                                                      const Tensor& bias_hh, std::string_view mode,
                                                                      IntList batch_sizes, bool reverse) {
  const RnnLayout layout = layout_of(mode, reverse, batch_sizes, h0, "a hidden state of shape (batch, hidden)");
  check_rnn_layer(layout, gates, h0, c0, weight_hh, bias_hh);
  RnnTrace trace(layout, gates);
  RnnResult r = rnn_forward(layout, gates, h0, c0, weight_hh, bias_hh, trace);
  if (!trace.c_before.defined()) trace.c_before = facula::empty({0}, gates.dtype(), gates.device());
  return {r.output, r.h, r.c, trace.saved, trace.h_before, trace.c_before};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> _rnn_steps_backward(const Tensor& grad_output, const Tensor& grad_h,
                                                                       const Tensor& grad_c, const Tensor& weight_hh,
                                                                       const Tensor& saved, const Tensor& h_before,
                                                                       const Tensor& c_before, std::string_view mode,
                                                                       IntList batch_sizes, bool reverse, int64_t rows,
                                                                       bool of_state, bool of_weight, bool of_bias) {
  const RnnLayout layout = layout_of(mode, reverse, batch_sizes, h_before, "states before every step");
  const int64_t hidden = layout.hidden, total = layout.total;
  const bool lstm = layout.mode == RnnMode::Lstm;
  int64_t before = rows;
  for (const int64_t size : layout.batch_sizes) {
    FACULA_CHECK(size >= 0 && size <= before, ErrorKind::Runtime, "rnn: expected batch sizes that never increase from ",
                 rows, ", got ", batch_sizes);
    before = size;
  }
  need(weight_hh, "a recurrent weight", {gate_factor(layout.mode) * hidden, hidden}, h_before);
  need(h_before, "states before every step", {total, hidden}, weight_hh);
  need(saved, "saved values", {total, saved_factor(layout.mode) * hidden}, weight_hh);
  if (lstm) need(c_before, "cell states before every step", {total, hidden}, weight_hh);
  if (grad_output.defined()) need(grad_output, "a gradient of the output", {total, hidden}, weight_hh);
  if (grad_h.defined()) need(grad_h, "a gradient of the state", {rows, hidden}, weight_hh);
  if (lstm && grad_c.defined()) need(grad_c, "a gradient of the cell", {rows, hidden}, weight_hh);
  RnnTrace trace;
  trace.saved = as_contiguous(saved);
  trace.h_before = as_contiguous(h_before);
  if (lstm) trace.c_before = as_contiguous(c_before);
  const Tensor grads[] = {grad_output, grad_h, grad_c};
  RnnGradients g = rnn_backward(layout, weight_hh, trace, grads, {rows, hidden}, {of_state, of_weight, of_bias});
  return {g.gates, g.h0, g.c0, g.weight, g.bias};
}

}  // namespace ops
}  // namespace facula

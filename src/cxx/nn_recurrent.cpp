// Recurrent networks: a product for the inputs of all steps, then an op that goes through the steps.
#include <cmath>

#include "functions.h"
#include "torch/nn/recurrent.h"

namespace torch::nn {

using facula::ErrorKind;
using utils::rnn::PackedSequence;

namespace {

const char* word(bool yes) { return yes ? "true" : "false"; }
const char* mode_of(Word nonlinearity) {
  if (nonlinearity == kTanh) return "RNN_TANH";
  FACULA_CHECK(nonlinearity == kReLU, ErrorKind::Runtime, "RNN: nonlinearity must be kTanh or kReLU, got ",
               nonlinearity.name);
  return "RNN_RELU";
}
struct Cell {
  const char* mode;
  int64_t gates;
};
Cell cell_of(const LSTMOptions&) { return {"LSTM", 4}; }
Cell cell_of(const GRUOptions&) { return {"GRU", 3}; }
Cell cell_of(const RNNOptions& o) { return {mode_of(o.nonlinearity()), 1}; }
Cell cell_of(const LSTMCellOptions&) { return {"LSTM", 4}; }
Cell cell_of(const GRUCellOptions&) { return {"GRU", 3}; }
Cell cell_of(const RNNCellOptions& o) { return {mode_of(o.nonlinearity()), 1}; }

template <class Options>
int64_t projection_of(const Options& o) {
  if constexpr (requires { o.proj_size(); }) return o.proj_size();
  else return 0;
}

void draw_all(const std::vector<Tensor>& weights, int64_t hidden) {
  const double bound = hidden > 0 ? 1.0 / std::sqrt(static_cast<double>(hidden)) : 0;
  for (const Tensor& weight : weights)
    if (weight.defined()) init::uniform_(weight, -bound, bound);
}

}  // namespace

// ---- networks

template <class Derived>
detail::RecurrentShape RecurrentImpl<Derived>::shape() const {
  const auto& o = static_cast<const Derived&>(*this).options;
  const Cell cell = cell_of(o);
  return {cell.mode, cell.gates,      o.input_size(),    o.hidden_size(), o.num_layers(),
          o.bias(),  o.batch_first(), o.bidirectional(), o.dropout(),     projection_of(o)};
}
template <class Derived>
void RecurrentImpl<Derived>::reset() {
  const detail::RecurrentShape s = shape();
  FACULA_CHECK(s.dropout >= 0 && s.dropout <= 1, ErrorKind::Runtime, s.mode,
               ": dropout must be a number from 0 to 1, got ", s.dropout);
  FACULA_CHECK(s.proj_size >= 0 && (s.proj_size == 0 || s.proj_size < s.hidden_size), ErrorKind::Runtime, s.mode,
               ": proj_size must be smaller than hidden_size ", s.hidden_size, " and not negative, got ", s.proj_size);
  const int64_t directions = s.bidirectional ? 2 : 1, rows = s.gates * s.hidden_size;
  weights_.clear();
  const auto add = [&](const std::string& name, std::vector<int64_t> sizes) {
    weights_.push_back(this->register_parameter(name, torch::empty(sizes)));
  };
  for (int64_t layer = 0; layer < s.num_layers; ++layer)
    for (int64_t direction = 0; direction < directions; ++direction) {
      const std::string end = "_l" + std::to_string(layer) + (direction ? "_reverse" : "");
      add("weight_ih" + end, {rows, layer ? s.state_size() * directions : s.input_size});
      add("weight_hh" + end, {rows, s.state_size()});
      if (s.bias) add("bias_ih" + end, {rows}), add("bias_hh" + end, {rows});
      if (s.proj_size) add("weight_hr" + end, {s.proj_size, s.hidden_size});
    }
  reset_parameters();
}
template <class Derived>
void RecurrentImpl<Derived>::reset_parameters() {
  draw_all(weights_, shape().hidden_size);
}

namespace detail {
namespace {

/// One layer of an LSTM whose hidden state is projected, step by step. Sequences that have ended leave their states;
/// backward, those that are shorter begin later.
RecurrentRun projected_layer(const Tensor& gates, const std::vector<int64_t>& sizes, const Tensor& h0, const Tensor& c0,
                             const Tensor& weight_hh, const optional<Tensor>& bias_hh, const Tensor& weight_hr,
                             bool reverse) {
  const auto steps = static_cast<int64_t>(sizes.size());
  std::vector<int64_t> starts(1, 0);
  for (const int64_t size : sizes) starts.push_back(starts.back() + size);
  std::vector<Tensor> outputs(sizes.size()), ended_h, ended_c;
  int64_t now = reverse ? sizes.back() : sizes[0];
  Tensor h = h0.slice(0, 0, now), c = c0.slice(0, 0, now);
  for (int64_t i = 0; i < steps; ++i) {
    const auto t = static_cast<size_t>(reverse ? steps - 1 - i : i);
    if (sizes[t] < now) {
      ended_h.insert(ended_h.begin(), h.slice(0, sizes[t])), ended_c.insert(ended_c.begin(), c.slice(0, sizes[t]));
      h = h.slice(0, 0, sizes[t]), c = c.slice(0, 0, sizes[t]);
    } else if (sizes[t] > now) {
      h = torch::cat({h, h0.slice(0, now, sizes[t])}), c = torch::cat({c, c0.slice(0, now, sizes[t])});
    }
    now = sizes[t];
    const auto parts = (gates.slice(0, starts[t], starts[t] + now) + torch::linear(h, weight_hh, bias_hh)).chunk(4, 1);
    c = parts[1].sigmoid() * c + parts[0].sigmoid() * parts[2].tanh();
    h = torch::linear(parts[3].sigmoid() * c.tanh(), weight_hr);
    outputs[t] = h;
  }
  ended_h.insert(ended_h.begin(), h), ended_c.insert(ended_c.begin(), c);
  return {torch::cat(outputs), torch::cat(ended_h), torch::cat(ended_c)};
}

/// The rows of all steps through all layers; `sizes` says how many sequences there are at each step.
RecurrentRun through_layers(const RecurrentShape& s, const std::vector<Tensor>& weights, bool training, Tensor rows,
                            const std::vector<int64_t>& sizes, const Tensor& h0, const Tensor& c0) {
  const int64_t directions = s.bidirectional ? 2 : 1;
  const size_t each = (s.bias ? 4 : 2) + (s.proj_size ? 1 : 0);
  std::vector<Tensor> last_h, last_c;
  for (int64_t layer = 0; layer < s.num_layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t row = layer * directions + direction;
      const Tensor* w = &weights[static_cast<size_t>(row) * each];
      const Tensor gates = torch::linear(rows, w[0], s.bias ? optional<Tensor>(w[2]) : nullopt);
      if (s.proj_size) {
        const optional<Tensor> bias = s.bias ? optional<Tensor>(w[3]) : nullopt;
        const RecurrentRun run =
            projected_layer(gates, sizes, h0[row], c0[row], w[1], bias, w[each - 1], direction == 1);
        outputs.push_back(run.output), last_h.push_back(run.h), last_c.push_back(run.c);
        continue;
      }
      auto [output, h, c] = facula::_rnn_layer(
          gates.core(), h0[row].core(), c0.defined() ? c0[row].core() : facula::Tensor(), w[1].core(),
          s.bias ? w[3].core() : facula::Tensor(), s.mode, torch::detail::in(IntArrayRef(sizes)), direction == 1);
      outputs.emplace_back(output);
      last_h.emplace_back(h);
      if (c0.defined()) last_c.emplace_back(c);
    }
    rows = directions == 1 ? outputs[0] : torch::cat(outputs, -1);
    if (layer + 1 < s.num_layers && s.dropout > 0 && training) rows = torch::dropout(rows, s.dropout, true);
  }
  return {rows, torch::stack(last_h), c0.defined() ? torch::stack(last_c) : Tensor()};
}

/// The states as they were given, or zeros.
Tensor state_or_zeros(const RecurrentShape& s, const Tensor& given, const Tensor& like, int64_t batch, int64_t size) {
  const std::vector<int64_t> sizes{s.num_layers * (s.bidirectional ? 2 : 1), batch, size};
  if (!given.defined()) return torch::zeros(sizes, like.options());
  FACULA_CHECK(given.sizes() == sizes, ErrorKind::Runtime, s.mode, ": expected a state of shape ", IntArrayRef(sizes),
               ", got ", given.sizes());
  return given;
}

}  // namespace

RecurrentRun run_network(const RecurrentShape& s, const std::vector<Tensor>& weights, bool training,
                         const Tensor& given, const Tensor& h0, const Tensor& c0) {
  const bool lstm = s.gates == 4, alone = given.dim() == 2;  // one sequence without a batch
  FACULA_CHECK((alone || given.dim() == 3) && given.size(-1) == s.input_size, ErrorKind::Runtime, s.mode,
               ": an input of 2 or 3 dimensions, the last of size ", s.input_size, ", is expected, got ",
               given.sizes());
  const Tensor input = alone ? given.unsqueeze(1) : s.batch_first ? given.transpose(0, 1) : given;
  const int64_t steps = input.size(0), batch = input.size(1);
  const auto state = [&](const Tensor& t, int64_t size) {
    return state_or_zeros(s, alone && t.defined() ? t.unsqueeze(1) : t, input, batch, size);
  };
  RecurrentRun run = through_layers(s, weights, training, input.reshape({steps * batch, s.input_size}),
                                    std::vector<int64_t>(static_cast<size_t>(steps), batch), state(h0, s.state_size()),
                                    lstm ? state(c0, s.hidden_size) : Tensor());
  run.output = run.output.reshape({steps, batch, -1});
  if (alone) {
    run.output = run.output.squeeze(1);
    run.h = run.h.squeeze(1);
    if (lstm) run.c = run.c.squeeze(1);
  } else if (s.batch_first) {
    run.output = run.output.transpose(0, 1);
  }
  return run;
}

RecurrentRun run_packed(const RecurrentShape& s, const std::vector<Tensor>& weights, bool training,
                        const PackedSequence& input, const Tensor& h0, const Tensor& c0) {
  const Tensor counts = input.batch_sizes().to(kLong).contiguous();
  FACULA_CHECK(counts.dim() == 1 && counts.numel() > 0, ErrorKind::Runtime, s.mode,
               ": a packed sequence with steps is expected, got one without");
  const auto* first = counts.data_ptr<int64_t>();
  const std::vector<int64_t> sizes(first, first + counts.numel());
  const bool sorted = input.sorted_indices().defined(), lstm = s.gates == 4;
  const auto state = [&](const Tensor& t, int64_t size) {
    const Tensor ready = state_or_zeros(s, t, input.data(), sizes[0], size);
    return sorted && t.defined() ? ready.index_select(1, input.sorted_indices()) : ready;
  };
  RecurrentRun run = through_layers(s, weights, training, input.data(), sizes, state(h0, s.state_size()),
                                    lstm ? state(c0, s.hidden_size) : Tensor());
  if (input.unsorted_indices().defined()) {
    run.h = run.h.index_select(1, input.unsorted_indices());
    if (lstm) run.c = run.c.index_select(1, input.unsorted_indices());
  }
  return run;
}

}  // namespace detail

namespace {

PackedSequence packed_like(const PackedSequence& input, Tensor data) {
  return PackedSequence(std::move(data), input.batch_sizes(), input.sorted_indices(), input.unsorted_indices());
}
template <class Options>
void print_network(std::ostream& stream, const char* name, const Options& o) {
  stream << "torch::nn::" << name << "(input_size=" << o.input_size() << ", hidden_size=" << o.hidden_size()
         << ", num_layers=" << o.num_layers() << ", bias=" << word(o.bias())
         << ", batch_first=" << word(o.batch_first()) << ", dropout=" << o.dropout()
         << ", bidirectional=" << word(o.bidirectional()) << ")";
}

}  // namespace

LSTMImpl::LSTMImpl(const LSTMOptions& o) : options(o) { LSTMImpl::reset(); }
std::tuple<Tensor, LSTMImpl::State> LSTMImpl::forward(const Tensor& input, optional<State> state) {
  const State s = state.value_or(State());
  auto run = detail::run_network(shape(), weights_, is_training(), input, std::get<0>(s), std::get<1>(s));
  return {run.output, State{run.h, run.c}};
}
std::tuple<PackedSequence, LSTMImpl::State> LSTMImpl::forward_with_packed_input(const PackedSequence& input,
                                                                                optional<State> state) {
  const State s = state.value_or(State());
  auto run = detail::run_packed(shape(), weights_, is_training(), input, std::get<0>(s), std::get<1>(s));
  return {packed_like(input, run.output), State{run.h, run.c}};
}
void LSTMImpl::pretty_print(std::ostream& stream) const { print_network(stream, "LSTM", options); }

#define TORCH_RECURRENT(Name)                                                                                        \
  Name##Impl::Name##Impl(const Name##Options& o) : options(o) { Name##Impl::reset(); }                               \
  std::tuple<Tensor, Tensor> Name##Impl::forward(const Tensor& input, Tensor hx) {                                   \
    auto run = detail::run_network(shape(), weights_, is_training(), input, hx, {});                                 \
    return {run.output, run.h};                                                                                      \
  }                                                                                                                  \
  std::tuple<PackedSequence, Tensor> Name##Impl::forward_with_packed_input(const PackedSequence& input, Tensor hx) { \
    auto run = detail::run_packed(shape(), weights_, is_training(), input, hx, {});                                  \
    return {packed_like(input, run.output), run.h};                                                                  \
  }                                                                                                                  \
  void Name##Impl::pretty_print(std::ostream& stream) const { print_network(stream, #Name, options); }
TORCH_RECURRENT(RNN)
TORCH_RECURRENT(GRU)
#undef TORCH_RECURRENT

// ---- cells

template <class Derived>
void CellImpl<Derived>::reset() {
  const auto& o = static_cast<const Derived&>(*this).options;
  const int64_t rows = cell_of(o).gates * o.hidden_size();
  weight_ih = this->register_parameter("weight_ih", torch::empty({rows, o.input_size()}));
  weight_hh = this->register_parameter("weight_hh", torch::empty({rows, o.hidden_size()}));
  const auto bias = [&](const char* name) {
    return o.bias() ? this->register_parameter(name, torch::empty({rows})) : this->register_parameter(name, {}, false);
  };
  bias_ih = bias("bias_ih");
  bias_hh = bias("bias_hh");
  reset_parameters();
}
template <class Derived>
void CellImpl<Derived>::reset_parameters() {
  draw_all({weight_ih, weight_hh, bias_ih, bias_hh}, static_cast<const Derived&>(*this).options.hidden_size());
}
template <class Derived>
std::tuple<Tensor, Tensor> CellImpl<Derived>::step(const char* mode, const Tensor& input, const Tensor& h,
                                                   const Tensor& c) const {
  const auto& o = static_cast<const Derived&>(*this).options;
  const bool alone = input.dim() == 1;
  FACULA_CHECK((alone || input.dim() == 2) && input.size(-1) == o.input_size(), ErrorKind::Runtime, mode,
               " cell: an input of 1 or 2 dimensions, the last of size ", o.input_size(), ", is expected, got ",
               input.sizes());
  const Tensor rows = alone ? input.unsqueeze(0) : input;
  const auto state = [&](const Tensor& t) {
    if (!t.defined()) return torch::zeros({rows.size(0), o.hidden_size()}, rows.options());
    return alone ? t.unsqueeze(0) : t;
  };
  const bool lstm = cell_of(o).gates == 4;
  auto [new_h, new_c] = facula::_rnn_step(rows.core(), state(h).core(), lstm ? state(c).core() : facula::Tensor(),
                                          weight_ih.core(), weight_hh.core(), bias_ih.core(), bias_hh.core(), mode);
  const auto shaped = [&](const facula::Tensor& t) { return alone && t.defined() ? Tensor(t).squeeze(0) : Tensor(t); };
  return {shaped(new_h), shaped(new_c)};
}

namespace {

template <class Options>
void print_cell(std::ostream& stream, const char* name, const Options& o) {
  stream << "torch::nn::" << name << "(" << o.input_size() << ", " << o.hidden_size();
  if (!o.bias()) stream << ", bias=false";
  if constexpr (requires { o.nonlinearity(); })
    if (!(o.nonlinearity() == kTanh)) stream << ", nonlinearity=kReLU";
  stream << ")";
}

}  // namespace

RNNCellImpl::RNNCellImpl(const RNNCellOptions& o) : options(o) { RNNCellImpl::reset(); }
Tensor RNNCellImpl::forward(const Tensor& input, const Tensor& hx) {
  return std::get<0>(step(cell_of(options).mode, input, hx, {}));
}
void RNNCellImpl::pretty_print(std::ostream& stream) const { print_cell(stream, "RNNCell", options); }
GRUCellImpl::GRUCellImpl(const GRUCellOptions& o) : options(o) { GRUCellImpl::reset(); }
Tensor GRUCellImpl::forward(const Tensor& input, const Tensor& hx) { return std::get<0>(step("GRU", input, hx, {})); }
void GRUCellImpl::pretty_print(std::ostream& stream) const { print_cell(stream, "GRUCell", options); }
LSTMCellImpl::LSTMCellImpl(const LSTMCellOptions& o) : options(o) { LSTMCellImpl::reset(); }
CellState LSTMCellImpl::forward(const Tensor& input, optional<CellState> hx) {
  const CellState s = hx.value_or(CellState());
  return step("LSTM", input, std::get<0>(s), std::get<1>(s));
}
void LSTMCellImpl::pretty_print(std::ostream& stream) const { print_cell(stream, "LSTMCell", options); }

template class RecurrentImpl<LSTMImpl>;
template class RecurrentImpl<RNNImpl>;
template class RecurrentImpl<GRUImpl>;
template class CellImpl<RNNCellImpl>;
template class CellImpl<GRUCellImpl>;
template class CellImpl<LSTMCellImpl>;

// ---- packed sequences

namespace utils::rnn {

Tensor invert_permutation(const Tensor& permutation) {
  if (!permutation.defined()) return {};
  return torch::empty_like(permutation)
      .scatter_(0, permutation, torch::arange(permutation.numel(), permutation.options()));
}

PackedSequence pack_padded_sequence(const Tensor& given, const Tensor& given_lengths, bool batch_first,
                                    bool enforce_sorted) {
  Tensor input = given, lengths = given_lengths.to(Device(kCPU), kLong).contiguous(), sorted;
  if (batch_first) input = input.transpose(0, 1);
  FACULA_CHECK(lengths.dim() == 1 && input.dim() >= 2 && lengths.size(0) == input.size(1), ErrorKind::Runtime,
               "pack_padded_sequence: one length for each sequence is expected, got ", lengths.sizes(),
               " for an input of ", given.sizes());
  if (!enforce_sorted) {
    std::tie(lengths, sorted) = torch::sort(lengths, -1, true);
    sorted = sorted.to(input.device());
    input = input.index_select(1, sorted);
  }
  const auto* all = lengths.data_ptr<int64_t>();
  const int64_t count = lengths.size(0);
  for (int64_t i = 0; i < count; ++i) {
    FACULA_CHECK(all[i] > 0 && all[i] <= input.size(0), ErrorKind::Runtime,
                 "pack_padded_sequence: lengths must be from 1 to ", input.size(0), ", got ", all[i]);
    FACULA_CHECK(i == 0 || all[i] <= all[i - 1], ErrorKind::Runtime,
                 "pack_padded_sequence: lengths must not rise with enforce_sorted=true, got ", all[i], " after ",
                 all[i - 1]);
  }
  std::vector<Tensor> steps;
  std::vector<int64_t> sizes;
  for (int64_t t = 0, batch = count; t < all[0]; ++t) {
    while (all[batch - 1] <= t) --batch;
    steps.push_back(input[t].slice(0, 0, batch));
    sizes.push_back(batch);
  }
  const Tensor unsorted = sorted.defined() ? torch::argsort(sorted) : Tensor();
  return PackedSequence(torch::cat(steps), torch::tensor(sizes, kLong), sorted, unsorted);
}

std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence, bool batch_first, double padding_value,
                                               optional<int64_t> total_length) {
  const Tensor sizes = sequence.batch_sizes().contiguous();
  const auto* counts = sizes.data_ptr<int64_t>();
  const int64_t steps = sizes.numel(), longest = total_length.value_or(steps), batch = counts[0];
  FACULA_CHECK(longest >= steps, ErrorKind::Runtime, "pad_packed_sequence: total_length must be ", steps,
               " or more, as long as the longest sequence, got ", longest);
  std::vector<Tensor> padded;
  std::vector<int64_t> lengths(static_cast<size_t>(batch), 0);
  std::vector<int64_t> pad(static_cast<size_t>(2 * sequence.data().dim()), 0);
  for (int64_t t = 0, at = 0; t < steps; at += counts[t++]) {
    pad.back() = batch - counts[t];
    padded.push_back(torch::pad(sequence.data().slice(0, at, at + counts[t]), pad, "constant", padding_value));
    for (int64_t b = 0; b < counts[t]; ++b) lengths[static_cast<size_t>(b)] = t + 1;
  }
  while (static_cast<int64_t>(padded.size()) < longest) padded.push_back(torch::full_like(padded[0], padding_value));
  Tensor output = torch::stack(padded), lengths_tensor = torch::tensor(lengths, kLong);
  if (sequence.unsorted_indices().defined()) {
    output = output.index_select(1, sequence.unsorted_indices());
    lengths_tensor = lengths_tensor.index_select(0, sequence.unsorted_indices().cpu());
  }
  return {batch_first ? output.transpose(0, 1) : output, lengths_tensor};
}

Tensor pad_sequence(TensorList sequences, bool batch_first, double padding_value) {
  FACULA_CHECK(!sequences.empty(), ErrorKind::Runtime, "pad_sequence: sequences are expected, got none");
  int64_t longest = 0;
  for (const Tensor& each : sequences) longest = std::max(longest, each.size(0));
  std::vector<Tensor> padded;
  for (const Tensor& each : sequences) {
    std::vector<int64_t> pad(static_cast<size_t>(2 * each.dim()), 0);
    pad.back() = longest - each.size(0);
    padded.push_back(torch::pad(each, pad, "constant", padding_value));
  }
  return torch::stack(padded, batch_first ? 0 : 1);
}
PackedSequence pack_sequence(TensorList sequences, bool enforce_sorted) {
  std::vector<int64_t> lengths;
  for (const Tensor& each : sequences) lengths.push_back(each.size(0));
  return pack_padded_sequence(pad_sequence(sequences), torch::tensor(lengths, kLong), false, enforce_sorted);
}

}  // namespace utils::rnn

}  // namespace torch::nn

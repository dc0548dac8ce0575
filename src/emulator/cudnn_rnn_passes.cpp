// Recurrent layers of cuDNN's stand-in: loops on the host, in double precision. The reserve remembers what was done
// with it, so that passes in a wrong order, or a second one over what the first has changed, are found.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "emulator/cudnn_rnn.h"

namespace facula::emulator::rnn {

std::vector<Weights> weights_of(const Rnn& n, int64_t* count) {
  std::vector<Weights> all;
  int64_t at = 0;
  const auto take = [&](int64_t elements) { return std::exchange(at, at + elements); };
  const int64_t gates = n.gates();
  for (int layer = 0; layer < n.layers * n.directions; ++layer) {
    const int64_t w = take(gates * n.hidden * n.features(layer / n.directions)), r = take(gates * n.hidden * n.output);
    all.push_back({w, r, -1, -1, n.projects() ? take(int64_t{n.output} * n.hidden) : -1});
  }
  take(kGap);
  for (Weights& each : all)
    if (n.biased) each.bw = take(gates * n.hidden), each.br = take(gates * n.hidden);
  if (count) *count = at;
  return all;
}

namespace {

std::vector<double> loaded(cudnnDataType_t type, const void* data, int64_t count) {
  std::vector<double> all(static_cast<size_t>(count));
  if (data)
    for (int64_t i = 0; i < count; ++i) all[static_cast<size_t>(i)] = load(type, data, i);
  return all;
}
void write(cudnnDataType_t type, void* to, const std::vector<double>& from) {
  if (to)
    for (size_t i = 0; i < from.size(); ++i) store(type, to, static_cast<int64_t>(i), from[i]);
}

// ---- what a pass forwards leaves, as doubles in the reserve

constexpr double kForwards = 77, kBackwards = 78;

struct Layer {
  double *in, *factors, *out;  // inputs after dropout, factors of dropout, and outputs of both directions
};
struct Direction {
  double *gates, *h, *c, *next_c, *raw, *hn;  // of each row: gates, states before, and after, before projection
  double *grad_x, *grad_h, *grad_out;         // of the gates, and of what is projected
};
struct Reserve {
  double* stage;
  std::vector<Layer> layers;
  std::vector<Direction> directions;
  int64_t count = 0;

  Reserve(const Rnn& n, int64_t rows, double* memory) {
    const auto take = [&](int64_t elements) { return memory + std::exchange(count, count + elements); };
    stage = take(1);
    for (int layer = 0; layer < n.layers; ++layer) {
      const int64_t in = rows * n.features(layer);
      layers.push_back({take(in), take(in), take(rows * n.directions * n.output)});
      for (int d = 0; d < n.directions; ++d) {
        const int64_t h = rows * n.hidden, o = rows * n.output, g = h * n.gates();
        directions.push_back({take(g), take(o), take(h), take(h), take(h), take(h), take(g), take(g), take(o)});
      }
    }
  }
};

/// The rows of a sequence in memory, by time.
struct Places {
  const Data& x;
  std::vector<int64_t> starts;
  explicit Places(const Data& data) : x(data) {
    int64_t at = 0;
    for (int t = 0; t < x.steps; ++t) {
      starts.push_back(at);
      at += std::count_if(x.lengths.begin(), x.lengths.end(), [&](int length) { return length > t; });
    }
  }
  int64_t at(int sequence, int t) const {
    return x.packed ? starts[static_cast<size_t>(t)] + sequence : int64_t{t} * x.batch + sequence;
  }
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// y += matrix x, or of the transposed matrix.
void multiply(const double* matrix, int64_t rows, int64_t columns, const double* x, double* y) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) y[i] += matrix[i * columns + j] * x[j];
}
void multiply_transposed(const double* matrix, int64_t rows, int64_t columns, const double* x, double* y) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) y[j] += matrix[i * columns + j] * x[i];
}
void add_outer(double* matrix, int64_t rows, int64_t columns, const double* left, const double* right) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) matrix[i * columns + j] += left[i] * right[j];
}

/// One step of one sequence: from (h, c) to the next.
void step(const Rnn& n, const double* all, const Weights& w, const Direction& d, int64_t row, const double* x,
          int64_t features, std::vector<double>& h, std::vector<double>& c) {
  const int64_t size = n.hidden, width = size * n.gates();
  std::vector<double> from_x(static_cast<size_t>(width)), from_h(static_cast<size_t>(width));
  if (n.biased) std::copy_n(all + w.bw, width, from_x.begin()), std::copy_n(all + w.br, width, from_h.begin());
  multiply(all + w.w, width, features, x, from_x.data());
  multiply(all + w.r, width, n.output, h.data(), from_h.data());
  double *gates = d.gates + row * width, *raw = d.raw + row * size;
  std::copy(h.begin(), h.end(), d.h + row * n.output);
  std::copy(c.begin(), c.end(), d.c + row * size);
  for (int64_t j = 0; j < size; ++j) {
    const auto sum = [&](int64_t g) {
      return from_x[static_cast<size_t>(g * size + j)] + from_h[static_cast<size_t>(g * size + j)];
    };
    const auto at = static_cast<size_t>(j);
    if (n.mode == CUDNN_LSTM) {
      const double i = sigmoid(sum(0)), f = sigmoid(sum(1)), g = std::tanh(sum(2)), o = sigmoid(sum(3));
      gates[j] = i, gates[size + j] = f, gates[2 * size + j] = g, gates[3 * size + j] = o;
      c[at] = f * c[at] + i * g;
      raw[j] = o * std::tanh(c[at]);
    } else if (n.mode == CUDNN_GRU) {
      const double r = sigmoid(sum(0)), z = sigmoid(sum(1)), hn = from_h[static_cast<size_t>(2 * size + j)];
      const double fresh = std::tanh(from_x[static_cast<size_t>(2 * size + j)] + r * hn);
      gates[j] = r, gates[size + j] = z, gates[2 * size + j] = fresh, d.hn[row * size + j] = hn;
      raw[j] = (1 - z) * fresh + z * h[at];
    } else {
      raw[j] = gates[j] = n.mode == CUDNN_RNN_TANH ? std::tanh(sum(0)) : std::max(sum(0), 0.0);
    }
  }
  std::copy(c.begin(), c.end(), d.next_c + row * size);
  if (n.projects()) {
    std::fill(h.begin(), h.end(), 0.0);
    multiply(all + w.p, n.output, size, raw, h.data());
  } else {
    std::copy_n(raw, size, h.begin());
  }
}

/// Its derivative: (dh, dc) of what follows become those of what was before, but for the way through R.
void step_backwards(const Rnn& n, const Direction& d, int64_t row, const std::vector<double>& draw,
                    std::vector<double>& through, std::vector<double>& dc) {
  const int64_t size = n.hidden, width = size * n.gates();
  const double *gates = d.gates + row * width, *before = d.c + row * size, *after = d.next_c + row * size;
  double *dx = d.grad_x + row * width, *dh = d.grad_h + row * width;
  for (int64_t j = 0; j < size; ++j) {
    const auto at = static_cast<size_t>(j);
    const double g0 = gates[j];
    if (n.mode == CUDNN_LSTM) {
      const double f = gates[size + j], g = gates[2 * size + j], o = gates[3 * size + j], t = std::tanh(after[j]);
      dc[at] += draw[at] * o * (1 - t * t);
      dx[j] = dc[at] * g * g0 * (1 - g0), dx[size + j] = dc[at] * before[j] * f * (1 - f);
      dx[2 * size + j] = dc[at] * g0 * (1 - g * g), dx[3 * size + j] = draw[at] * t * o * (1 - o);
      dc[at] *= f;
    } else if (n.mode == CUDNN_GRU) {
      const double z = gates[size + j], fresh = gates[2 * size + j], dn = draw[at] * (1 - z) * (1 - fresh * fresh);
      dx[j] = dn * d.hn[row * size + j] * g0 * (1 - g0);
      dx[size + j] = draw[at] * (d.h[row * n.output + j] - fresh) * z * (1 - z);
      dx[2 * size + j] = dn;
      through[at] = draw[at] * z;
    } else {
      dx[j] = draw[at] * (n.mode == CUDNN_RNN_TANH ? 1 - g0 * g0 : g0 > 0 ? 1.0 : 0.0);
    }
  }
  std::copy_n(dx, width, dh);
  if (n.mode == CUDNN_GRU)
    for (int64_t j = 0; j < size; ++j) dh[2 * size + j] *= gates[j];
}

/// Whether dropout keeps a value: a hash of the seed and of how many were drawn before.
bool keeps(const uint64_t* states, uint64_t i, double p) {
  uint64_t x = states[0] * 0x9e3779b97f4a7c15ULL + states[1] + i;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<double>((x ^ (x >> 31)) >> 11) / 9007199254740992.0 >= p;
}

bool is_at(const Call& k, double stage, const char* call) {
  if (*static_cast<double*>(k.reserve) == stage) return true;
  refused(call, "the reserve is not what the pass before has left", 0);
  return false;
}

}  // namespace

int64_t reserve_count(const Rnn& n, int64_t rows) { return Reserve(n, rows, nullptr).count; }

void forwards(const Call& k) {
  const Rnn& n = k.n;
  const int64_t rows = k.x.rows();
  std::memset(k.workspace, 0xab, kWorkspaceBytes);
  std::vector<double> own(k.training ? 0 : static_cast<size_t>(reserve_count(n, rows)));
  Reserve r(n, rows, k.training ? static_cast<double*>(k.reserve) : own.data());
  std::fill_n(r.stage, r.count, 0.0);
  int64_t count = 0;
  const std::vector<Weights> weights = weights_of(n, &count);
  const std::vector<double> all = loaded(n.type, k.weights, count);
  std::vector<double> h0 = loaded(n.type, k.h, states_of(k) * n.output),
                      c0 = loaded(n.type, k.c, states_of(k) * n.hidden);
  const Places places(k.x);
  for (int layer = 0; layer < n.layers; ++layer) {
    const Layer& l = r.layers[static_cast<size_t>(layer)];
    const int64_t features = n.features(layer), count_in = rows * features;
    const bool drops = layer > 0 && k.training && n.dropout.p > 0;
    for (int64_t i = 0; i < count_in; ++i) {
      const double value = layer ? r.layers[static_cast<size_t>(layer - 1)].out[i] : load(n.type, k.input, i);
      l.factors[i] = !drops                                                           ? 1
                     : keeps(n.dropout.states, static_cast<uint64_t>(i), n.dropout.p) ? 1 / (1 - n.dropout.p)
                                                                                      : 0;
      l.in[i] = value * l.factors[i];
    }
    if (drops) n.dropout.states[1] += static_cast<uint64_t>(count_in);
    for (int d = 0; d < n.directions; ++d)
      for (int b = 0; b < k.x.batch; ++b) {
        const int64_t state = (int64_t{layer} * n.directions + d) * k.x.batch + b;
        const auto which = static_cast<size_t>(layer * n.directions + d);
        std::vector<double> h(&h0[static_cast<size_t>(state * n.output)],
                              &h0[static_cast<size_t>(state * n.output)] + n.output);
        std::vector<double> c(&c0[static_cast<size_t>(state * n.hidden)],
                              &c0[static_cast<size_t>(state * n.hidden)] + n.hidden);
        const int length = k.x.lengths[static_cast<size_t>(b)];
        for (int i = 0; i < length; ++i) {
          const int64_t row = places.at(b, d ? length - 1 - i : i);
          step(n, all.data(), weights[which], r.directions[which], row, l.in + row * features, features, h, c);
          std::copy(h.begin(), h.end(), l.out + (row * n.directions + d) * n.output);
        }
        std::copy(h.begin(), h.end(), &h0[static_cast<size_t>(state * n.output)]);
        std::copy(c.begin(), c.end(), &c0[static_cast<size_t>(state * n.hidden)]);
      }
  }
  const double* out = r.layers.back().out;
  write(n.type, k.y, {out, out + rows * n.directions * n.output});
  write(n.type, k.hy, h0);
  if (n.mode == CUDNN_LSTM) write(n.type, k.cy, c0);
  *r.stage = kForwards;
}

void backwards(const Call& k) {
  const Rnn& n = k.n;
  const int64_t rows = k.x.rows();
  std::memset(k.workspace, 0xab, kWorkspaceBytes);
  if (!is_at(k, kForwards, "cudnnRNNBackwardData_v8")) return;
  Reserve r(n, rows, static_cast<double*>(k.reserve));
  int64_t count = 0;
  const std::vector<Weights> weights = weights_of(n, &count);
  const std::vector<double> all = loaded(n.type, k.weights, count);
  std::vector<double> dh0 = loaded(n.type, k.dhy, states_of(k) * n.output),
                      dc0 = loaded(n.type, k.dcy, states_of(k) * n.hidden);
  std::vector<double> dout = loaded(n.type, k.dy, rows * n.directions * n.output);
  const Places places(k.x);
  const int64_t width = int64_t{n.gates()} * n.hidden;
  for (int layer = n.layers; layer-- > 0;) {
    const Layer& l = r.layers[static_cast<size_t>(layer)];
    const int64_t features = n.features(layer);
    std::vector<double> din(static_cast<size_t>(rows * features));
    for (int d = 0; d < n.directions; ++d)
      for (int b = 0; b < k.x.batch; ++b) {
        const int64_t state = (int64_t{layer} * n.directions + d) * k.x.batch + b;
        const auto which = static_cast<size_t>(layer * n.directions + d);
        const Direction& at = r.directions[which];
        const Weights& w = weights[which];
        double *dh_at = &dh0[static_cast<size_t>(state * n.output)],
               *dc_at = &dc0[static_cast<size_t>(state * n.hidden)];
        std::vector<double> dh(dh_at, dh_at + n.output), dc(dc_at, dc_at + n.hidden);
        const int length = k.x.lengths[static_cast<size_t>(b)];
        for (int i = length; i-- > 0;) {
          const int64_t row = places.at(b, d ? length - 1 - i : i);
          for (int64_t j = 0; j < n.output; ++j)
            at.grad_out[row * n.output + j] = dh[static_cast<size_t>(j)] +=
                dout[static_cast<size_t>((row * n.directions + d) * n.output + j)];
          std::vector<double> draw = n.projects() ? std::vector<double>(static_cast<size_t>(n.hidden)) : dh;
          if (n.projects())
            multiply_transposed(&all[static_cast<size_t>(w.p)], n.output, n.hidden, dh.data(), draw.data());
          std::vector<double> before(static_cast<size_t>(n.output));
          step_backwards(n, at, row, draw, before, dc);
          multiply_transposed(&all[static_cast<size_t>(w.r)], width, n.output, at.grad_h + row * width, before.data());
          multiply_transposed(&all[static_cast<size_t>(w.w)], width, features, at.grad_x + row * width,
                              &din[static_cast<size_t>(row * features)]);
          dh = before;
        }
        std::copy(dh.begin(), dh.end(), dh_at);
        std::copy(dc.begin(), dc.end(), dc_at);
      }
    for (size_t i = 0; i < din.size(); ++i) din[i] *= l.factors[i];
    dout = std::move(din);
  }
  write(n.type, k.dx, dout);
  write(n.type, k.dh, dh0);
  if (n.mode == CUDNN_LSTM) write(n.type, k.dc, dc0);
  *r.stage = kBackwards;
}

void add_weights(const Call& k) {
  const Rnn& n = k.n;
  const int64_t rows = k.x.rows(), width = int64_t{n.gates()} * n.hidden;
  std::memset(k.workspace, 0xab, kWorkspaceBytes);
  if (!is_at(k, kBackwards, "cudnnRNNBackwardWeights_v8")) return;
  Reserve r(n, rows, static_cast<double*>(k.reserve));
  int64_t count = 0;
  const std::vector<Weights> weights = weights_of(n, &count);
  std::vector<double> all = loaded(n.type, k.dweights, count);
  const Places places(k.x);
  for (int which = 0; which < n.layers * n.directions; ++which) {
    const Layer& l = r.layers[static_cast<size_t>(which / n.directions)];
    const Direction& d = r.directions[static_cast<size_t>(which)];
    const Weights& w = weights[static_cast<size_t>(which)];
    const int64_t features = n.features(which / n.directions);
    for (int b = 0; b < k.x.batch; ++b)
      for (int t = 0; t < k.x.lengths[static_cast<size_t>(b)]; ++t) {
        const int64_t row = places.at(b, t);
        const double *dx = d.grad_x + row * width, *dh = d.grad_h + row * width;
        add_outer(&all[static_cast<size_t>(w.w)], width, features, dx, l.in + row * features);
        add_outer(&all[static_cast<size_t>(w.r)], width, n.output, dh, d.h + row * n.output);
        if (n.biased)
          for (int64_t j = 0; j < width; ++j)
            all[static_cast<size_t>(w.bw + j)] += dx[j], all[static_cast<size_t>(w.br + j)] += dh[j];
        if (n.projects())
          add_outer(&all[static_cast<size_t>(w.p)], n.output, n.hidden, d.grad_out + row * n.output,
                    d.raw + row * n.hidden);
      }
  }
  write(n.type, k.dweights, all);
}

}  // namespace facula::emulator::rnn

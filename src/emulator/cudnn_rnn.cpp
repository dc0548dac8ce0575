// A stand-in for cuDNN's recurrent layers: loops on the host, in double precision. The reserve remembers what was done
// with it, so that passes in a wrong order, or a second one over what the first has changed, are found.
//
// Long because passes forward and back share one description of weights and reserve, which they check of each other.
#include <algorithm>
#include <cmath>
#include <vector>

#include "emulator/cudnn.h"

#define DECLARE(name, ...) FACULA_EMULATED cudnnStatus_t name(__VA_ARGS__);
FACULA_DNN_RNN_FUNCTIONS(DECLARE)
#undef DECLARE

using namespace facula::emulator;

struct cudnnTensorStruct {
  cudnnDataType_t type{};
  std::vector<int> sizes, strides;
};
struct cudnnDropoutStruct {
  bool is_set = false;
  double p = 0;
  uint64_t* states = nullptr;
};
struct cudnnRNNDataStruct {
  cudnnDataType_t type{};
  bool packed = false;
  int steps = 0, batch = 0, features = 0;
  std::vector<int> lengths;
  int64_t rows() const {
    int64_t sum = 0;
    for (const int n : lengths) sum += n;
    return packed ? sum : int64_t{steps} * batch;
  }
};
struct cudnnRNNStruct {
  bool is_set = false, biased = false;
  cudnnRNNMode_t mode{};
  cudnnDataType_t type{};
  cudnnMathType_t math{};
  int input = 0, hidden = 0, output = 0, layers = 0, directions = 1;
  bool padded = false;
  cudnnDropoutStruct dropout;

  int gates() const { return mode == CUDNN_LSTM ? 4 : mode == CUDNN_GRU ? 3 : 1; }
  bool projects() const { return output != hidden; }
  int features(int layer) const { return layer == 0 ? input : directions * output; }
};

namespace {

using Rnn = cudnnRNNStruct;
using Data = cudnnRNNDataStruct;
constexpr size_t kStates = 2 * sizeof(uint64_t), kWorkspace = 4096;

// ---- weights: the matrices of all layers, a gap, and then the biases

struct Weights {
  int64_t w, r, bw, br, p;  // of a layer and direction, in elements; -1 where there is none
};
constexpr int64_t kGap = 8;

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

struct Call {
  Rnn n;
  Data x;
  bool training;
  const void *input, *h, *c, *weights, *output = nullptr;
  void *y = nullptr, *hy = nullptr, *cy = nullptr, *reserve;
  const void *dy = nullptr, *dhy = nullptr, *dcy = nullptr;
  void *dx = nullptr, *dh = nullptr, *dc = nullptr, *dweights = nullptr, *workspace;
};

int64_t states_of(const Call& k) { return int64_t{k.n.layers} * k.n.directions * k.x.batch; }
int64_t reserve_count(const Rnn& n, int64_t rows) { return Reserve(n, rows, nullptr).count; }

void forwards(const Call& k) {
  const Rnn& n = k.n;
  const int64_t rows = k.x.rows();
  std::memset(k.workspace, 0xab, kWorkspace);
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

bool is_at(const Call& k, double stage, const char* call) {
  if (*static_cast<double*>(k.reserve) == stage) return true;
  refused(call, "the reserve is not what the pass before has left", 0);
  return false;
}

void backwards(const Call& k) {
  const Rnn& n = k.n;
  const int64_t rows = k.x.rows();
  std::memset(k.workspace, 0xab, kWorkspace);
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
  std::memset(k.workspace, 0xab, kWorkspace);
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

// ---- checks

bool is_state(const cudnnTensorStruct* t, const Rnn& n, const Data& x, int features) {
  const std::vector<int> sizes{n.layers * n.directions, x.batch, features}, strides{x.batch * features, features, 1};
  return t && t->type == n.type && t->sizes == sizes && t->strides == strides;
}

/// Why a call is wrong, or nothing.
std::string check(const cudnnHandle_t handle, const Rnn* n, const Data* x, const Data* y, const cudnnTensorStruct* h,
                  const cudnnTensorStruct* c) {
  if (!handle || !n || !x || !y) return "a null pointer";
  if (!n->is_set) return "a network that is not set";
  if (x->features != n->input || y->features != n->directions * n->output) return "features that do not fit";
  if (x->type != n->type || y->type != n->type) return "data of another type than the network's";
  if (x->batch != y->batch || x->steps != y->steps || x->lengths != y->lengths || x->packed != y->packed)
    return "two layouts";
  const bool even = std::all_of(x->lengths.begin(), x->lengths.end(), [&](int length) { return length == x->steps; });
  if (!n->padded && !x->packed && !even)
    return "sequences of several lengths that are not packed, without padded input";
  if (!is_state(h, *n, *x, n->output)) return "the hidden state";
  if (n->mode == CUDNN_LSTM && !is_state(c, *n, *x, n->hidden)) return "the cell state";
  return {};
}

struct Piece {
  const void* at;
  int64_t elements;
  bool needed;
  const char* name;
};
std::string check_memory(cudnnDataType_t type, std::initializer_list<Piece> pieces) {
  for (const Piece& p : pieces)
    if ((p.at || p.needed) && !is_readable(p.at, p.elements * bytes_of(type), bytes_of(type)))
      return std::string(p.name) + " is not in device memory";
  return {};
}
std::string check_room(const Rnn& n, const Data& x, size_t weight_bytes, size_t workspace_bytes, const void* workspace,
                       bool keeps_it, size_t reserve_bytes, const void* reserve) {
  int64_t count = 0;
  weights_of(n, &count);
  if (weight_bytes != static_cast<size_t>(count * bytes_of(n.type))) return "the size of the weights";
  if (workspace_bytes < kWorkspace || !is_readable(workspace, kWorkspace, 16)) return "the workspace";
  const int64_t needed = reserve_count(n, x.rows()) * static_cast<int64_t>(sizeof(double));
  if (keeps_it && (reserve_bytes < static_cast<size_t>(needed) || !is_readable(reserve, needed, 16)))
    return "the reserve";
  return {};
}
std::string first_of(std::initializer_list<std::string> all) {
  for (const std::string& each : all)
    if (!each.empty()) return each;
  return {};
}

void remember_call(const char* call, const Rnn& n, const Data& x, bool training) {
  remember(std::string(call) + " mode=" + std::to_string(n.mode) + " type=" + std::to_string(n.type) +
           " math=" + std::to_string(n.math) + " layers=" + std::to_string(n.layers) +
           " directions=" + std::to_string(n.directions) + " hidden=" + std::to_string(n.hidden) + " output=" +
           std::to_string(n.output) + " packed=" + std::to_string(x.packed) + " training=" + std::to_string(training));
}

}  // namespace

FACULA_EMULATED cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  *tensor = new cudnnTensorStruct;
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  delete tensor;
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type, int dims,
                                                         const int sizes[], const int strides[]) {
  if (!tensor || dims < 3 || !std::all_of(sizes, sizes + dims, [](int n) { return n > 0; }))
    return wrong(__func__, "three positive sizes");
  *tensor = {type, {sizes, sizes + dims}, {strides, strides + dims}};
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnGetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, int requested,
                                                         cudnnDataType_t* type, int* dims, int sizes[], int strides[]) {
  *type = tensor->type;
  *dims = static_cast<int>(tensor->sizes.size());
  std::copy_n(tensor->sizes.begin(), std::min(requested, *dims), sizes);
  std::copy_n(tensor->strides.begin(), std::min(requested, *dims), strides);
  return CUDNN_STATUS_SUCCESS;
}

FACULA_EMULATED cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t* dropout) {
  *dropout = new cudnnDropoutStruct;
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t dropout) {
  delete dropout;
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t handle, size_t* bytes) {
  if (!handle) return wrong(__func__, "a null handle");
  *bytes = kStates;
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t dropout, cudnnHandle_t handle,
                                                            float p, void* states, size_t bytes, unsigned long long) {
  if (!dropout || !handle || !(p >= 0 && p <= 1)) return wrong(__func__, "a null pointer, or no probability");
  if ((states || p > 0) && (bytes < kStates || !is_readable(states, kStates, 8)))
    return wrong(__func__, "the states are not in device memory, or too small");
  *dropout = {true, static_cast<double>(p), static_cast<uint64_t*>(states)};
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t dropout, cudnnHandle_t handle, float p,
                                                        void* states, size_t bytes, unsigned long long seed) {
  const cudnnStatus_t status = cudnnRestoreDropoutDescriptor(dropout, handle, p, states, bytes, seed);
  if (status != CUDNN_STATUS_SUCCESS || !states) return status;
  remember("cudnnSetDropoutDescriptor seed=" + std::to_string(seed));
  return queued(queue_loops(handle->stream, [at = dropout->states, seed] { at[0] = seed, at[1] = 0; }));
}

FACULA_EMULATED cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* rnn) {
  *rnn = new cudnnRNNStruct;
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t rnn) {
  delete rnn;
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t rnn, cudnnRNNAlgo_t algorithm,
                                                       cudnnRNNMode_t mode, cudnnRNNBiasMode_t biases,
                                                       cudnnDirectionMode_t directions, cudnnRNNInputMode_t first,
                                                       cudnnDataType_t type, cudnnDataType_t computed,
                                                       cudnnMathType_t math, int32_t input, int32_t hidden,
                                                       int32_t projected, int32_t layers,
                                                       cudnnDropoutDescriptor_t dropout, uint32_t padded) {
  if (!rnn || !dropout || !dropout->is_set) return wrong(__func__, "dropout that is not set");
  if (input < 1 || hidden < 1 || layers < 1 || projected < 1 || projected > hidden)
    return wrong(__func__, "sizes that are not positive, or a projection that is larger than the state");
  if (projected != hidden && mode != CUDNN_LSTM) return wrong(__func__, "only an LSTM has projections");
  if (algorithm != CUDNN_RNN_ALGO_STANDARD || first != CUDNN_LINEAR_INPUT || padded > 1)
    return wrong(__func__, "the stand-in does not know this way", CUDNN_STATUS_NOT_SUPPORTED);
  if (type == CUDNN_DATA_BFLOAT16) return CUDNN_STATUS_NOT_SUPPORTED;
  if (computed != (type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
    return wrong(__func__, "the type of sums");
  if (type == CUDNN_DATA_DOUBLE && math != CUDNN_DEFAULT_MATH)
    return wrong(__func__, "doubles have one kind of products");
  *rnn = {true,
          biases == CUDNN_RNN_DOUBLE_BIAS,
          mode,
          type,
          math,
          input,
          hidden,
          projected,
          layers,
          directions == CUDNN_BIDIRECTIONAL ? 2 : 1,
          padded == kRnnPaddedEnabled,
          *dropout};
  return CUDNN_STATUS_SUCCESS;
}

FACULA_EMULATED cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x,
                                                        size_t* workspace, size_t* reserve) {
  if (!handle || !rnn || !rnn->is_set || !x || x->lengths.empty())
    return wrong(__func__, "a descriptor that is not set");
  *workspace = kWorkspace;
  const auto count = static_cast<size_t>(reserve_count(*rnn, x->rows()));
  *reserve = mode == CUDNN_FWD_MODE_TRAINING ? count * sizeof(double) : 0;
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                                         size_t* bytes) {
  if (!handle || !rnn || !rnn->is_set) return wrong(__func__, "a descriptor that is not set");
  int64_t count = 0;
  weights_of(*rnn, &count);
  *bytes = static_cast<size_t>(count * bytes_of(rnn->type));
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, int32_t layer,
                                                      size_t bytes, const void* weights, int32_t part,
                                                      cudnnTensorDescriptor_t matrix, void** matrix_at,
                                                      cudnnTensorDescriptor_t bias, void** bias_at) {
  if (!handle || !rnn || !rnn->is_set || !matrix || !bias) return wrong(__func__, "a descriptor that is not set");
  int64_t count = 0;
  const std::vector<Weights> all = weights_of(*rnn, &count);
  if (bytes < static_cast<size_t>(count * bytes_of(rnn->type))) return wrong(__func__, "the size of the weights");
  const int gates = rnn->gates();
  if (layer < 0 || layer >= rnn->layers * rnn->directions || part < 0 || part > 2 * gates)
    return wrong(__func__, "no such layer or part");
  const Weights& w = all[static_cast<size_t>(layer)];
  const auto at = [&](int64_t place) {
    return place < 0 ? nullptr : const_cast<char*>(static_cast<const char*>(weights)) + place * bytes_of(rnn->type);
  };
  const int gate = part % gates, columns = part < gates ? rnn->features(layer / rnn->directions) : rnn->output;
  if (part == 2 * gates) {
    *matrix = {rnn->type, {1, rnn->output, rnn->hidden}, {rnn->output * rnn->hidden, rnn->hidden, 1}};
    *matrix_at = at(w.p), *bias_at = nullptr;
    return CUDNN_STATUS_SUCCESS;
  }
  *matrix = {rnn->type, {1, rnn->hidden, columns}, {rnn->hidden * columns, columns, 1}};
  *bias = {rnn->type, {1, rnn->hidden, 1}, {rnn->hidden, 1, 1}};
  const int64_t first = part < gates ? w.w : w.r, first_bias = part < gates ? w.bw : w.br;
  *matrix_at = at(first + int64_t{gate} * rnn->hidden * columns);
  *bias_at = first_bias < 0 ? nullptr : at(first_bias + int64_t{gate} * rnn->hidden);
  return CUDNN_STATUS_SUCCESS;
}

FACULA_EMULATED cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* data) {
  *data = new cudnnRNNDataStruct;
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t data) {
  delete data;
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t data, cudnnDataType_t type,
                                                        cudnnRNNDataLayout_t layout, int steps, int batch, int features,
                                                        const int lengths[], void*) {
  if (!data || steps < 1 || batch < 1 || features < 1 || !lengths)
    return wrong(__func__, "sizes that are not positive");
  const bool packed = layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
  for (int b = 0; b < batch; ++b) {
    if (lengths[b] < 1 || lengths[b] > steps) return wrong(__func__, "a length outside of the steps");
    if (packed && b && lengths[b] > lengths[b - 1]) return wrong(__func__, "packed sequences get no longer");
  }
  *data = {type, packed, steps, batch, features, {lengths, lengths + batch}};
  return CUDNN_STATUS_SUCCESS;
}

FACULA_EMULATED cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, cudnnForwardMode_t mode,
                                              const int32_t[], cudnnRNNDataDescriptor_t x_is, const void* x,
                                              cudnnRNNDataDescriptor_t y_is, void* y, cudnnTensorDescriptor_t h_is,
                                              const void* hx, void* hy, cudnnTensorDescriptor_t c_is, const void* cx,
                                              void* cy, size_t weight_bytes, const void* weights,
                                              size_t workspace_bytes, void* workspace, size_t reserve_bytes,
                                              void* reserve) {
  const bool training = mode == CUDNN_FWD_MODE_TRAINING;
  if (std::string why = check(handle, rnn, x_is, y_is, h_is, c_is); !why.empty()) return wrong(__func__, why);
  const Call k{*rnn, *x_is,   training, x,       hx,      cx,      weights, nullptr, y,       hy,
               cy,   reserve, nullptr,  nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, workspace};
  const int64_t rows = x_is->rows(), h = states_of(k) * rnn->output, c = states_of(k) * rnn->hidden,
                count = static_cast<int64_t>(weight_bytes) / bytes_of(rnn->type);
  const std::string why =
      first_of({check_room(*rnn, *x_is, weight_bytes, workspace_bytes, workspace, training, reserve_bytes, reserve),
                check_memory(rnn->type, {{x, rows * rnn->input, true, "x"},
                                         {y, rows * rnn->directions * rnn->output, true, "y"},
                                         {weights, count, true, "the weights"},
                                         {hx, h, false, "hx"},
                                         {hy, h, false, "hy"},
                                         {cx, c, false, "cx"},
                                         {cy, c, false, "cy"}})});
  if (!why.empty()) return wrong(__func__, why);
  remember_call(__func__, *rnn, *x_is, training);
  return queued(queue_loops(handle->stream, [k] { forwards(k); }));
}

FACULA_EMULATED cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, const int32_t[],
                                                      cudnnRNNDataDescriptor_t y_is, const void* y, const void* dy,
                                                      cudnnRNNDataDescriptor_t x_is, void* dx,
                                                      cudnnTensorDescriptor_t h_is, const void* hx, const void* dhy,
                                                      void* dhx, cudnnTensorDescriptor_t c_is, const void* cx,
                                                      const void* dcy, void* dcx, size_t weight_bytes,
                                                      const void* weights, size_t workspace_bytes, void* workspace,
                                                      size_t reserve_bytes, void* reserve) {
  if (std::string why = check(handle, rnn, x_is, y_is, h_is, c_is); !why.empty()) return wrong(__func__, why);
  const Call k{*rnn,    *x_is,   true, nullptr, hx,  cx, weights, y,   nullptr, nullptr,
               nullptr, reserve, dy,   dhy,     dcy, dx, dhx,     dcx, nullptr, workspace};
  const int64_t rows = x_is->rows(), h = states_of(k) * rnn->output, c = states_of(k) * rnn->hidden,
                out = rows * rnn->directions * rnn->output,
                count = static_cast<int64_t>(weight_bytes) / bytes_of(rnn->type);
  const std::string why =
      first_of({check_room(*rnn, *x_is, weight_bytes, workspace_bytes, workspace, true, reserve_bytes, reserve),
                check_memory(rnn->type, {{y, out, true, "y"},
                                         {dy, out, true, "dy"},
                                         {dx, rows * rnn->input, true, "dx"},
                                         {weights, count, true, "the weights"},
                                         {hx, h, false, "hx"},
                                         {dhy, h, false, "dhy"},
                                         {dhx, h, false, "dhx"},
                                         {cx, c, false, "cx"},
                                         {dcy, c, false, "dcy"},
                                         {dcx, c, false, "dcx"}})});
  if (!why.empty()) return wrong(__func__, why);
  remember_call(__func__, *rnn, *x_is, true);
  return queued(queue_loops(handle->stream, [k] { backwards(k); }));
}

FACULA_EMULATED cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                                         cudnnWgradMode_t add, const int32_t[],
                                                         cudnnRNNDataDescriptor_t x_is, const void* x,
                                                         cudnnTensorDescriptor_t h_is, const void* hx,
                                                         cudnnRNNDataDescriptor_t y_is, const void* y,
                                                         size_t weight_bytes, void* dweights, size_t workspace_bytes,
                                                         void* workspace, size_t reserve_bytes, void* reserve) {
  if (add != CUDNN_WGRAD_MODE_ADD) return wrong(__func__, "gradients are added", CUDNN_STATUS_NOT_SUPPORTED);
  const cudnnTensorStruct c{
      rnn ? rnn->type : CUDNN_DATA_FLOAT,
      {rnn && x_is ? rnn->layers * rnn->directions : 0, x_is ? x_is->batch : 0, rnn ? rnn->hidden : 0},
      {rnn && x_is ? x_is->batch * rnn->hidden : 0, rnn ? rnn->hidden : 0, 1}};
  if (std::string why = check(handle, rnn, x_is, y_is, h_is, &c); !why.empty()) return wrong(__func__, why);
  const Call k{*rnn,    *x_is,   true,    x,       hx,      nullptr, nullptr, y,       nullptr,  nullptr,
               nullptr, reserve, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, dweights, workspace};
  const int64_t rows = x_is->rows();
  const std::string why = first_of(
      {check_room(*rnn, *x_is, weight_bytes, workspace_bytes, workspace, true, reserve_bytes, reserve),
       check_memory(rnn->type, {{x, rows * rnn->input, true, "x"},
                                {y, rows * rnn->directions * rnn->output, true, "y"},
                                {dweights, static_cast<int64_t>(weight_bytes) / bytes_of(rnn->type), true, "dw"},
                                {hx, states_of(k) * rnn->output, false, "hx"}})});
  if (!why.empty()) return wrong(__func__, why);
  remember_call(__func__, *rnn, *x_is, true);
  return queued(queue_loops(handle->stream, [k] { add_weights(k); }));
}

// Declares what the parts of cuDNN's recurrent stand-in share: descriptors, where weights lie, and passes.
#pragma once

#include <vector>

#include "emulator/cudnn.h"

#define DECLARE(name, ...) FACULA_EMULATED cudnnStatus_t name(__VA_ARGS__);
FACULA_DNN_RNN_FUNCTIONS(DECLARE)
#undef DECLARE

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

namespace facula::emulator::rnn {

using Rnn = cudnnRNNStruct;
using Data = cudnnRNNDataStruct;
constexpr size_t kStates = 2 * sizeof(uint64_t), kWorkspaceBytes = 4096;

// ---- weights: the matrices of all layers, a gap, and then the biases

struct Weights {
  int64_t w, r, bw, br, p;  // of a layer and direction, in elements; -1 where there is none
};
constexpr int64_t kGap = 8;

/// Of every layer and direction, and how many elements there are together.
std::vector<Weights> weights_of(const Rnn& n, int64_t* count);

/// The arguments of a pass. A pass forwards has no gradients, one for weights only those.
struct Call {
  Rnn n;
  Data x;
  bool training;
  void *workspace, *reserve;
  const void *input = nullptr, *h = nullptr, *c = nullptr, *weights = nullptr, *output = nullptr;
  void *y = nullptr, *hy = nullptr, *cy = nullptr;
  const void *dy = nullptr, *dhy = nullptr, *dcy = nullptr;
  void *dx = nullptr, *dh = nullptr, *dc = nullptr, *dweights = nullptr;
};

inline int64_t states_of(const Call& k) { return int64_t{k.n.layers} * k.n.directions * k.x.batch; }
/// Doubles in the reserve.
int64_t reserve_count(const Rnn& n, int64_t rows);

void forwards(const Call& k);
void backwards(const Call& k);
void add_weights(const Call& k);

}  // namespace facula::emulator::rnn

// A stand-in for the interface of cuDNN's recurrent layers: descriptors, checks, and the calls of passes
// (cudnn_rnn_passes.cpp).
#include "emulator/cudnn_rnn.h"

#include <algorithm>
#include <vector>

using namespace facula::emulator;
using namespace facula::emulator::rnn;

namespace {

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
  if (workspace_bytes < kWorkspaceBytes || !is_readable(workspace, kWorkspaceBytes, 16)) return "the workspace";
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
  *workspace = kWorkspaceBytes;
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
  const Call k{.n = *rnn,
               .x = *x_is,
               .training = training,
               .workspace = workspace,
               .reserve = reserve,
               .input = x,
               .h = hx,
               .c = cx,
               .weights = weights,
               .y = y,
               .hy = hy,
               .cy = cy};
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
  const Call k{.n = *rnn,
               .x = *x_is,
               .training = true,
               .workspace = workspace,
               .reserve = reserve,
               .h = hx,
               .c = cx,
               .weights = weights,
               .output = y,
               .dy = dy,
               .dhy = dhy,
               .dcy = dcy,
               .dx = dx,
               .dh = dhx,
               .dc = dcx};
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
  const Call k{.n = *rnn,
               .x = *x_is,
               .training = true,
               .workspace = workspace,
               .reserve = reserve,
               .input = x,
               .h = hx,
               .output = y,
               .dweights = dweights};
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

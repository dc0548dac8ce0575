// Recurrent networks by cuDNN, where it is there: all layers, directions and steps in one call. The library reads all
// weights from one block of memory, in an order of its own; where a module's weights lie so (flatten_parameters), it
// reads them there, else they are copied at each call.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "core/draws.h"
#include "cuda/device.h"
#include "cuda/dnn_graph.h"
#include "cuda/flags.h"
#include "cuda/generator.h"
#include "cuda/graph.h"
#include "cuda/plan_cache.h"
#include "ops/contiguous.h"
#include "ops/rnn.h"

namespace facula::cuda {
namespace {

struct RnnFunctions {
#define X(name, ...) cudnnStatus_t (*name)(__VA_ARGS__) = nullptr;
  FACULA_DNN_RNN_FUNCTIONS(X)
#undef X
};
Loaded<RnnFunctions> load() {
  Loaded<RnnFunctions> l;
  const OpenedLibrary& library = opened(Library::Dnn);
#define X(name, ...) FACULA_FIND(l, library, name)
  FACULA_DNN_RNN_FUNCTIONS(X)
#undef X
  return l;
}
const Loaded<RnnFunctions>& loaded() {
  static const Loaded<RnnFunctions> l = load();
  return l;
}

#define FACULA_DNN_CALL(name, ...) dnn::check(loaded().table.name(__VA_ARGS__), #name)

/// A descriptor of the library, by its two functions.
template <class Handle>
class Held {
 public:
  using Create = cudnnStatus_t (*RnnFunctions::*)(Handle*);
  using Destroy = cudnnStatus_t (*RnnFunctions::*)(Handle);
  Held(Create create, Destroy destroy) : destroy_(destroy) {
    dnn::check((loaded().table.*create)(&is_), "cudnnCreate...Descriptor");
  }
  ~Held() { (loaded().table.*destroy_)(is_); }
  Held(const Held&) = delete;
  Handle get() const { return is_; }

 private:
  Destroy destroy_;
  Handle is_ = nullptr;
};
struct TensorIs : Held<cudnnTensorDescriptor_t> {
  TensorIs() : Held(&RnnFunctions::cudnnCreateTensorDescriptor, &RnnFunctions::cudnnDestroyTensorDescriptor) {}
};
struct DataIs : Held<cudnnRNNDataDescriptor_t> {
  DataIs() : Held(&RnnFunctions::cudnnCreateRNNDataDescriptor, &RnnFunctions::cudnnDestroyRNNDataDescriptor) {}
};
struct DropoutIs : Held<cudnnDropoutDescriptor_t> {
  DropoutIs() : Held(&RnnFunctions::cudnnCreateDropoutDescriptor, &RnnFunctions::cudnnDestroyDropoutDescriptor) {}
};
struct RnnIs : Held<cudnnRNNDescriptor_t> {
  RnnIs() : Held(&RnnFunctions::cudnnCreateRNNDescriptor, &RnnFunctions::cudnnDestroyRNNDescriptor) {}
};

int number(int64_t n) { return static_cast<int>(n); }

cudnnRNNMode_t mode_of(RnnMode mode) {
  switch (mode) {
    case RnnMode::Tanh: return CUDNN_RNN_TANH;
    case RnnMode::Relu: return CUDNN_RNN_RELU;
    case RnnMode::Lstm: return CUDNN_LSTM;
    default: return CUDNN_GRU;
  }
}

cudnnMathType_t math_of(DType dtype) {
  if (is_half(dtype)) return CUDNN_TENSOR_OP_MATH;
  return dtype == DType::Float32 && !flags()[Flag::RnnTf32] ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

cudnnStatus_t describe(const RnnIs& rnn, const RnnNetwork& n, DType dtype, const DropoutIs& dropout) {
  const cudnnDataType_t type = dnn::type_of(dtype);
  return loaded().table.cudnnSetRNNDescriptor_v8(
      rnn.get(), CUDNN_RNN_ALGO_STANDARD, mode_of(n.mode), n.biased ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS,
      n.bidirectional ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, type,
      is_half(dtype) ? CUDNN_DATA_FLOAT : type, math_of(dtype), number(n.input), number(n.hidden), number(n.output()),
      number(n.layers), dropout.get(), n.is_packed ? kRnnPaddedDisabled : kRnnPaddedEnabled);
}

void zero(const Tensor& t) { fill_kernel(t.device(), t, Scalar(0)); }

// ---- where weights lie

struct Place {
  int64_t offset, rows, columns;  // in elements; one column: a bias
};
struct Layout {
  int64_t elements = 0;
  std::vector<Place> places;  // of the weights in their order
};

/// The place of a matrix or bias whose gates follow each other; nothing where they do not.
std::optional<Place> joined_gates(const RnnIs& rnn, cudnnHandle_t library, const Tensor& memory, int layer, int first,
                                  int gates, bool bias) {
  TensorIs matrix, vector;
  Place place{};
  for (int i = 0; i < gates; ++i) {
    void *at = nullptr, *bias_at = nullptr;
    FACULA_DNN_CALL(cudnnGetRNNWeightParams, library, rnn.get(), layer,
                    static_cast<size_t>(memory.numel() * memory.item_size()), memory.data(), first + i, matrix.get(),
                    &at, vector.get(), &bias_at);
    cudnnDataType_t type{};
    int dims = 0, sizes[3] = {}, strides[3] = {};
    FACULA_DNN_CALL(cudnnGetTensorNdDescriptor, bias ? vector.get() : matrix.get(), 3, &type, &dims, sizes, strides);
    const char* found = static_cast<const char*>(bias ? bias_at : at);
    if (!found) return {};
    const int64_t offset = (found - memory.data<char>()) / memory.item_size();
    if (i == 0) place = {offset, int64_t{gates} * sizes[1], sizes[2]};
    else if (offset != place.offset + i * int64_t{sizes[1]} * sizes[2]) return {};
  }
  return place;
}

std::optional<Layout> layout_of(const RnnNetwork& n, DType dtype, int device) {
  const DropoutIs none;
  const RnnIs rnn;
  cudnnHandle_t library = dnn::handle_of(current_stream(device));
  FACULA_DNN_CALL(cudnnSetDropoutDescriptor, none.get(), library, 0.0f, nullptr, 0, 0);
  if (describe(rnn, n, dtype, none) != CUDNN_STATUS_SUCCESS) return {};
  size_t bytes = 0;
  FACULA_DNN_CALL(cudnnGetRNNWeightSpaceSize, library, rnn.get(), &bytes);
  Layout layout{static_cast<int64_t>(bytes) / item_size(dtype), {}};
  const Tensor memory = facula::empty({layout.elements}, dtype, Device{DeviceType::CUDA, static_cast<int8_t>(device)});
  const int gates = number(gate_factor(n.mode));
  struct Part {
    bool there;
    int first, count;
    bool bias;
  };
  const Part parts[] = {{true, 0, gates, false},
                        {true, gates, gates, false},
                        {n.biased, 0, gates, true},
                        {n.biased, gates, gates, true},
                        {n.projected != 0, 2 * gates, 1, false}};
  for (int layer = 0; layer < n.layers * n.directions(); ++layer)
    for (const Part& part : parts) {
      if (!part.there) continue;
      const auto place = joined_gates(rnn, library, memory, layer, part.first, part.count, part.bias);
      if (!place) return {};
      layout.places.push_back(*place);
    }
  return layout;
}

/// Null where the library cannot.
std::shared_ptr<const Layout> known_layout(const RnnNetwork& n, DType dtype, int device) {
  using LayoutKey = std::array<int64_t, 9>;
  static auto& layouts = *new PlanCache<LayoutKey, std::shared_ptr<const Layout>>;
  const LayoutKey key{static_cast<int64_t>(n.mode), n.input, n.hidden, n.projected, n.layers, n.biased, n.bidirectional,
                      static_cast<int64_t>(dtype),  device};
  const auto make = [&]() -> std::shared_ptr<const Layout> {
    std::optional<Layout> layout = layout_of(n, dtype, device);
    return layout ? std::make_shared<const Layout>(std::move(*layout)) : nullptr;
  };
  return layouts.with(key, make, [](const auto& layout) { return layout; });
}

/// Views of the block, of the shapes of the weights.
std::vector<Tensor> views_of(const Layout& layout, const Tensor& block, const std::vector<Tensor>& weights) {
  std::vector<Tensor> views;
  for (size_t i = 0; i < weights.size(); ++i) {
    const IntList sizes = weights[i].sizes();
    const Dims strides = sizes.size() == 1 ? Dims{1} : Dims{sizes[1], 1};
    views.push_back(make_view(block, sizes, strides, layout.places[i].offset, false));
  }
  return views;
}

Tensor empty_block(const Layout& layout, const Tensor& like) {
  return facula::empty({layout.elements}, like.dtype(), like.device());
}

/// The block that the weights lie in, if they do.
const void* block_of(const Layout& layout, const std::vector<Tensor>& weights) {
  const int64_t item = weights[0].item_size();
  const char* block = weights[0].data<char>() - layout.places[0].offset * item;
  for (size_t i = 0; i < weights.size(); ++i)
    if (!weights[i].is_contiguous() || weights[i].data<char>() != block + layout.places[i].offset * item)
      return nullptr;
  const Storage& storage = *weights[0].storage();
  const auto* begin = static_cast<const char*>(storage.data);
  return block >= begin && block + layout.elements * item <= begin + storage.nbytes ? block : nullptr;
}

Tensor copied_block(const Layout& layout, const std::vector<Tensor>& weights) {
  Tensor block = empty_block(layout, weights[0]);
  zero(block);  // what lies between is read by nobody, but it is copied
  const std::vector<Tensor> views = views_of(layout, block, weights);
  for (size_t i = 0; i < weights.size(); ++i) copy_elements(views[i], weights[i]);
  return block;
}

// ---- dropout between layers: the library's states are made from the seed and the offset of the device's generator,
// and made anew when it was set back (manual_seed), or when its state was looked at or set since the last call: who
// keeps a state and puts it back (checkpoint, fork_rng) gets the same masks. They are of one stream.

struct DropoutStates {
  Tensor memory;
  uint64_t seed = 0, offset = 0, looks = 0;
};

Tensor states_for(cudnnHandle_t library, Device device) {
  size_t needed = 0;
  FACULA_DNN_CALL(cudnnDropoutGetStatesSize, library, &needed);
  return facula::empty({static_cast<int64_t>(needed)}, DType::UInt8, device);
}

/// Returns the memory that is drawn from, which the caller holds meanwhile.
Tensor describe_dropout(const DropoutIs& dropout, double p, Stream stream, bool draws) {
  cudnnHandle_t library = dnn::handle_of(stream);
  if (p == 0) {
    FACULA_DNN_CALL(cudnnSetDropoutDescriptor, dropout.get(), library, 0.0f, nullptr, 0, 0);
    return {};
  }
  static auto& all = *new std::map<std::pair<int, uintptr_t>, DropoutStates>;
  static std::mutex& mutex = *new std::mutex;
  const std::lock_guard one_draws(mutex);
  DropoutStates& known = all[{stream.device.index, static_cast<uintptr_t>(stream.id)}];
  bool anew = !known.memory.defined();
  if (anew) known.memory = states_for(library, stream.device);
  DropoutStates states = known;
  if (draws) {
    auto& own = static_cast<PhiloxGenerator&>(default_generator(stream.device));
    Generator* const again = repeated_generator(own);
    PhiloxGenerator& generator = again ? static_cast<PhiloxGenerator&>(*again) : own;
    {
      std::lock_guard<std::mutex> lock(generator.mutex);
      if (!again) note_draw(generator);
      const uint64_t looks = generator.looks();
      const PhiloxState now = generator.take(4);
      anew |= now.seed != states.seed || now.offset <= states.offset || looks != states.looks;
      states.seed = now.seed, states.offset = now.offset, states.looks = looks;
    }
    if (again) {  // what the library has drawn since then stays as it is
      const Tensor& before = repeated_library_states();
      anew = !before.defined();
      states.memory = anew ? states_for(library, stream.device) : ops::contiguous_copy(before);
    } else {
      if (!anew && notes_draws()) note_library_states(ops::contiguous_copy(states.memory));
      known = states;
    }
  }
  const auto set = anew ? loaded().table.cudnnSetDropoutDescriptor : loaded().table.cudnnRestoreDropoutDescriptor;
  dnn::check(set(dropout.get(), library, static_cast<float>(p), states.memory.data(),
                 static_cast<size_t>(states.memory.numel()), states.seed + states.offset),
             anew ? "cudnnSetDropoutDescriptor" : "cudnnRestoreDropoutDescriptor");
  return states.memory;
}

// ---- calls

/// What all three calls are given.
struct Described {
  DropoutIs dropout;
  RnnIs rnn;
  DataIs x, y;
  TensorIs h, c;
  size_t workspace = 0, reserve = 0;
  cudnnHandle_t library;
  Tensor dropout_states;

  Described(const RnnNetwork& n, const Tensor& input, Stream stream, bool draws) : library(dnn::handle_of(stream)) {
    dropout_states = describe_dropout(dropout, n.dropout, stream, draws);
    dnn::check(describe(rnn, n, input.dtype(), dropout), "cudnnSetRNNDescriptor_v8");
    const cudnnDataType_t type = dnn::type_of(input.dtype());
    describe_data(x, n, type, n.input);
    describe_data(y, n, type, n.directions() * n.output());
    describe_state(h, n, type, n.output());
    describe_state(c, n, type, n.hidden);
    FACULA_DNN_CALL(cudnnGetRNNTempSpaceSizes, library, rnn.get(), mode(n), x.get(), &workspace, &reserve);
  }
  static cudnnForwardMode_t mode(const RnnNetwork& n) {
    return n.training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
  }

 private:
  static void describe_data(const DataIs& data, const RnnNetwork& n, cudnnDataType_t type, int64_t features) {
    std::vector<int> lengths(static_cast<size_t>(n.batch_sizes[0]));
    for (const int64_t rows : n.batch_sizes)
      for (int64_t i = 0; i < rows; ++i) ++lengths[static_cast<size_t>(i)];
    double padding = 0;
    FACULA_DNN_CALL(cudnnSetRNNDataDescriptor, data.get(), type,
                    n.is_packed ? CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED : CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                    number(n.steps()), number(n.batch_sizes[0]), number(features), lengths.data(), &padding);
  }
  static void describe_state(const TensorIs& state, const RnnNetwork& n, cudnnDataType_t type, int64_t features) {
    const int sizes[] = {number(n.layers * n.directions()), number(n.batch_sizes[0]), number(features)};
    const int strides[] = {sizes[1] * sizes[2], sizes[2], 1};
    FACULA_DNN_CALL(cudnnSetTensorNdDescriptor, state.get(), type, 3, sizes, strides);
  }
};

Tensor bytes_on(size_t count, Device device) {
  return facula::empty({static_cast<int64_t>(count)}, DType::UInt8, device);
}
void* data_or_null(const Tensor& t) { return t.defined() && t.numel() ? t.data() : nullptr; }
Tensor contiguous_or_none(const Tensor& t) { return t.defined() ? ops::as_contiguous(t) : t; }

RnnNetworkInputs contiguous(const RnnNetworkInputs& in) {
  return {ops::as_contiguous(in.input), ops::as_contiguous(in.h), contiguous_or_none(in.c), in.weights};
}

void rnn_network_dnn(const RnnNetwork& n, const RnnNetworkInputs& given, RnnNetworkResults& r) {
  const RnnNetworkInputs in = contiguous(given);
  const Device device = in.input.device();
  const DType dtype = in.input.dtype();
  const Described is(n, in.input, current_stream(device.index), n.training);
  const auto known = known_layout(n, dtype, device.index);
  const Layout& layout = *known;
  Tensor copy;
  const void* weights = block_of(layout, in.weights);
  if (!weights) weights = (copy = copied_block(layout, in.weights)).data();
  const bool lstm = n.mode == RnnMode::Lstm;
  r.output = facula::empty({in.input.size(0), n.directions() * n.output()}, dtype, device);
  r.h = facula::empty(in.h.sizes(), dtype, device);
  r.c = facula::empty(lstm ? in.c.sizes() : IntList(Dims{0}), dtype, device);
  if (n.training) r.reserve = bytes_on(is.reserve, device);
  const Tensor workspace = bytes_on(is.workspace, device);
  FACULA_DNN_CALL(cudnnRNNForward, is.library, is.rnn.get(), Described::mode(n), nullptr, is.x.get(), in.input.data(),
                  is.y.get(), r.output.data(), is.h.get(), in.h.data(), r.h.data(), is.c.get(), data_or_null(in.c),
                  data_or_null(r.c), static_cast<size_t>(layout.elements * in.input.item_size()), weights, is.workspace,
                  data_or_null(workspace), n.training ? is.reserve : 0, data_or_null(r.reserve));
  wait_if_blocking(device.index);
}

void rnn_network_backward_dnn(const RnnNetwork& n, const RnnNetworkInputs& given, const RnnNetworkResults& forward,
                              const RnnNetworkResults& grads, bool weights_wanted, RnnNetworkInputs& results) {
  const RnnNetworkInputs in = contiguous(given);
  const Device device = in.input.device();
  const DType dtype = in.input.dtype();
  const Tensor output = ops::as_contiguous(forward.output), grad_h = contiguous_or_none(grads.h),
               grad_c = contiguous_or_none(grads.c);
  Tensor grad_output = contiguous_or_none(grads.output);
  if (!grad_output.defined()) zero(grad_output = facula::empty(output.sizes(), dtype, device));
  // The library writes into what it saved, and a retained graph needs it again.
  const Tensor reserve = ops::contiguous_copy(forward.reserve);
  const Described is(n, in.input, current_stream(device.index), false);
  const auto known = known_layout(n, dtype, device.index);
  const Layout& layout = *known;
  const auto weight_bytes = static_cast<size_t>(layout.elements * in.input.item_size());
  Tensor copy;
  const void* weights = block_of(layout, in.weights);
  if (!weights) weights = (copy = copied_block(layout, in.weights)).data();
  results.input = facula::empty(in.input.sizes(), dtype, device);
  results.h = facula::empty(in.h.sizes(), dtype, device);
  if (in.c.defined()) results.c = facula::empty(in.c.sizes(), dtype, device);
  const Tensor workspace = bytes_on(is.workspace, device);
  FACULA_DNN_CALL(cudnnRNNBackwardData_v8, is.library, is.rnn.get(), nullptr, is.y.get(), output.data(),
                  grad_output.data(), is.x.get(), results.input.data(), is.h.get(), in.h.data(), data_or_null(grad_h),
                  results.h.data(), is.c.get(), data_or_null(in.c), data_or_null(grad_c), data_or_null(results.c),
                  weight_bytes, weights, is.workspace, data_or_null(workspace), is.reserve, data_or_null(reserve));
  if (weights_wanted) {
    const Tensor block = empty_block(layout, in.input);
    zero(block);  // the library adds
    FACULA_DNN_CALL(cudnnRNNBackwardWeights_v8, is.library, is.rnn.get(), CUDNN_WGRAD_MODE_ADD, nullptr, is.x.get(),
                    in.input.data(), is.h.get(), in.h.data(), is.y.get(), output.data(), weight_bytes, block.data(),
                    is.workspace, data_or_null(workspace), is.reserve, data_or_null(reserve));
    results.weights = views_of(layout, block, in.weights);
  }
  wait_if_blocking(device.index);
}

void rnn_flatten_dnn(const RnnNetwork& n, const RnnNetworkInputs& in, std::vector<Tensor>& copies) {
  const auto known = known_layout(n, in.weights[0].dtype(), in.weights[0].device().index);
  const Layout& layout = *known;
  copies = views_of(layout, copied_block(layout, in.weights), in.weights);
}

bool takes(const RnnNetwork& n, DType dtype, Device device) {
  const bool known = is_half(dtype) || dtype == DType::Float32 || dtype == DType::Float64;
  if (!device.is_cuda() || !known || !flags()[Flag::Cudnn] || !dnn::is_there() || !loaded().error.empty()) return false;
  int64_t rows = 0;
  for (const int64_t each : n.batch_sizes) rows += each;
  const int64_t widest = std::max({n.input, gate_factor(n.mode) * n.hidden, n.directions() * n.output()});
  const int64_t states = n.layers * n.directions() * (n.batch_sizes.empty() ? 1 : n.batch_sizes[0]);
  constexpr int64_t most = std::numeric_limits<int>::max();
  if (widest > most || rows > most / widest || states > most / widest || n.input == 0) return false;
  if (n.dropout > 0 && captured_graph(device.index)) return false;  // its states would be drawn from once
  return known_layout(n, dtype, device.index) != nullptr;
}

}  // namespace

void register_dnn_rnn() {
  library_takes_rnn = takes;
  rnn_network_kernel.set(DeviceType::CUDA, rnn_network_dnn);
  rnn_network_backward_kernel.set(DeviceType::CUDA, rnn_network_backward_dnn);
  rnn_flatten_kernel.set(DeviceType::CUDA, rnn_flatten_dnn);
}

}  // namespace facula::cuda

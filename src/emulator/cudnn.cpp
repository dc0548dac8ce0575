// A stand-in for cuDNN's backend interface: convolutions (cudnn_conv.cpp) and graphs of attention (cudnn_graph.cpp). A
// descriptor is a list of attributes that is checked when it is finalized.

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <vector>

#include "emulator/cudnn_conv.h"

#define DECLARE(name, ...) FACULA_EMULATED cudnnStatus_t name(__VA_ARGS__);
FACULA_DNN_FUNCTIONS(DECLARE)
#undef DECLARE

using namespace facula::emulator;

namespace {

struct AttributeValue {
  cudnnBackendAttributeType_t type;
  int64_t count;
  std::vector<char> bytes;
};

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finished = false;
  std::map<int, AttributeValue> values;
  int engine = 0;                                  // of engines and their configurations
  std::shared_ptr<const Convolution> convolution;  // of convolutions and of what is made of them
  std::shared_ptr<const Step> step;                // of other operations
  std::shared_ptr<const Graph> graph;              // of what is made of several

  template <class T>
  std::vector<T> all(int name) const {
    const auto found = values.find(name);
    if (found == values.end()) return {};
    std::vector<T> list(static_cast<size_t>(found->second.count));
    std::memcpy(list.data(), found->second.bytes.data(), list.size() * sizeof(T));
    return list;
  }
  template <class T>
  T one(int name, T value = {}) const {
    const auto found = values.find(name);
    if (found != values.end()) std::memcpy(&value, found->second.bytes.data(), sizeof value);
    return value;
  }
  const Descriptor* descriptor(int name, cudnnBackendDescriptorType_t wanted) const {
    const auto* d = static_cast<const Descriptor*>(one<void*>(name));
    return d && d->finished && d->type == wanted ? d : nullptr;
  }
};

using Tensor = GraphTensor;

/// An operation of convolutions, and the numbers of its attributes.
struct Operation {
  cudnnBackendDescriptorType_t type;
  int alpha, beta, convolution, x, w, y;
};
constexpr Operation operations[] = {
    {.type = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     .alpha = 700,
     .beta = 701,
     .convolution = 702,
     .x = 704,
     .w = 703,
     .y = 705},
    {.type = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     .alpha = 706,
     .beta = 707,
     .convolution = 708,
     .x = 710,
     .w = 709,
     .y = 711},
    {.type = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     .alpha = 712,
     .beta = 713,
     .convolution = 714,
     .x = 716,
     .w = 715,
     .y = 717},
};

/// An operation of graphs, and the numbers of its attributes: those of its tensors, and of the descriptor (`how`) that
/// says what it computes.
struct StepKind {
  cudnnBackendDescriptorType_t type;
  int first, last;
  int how = 0;  // 0: none
  cudnnBackendDescriptorType_t how_type{};
  std::array<int, 3> inputs;  // 0: none
  int output;
};
constexpr StepKind kinds[] = {
    {.type = CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
     .first = 750,
     .last = 758,
     .how = 750,
     .how_type = CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
     .inputs = {751, 752, 758},
     .output = 753},
    {.type = CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
     .first = 1520,
     .last = 1523,
     .how = 1523,
     .how_type = CUDNN_BACKEND_MATMUL_DESCRIPTOR,
     .inputs = {1520, 1521, 0},
     .output = 1522},
    {.type = CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
     .first = 1610,
     .last = 1612,
     .how = 1612,
     .how_type = CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
     .inputs = {1610, 0, 0},
     .output = 1611},
    {.type = CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
     .first = 2200,
     .last = 2201,
     .inputs = {2200, 0, 0},
     .output = 2201},
    {.type = CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR,
     .first = 2310,
     .last = 2313,
     .how = 2312,
     .how_type = CUDNN_BACKEND_RNG_DESCRIPTOR,
     .inputs = {2311, 2313, 0},
     .output = 2310},
};
const StepKind* kind_with(int name) {
  for (const StepKind& k : kinds)
    if (name >= k.first && name <= k.last) return &k;
  return nullptr;
}
const StepKind* kind_of(cudnnBackendDescriptorType_t type) {
  for (const StepKind& k : kinds)
    if (type == k.type) return &k;
  return nullptr;
}

int64_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN: return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return 4;
  }
}
using facula::emulator::bytes_of;

/// The type that an attribute's values have.
cudnnBackendAttributeType_t type_of(int name, cudnnBackendAttributeType_t given) {
  switch (name) {
    case CUDNN_ATTR_CONVOLUTION_COMP_TYPE:
    case CUDNN_ATTR_POINTWISE_MATH_PREC:
    case CUDNN_ATTR_MATMUL_COMP_TYPE:
    case CUDNN_ATTR_REDUCTION_COMP_TYPE:
    case CUDNN_ATTR_TENSOR_DATA_TYPE: return CUDNN_TYPE_DATA_TYPE;
    case CUDNN_ATTR_TENSOR_IS_VIRTUAL:
    case CUDNN_ATTR_TENSOR_IS_BY_VALUE: return CUDNN_TYPE_BOOLEAN;
    case CUDNN_ATTR_POINTWISE_MODE: return CUDNN_TYPE_POINTWISE_MODE;
    case CUDNN_ATTR_REDUCTION_OPERATOR: return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
    case CUDNN_ATTR_RNG_DISTRIBUTION: return CUDNN_TYPE_RNG_DISTRIBUTION;
    case CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY: return CUDNN_TYPE_DOUBLE;
    case CUDNN_ATTR_CONVOLUTION_CONV_MODE: return CUDNN_TYPE_CONVOLUTION_MODE;
    case CUDNN_ATTR_ENGINEHEUR_MODE: return CUDNN_TYPE_HEUR_MODE;
    case CUDNN_ATTR_EXECUTION_PLAN_HANDLE:
    case CUDNN_ATTR_OPERATIONGRAPH_HANDLE: return CUDNN_TYPE_HANDLE;
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE: return CUDNN_TYPE_VOID_PTR;
    case CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH:
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
    case CUDNN_ATTR_OPERATIONGRAPH_OPS: return CUDNN_TYPE_BACKEND_DESCRIPTOR;
    default: break;
  }
  if (const StepKind* kind = kind_with(name)) return static_cast<void>(kind), CUDNN_TYPE_BACKEND_DESCRIPTOR;
  for (const Operation& o : operations) {
    if (name == o.alpha || name == o.beta) return given == CUDNN_TYPE_DOUBLE ? given : CUDNN_TYPE_FLOAT;
    if (name >= o.alpha && name <= std::max({o.x, o.w, o.y})) return CUDNN_TYPE_BACKEND_DESCRIPTOR;
  }
  return CUDNN_TYPE_INT64;
}

/// Which attributes a descriptor has: those of one hundred, operations those of one list.
bool has_attribute(cudnnBackendDescriptorType_t type, int name) {
  for (const Operation& o : operations)
    if (o.type == type) return name >= o.alpha && name <= std::max({o.x, o.w, o.y});
  if (const StepKind* kind = kind_of(type)) return name >= kind->first && name <= kind->last;
  switch (type) {
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR: return name < 100;
    case CUDNN_BACKEND_MATMUL_DESCRIPTOR: return name == CUDNN_ATTR_MATMUL_COMP_TYPE;
    case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
      return name == CUDNN_ATTR_REDUCTION_OPERATOR || name == CUDNN_ATTR_REDUCTION_COMP_TYPE;
    case CUDNN_BACKEND_RNG_DESCRIPTOR: return name / 10 == 230;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return name / 100 == 1;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: return name / 100 == 2;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return name / 100 == 4;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return name / 100 == 8;
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return name / 100 == 9;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: return name / 100 == 10;
    default: return false;
  }
}

bool all_at_least(const std::vector<int64_t>& list, int64_t least) {
  return std::all_of(list.begin(), list.end(), [&](int64_t n) { return n >= least; });
}

Tensor tensor_of(const Descriptor& d) {
  return {d.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE), d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
          d.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES),           d.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
          d.one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),    d.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL),
          d.one<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE)};
}

// ---- what finalizing checks: why not, or nothing

std::string check_tensor(const Descriptor& d) {
  const Tensor t = tensor_of(d);
  if (!d.values.count(CUDNN_ATTR_TENSOR_DATA_TYPE) || !d.values.count(CUDNN_ATTR_TENSOR_UNIQUE_ID))
    return "a tensor without a type or an id";
  if (t.sizes.size() < 3 || t.sizes.size() != t.strides.size()) return "a tensor's sizes and strides differ in number";
  if (t.is_virtual && t.is_by_value) return "a tensor that is virtual and given by value";
  if (!all_at_least(t.sizes, 1) || !all_at_least(t.strides, 1)) return "a tensor's sizes and strides must be positive";
  if (t.alignment < bytes_of(t.type) || t.alignment & (t.alignment - 1)) return "a tensor's alignment";
  return {};
}

std::string check_convolution(const Descriptor& d) {
  const auto dims = d.one<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
  if (dims < 2 || dims > 3) return "convolutions have two or three spatial dimensions";
  for (const int name : {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES}) {
    const auto list = d.all<int64_t>(name);
    if (std::ssize(list) != dims || !all_at_least(list, 1)) return "a convolution's strides or dilations";
  }
  for (const int name : {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS}) {
    const auto list = d.all<int64_t>(name);
    if (std::ssize(list) != dims || !all_at_least(list, 0)) return "a convolution's paddings";
  }
  if (d.one<int>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION) return "a convolution's mode";
  return {};
}

std::string check_operation(Descriptor& d, const Operation& o) {
  const Descriptor* c = d.descriptor(o.convolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const Descriptor* tensors[3];
  const int places[] = {o.x, o.w, o.y};
  for (int i = 0; i < 3; ++i)
    if (!(tensors[i] = d.descriptor(places[i], CUDNN_BACKEND_TENSOR_DESCRIPTOR)))
      return "a tensor that is not finalized";
  if (!c) return "a convolution that is not finalized";
  if (!d.values.count(o.alpha) || !d.values.count(o.beta)) return "an operation without factors";
  auto p = std::make_shared<Convolution>();
  p->map = static_cast<Map>(&o - operations);
  p->x = tensor_of(*tensors[0]), p->w = tensor_of(*tensors[1]), p->y = tensor_of(*tensors[2]);
  p->stride = c->all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  p->padding = c->all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  p->dilation = c->all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  const bool wide = p->x.type == CUDNN_DATA_DOUBLE;
  if (c->one<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != (wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
    return "a convolution's type of sums";
  const auto factor = [&](int name) { return wide ? d.one<double>(name) : static_cast<double>(d.one<float>(name)); };
  if (d.values.at(o.alpha).type != (wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT)) return "the type of the factors";
  p->alpha = factor(o.alpha), p->beta = factor(o.beta);
  if (std::string why = check_sizes(*p); !why.empty()) return why;
  p->channels_last = !(lies(p->x, false) && lies(p->w, false) && lies(p->y, false));
  d.convolution = p;
  return {};
}

std::string check_kind(Descriptor& d, const StepKind& kind) {
  auto step = std::make_shared<Step>();
  step->type = d.type;
  if (kind.how) {
    const Descriptor* how = d.descriptor(kind.how, kind.how_type);
    if (!how) return "an operation without its finalized descriptor";
    step->mode = how->one<int>(d.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ? CUDNN_ATTR_REDUCTION_OPERATOR
                                                                                      : CUDNN_ATTR_POINTWISE_MODE);
    step->axis = how->one<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1);
    step->probability = how->one<double>(CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY);
  }
  for (const int name : kind.inputs) {
    if (!name || (name == 758 && !d.values.count(name)) || (name == 752 && !d.values.count(name))) continue;
    const Descriptor* t = d.descriptor(name, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    if (!t) return "a tensor that is not finalized";
    step->inputs.push_back(tensor_of(*t));
  }
  const Descriptor* y = d.descriptor(kind.output, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  if (!y) return "a result that is not finalized";
  step->output = tensor_of(*y);
  d.step = step;
  return check_step(*step);
}

/// The graph of several operations. Not supported where it has neither a convolution nor a graph afterwards.
std::string check_steps(Descriptor& d) {
  std::vector<Step> steps;
  for (void* each : d.all<void*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    const auto* operation = static_cast<const Descriptor*>(each);
    if (!operation || !operation->finished || !operation->step)
      return "a graph with an operation that is not finalized";
    steps.push_back(*operation->step);
  }
  std::string why;
  d.graph = graph_of(std::move(steps), why);
  return why;
}

// ---- engines: a quick one that rounds and adds in any order, one that adds in any order, and one that needs memory

constexpr int kEngines = 3;

std::vector<cudnnBackendNumericalNote_t> notes_of(int engine, const Convolution& p) {
  std::vector<cudnnBackendNumericalNote_t> notes;
  if (engine == 0) notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
  if (engine == 0 && p.x.type == CUDNN_DATA_FLOAT) notes.push_back(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  if (engine <= 1 && p.map != Map::Output) notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  return notes;
}
std::vector<cudnnBackendNumericalNote_t> notes_of(const Graph& graph) {
  std::vector<cudnnBackendNumericalNote_t> notes{CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
  if (graph.adds_in_any_order) notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  return notes;
}

// What tests say that an engine needs, and that it fails.
int64_t workspaces[kEngines] = {0, 0, kWorkspace};
cudnnStatus_t failures[kEngines] = {};
std::map<int, cudnnStatus_t> failing_heuristics;  // by mode
std::atomic<int> handles_made{0}, streams_set{0};
int64_t workspace_of(int engine) { return workspaces[engine]; }

Descriptor* descriptor_of(cudnnBackendDescriptor_t d) { return static_cast<Descriptor*>(d); }

/// Of descriptors that are made of one graph: why not, or nothing.
std::string check_parts(Descriptor& d) {
  switch (d.type) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: {
      const auto* operation = static_cast<const Descriptor*>(d.one<void*>(CUDNN_ATTR_OPERATIONGRAPH_OPS));
      if (!d.one<void*>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE)) return "a graph without a handle";
      if (operation && operation->step) return check_steps(d);
      if (!operation || !operation->finished || !operation->convolution) return "a graph without a finalized operation";
      d.convolution = operation->convolution;  // the operation's descriptor may go before the graph
      return {};
    }
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: {
      const Descriptor* graph =
          d.descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
      if (!graph || !d.values.count(CUDNN_ATTR_ENGINEHEUR_MODE))
        return "a heuristic without a finalized graph or a mode";
      d.convolution = graph->convolution;
      d.graph = graph->graph;
      return {};
    }
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      const Descriptor* config =
          d.descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      if (!d.one<void*>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE) || !config) return "a plan without a handle or an engine";
      d.convolution = config->convolution;
      d.graph = config->graph;
      d.engine = config->engine;
      return {};
    }
    default: return {};
  }
}

cudnnStatus_t execute(const cudnnContext& handle, std::shared_ptr<const Graph> graph, int engine,
                      const std::vector<int64_t>& ids, const std::vector<void*>& pointers) {
  constexpr const char* call = "cudnnBackendExecute";
  std::map<int64_t, void*> memory;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!graph->tensors.count(ids[i])) return wrong(call, "a tensor that the graph has not");
    memory[ids[i]] = pointers[i];
  }
  Numbers numbers;
  for (const auto& [id, t] : graph->tensors) {
    if (!memory.count(id)) return wrong(call, "a tensor that was not given");
    if (t.is_by_value) {
      if (!memory[id] || t.type != CUDNN_DATA_FLOAT || extent(t) != 1) return wrong(call, "a number by value");
      numbers[id] = load(t.type, memory[id], 0);
    } else if (!is_readable(memory[id], extent(t) * (t.type == CUDNN_DATA_INT64 ? 8 : bytes_of(t.type)), t.alignment)) {
      return wrong(call, "tensor " + std::to_string(id) + " is not in device memory, or less aligned than it says");
    }
  }
  remember("cudnnBackendExecute graph=" + std::to_string(graph->steps.size()) + " engine=" + std::to_string(engine) +
           " tensors=" + std::to_string(graph->tensors.size()) +
           " any_order=" + std::to_string(graph->adds_in_any_order));
  return queued(queue_loops(handle.stream, [=] { run_graph(*graph, memory, numbers); }));
}

}  // namespace

/// For tests: what an engine's workspace has to be, and with which status it fails (0: it does not).
FACULA_EMULATED void facula_emulated_dnn_engine(int engine, int64_t workspace, int status) {
  workspaces[engine] = workspace;
  failures[engine] = static_cast<cudnnStatus_t>(status);
}

/// For tests: with which status the heuristics fail in a mode (0: they do not).
FACULA_EMULATED void facula_emulated_dnn_heuristics(int mode, int status) {
  failing_heuristics[mode] = static_cast<cudnnStatus_t>(status);
}
/// For tests: how many handles were made, and how often one was given a stream.
FACULA_EMULATED int facula_emulated_dnn_handles() { return handles_made; }
FACULA_EMULATED int facula_emulated_dnn_streams() { return streams_set; }

FACULA_EMULATED size_t cudnnGetVersion() { return 91900; }
FACULA_EMULATED cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  ++handles_made;
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, CUstream stream) {
  if (!handle) return wrong(__func__, "a null handle");
  ++streams_set;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

FACULA_EMULATED cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Descriptor{type};
  return CUDNN_STATUS_SUCCESS;
}
FACULA_EMULATED cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete descriptor_of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

FACULA_EMULATED cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                       cudnnBackendAttributeName_t name,
                                                       cudnnBackendAttributeType_t type, int64_t count,
                                                       const void* values) {
  Descriptor* d = descriptor_of(descriptor);
  if (!d || !values || count < 1) return wrong(__func__, "a null pointer");
  if (d->finished) return wrong(__func__, "the descriptor is finalized");
  if (d->type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR && does_nothing()) return CUDNN_STATUS_SUCCESS;
  if (!has_attribute(d->type, name)) return wrong(__func__, "the descriptor has no attribute " + std::to_string(name));
  if (type_of(name, type) != type)
    return wrong(__func__, "another type than that of attribute " + std::to_string(name));
  const auto* bytes = static_cast<const char*>(values);
  d->values[name] = {type, count, {bytes, bytes + count * bytes_of(type)}};
  return CUDNN_STATUS_SUCCESS;
}

FACULA_EMULATED cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Descriptor* d = descriptor_of(descriptor);
  if (!d) return wrong(__func__, "a null pointer");
  if (d->type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR && does_nothing()) {
    d->finished = true;
    return CUDNN_STATUS_SUCCESS;
  }
  std::string why;
  if (d->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) why = check_tensor(*d);
  if (d->type == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) why = check_convolution(*d);
  for (const Operation& o : operations)
    if (d->type == o.type) why = check_operation(*d, o);
  if (const StepKind* kind = kind_of(d->type)) why = check_kind(*d, *kind);
  if (why.empty()) why = check_parts(*d);
  if (!why.empty()) return wrong(__func__, why);
  if (d->convolution && !in_one_layout(*d->convolution)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (d->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR && !d->convolution && !d->graph)
    return CUDNN_STATUS_NOT_SUPPORTED;
  d->finished = true;
  return CUDNN_STATUS_SUCCESS;
}

FACULA_EMULATED cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t,
                                                       int64_t requested, int64_t* count, void* values) {
  Descriptor* d = descriptor_of(descriptor);
  if (!d || !d->finished) return wrong(__func__, "the descriptor is not finalized");
  const auto give = [&](int64_t place, int engine, cudnnBackendDescriptorType_t type) {
    Descriptor* to = descriptor_of(static_cast<cudnnBackendDescriptor_t*>(values)[place]);
    if (!to || to->type != type) return false;
    to->convolution = d->convolution;
    to->graph = d->graph;
    to->engine = engine;
    return to->finished = true;
  };
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    const int mode = d->one<int>(CUDNN_ATTR_ENGINEHEUR_MODE);
    if (failing_heuristics[mode]) return failing_heuristics[mode];
    const int first = mode == CUDNN_HEUR_MODE_FALLBACK ? kEngines - 1 : 0;
    *count = kEngines - first;
    for (int64_t i = 0; i < std::min<int64_t>(requested, *count); ++i)
      if (!give(i, first + static_cast<int>(i), CUDNN_BACKEND_ENGINECFG_DESCRIPTOR))
        return wrong(__func__, "results are engine configurations");
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE && d->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) {
    *count = 1;
    return give(0, d->engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR) ? CUDNN_STATUS_SUCCESS
                                                               : wrong(__func__, "not an engine");
  }
  if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && d->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
    const auto notes = d->graph ? notes_of(*d->graph) : notes_of(d->engine, *d->convolution);
    *count = std::ssize(notes);
    std::copy_n(notes.begin(), std::min(requested, *count), static_cast<cudnnBackendNumericalNote_t*>(values));
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    *count = 1;
    *static_cast<int64_t*>(values) = workspace_of(d->engine);
    return CUDNN_STATUS_SUCCESS;
  }
  return wrong(__func__, "an attribute that the stand-in does not know");
}

FACULA_EMULATED cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                                  cudnnBackendDescriptor_t variant) {
  const Descriptor *d = descriptor_of(plan), *pack = descriptor_of(variant);
  if (!handle || !d || !pack || !d->finished || !pack->finished || (!d->convolution && !d->graph))
    return wrong(__func__, "a null pointer, or a descriptor that is not finalized");
  if (does_nothing()) return CUDNN_STATUS_SUCCESS;
  const auto ids = pack->all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack->all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  auto* workspace = pack->one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (ids.size() != pointers.size()) return wrong(__func__, "as many pointers as ids");
  const int64_t needed = workspace_of(d->engine);
  if (needed && !is_readable(workspace, needed, 16)) return wrong(__func__, "the workspace is not in device memory");
  if (failures[d->engine]) return failures[d->engine];
  if (d->graph) return execute(*handle, d->graph, d->engine, ids, pointers);
  const Convolution& p = *d->convolution;
  const void* data[3] = {};
  const Tensor* tensors[] = {&p.x, &p.w, &p.y};
  for (int i = 0; i < 3; ++i) {
    const auto found = std::find(ids.begin(), ids.end(), tensors[i]->id);
    if (found != ids.end()) data[i] = pointers[static_cast<size_t>(found - ids.begin())];
    if (!is_readable(data[i], extent(*tensors[i]) * bytes_of(tensors[i]->type), tensors[i]->alignment))
      return wrong(__func__,
                   std::string("tensor ") + "xwy"[i] + " is not in device memory, or less aligned than it says");
  }
  constexpr const char* maps[] = {"output", "input", "weight"};
  remember(std::string("cudnnBackendExecute map=") + maps[static_cast<int>(p.map)] +
           " engine=" + std::to_string(d->engine) + " type=" + std::to_string(p.x.type) +
           " dims=" + std::to_string(p.x.sizes.size()) + " groups=" + std::to_string(p.x.sizes[1] / p.w.sizes[1]) +
           " channels_last=" + std::to_string(p.channels_last));
  const Addresses at{data[0], data[1], data[2], needed ? workspace : nullptr};
  return queue_loops(handle->stream, [convolution = d->convolution, at] { run(*convolution, at); }) == CUDA_SUCCESS
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_EXECUTION_FAILED;
}

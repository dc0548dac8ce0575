#include "cuda/dnn_graph.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "core/tensor.h"
#include "cuda/device.h"
#include "cuda/library_handles.h"

namespace facula::cuda::dnn {
namespace {

Loaded<Functions> load() {
  Loaded<Functions> l;
  const OpenedLibrary& library = opened(Library::Dnn);
#define X(name, ...) FACULA_FIND(l, library, name)
  FACULA_DNN_FUNCTIONS(X)
#undef X
  FACULA_FIND(l, library, cudnnGetVersion)
  return l;
}
const Loaded<Functions>& loaded() {
  static const Loaded<Functions> l = load();
  return l;
}

/// Whether a status says that something cannot be done, and not that it was requested in a wrong way.
bool is_unsupported(cudnnStatus_t status) { return status / 1000 * 1000 == CUDNN_STATUS_NOT_SUPPORTED; }

/// Whether a step on the way to a plan works. Where it does not, there is another way, or none, whatever status the
/// library gives (it may not know a new device, or not be able to compile); `why` keeps those that do not just say that
/// it does not support it. A library that was put together wrongly, and a device that has failed, are errors.
bool works(cudnnStatus_t status, const char* call, std::string& why) {
  constexpr int kKinds = 1000;
  const int kind = status / kKinds * kKinds;
  if (kind == kKinds || kind == CUDNN_STATUS_EXECUTION_FAILED) check(status, call);
  if (status != CUDNN_STATUS_SUCCESS && !is_unsupported(status))
    why = std::string(call) + " gives cuDNN's status " + std::to_string(static_cast<int>(status));
  return status == CUDNN_STATUS_SUCCESS;
}

bool has_unwanted_note(const Descriptor& config, const Wishes& wishes) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  int64_t count = 0;
  cudnnBackendDescriptor_t raw = engine.get();
  check(functions().cudnnBackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                             1, &count, &raw),
        "cudnnBackendGetAttribute");
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  check(functions().cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                             std::ssize(notes), &count, notes.data()),
        "cudnnBackendGetAttribute");
  return std::any_of(notes.begin(), notes.begin() + count, [&](cudnnBackendNumericalNote_t note) {
    const bool rounds = note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS || note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    return (rounds && wishes.full_precision) || (note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC && wishes.deterministic);
  });
}

/// The library's proposals, best first.
std::vector<Descriptor> proposals(const Descriptor& graph, cudnnBackendHeurMode_t mode, std::string& why) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode);
  const auto get = [&](int64_t requested, int64_t* count, void* values) {
    return works(functions().cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, requested, count, values),
                 "cudnnBackendGetAttribute (of heuristics)", why);
  };
  int64_t count = 0;
  if (!works(heuristic.finish_status(), "cudnnBackendFinalize (of heuristics)", why) || !get(0, &count, nullptr))
    return {};
  std::vector<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < count; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(configs.back().get());
  }
  if (count && !get(count, &count, raw.data())) return {};
  configs.erase(configs.begin() + count, configs.end());
  return configs;
}

}  // namespace

bool is_there() { return loaded().error.empty(); }
const Functions& functions() { return loaded().table; }

void check(cudnnStatus_t status, const char* call) {
  FACULA_CHECK(status == CUDNN_STATUS_SUCCESS, ErrorKind::Runtime, current_op(), ": CUDA error: ", call,
               " gives cuDNN's status ", static_cast<int>(status));
}

namespace {

struct Cudnn {
  using Handle = cudnnHandle_t;
  static Handle make() {
    Handle made = nullptr;
    check(functions().cudnnCreate(&made), "cudnnCreate");
    return made;
  }
  static void set_stream(Handle& library, CUstream stream) {
    check(functions().cudnnSetStream(library, stream), "cudnnSetStream");
  }
};

/// Plans are made with a handle of their own, by one thread at a time: a graph keeps the handle that it was made with.
class Making {
 public:
  explicit Making(int device) : lock_(mutex()), device_(device) {}
  cudnnHandle_t library() const {
    static std::vector<cudnnHandle_t> handles(static_cast<size_t>(device_count()));
    cudnnHandle_t& library = handles[static_cast<size_t>(device_)];
    if (!library) library = Cudnn::make();
    return library;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex& one = *new std::mutex;
    return one;
  }
  std::lock_guard<std::mutex> lock_;
  int device_;
};

}  // namespace

cudnnHandle_t handle_of(Stream stream) { return LibraryHandles<Cudnn>::of(stream); }

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::Float64: return CUDNN_DATA_DOUBLE;
    case DType::Float16: return CUDNN_DATA_HALF;
    case DType::BFloat16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check(functions().cudnnBackendCreateDescriptor(type, &is_), "cudnnBackendCreateDescriptor");
}
Descriptor::~Descriptor() {
  if (is_) functions().cudnnBackendDestroyDescriptor(is_);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const void* values,
                            int64_t count) {
  check(functions().cudnnBackendSetAttribute(is_, name, type, count, values), "cudnnBackendSetAttribute");
  return *this;
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t type) {
  return set(name, CUDNN_TYPE_DATA_TYPE, &type);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, int64_t number) {
  return set(name, CUDNN_TYPE_INT64, &number);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, std::span<const int64_t> numbers) {
  return set(name, CUDNN_TYPE_INT64, numbers.data(), std::ssize(numbers));
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& other) {
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &other.is_);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnHandle_t handle) {
  return set(name, CUDNN_TYPE_HANDLE, &handle);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, std::span<void* const> pointers) {
  return set(name, CUDNN_TYPE_VOID_PTR, pointers.data(), std::ssize(pointers));
}
Descriptor& Descriptor::finish() {
  check(functions().cudnnBackendFinalize(is_), "cudnnBackendFinalize");
  return *this;
}
cudnnStatus_t Descriptor::finish_status() { return functions().cudnnBackendFinalize(is_); }
bool Descriptor::try_finish() {
  const cudnnStatus_t status = finish_status();
  if (is_unsupported(status)) return false;
  check(status, "cudnnBackendFinalize");
  return true;
}

bool EnginePlan::run(Stream stream, std::span<const int64_t> ids, std::span<void* const> addresses) const {
  Tensor memory;  // goes back to the stream's pool at once: what comes later there is queued behind
  try {
    if (workspace_) memory = facula::empty({workspace_}, DType::UInt8, stream.device);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::OutOfMemory) throw;
    return false;
  }
  void* const workspace = workspace_ ? memory.data() : nullptr;
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::span<void* const>(&workspace, 1));
  pack.finish();
  const cudnnStatus_t status = functions().cudnnBackendExecute(handle_of(stream), plan_.get(), pack.get());
  if (status >= CUDNN_STATUS_NOT_SUPPORTED) return false;  // or an error of its own
  check(status, "cudnnBackendExecute");
  wait_if_blocking(stream.device.index);
  return true;
}

EnginePlans::EnginePlans(std::span<const cudnnBackendDescriptor_t> operations, int device, const Wishes& wishes)
    : graph_(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR), device_(device), wishes_(wishes) {
  const Making making(device);
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, making.library());
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations.data(), std::ssize(operations));
  constexpr int kAll = 2;
  if (!graph_.try_finish()) modes_asked_ = kAll;
}

std::optional<EnginePlan> EnginePlans::next() {
  constexpr cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
  const Making making(device_);
  for (;;) {
    while (left_.empty()) {
      if (modes_asked_ == std::ssize(modes)) return {};
      left_ = proposals(graph_, modes[modes_asked_++], why_none_);
      std::reverse(left_.begin(), left_.end());
    }
    Descriptor config = std::move(left_.back());
    left_.pop_back();
    if (has_unwanted_note(config, wishes_)) continue;
    Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, making.library());
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (!works(plan.finish_status(), "cudnnBackendFinalize (of a plan)", why_none_)) continue;
    int64_t count = 0, workspace = 0;
    check(functions().cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                               1, &count, &workspace),
          "cudnnBackendGetAttribute");
    if (workspace <= static_cast<int64_t>(properties(device_).total_memory / 4))
      return EnginePlan(std::move(config), std::move(plan), workspace);
  }
}

size_t EnginePlans::found(size_t wanted) {
  while (plans_.size() < wanted) {
    if (!plans_.empty() && left_.empty()) break;  // the next mode is for where this one gives nothing
    std::optional<EnginePlan> plan = next();
    if (!plan) break;
    plans_.push_back(std::move(*plan));
  }
  return plans_.size();
}

bool EnginePlans::run(Stream stream, std::span<const int64_t> ids, std::span<void* const> addresses) {
  while (any()) {
    if (plans_.front().run(stream, ids, addresses)) return true;
    plans_.erase(plans_.begin());
  }
  return false;
}

void EnginePlans::time(size_t most, Stream stream, std::span<const int64_t> ids, std::span<void* const> addresses) {
  if (found(most ? most : SIZE_MAX) < 2) return;
  std::vector<std::pair<float, size_t>> times;
  for (size_t i = 0; i < plans_.size(); ++i) {
    if (!plans_[i].run(stream, ids, addresses)) continue;  // the first time loads kernels
    Event start(CU_EVENT_DEFAULT), end(CU_EVENT_DEFAULT);
    start.record(stream);
    if (!plans_[i].run(stream, ids, addresses)) continue;
    end.record(stream);
    end.synchronize();
    times.emplace_back(start.elapsed(end), i);
  }
  std::sort(times.begin(), times.end());
  std::vector<EnginePlan> sorted;
  for (const auto& [time, i] : times) sorted.push_back(std::move(plans_[i]));
  plans_ = std::move(sorted);
}

}  // namespace facula::cuda::dnn

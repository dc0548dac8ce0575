// Policy: no call waits for the compiler. The first time that a group is seen its steps run one by one, by the kernels
// that eager execution launches; the second time its kernel is requested, and runs as soon as it is there. Both ways
// give the bits of eager execution (kernels/group.cuh says how), so that they can be exchanged at any call.
#include "cuda/group.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "core/host.h"
#include "cuda/background.h"
#include "cuda/group_text.h"
#include "cuda/kernels/group_args.h"
#include "cuda/pointwise.h"
#include "cuda/stream.h"
#include "ops/group.h"

namespace facula::cuda {
namespace {

using Kind = GroupValue::Kind;

/// A kernel by what its text depends on. The compiler's thread writes `function` or `error`, then `state`.
struct GroupKernel {
  enum State : int { New, Requested, Ready, Failed };
  std::atomic<int> state{New};
  CUfunction function = nullptr;
  std::string error;
  std::atomic<bool> reported{false};
};

struct Kernels {
  std::mutex lock;
  std::unordered_map<std::string, std::shared_ptr<GroupKernel>> known;
};
Kernels& kernels() {
  static Kernels* instance = new Kernels;
  return *instance;
}

std::atomic<int64_t> launches{0}, in_steps{0}, compiled_groups{0}, bytes_moved{0};

std::atomic<int>& mode_now() {
  static std::atomic<int> mode = [] {
    const char* name = std::getenv("FACULA_CUDA_GROUPS");
    const std::string_view text = name ? name : "";
    return static_cast<int>(text == "wait"    ? GroupMode::Wait
                            : text == "steps" ? GroupMode::Steps
                                              : GroupMode::Background);
  }();
  return mode;
}

constexpr unsigned kThreads = 256;

void make_kernel(GroupKernel& kernel, const KernelSource& text, int device) {
  try {
    kernel.function = compiled(device, text.source, text.expression, {sizeof(GroupArgs)}, kThreads);
    ++compiled_groups;
    kernel.state.store(GroupKernel::Ready, std::memory_order_release);
  } catch (const Error& error) {
    kernel.error = error.what();
    kernel.state.store(GroupKernel::Failed, std::memory_order_release);
  }
}

/// Says once why a kernel is not there; tests want to know.
void report(GroupKernel& kernel, GroupMode mode) {
  FACULA_CHECK(mode != GroupMode::Wait, ErrorKind::Runtime, "compile: ", kernel.error);
  if (!kernel.reported.exchange(true) && host.warn)
    host.warn(("compile: ops of a group run one by one, since its kernel is not there: " + kernel.error).c_str());
}

/// The function, if it is there; requests it where that was not done before.
CUfunction function_of(const Group& group, const GroupForm& form, int device) {
  const GroupMode mode = group_mode();
  if (mode == GroupMode::Steps) return nullptr;
  std::string key = key_of(group, form);
  key.push_back(static_cast<char>(device));
  std::shared_ptr<GroupKernel> kernel;
  bool is_new = false;
  {
    std::lock_guard guard(kernels().lock);
    auto& slot = kernels().known[std::move(key)];
    is_new = !slot;
    if (is_new) slot = std::make_shared<GroupKernel>();
    kernel = slot;
  }
  int state = kernel->state.load(std::memory_order_acquire);
  if (state == GroupKernel::New && (mode == GroupMode::Wait || !is_new) &&
      kernel->state.compare_exchange_strong(state, GroupKernel::Requested)) {
    const KernelSource text = text_of(group, form);
    if (mode == GroupMode::Wait) make_kernel(*kernel, text, device);
    else in_background(Urgency::Soon, [kernel, text, device] { make_kernel(*kernel, text, device); });
    state = kernel->state.load(std::memory_order_acquire);
  }
  if (state == GroupKernel::Failed) report(*kernel, mode);
  return state == GroupKernel::Ready ? kernel->function : nullptr;
}

/// Elements of a value that lie in memory, each counted once.
int64_t elements_of(const Group& group, const GroupValue& v) {
  int64_t count = 1;
  for (size_t d = v.per_row ? 1 : 0; d < group.shape.size(); ++d)
    if (v.kind == Kind::Result || v.strides[d] != 0) count *= group.shape[d];
  return count;
}

int64_t bytes_of(const Group& group, const GroupForm& form) {
  int64_t bytes = 0;
  for (const uint16_t v : form.inputs) bytes += elements_of(group, group.values[v]) * item_size(group.values[v].dtype);
  for (const uint16_t v : form.outputs) bytes += elements_of(group, group.values[v]) * item_size(group.values[v].dtype);
  return bytes;
}

/// The numbers of a step on rows.
template <class T>
void put_numbers(const GroupStep& s, char* to) {
  const T numbers[] = {static_cast<T>(s.divisor), static_cast<T>(s.center)};
  std::memcpy(to, numbers, sizeof(T) * (s.work == RowWork::Norm ? 2 : s.divisor != 1 ? 1 : 0));
}

GroupArgs arguments_of(const Group& group, const GroupForm& form) {
  GroupArgs a;  // what the kernel reads of it is set
  a.numel = group.numel;
  for (size_t d = 0; d < group.shape.size(); ++d) a.shape[d] = group.shape[d];
  for (size_t k = 0; k < form.inputs.size(); ++k) {
    const GroupValue& v = group.values[form.inputs[k]];
    a.in[k].data = v.data;
    for (size_t d = 0; d < group.shape.size(); ++d) a.in[k].strides[d] = v.strides[d];
  }
  for (size_t k = 0; k < form.outputs.size(); ++k) a.out[k] = group.values[form.outputs[k]].data;
  std::memset(a.zero, 0, sizeof a.zero);
  for (size_t i = 0; i < group.values.size(); ++i) {
    const GroupValue& v = group.values[i];
    if (v.kind == Kind::Number)
      std::memcpy(a.values + form.offsets[i], v.number, static_cast<size_t>(item_size(v.dtype)));
  }
  for (size_t i = 0; i < group.steps.size(); ++i) {
    const int begin = form.parameters[i];
    const int end = i + 1 < group.steps.size() ? form.parameters[i + 1] : form.used;
    const GroupStep& step = group.steps[i];
    if (!step.rows) std::memcpy(a.values + begin, step.params, static_cast<size_t>(end - begin));
    else if (group.values[step.in[0]].dtype == DType::Float64) put_numbers<double>(step, a.values + begin);
    else put_numbers<float>(step, a.values + begin);
  }
  return a;
}

// ---- steps one by one

/// Runs the steps as their ops run alone. Results that nobody wants live until the last step that reads them.
class Steps {
 public:
  Steps(const Group& group, int device)
      : group_(group),
        device_{DeviceType::CUDA, static_cast<int8_t>(device)},
        own_(group.values.size()),
        last_(group.values.size()) {
    for (size_t s = 0; s < group.steps.size(); ++s)
      for (size_t k = 0; k < group.steps[s].inputs; ++k) last_[group.steps[s].in[k]] = s;
  }

  void run() {
    for (size_t s = 0; s < group_.steps.size(); ++s) {
      const GroupStep& step = group_.steps[s];
      for (size_t k = 0; k < step.outs; ++k) {
        const GroupValue& v = group_.values[step.out[k]];
        if (!v.data)
          own_[step.out[k]] = empty({v.per_row ? group_.numel / group_.row : group_.numel}, v.dtype, device_);
      }
      if (step.rows) look_at_rows(step);
      else run(step);
      for (size_t k = 0; k < step.inputs; ++k)
        if (last_[step.in[k]] == s) own_[step.in[k]] = Tensor();
    }
  }

 private:
  char* data_of(uint16_t v) const { return own_[v].defined() ? own_[v].impl()->data : group_.values[v].data; }

  /// A value's elements as rows, or as one column.
  Tensor rows_of(uint16_t v) const {
    const GroupValue& value = group_.values[v];
    const int64_t rows = group_.numel / group_.row, length = value.per_row ? 1 : group_.row;
    Storage* storage = borrow_storage(
        data_of(v), static_cast<size_t>(rows * length * item_size(value.dtype)), device_, [](Storage*) {}, nullptr);
    Tensor t = tensor_on_storage(storage, value.dtype, 0, Dims{rows, length}, Dims{length, 1}, "compile");
    facula::release(storage);
    return t;
  }

  void look_at_rows(const GroupStep& step) const {
    Tensor results[kMaxResults];
    const Tensor* places[kMaxResults];
    for (size_t k = 0; k < step.outs; ++k) {
      results[k] = rows_of(step.out[k]);
      places[k] = &results[k];
    }
    (*step.rows)(rows_of(step.in[0]), places);
  }

  /// Strides in the order of the group, of a step on one element for each row without the rows.
  Dims strides_of(const GroupValue& v, bool per_row) const {
    Dims strides;
    int64_t stride = item_size(v.dtype);
    for (size_t d = 0; d < group_.shape.size(); ++d) {
      const bool repeated = d == 0 && v.per_row;
      if (d > 0 || !per_row) strides.push_back(repeated ? 0 : v.kind == Kind::Stream ? v.strides[d] : stride);
      if (!repeated) stride *= group_.shape[d];
    }
    if (strides.empty()) strides.push_back(0);
    return strides;
  }

  void run(const GroupStep& step) const {
    Plan plan;
    plan.inputs = step.inputs;
    plan.numel = step.per_row ? group_.numel / group_.row : group_.numel;
    for (size_t d = step.per_row ? 1 : 0; d < group_.shape.size(); ++d) plan.shape.push_back(group_.shape[d]);
    if (plan.shape.empty()) plan.shape.push_back(1);
    plan.compute = step.compute;
    plan.loop_result = step.loop_result;
    plan.loop = step.loop;
    plan.out = operand_of(step.out[0], step.per_row);
    for (size_t k = 0; k < step.inputs; ++k) {
      const GroupValue& v = group_.values[step.in[k]];
      if (v.kind != Kind::Number) {
        plan.in[k] = operand_of(step.in[k], step.per_row);
        continue;
      }
      std::memcpy(plan.numbers[k], v.number, sizeof v.number);
      plan.in[k].data = plan.numbers[k];
      plan.in[k].residency = Residency::Number;
      plan.in[k].dtype = step.compute;
      plan.in[k].strides = Dims(plan.shape.size());
    }
    std::memcpy(plan.params, step.params, sizeof plan.params);
    run_loop(device_loops[plan.loop], plan, device_.index);
  }

  PlanOperand operand_of(uint16_t number, bool per_row) const {
    const GroupValue& v = group_.values[number];
    PlanOperand operand;
    operand.data = data_of(number);
    operand.dtype = v.dtype;
    operand.strides = strides_of(v, per_row);
    return operand;
  }

  const Group& group_;
  const Device device_;
  std::vector<Tensor> own_;   // results without a place, by value
  std::vector<size_t> last_;  // step that reads a value
};

Grid grid_of(const Group& group, const GroupForm& form, int device) {
  if (!group.row) return grid_for(device, (group.numel + form.wide - 1) / form.wide, kThreads);
  const int64_t threads = form.warps ? 32 * form.warps : 1;
  return grid_for(device, group.numel / group.row * threads, kThreads);
}

void run_group_cuda(const Group& group) {
  const int device = active_index();
  if (const std::optional<GroupForm> form = form_of(group)) {
    if (const CUfunction function = function_of(group, *form, device)) {
      GroupArgs arguments = arguments_of(group, *form);
      void* addresses[] = {&arguments, nullptr};
      launch(function, device, grid_of(group, *form, device), addresses);
      ++launches;
      bytes_moved += bytes_of(group, *form);
      return;
    }
  }
  Steps(group, device).run();
  ++in_steps;
}

Stream exchange(Stream stream) {
  const Stream before = current_stream(stream.device.index);
  if (before != stream) set_current_stream(stream);
  return before;
}

}  // namespace

GroupMode group_mode() { return static_cast<GroupMode>(mode_now().load(std::memory_order_relaxed)); }
void set_group_mode(std::string_view name) {
  constexpr std::string_view names[] = {"background", "wait", "steps"};
  const auto found = std::find(std::begin(names), std::end(names), name);
  FACULA_CHECK(found != std::end(names), ErrorKind::Value,
               "compile: groups of CUDA run as background, wait or steps, got ", name);
  mode_now() = static_cast<int>(found - std::begin(names));
}

GroupCounts count_groups() { return {launches, in_steps, compiled_groups, bytes_moved}; }
void finish_groups() { finish_background(Urgency::Soon); }

void register_group() {
  run_group.set(DeviceType::CUDA, run_group_cuda);
  exchange_stream = exchange;
}

}  // namespace facula::cuda

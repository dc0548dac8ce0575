// Runs element-wise plans: a kernel for operands of one dtype that lie one after the other, one whose instances know
// how each operand lies and its dtype, and one for anything. All are written around the same scalar functions as the
// CPU's loops (src/kernels).
#include "cuda/pointwise.h"

#include <cstring>

#include "cuda/device.h"
#include "cuda/pointwise_family.h"
#include "cuda/strided.h"
#include "ops/kernel_table.h"

namespace facula::cuda {
namespace {

static_assert(kMostInputs == kMaxInputs && kMostParameters == kMaxParams);

PointwiseArgs arguments_of(const Plan& plan) {
  PointwiseArgs a;  // what kernels read of it is set
  a.numel = plan.numel;
  FACULA_CHECK(plan.shape.size() <= kMostDims, ErrorKind::NotImplemented, current_op(),
               ": on CUDA, tensors of at most ", kMostDims, " dimensions that do not lie evenly, got ",
               plan.shape.size());
  a.dims = static_cast<int>(plan.shape.size());
  for (size_t d = 0; d < plan.shape.size(); ++d) a.shape[d] = plan.shape[d];
  const auto fill = [&](PointwiseOperand& to, const PlanOperand& from) {
    to.data = from.data;
    to.dtype = index(from.dtype);
    for (size_t d = 0; d < plan.shape.size(); ++d) to.strides[d] = from.strides[d];
  };
  fill(a.out, plan.out);
  for (int i = 0; i < plan.inputs; ++i) {
    fill(a.in[i], plan.in[i]);
    a.in[i].is_number = plan.in[i].residency == Residency::Number;
  }
  std::memcpy(a.numbers, plan.numbers, sizeof a.numbers);
  std::memcpy(a.parameters, plan.params, sizeof a.parameters);
  return a;
}

bool is_flat(const Plan& plan, const PlanOperand& operand) {
  int64_t stride = item_size(operand.dtype);
  for (size_t d = 0; d < plan.shape.size(); ++d) {
    if (operand.strides[d] != stride && plan.shape[d] != 1) return false;
    stride *= plan.shape[d];
  }
  return true;
}

/// The dtype of all inputs that lie in memory, where all operands lie one after the other; else nothing.
std::optional<DType> direct_dtype(const Plan& plan) {
  std::optional<DType> common;
  if (!is_flat(plan, plan.out)) return {};
  for (int i = 0; i < plan.inputs; ++i) {
    const PlanOperand& in = plan.in[i];
    if (in.residency == Residency::Number) continue;
    if (!is_flat(plan, in) || common.value_or(in.dtype) != in.dtype) return {};
    common = in.dtype;
  }
  return common;
}

/// Elements of a vector, where all operands begin at multiples of it; else 1.
int direct_width(const Plan& plan) {
  const int width = item_bytes(plan).vector_width();
  bool all = is_aligned(plan.out, width);
  for (int i = 0; i < plan.inputs; ++i)
    all = all && (plan.in[i].residency == Residency::Number || is_aligned(plan.in[i], width));
  return all ? width : 1;
}

/// A kernel around loops.
struct LoopKernel {
  const char *header, *name;
  int argument_bytes;
};
constexpr LoopKernel kAny{"pointwise.cuh", "pointwise_any", sizeof(PointwiseArgs)},
    kDirect{"pointwise.cuh", "pointwise_direct", sizeof(PointwiseArgs)},
    kStrided{"strided.cuh", "pointwise_strided", sizeof(StridedArgs)};

CUfunction function_of(const LoopKernel& kernel, const DeviceLoop& loop, int device, TemplateArguments types,
                       unsigned threads, const Plan& plan) {
  // the kernels have different numbers of template arguments
  const FunctionKey key{&loop, packed(types), device};
  if (CUfunction function = recent_function(key)) return function;
  if (CUfunction function = known_function(key)) return function;
  std::string expression = std::string("facula::cuda::") + kernel.name + "<facula::cuda::Loop";
  for (const TemplateArgument& t : types) expression += ", " + t.text();
  const std::string source = std::string("#include \"") + loop.header + "\"\n#include \"" + kernel.header +
                             "\"\nnamespace facula::cuda {\n" + loop.body + "\n}\n";
  return keep_function(key, compiled(device, source, expression + ">", {kernel.argument_bytes}, threads,
                                     [&] { return family_of(loop, plan); }));
}

void run_direct(const DeviceLoop& loop, const Plan& plan, DType memory, int device) {
  PointwiseArgs arguments = arguments_of(plan);
  void* addresses[] = {&arguments, nullptr};
  const int width = direct_width(plan);
  const Grid grid = grid_for(device, (plan.numel + width - 1) / width);
  const TemplateArguments types = {plan.compute, plan.loop_result, memory, plan.out.dtype, width};
  launch(function_of(kDirect, loop, device, types, grid.threads, plan), device, grid, addresses);
}

void run_any(const DeviceLoop& loop, const Plan& plan, int device) {
  PointwiseArgs arguments = arguments_of(plan);
  void* addresses[] = {&arguments, nullptr};
  const DType offsets = plan.numel <= INT32_MAX ? DType::UInt32 : DType::Int64;
  const Grid grid = grid_for(device, plan.numel);
  const TemplateArguments types = {plan.compute, plan.loop_result, offsets};
  launch(function_of(kAny, loop, device, types, grid.threads, plan), device, grid, addresses);
}

void run_strided(const DeviceLoop& loop, const Plan& plan, const JoinedPlan& joined, int device) {
  StridedPlan strided = joined.strided();
  void* addresses[] = {&strided.arguments, nullptr};
  DType in[kMaxInputs];
  for (int i = 0; i < kMaxInputs; ++i) {
    const bool in_memory = i < plan.inputs && plan.in[i].residency == Residency::Memory;
    in[i] = in_memory ? plan.in[i].dtype : plan.compute;
  }
  const TemplateArguments types = {plan.compute, plan.loop_result, plan.out.dtype, strided.form.number(), in[0], in[1],
                                   in[2]};
  launch(function_of(kStrided, loop, device, types, kStridedThreads, plan), device, {kStridedThreads, strided.blocks},
         addresses);
}

// For fewer elements no kernel of their layouts is compiled: pointwise_any takes a microsecond or two more, and an
// instance of it knows all of a loop's layouts and dtypes.
constexpr int64_t kFewElements = 1024;
// Plans of so many elements are halved where offsets need more than 31 bits; of fewer the launches would be too many.
constexpr int64_t kManyElements = 1 << 24;

void run_large(const DeviceLoop& loop, const Plan& plan, int device) {
  const JoinedPlan joined(plan);
  if (!joined.has_form()) return run_any(loop, plan, device);
  if (joined.is_small()) return run_strided(loop, plan, joined, device);
  if (plan.numel < kManyElements) return run_any(loop, plan, device);
  const auto [first, second] = halves(plan);
  run_loop(loop, first, device);
  run_loop(loop, second, device);
}

void run_plan_cuda(const Plan& plan) { run_loop(device_loops[plan.loop], plan, active_index()); }

}  // namespace

void run_loop(const DeviceLoop& loop, const Plan& plan, int device) {
  if (const auto memory = direct_dtype(plan)) return run_direct(loop, plan, *memory, device);
  if (plan.numel < kFewElements) return run_any(loop, plan, device);
  run_large(loop, plan, device);
}

void register_pointwise() { run_plan.set(DeviceType::CUDA, run_plan_cuda); }

}  // namespace facula::cuda

// Runs element-wise plans: a kernel for operands that lie one after the other, one for any strides and dtypes. Both
// are written around the same scalar functions as the CPU's loops (src/kernels).
#include "cuda/pointwise.h"

#include <cstring>

#include "cuda/device.h"
#include "cuda/kernels/pointwise_args.h"
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

/// Elements of a vector: 16 bytes of the wider of the two types, where all operands begin at multiples of it.
int vector_width(const Plan& plan, DType in) {
  const int64_t widest = std::max(item_size(in), item_size(plan.out.dtype));
  const auto width = static_cast<int>(16 / widest);
  const auto aligned = [&](const PlanOperand& o) {
    return o.residency == Residency::Number ||
           reinterpret_cast<uintptr_t>(o.data) % static_cast<uintptr_t>(width * item_size(o.dtype)) == 0;
  };
  bool all = aligned(plan.out);
  for (int i = 0; i < plan.inputs; ++i) all = all && aligned(plan.in[i]);
  return all ? width : 1;
}

CUfunction function_of(const DeviceLoop& loop, int device, const char* kernel, TemplateArguments types,
                       unsigned threads) {
  // pointwise_any and pointwise_direct have different numbers of arguments
  const FunctionKey key{&loop, packed(types), device};
  if (CUfunction function = recent_function(key)) return function;
  if (CUfunction function = known_function(key)) return function;
  std::string expression = std::string("facula::cuda::") + kernel + "<facula::cuda::Loop";
  for (const TemplateArgument& t : types) expression += ", " + t.text();
  const std::string source = std::string("#include \"") + loop.header +
                             "\"\n#include \"pointwise.cuh\"\nnamespace facula::cuda {\n" + loop.body + "\n}\n";
  return keep_function(key, compiled(device, source, expression + ">", {sizeof(PointwiseArgs)}, threads));
}

void run_plan_cuda(const Plan& plan) { run_loop(device_loops[plan.loop], plan, active_index()); }

}  // namespace

void run_loop(const DeviceLoop& loop, const Plan& plan, int device) {
  PointwiseArgs arguments = arguments_of(plan);
  void* addresses[] = {&arguments, nullptr};
  if (const auto memory = direct_dtype(plan)) {
    const int width = vector_width(plan, *memory);
    const Grid grid = grid_for(device, (plan.numel + width - 1) / width);
    const TemplateArguments types = {plan.compute, plan.loop_result, *memory, plan.out.dtype, width};
    return launch(function_of(loop, device, "pointwise_direct", types, grid.threads), device, grid, addresses);
  }
  const DType offsets = plan.numel <= INT32_MAX ? DType::UInt32 : DType::Int64;
  const Grid grid = grid_for(device, plan.numel);
  const TemplateArguments types = {plan.compute, plan.loop_result, offsets};
  launch(function_of(loop, device, "pointwise_any", types, grid.threads), device, grid, addresses);
}

void register_pointwise() { run_plan.set(DeviceType::CUDA, run_plan_cuda); }

}  // namespace facula::cuda

#include "cuda/pointwise_family.h"

#include <algorithm>

#include "cuda/kernels/strided_args.h"

namespace facula::cuda {
namespace {

constexpr DType kOfNetworks[] = {DType::Float32, DType::BFloat16, DType::Float16};  // all are computed in float32

KernelSource kernel_of(const DeviceLoop& loop, const char* header, const char* name, TemplateArguments types) {
  std::string expression = std::string("facula::cuda::") + name + "<facula::cuda::Loop";
  for (const TemplateArgument& t : types) expression += ", " + t.text();
  const std::string source = std::string("#include \"") + loop.header + "\"\n#include \"" + header +
                             "\"\nnamespace facula::cuda {\n" + loop.body + "\n}\n";
  return {source, expression + ">"};
}

/// Vectors of a dtype of networks and of a result, as the kernels choose them (ItemBytes).
int width_of(DType memory, DType out) {
  const auto size = static_cast<int>(item_size(memory));
  ItemBytes bytes{size, size};
  bytes.see(static_cast<int>(item_size(out)));
  return bytes.vector_width();
}

}  // namespace

std::vector<KernelSource> family_of(const DeviceLoop& loop, const Plan& plan) {
  std::vector<KernelSource> family;
  const DType c = plan.compute, r = plan.loop_result;
  if (c != DType::Float32) return family;
  const bool keeps_dtype = std::count(std::begin(kOfNetworks), std::end(kOfNetworks), plan.out.dtype);
  const auto strided = [&](const StridedForm& form, DType out, DType first, DType second) {
    family.push_back(kernel_of(loop, "strided.cuh", "pointwise_strided", {c, r, out, form.number(), first, second, c}));
  };
  constexpr StridedForm kFlat{1, true, 0}, kRow{2, true, 0}, kColumn{2, true, 2};
  for (const DType memory : kOfNetworks) {
    const DType out = keeps_dtype ? memory : plan.out.dtype;
    for (const int width : {width_of(memory, out), 1})
      family.push_back(kernel_of(loop, "pointwise.cuh", "pointwise_direct", {c, r, memory, out, width}));
    if (plan.inputs != 2) continue;
    strided(kRow, out, memory, memory);  // the second operand is the same for all rows, as a bias
    strided(kColumn, out, memory, memory);
    if (memory != DType::Float32) strided(kFlat, keeps_dtype ? DType::Float32 : out, DType::Float32, memory);
  }
  family.push_back(kernel_of(loop, "pointwise.cuh", "pointwise_any", {c, r, DType::UInt32}));
  return family;
}

}  // namespace facula::cuda

#include "cuda/jiterate.h"

#include <cstring>

#include "cuda/activity.h"
#include "cuda/device.h"
#include "cuda/kernel.h"
#include "cuda/kernels/jiterate_args.h"

namespace facula::cuda {
namespace {

constexpr const char* kName = "jiterator";

JitOperand operand_of(const Tensor& t, const Tensor& like) {
  FACULA_CHECK(t.device() == like.device() && t.sizes() == like.sizes(), ErrorKind::Runtime, kName,
               ": expected operands of shape ", like.sizes(), " on ", like.device(), ", got ", t.sizes(), " on ",
               t.device());
  JitOperand o{t.data(), index(t.dtype()), {}};
  for (int64_t d = 0; d < t.dim(); ++d) o.strides[t.dim() - 1 - d] = t.stride(d) * t.item_size();
  return o;
}

}  // namespace

void jiterate(const std::string& source, TensorList results, TensorList inputs, TensorList values, DType compute) {
  FACULA_CHECK(!results.empty() && results[0].device().is_cuda(), ErrorKind::Runtime, kName,
               ": expected tensors of a CUDA device, got none");
  const Tensor& first = results[0];
  FACULA_CHECK(results.size() + inputs.size() <= kMostJitOperands && values.size() <= kMostJitValues &&
                   first.dim() <= kMostJitDims,
               ErrorKind::Runtime, kName, ": expected at most ", kMostJitOperands, " operands of ", kMostJitDims,
               " dimensions and ", kMostJitValues, " numbers, got ", results.size() + inputs.size(), ", ", first.dim(),
               " and ", values.size());
  JitArgs args{};
  args.numel = first.numel();
  args.dims = static_cast<int>(first.dim());
  for (int64_t d = 0; d < first.dim(); ++d) args.shape[first.dim() - 1 - d] = first.size(d);
  JitOperand* to = args.operands;
  for (const Tensor& t : results) *to++ = operand_of(t, first);
  for (const Tensor& t : inputs) *to++ = operand_of(t, first);
  char* value = args.values;
  for (const Tensor& t : values) {
    FACULA_CHECK(t.device().is_cpu() && t.dtype() == compute && t.numel() == 1, ErrorKind::Runtime, kName,
                 ": expected numbers of ", compute, ", got a tensor of ", t.dtype());
    std::memcpy(value, t.data(), static_cast<size_t>(t.item_size()));
    value += t.item_size();
  }
  const int device = first.device().index;
  const DeviceGuard guard(device);
  const OpName name(kName);
  const ActivityNote note(device, kName);
  const Grid grid = grid_for(device, args.numel);
  const std::string expression = "facula::cuda::jiterate<facula::cuda::Jit, " + TemplateArgument(compute).text() + ">";
  void* addresses[] = {&args, nullptr};
  launch(compiled(device, source, expression, {sizeof args}, grid.threads), device, grid, addresses);
}

}  // namespace facula::cuda

// Selections by truth values. Only the number of selected elements makes the host wait.
#include "cuda/device.h"
#include "cuda/kernel.h"
#include "cuda/kernels/select_args.h"
#include "cuda/sorting.h"
#include "ops/index.h"

namespace facula::cuda {
namespace {

using Long = long long;

int64_t tiles_of(int64_t count) { return (count + kSelectTile - 1) / kSelectTile; }
Grid blocks_for(int device, int64_t count) { return grid_for(device, tiles_of(count) * 256); }

SelectArgs arguments_of(const Tensor& mask) {
  SelectArgs a{};
  a.count = mask.numel();
  a.mask = mask.data();
  return a;
}

/// How many are selected before every tile, and in all.
Tensor starts_of(const Tensor& mask) {
  static const DeviceKernel kernel{"select.cuh", "select_count"};
  const int device = mask.device().index;
  const Tensor counts = facula::empty({tiles_of(mask.numel()) + 1}, DType::Int64, mask.device());
  kernel(device, {mask.dtype()}, blocks_for(device, mask.numel()), arguments_of(mask),
         static_cast<Long*>(counts.data()));
  make_offsets(counts);
  return counts;
}

int64_t count_nonzero_cuda(const Tensor& in) { return in.numel() ? read_last(starts_of(in)) : 0; }

void nonzero_cuda(const Tensor& out, const Tensor& in) {
  static const DeviceKernel kernel{"select.cuh", "select_positions"};
  if (in.numel() == 0 || out.numel() == 0) return;
  FACULA_CHECK(in.dim() <= kMostSelectDims, ErrorKind::NotImplemented, "nonzero: on CUDA, at most ", kMostSelectDims,
               " dimensions, got ", in.dim());
  const Tensor starts = starts_of(in);
  SelectArgs a = arguments_of(in);
  a.starts = static_cast<const Long*>(starts.data());
  a.out = out.data();
  a.rows = out.size(0);
  a.row = out.stride(0);
  a.column = out.stride(1);
  a.dims = static_cast<int>(in.dim());
  for (int d = 0; d < a.dims; ++d) a.shape[d] = in.size(a.dims - 1 - d);
  kernel(in.device().index, {in.dtype()}, blocks_for(in.device().index, a.count), a);
}

/// `packed` is the operand that has an element for every selected one.
void move(const DeviceKernel& kernel, const Tensor& out, const Tensor& in, const Tensor& mask, const Tensor& packed) {
  if (mask.numel() == 0) return;
  const Tensor starts = starts_of(mask);
  SelectArgs a = arguments_of(mask);
  a.starts = static_cast<const Long*>(starts.data());
  a.in = in.data();
  a.out = out.data();
  a.rows = packed.numel();
  const int device = out.device().index;
  kernel(device, {bits_of(out.item_size())}, blocks_for(device, a.count), a);
}

void masked_select_cuda(const Tensor& out, const Tensor& in, const Tensor& mask) {
  static const DeviceKernel kernel{"select.cuh", "select_elements"};
  move(kernel, out, in, mask, out);
}

void masked_scatter_cuda(const Tensor& out, const Tensor& mask, const Tensor& source) {
  static const DeviceKernel kernel{"select.cuh", "spread_elements"};
  move(kernel, out, source, mask, source);
}

}  // namespace

void register_select() {
  count_nonzero_kernel.set(DeviceType::CUDA, count_nonzero_cuda);
  nonzero_kernel.set(DeviceType::CUDA, nonzero_cuda);
  masked_select_kernel.set(DeviceType::CUDA, masked_select_cuda);
  masked_scatter_kernel.set(DeviceType::CUDA, masked_scatter_cuda);
}

}  // namespace facula::cuda

#include "cuda/sorting.h"

#include "cuda/backend.h"
#include "cuda/kernel.h"
#include "cuda/stream.h"

namespace facula::cuda {
namespace {

using Long = long long;

void queue_offsets(const Tensor& counts, int64_t count, const Tensor& to) {
  static const DeviceKernel kernel{"offsets.cuh", "offsets"};
  kernel(to.device().index, {}, Grid{1024, 1}, static_cast<const Long*>(counts.data()), static_cast<Long>(count),
         static_cast<Long*>(to.data()));
}

}  // namespace

Tensor offsets_of(const Tensor& counts) {
  const Tensor made = facula::empty({counts.numel() + 1}, DType::Int64, counts.device());
  queue_offsets(counts, counts.numel(), made);
  return made;
}

void make_offsets(const Tensor& counts) { queue_offsets(counts, counts.numel() - 1, counts); }

int64_t read_last(const Tensor& offsets) {
  const int device = offsets.device().index;
  int64_t last = 0;
  FACULA_CUDA_CALL(cuMemcpyDtoHAsync_v2, &last,
                   reinterpret_cast<CUdeviceptr>(static_cast<Long*>(offsets.data()) + offsets.numel() - 1), sizeof last,
                   handle(current_stream(device)));
  wait_for_results(device);
  return last;
}

Sorted radix_sort(Sorted from, int bits) {
  static const DeviceKernel count{"radix_sort.cuh", "radix_count"}, move{"radix_sort.cuh", "radix_move"};
  constexpr int64_t kTile = 4096;
  const int64_t n = from.keys.numel(), tiles = (n + kTile - 1) / kTile;
  const Device device = from.keys.device();
  const Grid grid = grid_for(device.index, tiles * 256);
  Sorted to{facula::empty({n}, from.keys.dtype(), device), facula::empty({n}, from.numbers.dtype(), device)};
  const Tensor counts = facula::empty({256 * tiles + 1}, DType::Int64, device);
  for (int shift = 0; shift < bits; shift += 8) {
    count(device.index, {from.keys.dtype()}, grid, static_cast<const void*>(from.keys.data()), static_cast<Long>(n),
          shift, static_cast<Long*>(counts.data()));
    make_offsets(counts);
    move(device.index, {from.keys.dtype(), from.numbers.dtype()}, grid, static_cast<const void*>(from.keys.data()),
         static_cast<const void*>(from.numbers.data()), to.keys.data(), to.numbers.data(), static_cast<Long>(n), shift,
         static_cast<const Long*>(counts.data()));
    std::swap(from, to);
  }
  return from;
}

}  // namespace facula::cuda

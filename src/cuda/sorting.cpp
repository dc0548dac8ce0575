#include "cuda/sorting.h"

#include "cuda/backend.h"
#include "cuda/kernel.h"
#include "cuda/kernels/radix_sort_args.h"
#include "cuda/scan.h"
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
  static const DeviceKernel count{"radix_sort.cuh", "count_digits"}, move{"radix_sort.cuh", "move_digits"};
  const IntList sizes = from.keys.sizes();
  const int64_t n = from.keys.size(-1), rows = from.keys.numel() / n, tiles = (n + kSortTile - 1) / kSortTile;
  const Device device = from.keys.device();
  const DType key = from.keys.dtype(), number = from.numbers.dtype(),
              counter = n <= UINT32_MAX ? DType::UInt32 : DType::Int64;
  const Grid grid = grid_for(device.index, rows * tiles * 256);
  Sorted to{facula::empty(sizes, key, device), facula::empty(sizes, number, device)};
  const Tensor counts = facula::empty({rows, kDigits * tiles}, counter, device);
  for (int shift = 0; shift < bits; shift += 8, std::swap(from, to)) {
    const DigitArgs d{
        rows, n, tiles, shift, from.keys.data(), from.numbers.data(), to.keys.data(), to.numbers.data(), counts.data()};
    count(device.index, {key, counter}, grid, d);
    running_sum(counts);
    move(device.index, {key, number, counter}, grid, d);
  }
  return from;
}

}  // namespace facula::cuda

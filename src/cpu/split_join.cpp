// Repeating on the CPU.
#include "ops/split_join.h"

#include <algorithm>

#include "core/asking.h"
#include "core/checked.h"
#include "cpu/serial.h"

namespace facula::cpu {
namespace {

int64_t repeat_total_cpu(const Tensor& counts) {
  const int64_t* count = counts.data<int64_t>();
  Checked total = 0;
  one_by_one(counts.numel(), 1, [&](int64_t i) {
    FACULA_CHECK(count[i] >= 0, ErrorKind::Runtime, "repeat_interleave: repeats must not be negative, got ", count[i]);
    total += count[i];
  });
  return total.get("repeat_interleave", "the sum of repeats", "repeats of shape ", counts.sizes());
}

void repeat_positions_cpu(const Tensor& positions, const Tensor& counts) {
  const int64_t total = repeat_total_cpu(counts);
  FACULA_CHECK(total == positions.numel(), ErrorKind::Runtime,
               "repeat_interleave: output_size must be the sum of repeats, ", total, ", got ", positions.numel());
  const int64_t* count = counts.data<int64_t>();
  int64_t* at = positions.data<int64_t>();
  const LockRelease release(total > kGrain);
  LongWork written;
  one_by_one(counts.numel(), 1, [&](int64_t i) {
    for (int64_t left = count[i]; left > 0; left -= kGrain) {
      at = std::fill_n(at, std::min(left, kGrain), i);
      written.did(std::min(left, kGrain));
    }
  });
}

}  // namespace

void register_split_join() {
  repeat_total_kernel.set(DeviceType::CPU, repeat_total_cpu);
  repeat_positions_kernel.set(DeviceType::CPU, repeat_positions_cpu);
}

}  // namespace facula::cpu

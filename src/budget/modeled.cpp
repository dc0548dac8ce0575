#include "budget/modeled.h"

#include <atomic>

#include "ops/deterministic.h"
#include "ops/semantics.h"

namespace facula::budget {
namespace {

/// Bytes and operations in a nanosecond, and the time to begin.
struct Rates {
  double bytes, operations, begin;
};
constexpr Rates kOfCpu{10, 50, 500}, kOfCuda{2000, 50000, 4000};

IntList sizes_of(const Input& input) { return input.cell ? IntList(input.geometry.sizes) : input.held.sizes(); }
DType dtype_of(const Input& input) { return input.cell ? input.geometry.dtype : input.held.dtype(); }

/// How many products go into an element of the result: the elements of a filter, or the length of a row.
double products_of(const Step& step) {
  if (op_semantics(step.op->id).weight != OpWeight::Heavy || step.inputs.size() < 2) return 0;
  const IntList first = sizes_of(step.inputs[0]), second = sizes_of(step.inputs[1]);
  if (first.size() < 2 || second.size() < 2) return 0;
  double products = 1;
  if (second.size() == 2) return static_cast<double>(first[first.size() - 1]);
  for (size_t d = 1; d < second.size(); ++d) products *= static_cast<double>(second[d]);
  return second.size() == 3 && first.size() == 3 ? static_cast<double>(first[2]) : products;
}

}  // namespace

bool are_modeled() { return ops::deterministic_is_requested(); }

uint64_t modeled_ns(const Step& step) {
  double bytes = 0, made = 0;
  bool cuda = false;
  for (const Cell* cell : step.made) {
    if (!cell) continue;
    made += static_cast<double>(cell->bytes);
    cuda = cuda || cell->device.is_cuda();
  }
  for (const Input& input : step.inputs) {
    double elements = 1;
    for (const int64_t size : sizes_of(input)) elements *= static_cast<double>(size);
    bytes += elements * static_cast<double>(item_size(dtype_of(input)));
  }
  const Rates& rates = cuda ? kOfCuda : kOfCpu;
  return static_cast<uint64_t>(rates.begin + (bytes + made) / rates.bytes +
                               2 * made / 4 * products_of(step) / rates.operations);
}

uint64_t time_of_use() {
  static std::atomic<uint64_t> uses{0};
  return are_modeled() ? uses.fetch_add(1, std::memory_order_relaxed) + 1 : clock_ns();
}

}  // namespace facula::budget

// Places that several index tensors name together.
#include "cpu/serial.h"
#include "ops/index.h"

namespace facula::cpu {
namespace {

void fold_index_cpu(const Tensor& table, const Tensor& index, const FoldedIndex& fold) {
  int64_t* places = table.data<int64_t>();
  const int64_t* at = index.data<int64_t>();
  const int64_t size = fold.size;
  one_by_one(index.numel(), 1, [&](int64_t i) {
    const int64_t k = at[i] + ((at[i] >> 63) & size);
    if (__builtin_expect(static_cast<uint64_t>(k) >= static_cast<uint64_t>(size), 0)) {
      throw_refusal(ErrorKind::Index, fold.op, ": index ", at[i], " is out of bounds for dimension ", fold.dim,
                    " with size ", size);
    }
    places[i] += fold.start + k * fold.step;
  });
}

}  // namespace

void register_index_places() { fold_index_kernel.set(DeviceType::CPU, fold_index_cpu); }

}  // namespace facula::cpu

// Bags of embeddings on the CPU.
#include "ops/embedding.h"

#include <vector>

#include "core/asking.h"
#include "cpu/serial.h"

namespace facula::cpu {
namespace {

void bag_argmax_cpu(const Tensor& out, const Tensor& weight, const Tensor& rows, const Tensor& bag_of,
                    int64_t padding) {
  const int64_t bags = out.size(0), width = out.size(1);
  std::vector<bool> seen(static_cast<size_t>(bags), false);
  visit_dtype(weight.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_convertible_v<T, double>) {
      const T* table = weight.data<T>();
      const int64_t row_step = weight.stride(0), step = weight.stride(1);
      one_by_one(rows.numel(), width, [&](int64_t i) {
        const int64_t k = rows.data<int64_t>()[i], bag = bag_of.data<int64_t>()[i];
        FACULA_CHECK(k >= 0 && k < weight.size(0) && bag >= 0 && bag < bags, ErrorKind::Index, "_bag_argmax: index ", k,
                     " of bag ", bag, " is out of range for ", weight.size(0), " rows and ", bags, " bags");
        if (k == padding) return;
        int64_t* best = out.data<int64_t>() + bag * width;
        for (int64_t c = 0; c < width; ++c) {
          if (!seen[static_cast<size_t>(bag)] || static_cast<double>(table[k * row_step + c * step]) >
                                                     static_cast<double>(table[best[c] * row_step + c * step]))
            best[c] = k;
        }
        seen[static_cast<size_t>(bag)] = true;
      });
    }
  });
}

void bag_members_cpu(const Tensor& bag_of, const Tensor& sizes, const Tensor& indices, const Tensor& offsets,
                     int64_t rows, int64_t padding) {
  const int64_t n = indices.numel(), places = offsets.numel();
  const int64_t *at = offsets.data<int64_t>(), *index = indices.data<int64_t>();
  FACULA_CHECK(places == 0 || at[0] == 0, ErrorKind::Runtime, "embedding_bag: offsets[0] must be 0, got ", at[0]);
  one_by_one(places, 1, [&](int64_t i) {
    FACULA_CHECK(at[i] <= n && (i == 0 || at[i] >= at[i - 1]), ErrorKind::Runtime,
                 "embedding_bag: offsets must not decrease nor exceed the number of indices ", n, ", got offsets[", i,
                 "] = ", at[i]);
  });
  one_by_one(n, 1, [&](int64_t i) {
    FACULA_CHECK(index[i] >= 0 && index[i] < rows, ErrorKind::Runtime,
                 "embedding_bag: Expected idx >= 0 && idx < num_embeddings (", rows, "), got idx ", index[i],
                 " at position ", i);
  });
  int64_t *bags = bag_of.data<int64_t>(), *count = sizes.data<int64_t>();
  std::fill_n(count, sizes.numel(), 0);
  const LockRelease release(n > kGrain);
  LongWork told;
  one_by_one(sizes.numel(), 1, [&](int64_t bag) {
    const int64_t end = bag + 1 < places ? at[bag + 1] : n;
    for (int64_t i = at[bag]; i < end; ++i) {
      bags[i] = bag;
      count[bag] += index[i] != padding;
      told.did(1);
    }
  });
  // what lies past the last offset belongs to no bag
  const int64_t last = sizes.numel() < places ? at[sizes.numel()] : n;
  for (int64_t i = last; i < n; ++i) bags[i] = sizes.numel();
}

}  // namespace

void register_embedding() {
  bag_argmax_kernel.set(DeviceType::CPU, bag_argmax_cpu);
  bag_members_kernel.set(DeviceType::CPU, bag_members_cpu);
}

}  // namespace facula::cpu

// Bags of embeddings on the CPU.
#include "ops/embedding.h"

#include <vector>

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
        FACULA_CHECK(k >= 0 && k < weight.size(0) && bag >= 0 && bag < bags, ErrorKind::Index, "embedding_bag: index ",
                     k, " of bag ", bag, " is out of range for ", weight.size(0), " rows and ", bags, " bags");
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

}  // namespace

void register_embedding() { bag_argmax_kernel.set(DeviceType::CPU, bag_argmax_cpu); }

}  // namespace facula::cpu

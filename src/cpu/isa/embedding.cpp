// Bags of embeddings: rows of a table added up bag by bag.
#include "ops/embedding.h"

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "cpu/isa/row_sum.h"

namespace facula::cpu::FACULA_ISA {
namespace {

void bag_sum_cpu(const Tensor& out, const Tensor& weight, const Tensor& rows, const Tensor& bag_of,
                 const Tensor& factors, int64_t padding) {
  const int64_t bags = out.size(0), width = out.size(1), n = rows.numel();
  const int64_t *of = bag_of.data<int64_t>(), *end = of + n;
  FACULA_CHECK(std::is_sorted(of, end) && (n == 0 || (*of >= 0 && end[-1] < bags)), ErrorKind::Runtime,
               "embedding_bag: bags in order and below ", bags);
  LockRelease unlocked(n * width > kGrain);
  visit_floating("embedding_bag", out.dtype(), [&]<class T, class A>(T, A) {
    const int64_t grain = std::max<int64_t>(1, kGrain * bags / std::max<int64_t>(n * width, 1));
    parallel_for(0, bags, grain, [&](int64_t from, int64_t to) {
      std::vector<A> room(static_cast<size_t>(width));
      const int64_t* at = std::lower_bound(of, end, from);
      for (int64_t bag = from; bag < to; ++bag) {
        const int64_t* next = std::find_if(at, end, [=](int64_t b) { return b != bag; });
        const T* own = factors.defined() ? factors.data<T>() + (at - of) : nullptr;
        RowSum<T, A>{"embedding_bag",
                     weight.data<T>(),
                     weight.stride(0),
                     weight.size(0),
                     padding,
                     rows.data<int64_t>() + (at - of),
                     own,
                     next - at,
                     end - at}
            .sum(out.data<T>() + bag * width, width, room.data());
        at = next;
      }
    });
  });
}

}  // namespace

void register_embedding() { bag_sum_kernel.set(DeviceType::CPU, bag_sum_cpu); }

}  // namespace facula::cpu::FACULA_ISA

// Bags of embeddings: rows of a table added up bag by bag.
#include "ops/embedding.h"

#include <algorithm>
#include <vector>

#include "core/asking.h"
#include "core/parallel.h"
#include "cpu/isa/row_sum.h"
#include "cpu/serial.h"

namespace facula::cpu::FACULA_ISA {
namespace {

void bag_sum_cpu(const Tensor& out, const Tensor& weight, const Tensor& rows, const Tensor& bag_of,
                 const Tensor& factors, int64_t padding) {
  const int64_t bags = out.size(0), width = out.size(1), n = rows.numel();
  const int64_t *of = bag_of.data<int64_t>(), *end = of + n;
  int64_t falls = 0;
  FACULA_SIMD
  for (int64_t i = 0; i < n - 1; ++i) falls += of[i] > of[i + 1];
  FACULA_CHECK(falls == 0 && (n == 0 || (*of >= 0 && end[-1] < bags)), ErrorKind::Runtime,
               "embedding_bag: bags in order and below ", bags);
  LockRelease unlocked(n * width > kGrain);
  visit_floating("embedding_bag", out.dtype(), [&]<class T, class A>(T, A) {
    const int64_t grain = std::max<int64_t>(1, kGrain * bags / std::max<int64_t>(n * width, 1));
    parallel_for(0, bags, grain, [&](int64_t from, int64_t to) {
      std::vector<A> room(static_cast<size_t>(width));
      const int64_t* at = std::lower_bound(of, end, from);
      for (int64_t bag = from; bag < to; ++bag) {
        const int64_t* next = std::upper_bound(at, end, bag);
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

/// The first of the numbers that is outside of [0, rows), or `n`. A pass that asks nothing of each finds whether there
/// is one.
int64_t first_outside(const int64_t* index, int64_t n, int64_t rows) {
  const auto outside = [=](int64_t i) { return index[i] < 0 || index[i] >= rows; };
  int64_t first = n;
  sliced_for(0, n, kGrain, [&](int64_t from, int64_t to) {
    int64_t count = 0;
    FACULA_SIMD
    for (int64_t i = from; i < to; ++i) count += (index[i] < 0) | (index[i] >= rows);
    while (count && first == n && !outside(from)) ++from;
    if (count && first == n) first = from;
  });
  return first;
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
  const LockRelease release(n > kGrain);
  const int64_t bad = first_outside(index, n, rows);
  FACULA_CHECK(bad == n, ErrorKind::Runtime, "embedding_bag: expected 0 <= index < ", rows, ", got ", index[bad],
               " at position ", bad);
  int64_t *bags = bag_of.data<int64_t>(), *count = sizes.data<int64_t>();
  LongWork work;
  one_by_one(sizes.numel(), 1, [&](int64_t bag) {
    const int64_t end = bag + 1 < places ? at[bag + 1] : n;
    int64_t padded = 0;
    for (int64_t from = at[bag]; from < end; from += kGrain) {
      const int64_t to = std::min(end, from + kGrain);
      std::fill(bags + from, bags + to, bag);
      if (padding >= 0) padded += std::count(index + from, index + to, padding);
      work.did(to - from);
    }
    count[bag] = end - at[bag] - padded;
  });
  // what lies past the last offset belongs to no bag
  std::fill(bags + (sizes.numel() < places ? at[sizes.numel()] : n), bags + n, sizes.numel());
}

}  // namespace

void register_embedding() {
  bag_sum_kernel.set(DeviceType::CPU, bag_sum_cpu);
  bag_members_kernel.set(DeviceType::CPU, bag_members_cpu);
}

}  // namespace facula::cpu::FACULA_ISA

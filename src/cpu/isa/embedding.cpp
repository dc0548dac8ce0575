// Bags of embeddings: rows of a table added up bag by bag.
#include "ops/embedding.h"

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "cpu/isa/floating.h"
#include "cpu/isa/lanes.h"

namespace facula::cpu::FACULA_ISA {
namespace {

// The rows of one bag, and what each is multiplied by (null for 1).
template <class T, class A>
struct Bag {
  const T* table;
  int64_t row_step, table_rows, padding;
  const int64_t* rows;
  const T* factors;
  int64_t count;

  /// Calls f(row, factor) for the rows that count.
  template <class F>
  void each_row(F f) const {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t k = rows[i];
      FACULA_CHECK(k >= 0 && k < table_rows, ErrorKind::Index, "embedding_bag: indices must lie in [0, ", table_rows,
                   "), got ", k);
      if (k != padding) f(table + k * row_step, factors ? load(factors[i]) : A(1));
    }
  }

  /// `vectors` vectors of columns, from column `at` on; their sums stay in registers.
  template <int vectors>
  void sum_vectors(T* out, int64_t at) const {
    constexpr int64_t lanes = VectorOf<T>::lanes;
    typename VectorOf<T>::type sums[vectors] = {};
    each_row([&](const T* row, A factor) {
      for (int v = 0; v < vectors; ++v) sums[v] += load_vector(row + at + v * lanes) * factor;
    });
    std::memcpy(out + at, sums, sizeof sums);
  }

  void sum(T* out, int64_t width, A* room) const {
    int64_t at = 0;
    if constexpr (std::is_same_v<T, A>) {
      constexpr int64_t lanes = VectorOf<T>::lanes;
      for (; at + 8 * lanes <= width; at += 8 * lanes) sum_vectors<8>(out, at);
      for (; at + lanes <= width; at += lanes) sum_vectors<1>(out, at);
    }
    if (at == width) return;
    std::fill_n(room, width - at, A(0));
    each_row([&](const T* row, A factor) {
      FACULA_SIMD
      for (int64_t c = at; c < width; ++c) room[c - at] += load(row[c]) * factor;
    });
    for (int64_t c = at; c < width; ++c) out[c] = T(room[c - at]);
  }
};

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
        Bag<T, A>{weight.data<T>(), weight.stride(0), weight.size(0), padding, rows.data<int64_t>() + (at - of), own,
                  next - at}
            .sum(out.data<T>() + bag * width, width, room.data());
        at = next;
      }
    });
  });
}

}  // namespace

void register_embedding() { bag_sum_kernel.set(DeviceType::CPU, bag_sum_cpu); }

}  // namespace facula::cpu::FACULA_ISA

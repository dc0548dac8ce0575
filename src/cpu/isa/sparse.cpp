// Sparse matrices on the CPU: entries ordered by counting, products with strided matrices.
#include "ops/sparse.h"

#include <vector>

#include "core/parallel.h"
#include "cpu/isa/by_size.h"
#include "cpu/isa/row_sum.h"

namespace facula::cpu::FACULA_ISA {
namespace {

bool row_bounds_cpu(const Tensor& bounds, const Tensor& rows) {
  const int64_t n = rows.numel(), limit = bounds.numel() - 1;
  const int64_t* row = rows.data<int64_t>();
  int64_t* bound = bounds.data<int64_t>();
  std::fill_n(bound, limit + 1, 0);
  bool in_order = true;
  int64_t before = 0;
  for (int64_t i = 0; i < n; ++i) {
    FACULA_CHECK(row[i] >= 0 && row[i] < limit, ErrorKind::Index, "mm: indices must lie in [0, ", limit, "), got ",
                 row[i]);
    in_order &= row[i] >= before;
    before = row[i];
    ++bound[before + 1];
  }
  for (int64_t r = 0; r < limit; ++r) bound[r + 1] += bound[r];
  return in_order;
}

// Every thread looks at all entries and moves those of its rows.
void order_entries_cpu(const Tensor& columns_out, const Tensor& values_out, const Tensor& bounds, const Tensor& rows,
                       const Tensor& columns, const Tensor& values) {
  const int64_t n = rows.numel(), limit = bounds.numel() - 1;
  const int64_t *row = rows.data<int64_t>(), *column = columns.data<int64_t>(), *bound = bounds.data<int64_t>();
  int64_t* to_column = columns_out.data<int64_t>();
  const int64_t pieces = n > kGrain ? num_threads() : 1, grain = std::max<int64_t>(1, (limit + pieces - 1) / pieces);
  LockRelease unlocked(n > kGrain);
  visit_size(item_size(values.dtype()), [&]<class T>(TypeTag<T>) {
    const T* value = values.data<T>();
    T* to_value = values_out.data<T>();
    parallel_for(0, limit, grain, [&](int64_t from, int64_t to) {
      std::vector<int64_t> next(bound + from, bound + to);
      for (int64_t i = 0; i < n; ++i) {
        if (row[i] < from || row[i] >= to) continue;
        const int64_t at = next[static_cast<size_t>(row[i] - from)]++;
        to_column[at] = column[i];
        to_value[at] = value[i];
      }
    });
  });
}

void check_bounds(const int64_t* bound, int64_t rows, int64_t entries) {
  for (int64_t r = 0; r < rows; ++r)
    FACULA_CHECK(bound[r] >= 0 && bound[r] <= bound[r + 1] && bound[r + 1] <= entries, ErrorKind::Runtime,
                 "mm: compressed indices must not decrease nor exceed the number of entries ", entries, ", got ",
                 bound[r], " and ", bound[r + 1]);
}

// Rows are divided by their entries, so that threads have as much to do.
void sparse_rows_cpu(const Tensor& out, const Tensor& bounds, const Tensor& columns, const Tensor& values,
                     const Tensor& dense) {
  const int64_t rows = out.size(0), width = out.size(1), n = columns.numel();
  const int64_t *bound = bounds.data<int64_t>(), *column = columns.data<int64_t>();
  check_bounds(bound, rows, n);
  LockRelease unlocked(n * width > kGrain);
  visit_floating("mm", out.dtype(), [&]<class T, class A>(T, A) {
    const int64_t grain = std::max<int64_t>(1, kGrain * rows / std::max<int64_t>(n * width, 1));
    parallel_for(0, rows, grain, [&](int64_t from, int64_t to) {
      std::vector<A> room(static_cast<size_t>(width));
      for (int64_t r = from; r < to; ++r) {
        const int64_t at = bound[r];
        RowSum<T, A>{"mm",        dense.data<T>(),       dense.stride(0),   dense.size(0), -1,
                     column + at, values.data<T>() + at, bound[r + 1] - at, n - at}
            .sum(out.data<T>() + r * width, width, room.data());
      }
    });
  });
}

template <class T, class A>
A row_product(const T* x, const T* y, int64_t width) {
  constexpr int64_t lanes = VectorOf<A>::lanes;
  typename VectorOf<A>::type sums = {};
  int64_t at = 0;
  if constexpr (std::is_same_v<T, A>)
    for (; at + lanes <= width; at += lanes) sums += load_vector(x + at) * load_vector(y + at);
  A total = merge_lanes<1>(sums, [](auto p, auto q) { return p + q; })[0];
  for (; at < width; ++at) total += load(x[at]) * load(y[at]);
  return total;
}

void sampled_rows_cpu(const Tensor& out, const Tensor& rows, const Tensor& columns, const Tensor& a, const Tensor& b) {
  const int64_t n = rows.numel(), width = a.size(1);
  const int64_t *row = rows.data<int64_t>(), *column = columns.data<int64_t>();
  LockRelease unlocked(n * width > kGrain);
  visit_floating("mm", out.dtype(), [&]<class T, class A>(T, A) {
    const RowSum<T, A> ahead{"mm", b.data<T>(), b.stride(0), b.size(0), -1, column, nullptr, n, n};
    const int64_t bytes = width * static_cast<int64_t>(sizeof(T));
    parallel_for(0, n, std::max<int64_t>(1, kGrain / std::max<int64_t>(width, 1)), [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        ahead.fetch(i + ahead.kAhead, 0, bytes);
        FACULA_CHECK(row[i] >= 0 && row[i] < a.size(0) && column[i] >= 0 && column[i] < b.size(0), ErrorKind::Index,
                     "mm: indices must lie in [0, ", a.size(0), ") and [0, ", b.size(0), "), got ", row[i], " and ",
                     column[i]);
        out.data<T>()[i] =
            T(row_product<T, A>(a.data<T>() + row[i] * a.stride(0), b.data<T>() + column[i] * b.stride(0), width));
      }
    });
  });
}

}  // namespace

void register_sparse() {
  row_bounds_kernel.set(DeviceType::CPU, row_bounds_cpu);
  order_entries_kernel.set(DeviceType::CPU, order_entries_cpu);
  sparse_rows_kernel.set(DeviceType::CPU, sparse_rows_cpu);
  sampled_rows_kernel.set(DeviceType::CPU, sampled_rows_cpu);
}

}  // namespace facula::cpu::FACULA_ISA

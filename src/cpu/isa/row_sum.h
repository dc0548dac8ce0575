// Rows of a table, named by their numbers, added up with factors: a bag of embeddings, or a row of a sparse matrix.
#pragma once

#include <algorithm>

#include "core/error.h"
#include "cpu/isa/floating.h"
#include "cpu/isa/lanes.h"

namespace facula::cpu::FACULA_ISA {

template <class T, class A>
struct RowSum {
  const char* op;
  const T* table;
  int64_t row_step, table_rows, padding;
  const int64_t* rows;
  const T* factors;  // null for 1
  int64_t count;
  int64_t readable;  // numbers from `rows` on that are there, `count` or more: those behind are only fetched ahead

  // Rows lie anywhere, so nothing but this fetches them in time, where the table is larger than the near caches.
  static constexpr int64_t kAhead = 12, kNearBytes = 1 << 19;

  void fetch(int64_t i, int64_t at, int64_t bytes) const {
    if (i >= readable) return;
    const auto row = static_cast<uintptr_t>(rows[i]) * static_cast<uintptr_t>(row_step) + static_cast<uintptr_t>(at);
    const auto place = reinterpret_cast<uintptr_t>(table) + row * sizeof(T);
    for (int64_t b = 0; b < std::min<int64_t>(bytes, 1024); b += 64)
      __builtin_prefetch(reinterpret_cast<const char*>(place + static_cast<uintptr_t>(b)));
  }

  /// Calls f(row, factor) for the rows that count; `bytes` from column `at` on are fetched ahead.
  template <class F>
  void each_row(int64_t at, int64_t bytes, F f) const {
    const bool far = table_rows > kNearBytes / (std::max<int64_t>(row_step, 1) * static_cast<int64_t>(sizeof(T)));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t k = rows[i];
      if (far) fetch(i + kAhead, at, bytes);
      FACULA_CHECK(k >= 0 && k < table_rows, ErrorKind::Index, op, ": indices must lie in [0, ", table_rows, "), got ",
                   k);
      if (k != padding) f(table + k * row_step, factors ? load(factors[i]) : A(1));
    }
  }

  /// `vectors` vectors of columns, from column `at` on; their sums stay in registers.
  template <int vectors>
  void sum_vectors(T* out, int64_t at) const {
    constexpr int64_t lanes = VectorOf<T>::lanes;
    typename VectorOf<T>::type sums[vectors] = {};
    each_row(at, vectors * kVectorBytes, [&](const T* row, A factor) {
      for (int v = 0; v < vectors; ++v) sums[v] += load_vector(row + at + v * lanes) * factor;
    });
    std::memcpy(out + at, sums, sizeof sums);
  }

  /// The sums in `out`; `room` has `width` elements.
  void sum(T* out, int64_t width, A* room) const {
    int64_t at = 0;
    if constexpr (std::is_same_v<T, A>) {
      constexpr int64_t lanes = VectorOf<T>::lanes;
      for (; at + 8 * lanes <= width; at += 8 * lanes) sum_vectors<8>(out, at);
      if (at + 4 * lanes <= width) sum_vectors<4>(out, at), at += 4 * lanes;
      if (at + 2 * lanes <= width) sum_vectors<2>(out, at), at += 2 * lanes;
      if (at + lanes <= width) sum_vectors<1>(out, at), at += lanes;
    }
    if (at == width) return;
    std::fill_n(room, width - at, A(0));
    each_row(at, (width - at) * static_cast<int64_t>(sizeof(T)), [&](const T* row, A factor) {
      FACULA_SIMD
      for (int64_t c = at; c < width; ++c) room[c - at] += load(row[c]) * factor;
    });
    for (int64_t c = at; c < width; ++c) out[c] = T(room[c - at]);
  }
};

}  // namespace facula::cpu::FACULA_ISA

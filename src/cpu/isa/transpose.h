// A matrix read along one dimension and written along the other, by squares that are transposed in registers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "cpu/isa/by_size.h"

namespace facula::cpu::FACULA_ISA {

constexpr int64_t kTile = 16;  // the largest side of a square

// Elements by their size only, whatever their type.
template <class T>
struct Element {
  typedef T type __attribute__((may_alias));
};
template <>
struct Element<Bytes16> {
  using type = Bytes16;
};

template <class T>
constexpr int kSide = std::min<int>(kTile, kVectorBytes / static_cast<int>(sizeof(T)));  // of a square

template <class T>
struct Square {
  static constexpr int N = kSide<T>;
  typedef T Row __attribute__((vector_size(N * sizeof(T))));

  // Exchanges the blocks of side S off the diagonal of every block of side 2 S.
  template <int S, int... lane>
  static void exchange(Row* row, std::integer_sequence<int, lane...>) {
    for (int i = 0; i < N; ++i) {
      if (i & S) continue;
      Row a = row[i], b = row[i + S];
      row[i] = __builtin_shufflevector(a, b, (lane & S ? N + lane - S : lane)...);
      row[i + S] = __builtin_shufflevector(a, b, (lane & S ? N + lane : lane + S)...);
    }
  }
  template <int S = 1>
  static void transpose(Row* row) {
    exchange<S>(row, std::make_integer_sequence<int, N>());
    if constexpr (2 * S < N) transpose<2 * S>(row);
  }
  static void copy(const char* in, int64_t in_row, char* out, int64_t out_row) {
    Row row[N];
    for (int i = 0; i < N; ++i) std::memcpy(&row[i], in + i * in_row, sizeof(Row));
    transpose(row);
    for (int i = 0; i < N; ++i) std::memcpy(out + i * out_row, &row[i], sizeof(Row));
  }
};

// `rows` and `columns` of the output, whose rows are contiguous.
template <class T>
void transpose_scalar(const char* in, int64_t in_row, char* out, int64_t out_row, int64_t rows, int64_t columns) {
  using E = typename Element<T>::type;
  for (int64_t r = 0; r < rows; ++r) {
    E* o = reinterpret_cast<E*>(out + r * out_row);
    for (int64_t c = 0; c < columns; ++c) o[c] = reinterpret_cast<const E*>(in + c * in_row)[r];
  }
}

template <class T>
void transpose_tiles(const char* in, int64_t in_row, char* out, int64_t out_row, int64_t rows, int64_t columns) {
  constexpr int64_t N = kSide<T>, item = sizeof(T);
  for (int64_t c = 0; c < columns; c += N) {
    const char* from = in + c * in_row;
    char* to = out + c * item;
    int64_t r = 0;
    if (columns - c >= N) {
      for (; r + N <= rows; r += N) Square<T>::copy(from + r * item, in_row, to + r * out_row, out_row);
    }
    transpose_scalar<T>(from + r * item, in_row, to + r * out_row, out_row, rows - r, std::min(N, columns - c));
  }
}

/// transpose_tiles for elements of `item` bytes.
using TransposeFn = void (*)(const char* in, int64_t in_row, char* out, int64_t out_row, int64_t rows, int64_t columns);
TransposeFn transpose_for(int64_t item);

}  // namespace facula::cpu::FACULA_ISA

// Batcher's odd-even merge sort: which places are put in order one after the other does not depend on what is in them,
// so rows are sorted side by side.
#include "cpu/sort_lanes.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "cpu/isa.h"
#include "cpu/isa/transpose.h"

namespace facula::cpu::FACULA_ISA {
namespace {

using V = Square<int64_t>::Row;
constexpr int kSideOf = Square<int64_t>::N;  // rows whose elements one vector holds

struct Compared {
  uint8_t low, high;
};

/// Calls f(i, j) for the places of `n` elements, a power of two, that the sort puts in order one after the other.
template <class F>
constexpr void each_compared(int n, F f) {
  for (int merged = 1; merged < n; merged *= 2) {
    for (int apart = merged; apart > 0; apart /= 2) {
      for (int from = apart % merged; from + apart < n; from += 2 * apart) {
        for (int i = from; i < from + apart && i + apart < n; ++i) {
          if (i / (2 * merged) == (i + apart) / (2 * merged)) f(i, i + apart);
        }
      }
    }
  }
}

template <int n>
constexpr auto network() {
  constexpr int count = [] {
    int counted = 0;
    each_compared(n, [&](int, int) { ++counted; });
    return counted;
  }();
  std::array<Compared, count> all{};
  size_t k = 0;
  each_compared(n, [&](int i, int j) { all[k++] = {static_cast<uint8_t>(i), static_cast<uint8_t>(j)}; });
  return all;
}

[[gnu::always_inline]] inline void put_in_order(V& a, V& b) {
  const V smaller = a < b ? a : b, larger = a < b ? b : a;
  a = smaller;
  b = larger;
}

/// Rows from `first` on, as many as a vector has lanes; what is sorted stays in registers where there are enough.
template <int n>
void sort_vectors(ShortRows& rows, int first, int64_t wanted) {
  static constexpr auto compared = network<n>();
  V v[n];
#pragma GCC unroll 32
  for (int at = 0; at < n; at += kSideOf) {
    for (int i = 0; i < kSideOf; ++i) std::memcpy(&v[at + i], rows.row[first + i] + at, sizeof(V));
    Square<int64_t>::transpose(v + at);
  }
  [&]<size_t... k>(std::index_sequence<k...>) {
    (put_in_order(v[compared[k].low], v[compared[k].high]), ...);
  }(std::make_index_sequence<compared.size()>());
#pragma GCC unroll 32
  for (int at = 0; at < n; at += kSideOf) {
    if (at >= wanted) break;
    Square<int64_t>::transpose(v + at);
    for (int i = 0; i < kSideOf; ++i) std::memcpy(rows.row[first + i] + at, &v[at + i], sizeof(V));
  }
}

void sort_rows_isa(ShortRows& rows, int64_t width, int64_t wanted) {
  for (int first = 0; first < kRowsTogether; first += kSideOf) {
    if (width == 8) sort_vectors<8>(rows, first, wanted);
    else if (width == 16) sort_vectors<16>(rows, first, wanted);
    else sort_vectors<32>(rows, first, wanted);
  }
}

void keys_of_floats_isa(const float* in, int64_t n, bool descending, int64_t* row) {
  constexpr uint32_t kTop = uint32_t{1} << 31;
  const uint32_t turned = descending ? ~kTop : kTop;  // with the sign that comparing 64 bits takes it for
  FACULA_SIMD
  for (int64_t i = 0; i < n; ++i) {
    const float value = in[i] + 0.0f;  // -0 equals 0
    const auto bits = std::bit_cast<uint32_t>(value);
    uint32_t key = bits ^ (bits >> 31 ? ~uint32_t{0} : kTop);
    key = value == value ? key : ~uint32_t{0};
    row[i] = static_cast<int64_t>(static_cast<uint64_t>(key ^ turned) << 32 | static_cast<uint64_t>(i));
  }
}

}  // namespace

void register_sort_lanes() {
  sort_rows_together = sort_rows_isa;
  keys_of_floats = keys_of_floats_isa;
}

}  // namespace facula::cpu::FACULA_ISA

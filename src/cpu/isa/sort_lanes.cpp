// Batcher's odd-even merge sort: which places are put in order one after the other does not depend on what is in them,
// so rows are sorted side by side.
#include "cpu/sort_lanes.h"

#include <array>
#include <cstring>
#include <utility>

#include "cpu/isa.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr size_t kVectors = sizeof(Lanes) / kVectorBytes;  // of lanes
typedef int64_t V __attribute__((vector_size(kVectorBytes)));

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

/// A vector of every place, in registers where there are enough of them.
template <int n>
void sort_vectors(Lanes* lanes, size_t part) {
  static constexpr auto compared = network<n>();
  const auto memory = [&](size_t i) { return reinterpret_cast<char*>(lanes + i) + part * kVectorBytes; };
  V v[n];
#pragma GCC unroll 32
  for (size_t i = 0; i < n; ++i) std::memcpy(&v[i], memory(i), sizeof(V));
  [&]<size_t... k>(std::index_sequence<k...>) {
    (put_in_order(v[compared[k].low], v[compared[k].high]), ...);
  }(std::make_index_sequence<compared.size()>());
#pragma GCC unroll 32
  for (size_t i = 0; i < n; ++i) std::memcpy(memory(i), &v[i], sizeof(V));
}

void sort_lanes_isa(Lanes* lanes, int64_t width) {
  for (size_t part = 0; part < kVectors; ++part) {
    if (width == 8) sort_vectors<8>(lanes, part);
    else if (width == 16) sort_vectors<16>(lanes, part);
    else sort_vectors<32>(lanes, part);
  }
}

}  // namespace

void register_sort_lanes() { sort_lanes = sort_lanes_isa; }

}  // namespace facula::cpu::FACULA_ISA

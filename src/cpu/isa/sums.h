// Sums of contiguous elements, in as many vectors as hide the time that an addition takes.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "cpu/isa/float_lanes.h"
#include "cpu/isa/lanes.h"

namespace facula::cpu::FACULA_ISA {

// Loops are given a function of a reader `at`: at(p) is p[i] for the present i, or a vector of p[i] and its neighbors,
// in the compute type.
template <class A>
struct VectorAt {
  int64_t i;
  template <class T>
  [[gnu::always_inline]] auto operator()(const T* p) const {
    static_assert(std::is_same_v<Computed<T>, A>);
    return load_wide(p + i);
  }
};
template <class A>
struct ElementAt {
  int64_t i;
  template <class T>
  [[gnu::always_inline]] A operator()(const T* p) const {
    return load(p[i]);
  }
};

template <class A>
A sum_of_lanes(typename VectorOf<A>::type v) {
  return merge_all(v, [](auto a, auto b) { return a + b; });
}

/// The sums of both parts of f(at) over n elements, in four vectors each: for a few hundred elements, as what enters a
/// lane is added up one by one.
template <class A, class F>
std::pair<A, A> sums_of(int64_t n, F f) {
  using V = typename VectorOf<A>::type;
  constexpr int64_t lanes = VectorOf<A>::lanes;
  V first[4] = {}, second[4] = {};
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const auto [x, y] = f(VectorAt<A>{i + k * lanes});
      first[k] += x;
      second[k] += y;
    }
  }
  for (; i + lanes <= n; i += lanes) {
    const auto [x, y] = f(VectorAt<A>{i});
    first[0] += x;
    second[0] += y;
  }
  A a = sum_of_lanes<A>((first[0] + first[1]) + (first[2] + first[3]));
  A b = sum_of_lanes<A>((second[0] + second[1]) + (second[2] + second[3]));
  for (; i < n; ++i) {
    const auto [x, y] = f(ElementAt<A>{i});
    a += x;
    b += y;
  }
  return {a, b};
}

template <class V>
struct Two {
  V first, second;
};

/// The sum of f(at) alone, in the same order.
template <class A, class F>
A sum_by(int64_t n, F f) {
  using V = typename VectorOf<A>::type;
  constexpr int64_t lanes = VectorOf<A>::lanes;
  V p = {}, q = {}, r = {}, s = {};
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    p += f(VectorAt<A>{i});
    q += f(VectorAt<A>{i + lanes});
    r += f(VectorAt<A>{i + 2 * lanes});
    s += f(VectorAt<A>{i + 3 * lanes});
  }
  for (; i + lanes <= n; i += lanes) p += f(VectorAt<A>{i});
  A total = i ? sum_of_lanes<A>((p + q) + (r + s)) : A(0);
  for (; i < n; ++i) total += f(ElementAt<A>{i});
  return total;
}

/// The sum of n elements.
template <class T>
T sum_of(int64_t n, const T* p) {
  return sum_by<T>(n, [=](auto at) { return at(p); });
}

#if defined(__AVX512F__)
/// As VectorAt, where only the first n lanes are there.
template <class A>
struct FirstAt {
  int64_t i, n;
  template <class T>
  [[gnu::always_inline]] auto operator()(const T* p) const {
    return load_wide_first(p + i, n);
  }
};
#endif

/// out[i] = f(at) for n elements.
template <class T, class F>
[[gnu::always_inline]] inline void write_by(int64_t n, T* out, F f) {
  using A = Computed<T>;
  constexpr int64_t lanes = VectorOf<A>::lanes;
  int64_t i = 0;
  if constexpr (is_narrow<T>) {
    for (; i + 2 * lanes <= n; i += 2 * lanes) store_neighbors(out + i, f(VectorAt<A>{i}), f(VectorAt<A>{i + lanes}));
  }
  for (; i + lanes <= n; i += lanes) store_rounded(out + i, f(VectorAt<A>{i}));
#if defined(__AVX512F__)
  if constexpr (!is_narrow<T>) {
    if (i < n) store_first(out + i, n - i, f(FirstAt<A>{i, n - i}));
    return;
  }
#endif
  for (; i < n; ++i) out[i] = rounded<T>(f(ElementAt<A>{i}));
}

/// Rows that go into sums of columns together: these are in memory, where reading and writing them for every row takes
/// longer than adding.
constexpr int64_t kRowsTogether = 4;

/// f(first row, whether kRowsTogether rows or one) for rows [0, rows).
template <class F>
[[gnu::always_inline]] inline void by_rows_together(int64_t rows, F f) {
  int64_t r = 0;
  for (; r + kRowsTogether <= rows; r += kRowsTogether) f(r, std::true_type());
  for (; r < rows; ++r) f(r, std::false_type());
}

/// The sum of f(row) over kRowsTogether rows, or of f(0) alone.
template <bool together, class F>
[[gnu::always_inline]] inline auto sum_of_rows(F f) {
  if constexpr (together) return (f(0) + f(1)) + (f(2) + f(3));
  else return f(0);
}

/// first[i] and second[i] = the parts of f(at).
template <class A, class F>
[[gnu::always_inline]] inline void write_both_by(int64_t n, A* first, A* second, F f) {
  constexpr int64_t lanes = VectorOf<A>::lanes;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto [x, y] = f(VectorAt<A>{i});
    store_rounded(first + i, x);
    store_rounded(second + i, y);
  }
#if defined(__AVX512F__)
  if (i < n) {
    const auto [x, y] = f(FirstAt<A>{i, n - i});
    store_first(first + i, n - i, x);
    store_first(second + i, n - i, y);
  }
  return;
#endif
  for (; i < n; ++i) {
    const auto [x, y] = f(ElementAt<A>{i});
    first[i] = x;
    second[i] = y;
  }
}

}  // namespace facula::cpu::FACULA_ISA

// Rows of contiguous tensors, read as vectors of 16 bytes. Those that fit are in the registers of a group of threads,
// which requests all of its vectors before it looks at the first; longer ones are read by a block, as often as needed.
#pragma once

#include "lines.cuh"
#include "vector.cuh"

namespace facula::cuda {

/// Elements of a vector: 16 bytes, but 8 at most.
template <class M>
constexpr int kRowWide = sizeof(M) <= 2 ? 8 : 16 / int(sizeof(M));

/// The blocks of 256 threads that are to fit a multiprocessor at once, where each thread holds so many vectors. That
/// they are said at all keeps the compiler from saving registers that loads in flight need.
template <class M, bool kWhole>
constexpr int row_blocks(int held) {
  constexpr int kRegisters = kWhole && sizeof(Compute<M>) == 4 ? 64 : 32;  // for elements, of 128
  return held * kRowWide<M> * int(sizeof(Compute<M>)) > 4 * kRegisters ? 1 : 2;
}

template <class M, int n>
using Computed = Vector<Compute<M>, n>;

/// The vectors from `first` on that a thread of a group has of a row, `kHeld` of them, a group apart. Which elements
/// those are depends on the row's length and dtype alone: where the row does not lie or end at multiples of a vector
/// (kWhole is false), they are read and written one by one.
template <class M, int kWarps, int kHeld, bool kWhole>
struct HeldRow {
  static constexpr int kWide = kRowWide<M>, kGroup = group_threads(kWarps);
  static constexpr bool kHolds = true;
  using C = Compute<M>;
  int n, member;
  Computed<M, kWide> held[kHeld];

  /// Calls f(k, place) for each vector, its k-th, whose elements begin at the place.
  template <class F>
  FACULA_FN void each_vector(F f) const {
#pragma unroll
    for (int k = 0; k < kHeld; ++k)
      if (const int place = (member + k * kGroup) * kWide; place < n) f(k, place);
  }
  /// Calls f(element, place) for each.
  template <class F>
  FACULA_FN void each(F f) {
    each_vector([&](int k, int place) {
#pragma unroll
      for (int j = 0; j < kWide; ++j)
        if (kWhole || place + j < n) f(held[k].at[j], place + j);
    });
  }
  /// Calls f(element, the other row's) for each.
  template <class F>
  FACULA_FN void each_with(const HeldRow& other, F f) {
    each_vector([&](int k, int place) {
#pragma unroll
      for (int j = 0; j < kWide; ++j)
        if (kWhole || place + j < n) f(held[k].at[j], other.held[k].at[j]);
    });
  }
  FACULA_FN void load(const M* row) {
    Vector<M, kWide> read[kHeld];
    each_vector([&](int k, int place) {
      if constexpr (kWhole) {
        read[k] = load_vector<kWide>(row + place);
      } else {
#pragma unroll
        for (int j = 0; j < kWide; ++j)
          if (place + j < n) read[k].at[j] = row[place + j];
      }
    });
    each_vector([&](int k, int) { held[k] = widen_all(read[k]); });
  }
  FACULA_FN void store(M* row) const {
    each_vector([&](int k, int place) {
      const Vector<M, kWide> made = narrow_all<M>(held[k]);
      if constexpr (kWhole) {
        store_vector(row + place, made);
      } else {
#pragma unroll
        for (int j = 0; j < kWide; ++j)
          if (place + j < n) row[place + j] = made.at[j];
      }
    });
  }
};

/// How many elements of a row lie before the first that is at a multiple of a vector's size.
template <int kWide, class M>
FACULA_FN Int64 before_vectors(const M* row, Int64 n) {
  const Int64 before = Int64(-(reinterpret_cast<UInt64>(row) / sizeof(M)) % kWide);
  return before < n ? before : n;
}

constexpr int kRowThreads = 256;  // of a block that reads a long row

/// Shares n elements among the threads of a group: calls act<width, many>(place) for `many` vectors of `width`
/// elements, of which the first begins at the place and each other one kThreads vectors behind the one before. These
/// are vectors of kWide elements where there are whole ones behind the first `before` elements, else single elements.
template <int kThreads, int kWide, int kMany, class F>
FACULA_FN void share_row(int member, Int64 before, Int64 n, F act) {
  constexpr int kStep = kThreads * kWide;
  const Int64 end = before + (n - before) / kWide * kWide;
  Int64 place = before + member * kWide;
#pragma unroll 1
  for (; place + (kMany - 1) * kStep < end; place += kMany * kStep) act.template operator()<kWide, kMany>(place);
#pragma unroll 1
  for (; place < end; place += kStep) act.template operator()<kWide, 1>(place);
  if constexpr (kWide > 1) {
    const Int64 rest = member < before ? member : end + member - before;
    if (rest < n) act.template operator()<1, 1>(rest);
  }
}
/// What an act of share_row() reads.
template <int kThreads, int kWidth, int kMany, class M>
FACULA_FN void read_share(Computed<M, kWidth> (&to)[kMany], const M* row, Int64 place) {
  Vector<M, kWidth> read[kMany];
#pragma unroll
  for (int m = 0; m < kMany; ++m) read[m] = load_vector<kWidth>(row + place + m * kThreads * kWidth);
#pragma unroll
  for (int m = 0; m < kMany; ++m) to[m] = widen_all(read[m]);
}
template <int kThreads, class M, int kWidth, int kMany>
FACULA_FN void write_share(M* row, Int64 place, const Computed<M, kWidth> (&from)[kMany]) {
#pragma unroll
  for (int m = 0; m < kMany; ++m) store_vector(row + place + m * kThreads * kWidth, narrow_all<M>(from[m]));
}
/// Calls f(element, m, j) for each: the j-th of the m-th vector.
template <class C, int kWidth, int kMany, class F>
FACULA_FN void each_of(Vector<C, kWidth> (&vectors)[kMany], F f) {
#pragma unroll
  for (int m = 0; m < kMany; ++m)
#pragma unroll
    for (int j = 0; j < kWidth; ++j) f(vectors[m].at[j], m, j);
}

// ---- exponentials of what is at most zero, relative to the largest element of a row

/// The larger one, a number where the other is NaN: a NaN of a row comes back with its exponential.
struct LargerNumber {
  template <class C>
  FACULA_FN static C merge(C a, C b) {
#if FACULA_ARCH
    if constexpr (is_same_type<C, float>) return fmaxf(a, b);
#endif
    return kernels::fmax(a, b);
  }
};
/// e^x to within 2^-22 of the result and of the exponent; results that are no normal numbers become 0.
FACULA_FN float share_of(float x) {
#if FACULA_ARCH
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * float(kernels::log2_e)));
  return result;
#else
  return kernels::exp(x);
#endif
}
FACULA_FN double share_of(double x) { return kernels::exp(x); }

/// The largest element so far, and the sum of exponentials relative to it.
template <class C>
struct Exponentials {
  C top = -kernels::Float<C>::largest, total = 0;

  FACULA_FN void raise(C to) {
    if (!(to > top)) return;
    total *= share_of(top - to);
    top = to;
  }
  template <int kWidth, int kMany>
  FACULA_FN void add(Vector<C, kWidth> (&x)[kMany]) {
    C most = top;
    each_of(x, [&](C& v, int, int) { most = LargerNumber::merge(most, v); });
    raise(most);
    each_of(x, [&](C& v, int, int) { total += share_of(v - top); });
  }
};
struct MergeExponentials {
  template <class E>
  FACULA_FN static E merge(E a, E b) {
    const bool b_is_higher = b.top > a.top;
    const E high = b_is_higher ? b : a, low = b_is_higher ? a : b;
    return {high.top, kernels::mul_add(low.total, share_of(low.top - high.top), high.total)};
  }
};

/// Those of a row of n elements, by a block, whose threads read kMany vectors at once.
template <int kWide, int kMany, class C, class M>
FACULA_FN Exponentials<C> row_exponentials(const M* row, Int64 before, Int64 n, Exponentials<C>* room) {
  Exponentials<C> sum;
  share_row<kRowThreads, kWide, kMany>(threadIdx.x, before, n, [&]<int kWidth, int kCount>(Int64 place) {
    Vector<C, kWidth> part[kCount];
    read_share<kRowThreads>(part, row, place);
    sum.add(part);
  });
  return fold_block<MergeExponentials>(sum, room);
}

}  // namespace facula::cuda

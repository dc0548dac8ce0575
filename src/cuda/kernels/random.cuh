// Tensors filled with random numbers. The formulas are those that PyTorch's documentation and results show, so that the
// same seed gives the same numbers on the same kind of device.
#pragma once

#include "choices.h"
#include "philox.cuh"
#include "vector.cuh"

namespace facula::cuda {

using kernels::Distribution;

/// What numbers of a type are drawn as.
template <class T>
struct DrawnAs {
  using type = float;
};
template <>
struct DrawnAs<double> {
  using type = double;
};

// In single precision PyTorch takes the device's quick approximations.
#if defined(FACULA_EMULATED_KERNEL)
FACULA_FN float quick_log(float x) { return FACULA_LIBM(logf)(x); }
FACULA_FN float quick_exp(float x) { return FACULA_LIBM(expf)(x); }
FACULA_FN float quick_tan(float x) { return FACULA_LIBM(tanf)(x); }
#else
FACULA_FN float quick_log(float x) { return __logf(x); }
FACULA_FN float quick_exp(float x) { return __expf(x); }
FACULA_FN float quick_tan(float x) { return __tanf(x); }
#endif
FACULA_FN double quick_log(double x) { return FACULA_LIBM(log)(x); }
FACULA_FN double quick_exp(double x) { return FACULA_LIBM(exp)(x); }
FACULA_FN double quick_tan(double x) { return FACULA_LIBM(tan)(x); }
FACULA_FN float log_of_rest(float p) { return quick_log(1.0f - p); }
FACULA_FN double log_of_rest(double p) { return FACULA_LIBM(log1p)(-p); }

/// One of a distribution of real numbers, from a number in (0, 1] or a normal one, as what T is computed with.
template <Distribution d, class T, class F>
FACULA_FN Compute<T> real_value(F x, const FillArgs& f) {
  const F a = F(f.a), b = F(f.b), epsilon = kernels::Float<F>::epsilon;
  if constexpr (d == Distribution::Uniform) {
    const T first = convert<T>(f.a), excluded = convert<T>(f.b);
    const F from = convert<F>(first), width = convert<F>(convert<T>(convert<F>(excluded) - from));
    const T value = convert<T>(kernels::fma(x, width, from));
    return convert<F>(value) == convert<F>(excluded) ? convert<F>(first) : convert<F>(value);  // rounding reaches ends
  } else if constexpr (d == Distribution::Normal) {
    return convert<Compute<T>>(kernels::fma(x, b, a));
  } else if constexpr (d == Distribution::LogNormal) {
    return convert<Compute<T>>(quick_exp(kernels::fma(x, b, a)));
  } else if constexpr (d == Distribution::Bernoulli) {
    return convert<Compute<T>>(x < a || a >= F(1));
  } else if constexpr (d == Distribution::Exponential) {
    const F logarithm = x >= F(1) - epsilon / 2 ? -epsilon / 2 : quick_log(x);
    return convert<Compute<T>>(F(-1) / a * logarithm);
  } else if constexpr (d == Distribution::Cauchy) {
    const F inside = sizeof(F) == 8 ? x : kernels::clamp(x, epsilon, F(1) - epsilon);
    return convert<Compute<T>>(a + b * quick_tan(F(kernels::pi) * (inside - F(0.5))));
  } else {  // Geometric; 1 would give no trial at all
    const F trials = kernels::ceil(quick_log(x) / log_of_rest(a));
    return convert<Compute<T>>(trials < F(1) ? F(1) : trials);
  }
}

/// Writes neighbors, of which `count` may be fewer than all.
template <class T, int kNext>
FACULA_FN void store_some(T* to, const Vector<T, kNext>& elements, Int64 count) {
  if (count >= kNext) return store_vector(to, elements);
  for (int j = 0; j < kNext; ++j)
    if (j < count) to[j] = elements.at[j];
}

/// A thread draws for kNext threads of PyTorch's, so that what it writes are vectors.
template <class T, int kDistribution, int kNext>
__global__ __launch_bounds__(256) void random_real(void* out, Int64 count, FillArgs f, PhiloxStart start) {
  constexpr Distribution d = Distribution(kDistribution);
  using F = typename DrawnAs<T>::type;
  for_neighbors<kDrawn<F>, kNext>(start, count, [&](Int64 first, Int64 apart, const Words* words) {
    Draws<F> draws[kNext];
#pragma unroll
    for (int j = 0; j < kNext; ++j) {
      if constexpr (d == Distribution::Normal || d == Distribution::LogNormal) normals_of(words[j], draws[j]);
      else units_of(words[j], draws[j]);
    }
#pragma unroll
    for (int k = 0; k < kDrawn<F>; ++k, first += apart) {
      if (first >= count) return;
      Vector<Compute<T>, kNext> made;
#pragma unroll
      for (int j = 0; j < kNext; ++j) made.at[j] = real_value<d, T>(draws[j].at[k], f);
      store_some(static_cast<T*>(out) + first, narrow_all<T>(made), count - first);
    }
  });
}

/// base + a word modulo `range`; all 64 bits where `range` is 0. Wide: from two words.
template <class T, bool wide>
FACULA_FN Compute<T> whole_value(const Words& words, int k, const FillArgs& f) {
  UInt64 value = wide ? UInt64(words.at[2 * k & 3]) << 32 | words.at[(2 * k + 1) & 3] : words.at[k];
  if (f.range) value = wide ? value % f.range : UInt32(value) % UInt32(f.range);
  value += UInt64(f.base);
  if constexpr (is_same_type<T, UInt64>) return value;
  else return convert<Compute<T>>(Int64(value));
}

template <class T, bool wide, int kNext>
__global__ __launch_bounds__(256) void random_whole(void* out, Int64 count, FillArgs f, PhiloxStart start) {
  constexpr int kWide = wide ? 2 : 4;
  for_neighbors<kWide, kNext>(start, count, [&](Int64 first, Int64 apart, const Words* words) {
#pragma unroll
    for (int k = 0; k < kWide; ++k, first += apart) {
      if (first >= count) return;
      Vector<Compute<T>, kNext> made;
#pragma unroll
      for (int j = 0; j < kNext; ++j) made.at[j] = whole_value<T, wide>(words[j], k, f);
      store_some(static_cast<T*>(out) + first, narrow_all<T>(made), count - first);
    }
  });
}

/// 1 with the probability in p, of type P: a subsequence for every four neighbors, of single precision always.
template <class T, class P>
__global__ __launch_bounds__(256) void random_bernoulli(void* out, const void* p, Int64 count, PhiloxStart start) {
  using F = typename DrawnAs<T>::type;
  for (Int64 four = thread_number(); 4 * four < count; four += thread_count()) {
    Draws<float> draws;
    units_of(Philox(start, UInt64(four)).next(), draws);
    for (int k = 0; k < 4; ++k)
      if (const Int64 i = 4 * four + k; i < count)
        static_cast<T*>(out)[i] = convert<T>(F(draws.at[k]) <= F(static_cast<const P*>(p)[i]));
  }
}

/// 0 where dropout lets an element fall. PyTorch's kernel takes kVec neighbors at a time, with four numbers for each
/// four of them or less, where vectors of the elements can be read (`F` is what it computes them in).
template <class F, int kVec>
__global__ __launch_bounds__(256) void random_kept(void* out, Int64 count, double keep, PhiloxStart start) {
  const F limit = F(keep);
  bool* kept = static_cast<bool*>(out);
  if constexpr (kVec == 1) {
    for_draws<4>(start, count, [&](Int64 first, Int64 apart, const Words& words) {
      for (int k = 0; k < 4; ++k)
        if (const Int64 i = first + k * apart; i < count) kept[i] = F(unit_of(words.at[k])) < limit;
    });
  } else {
    constexpr int kOfCall = kVec < 4 ? kVec : 4;
    Philox philox(start, UInt64(thread_number()));
    for (Int64 first = thread_number() * kVec; first < count; first += thread_count() * kVec) {
      Vector<bool, kVec> made;
      for (int call = 0; call < kVec / kOfCall; ++call) {
        const Words words = philox.next();
        for (int k = 0; k < kOfCall; ++k) made.at[4 * call + k] = F(unit_of(words.at[k])) < limit;
      }
      *reinterpret_cast<Vector<bool, kVec>*>(kept + first) = made;
    }
  }
}

/// 1 where a value is positive, else evenly from [lower, upper].
template <class T>
__global__ __launch_bounds__(256) void random_slopes(void* out, const void* values, Int64 count, double lower,
                                                     double upper, PhiloxStart start) {
  using F = typename DrawnAs<T>::type;
  for_draws<kDrawn<F>>(start, count, [&](Int64 first, Int64 apart, const Words& words) {
    Draws<F> draws;
    units_of(words, draws);
    for (int k = 0; k < kDrawn<F>; ++k) {
      const Int64 i = first + k * apart;
      if (i >= count) return;
      const double even = convert<double>(convert<T>(draws.at[k])), slope = kernels::fma(even, upper - lower, lower);
      static_cast<T*>(out)[i] = convert<T>(convert<F>(static_cast<const T*>(values)[i]) <= F(0) ? slope : 1.0);
    }
  });
}

// ---- permutations

/// What is sorted by: `mask` has the lowest bits set that count. All whole numbers of Key but the largest are drawn;
/// those are signed in PyTorch, which is seen where the highest bit counts.
template <class Key>
__global__ __launch_bounds__(256) void random_keys(void* out, Int64 count, UInt64 mask, PhiloxStart start) {
  constexpr Key kSign = Key(1) << (8 * sizeof(Key) - 1);
  for_draws<2>(start, count, [&](Int64 first, Int64 apart, const Words& words) {
    for (int k = 0; k < 2; ++k) {
      const UInt64 drawn = (UInt64(words.at[2 * k]) << 32 | words.at[2 * k + 1]) % UInt64(Key(-1));
      const Key key = Key(Key(drawn) + kSign), ordered = Key(mask) & kSign ? key ^ kSign : key;
      if (const Int64 i = first + k * apart; i < count) static_cast<Key*>(out)[i] = ordered & Key(mask);
    }
  });
}

/// Permutes the numbers of equal neighboring keys: the thread of the first of them does.
template <class Key, class Number>
__global__ __launch_bounds__(256) void permute_ties(const void* sorted, void* numbers, Int64 count, PhiloxStart start) {
  const Key* keys = static_cast<const Key*>(sorted);
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    if (i > 0 && keys[i - 1] == keys[i]) continue;
    Int64 size = 1;
    while (i + size < count && keys[i + size] == keys[i]) ++size;
    if (size == 1) continue;
    Number* tied = static_cast<Number*>(numbers) + i;
    WordSource source(start, UInt64(i));
    for (Int64 last = size - 1; last > 0; --last) {
      const Int64 other = Int64(source.word() % UInt32(last + 1));
      const Number kept = tied[last];
      tied[last] = tied[other];
      tied[other] = kept;
    }
  }
}

}  // namespace facula::cuda

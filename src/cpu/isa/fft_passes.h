// The passes of a block of transforms, one in every lane: from where points lie, through buffers, to where they go.
#pragma once

#include <algorithm>

#include "cpu/fft.h"
#include "cpu/isa/fft_lanes.h"

namespace facula::cpu::FACULA_ISA {

/// Where a pass reads or writes: complex numbers of neighboring transforms in a tensor, `step` numbers from point to
/// point, or a buffer.
template <class T>
struct ColumnIn {
  const T* at;
  int64_t step;
  T sign;
  FACULA_INLINE Points<T> load(int64_t i) const {
    Points<T> p = load_complex(at + i * step);
    return {p.re, p.im * sign};
  }
};
template <class T>
struct ColumnOut {
  T* at;
  int64_t step;
  T re, im;
  FACULA_INLINE void store(int64_t i, Points<T> p) const { store_complex(at + i * step, {p.re * re, p.im * im}); }
};
template <class T>
struct BufferIn {
  const T* at;
  FACULA_INLINE Points<T> load(int64_t i) const { return load_pair(at + i * kPair<T>); }
};
template <class T>
struct BufferOut {
  T* at;
  FACULA_INLINE void store(int64_t i, Points<T> p) const { store_pair(at + i * kPair<T>, p); }
};

// Contiguous lines of complex numbers that are 16 bytes, which move as they are: a vector is made of those of every
// second line, so that the shuffles inside of 16 bytes put the lines into the lanes in order.
template <class T>
struct Number16 {
  typedef T type __attribute__((vector_size(16)));
};

template <class V, int... i>
FACULA_INLINE auto joined(V a, V b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, i...);
}
/// The numbers of lines first, first + 2, ..., `count` of them.
template <int count, class T>
FACULA_INLINE auto load_numbers(const T* const* line, int first, int64_t i) {
  if constexpr (count == 1) {
    typename Number16<T>::type v;
    std::memcpy(&v, line[first] + 2 * i, sizeof v);
    return v;
  } else {
    return joined(load_numbers<count / 2>(line, first, i), load_numbers<count / 2>(line, first + count, i),
                  std::make_integer_sequence<int, 2 * count>());
  }
}
template <int k, class T>
FACULA_INLINE void store_number(T* const* line, int first, int64_t i, Lanes<T> v) {
  const typename Number16<T>::type number = __builtin_shufflevector(v, v, 2 * k, 2 * k + 1);
  std::memcpy(line[first + 2 * k] + 2 * i, &number, sizeof number);
}
template <class T, int... k>
FACULA_INLINE void store_numbers(T* const* line, int first, int64_t i, Lanes<T> v, std::integer_sequence<int, k...>) {
  (store_number<k, T>(line, first, i, v), ...);
}

template <class T>
struct RowsIn {
  const T* line[kLanes<T>];
  T sign;
  RowsIn(const FftBlock<T>& b, T sign) : sign(sign) {
    for (int lane = 0; lane < kLanes<T>; ++lane) line[lane] = b.in + 2 * b.in_line[lane];
  }
  FACULA_INLINE Points<T> load(int64_t i) const {
    constexpr int count = kLanes<T> / 2;
    Points<T> p;
    unpack<1, T>(load_numbers<count>(line, 0, i), load_numbers<count>(line, 1, i), p.re, p.im,
                 std::make_integer_sequence<int, kLanes<T>>());
    return {p.re, p.im * sign};
  }
};
template <class T>
struct RowsOut {
  T* line[kLanes<T>];
  T re, im;
  RowsOut(const FftBlock<T>& b, T re, T im) : re(re), im(im) {
    for (int lane = 0; lane < kLanes<T>; ++lane) line[lane] = b.out + 2 * b.out_line[lane];
  }
  FACULA_INLINE void store(int64_t i, Points<T> p) const {
    constexpr auto numbers = std::make_integer_sequence<int, kLanes<T> / 2>();
    Lanes<T> even, odd;
    unpack<1, T>(p.re * re, p.im * im, even, odd, std::make_integer_sequence<int, kLanes<T>>());
    store_numbers<T>(line, 0, i, even, numbers);
    store_numbers<T>(line, 1, i, odd, numbers);
  }
};

template <int radix, class T, class In, class Out>
FACULA_INLINE void butterfly(const In& in, int64_t from, int64_t apart, const Out& out, int64_t to, int64_t stride,
                             const T* w) {
  Points<T> a[radix];
  FACULA_UNROLL
  for (int k = 0; k < radix; ++k) a[k] = in.load(from + k * apart);
  Butterfly<radix>::run(a);
  out.store(to, a[0]);
  FACULA_UNROLL
  for (int j = 1; j < radix; ++j) {
    if (w) a[j] = times(a[j], w[2 * j - 2], w[2 * j - 1]);
    out.store(to + j * stride, a[j]);
  }
}

/// The first of several passes: neighboring points have factors of their own.
template <int radix, class T, class In>
[[gnu::noinline]] void first_pass(const FftStage& s, const In& in, T* out, const T* w) {
  for (int64_t p = 0; p < s.count; ++p, w += 2 * (radix - 1))
    butterfly<radix, T>(in, p, s.count, BufferOut<T>{out}, radix * p, 1, w);
}

template <int radix, class T>
[[gnu::noinline]] void middle_pass(const FftStage& s, const T* in, T* out, const T* w) {
  const int64_t apart = s.stride * s.count;
  for (int64_t p = 0; p < s.count; ++p, w += 2 * (radix - 1)) {
    for (int64_t q = 0; q < s.stride; ++q)
      butterfly<radix, T>(BufferIn<T>{in}, q + s.stride * p, apart, BufferOut<T>{out}, q + s.stride * radix * p,
                          s.stride, w);
  }
}

/// The last pass has no factors.
template <int radix, class T, class In, class Out>
[[gnu::noinline]] void last_pass(const FftStage& s, const In& in, const Out& out) {
  for (int64_t q = 0; q < s.stride; ++q)
    butterfly<radix, T>(in, q, s.stride, out, q, s.stride, static_cast<const T*>(nullptr));
}

/// A radix without a butterfly of its own, by sums over pairs of points.
template <class T, class In, class Out>
[[gnu::noinline]] void any_radix(const FftStage& s, const In& in, const Out& out, const T* w, const T* roots) {
  constexpr int most = fft::kLargestRadix / 2;
  const int half = static_cast<int>(s.radix / 2);
  const int64_t apart = s.stride * s.count;
  Points<T> sum[most], difference[most];
  for (int64_t p = 0; p < s.count; ++p, w += 2 * (s.radix - 1)) {
    for (int64_t q = 0; q < s.stride; ++q) {
      const int64_t from = q + s.stride * p, to = q + s.stride * s.radix * p;
      const Points<T> first = in.load(from);
      Points<T> total = first;
      for (int k = 0; k < half; ++k) {
        const Points<T> a = in.load(from + (k + 1) * apart), b = in.load(from + (s.radix - 1 - k) * apart);
        sum[k] = a + b;
        difference[k] = a - b;
        total = total + sum[k];
      }
      out.store(to, total);
      const T* root = roots;
      for (int64_t j = 1; j <= half; ++j) {
        Points<T> even = first, odd{};
        for (int k = 0; k < half; ++k, root += 2) {
          even = even + sum[k] * root[0];
          odd = odd + difference[k] * root[1];
        }
        const int64_t mirror = s.radix - j;
        const T *a = w + 2 * (j - 1), *b = w + 2 * (mirror - 1);
        out.store(to + j * s.stride, times(add_minus_i(even, odd), a[0], a[1]));
        out.store(to + mirror * s.stride, times(add_i(even, odd), b[0], b[1]));
      }
    }
  }
}

template <class T, class In>
void run_first(const FftLanes<T>& plan, const In& in, T* out) {
  const FftStage& s = plan.stages.front();
  const T* w = plan.factors.data() + s.twiddles;
  switch (s.radix) {
    case 2: return first_pass<2>(s, in, out, w);
    case 3: return first_pass<3>(s, in, out, w);
    case 4: return first_pass<4>(s, in, out, w);
    case 5: return first_pass<5>(s, in, out, w);
    case 7: return first_pass<7>(s, in, out, w);
    case 8: return first_pass<8>(s, in, out, w);
    default: return any_radix(s, in, BufferOut<T>{out}, w, plan.factors.data() + s.roots);
  }
}

template <class T>
void run_middle(const FftLanes<T>& plan, const FftStage& s, const T* in, T* out) {
  const T* w = plan.factors.data() + s.twiddles;
  switch (s.radix) {
    case 2: return middle_pass<2>(s, in, out, w);
    case 3: return middle_pass<3>(s, in, out, w);
    case 4: return middle_pass<4>(s, in, out, w);
    case 5: return middle_pass<5>(s, in, out, w);
    case 7: return middle_pass<7>(s, in, out, w);
    case 8: return middle_pass<8>(s, in, out, w);
    default: return any_radix(s, BufferIn<T>{in}, BufferOut<T>{out}, w, plan.factors.data() + s.roots);
  }
}

template <class T, class In, class Out>
void run_last(const FftLanes<T>& plan, const In& in, const Out& out) {
  const FftStage& s = plan.stages.back();
  switch (s.radix) {
    case 2: return last_pass<2, T>(s, in, out);
    case 3: return last_pass<3, T>(s, in, out);
    case 4: return last_pass<4, T>(s, in, out);
    case 5: return last_pass<5, T>(s, in, out);
    case 7: return last_pass<7, T>(s, in, out);
    case 8: return last_pass<8, T>(s, in, out);
    default: return any_radix(s, in, out, plan.factors.data() + s.twiddles, plan.factors.data() + s.roots);
  }
}

/// All passes but the last, between two buffers; where the points are afterwards.
template <class T>
T* run_but_last(const FftLanes<T>& plan, size_t next, T* points, T* spare) {
  for (; next + 1 < plan.stages.size(); ++next) {
    run_middle(plan, plan.stages[next], points, spare);
    std::swap(points, spare);
  }
  return points;
}

/// Transforms what a buffer holds, and gives back which one holds the result.
template <class T>
T* transform_smooth(const FftLanes<T>& plan, T* points, T* spare) {
  if (plan.stages.empty()) return points;  // of one point
  T* last = run_but_last(plan, 0, points, spare);
  T* out = last == points ? spare : points;
  run_last(plan, BufferIn<T>{last}, BufferOut<T>{out});
  return out;
}

template <class T>
FACULA_INLINE Points<T> conjugated(Points<T> p) {
  return {p.re, -p.im};
}

template <class T>
T* transform_buffer(const FftLanes<T>& plan, T* points, T* spare) {
  if (!plan.convolution) return transform_smooth(plan, points, spare);
  const T *chirp = plan.chirp.factors.data(), *kernel = plan.chirp.kernel.data();
  const int64_t n = plan.n, length = plan.convolution->n;
  for (int64_t i = 0; i < n; ++i) {
    T* at = points + i * kPair<T>;
    store_pair(at, times(load_pair(at), chirp[2 * i], chirp[2 * i + 1]));
  }
  std::fill(points + n * kPair<T>, points + length * kPair<T>, T(0));
  T* spectrum = transform_smooth(*plan.convolution, points, spare);
  for (int64_t i = 0; i < length; ++i) {
    T* at = spectrum + i * kPair<T>;
    store_pair(at, conjugated(times(load_pair(at), kernel[2 * i], kernel[2 * i + 1])));
  }
  T* result = transform_smooth(*plan.convolution, spectrum, spectrum == points ? spare : points);
  for (int64_t i = 0; i < n; ++i) {
    T* at = result + i * kPair<T>;
    store_pair(at, times(conjugated(load_pair(at)), chirp[2 * i], chirp[2 * i + 1]));
  }
  return result;
}

}  // namespace facula::cpu::FACULA_ISA

// Fourier transforms: Stockham's algorithm in shared memory, in which passes over longer lines are made.
#pragma once

#include "block.cuh"
#include "fft_args.h"

namespace facula::cuda {

template <class T>
using Cx = kernels::Complex<T>;

template <class T>
FACULA_FN Cx<T> conj_if(bool wanted, Cx<T> z) {
  return wanted ? Cx<T>{z.re, -z.im} : z;
}
/// -i z
template <class T>
FACULA_FN Cx<T> over_i(Cx<T> z) {
  return {z.im, -z.re};
}

// ---- points in memory

FACULA_FN bool is_real_point(const FftPass& f, Int64 point) { return point == 0 || 2 * point == f.halved; }

/// The place of a number in its line: neighbor + inner * point.
template <class T>
FACULA_FN Cx<T> load_point(const FftPass& f, Int64 line, Int64 place) {
  const Int64 start = line * f.in.points * f.inner;
  const bool plain = !f.in.real && !f.in.mirrored && !f.in.factors;
  if (plain) return conj_if(f.in.conjugated, static_cast<const Cx<T>*>(f.in.data)[start + place]);
  const Int64 point = place / f.inner;
  bool conjugated = f.in.conjugated;
  Cx<T> z{T(0), T(0)};
  if (f.in.mirrored) {
    if (point >= f.halved) return z;
    if (point >= f.in.points) {
      place += (f.halved - 2 * point) * f.inner;
      conjugated = !conjugated;
    }
    z = static_cast<const Cx<T>*>(f.in.data)[start + place];
    if (is_real_point(f, point)) z.im = T(0);
  } else {
    if (point >= f.in.points) return z;
    if (f.in.real) z.re = static_cast<const T*>(f.in.data)[start + place];
    else z = static_cast<const Cx<T>*>(f.in.data)[start + place];
  }
  z = conj_if(conjugated, z);
  return f.in.factors ? z * static_cast<const Cx<T>*>(f.in.factors)[point] : z;
}

template <class T>
FACULA_FN void store_point(const FftPass& f, Int64 line, Int64 place, Cx<T> z) {
  z = conj_if(f.out.conjugated_first, z);
  if (f.out.factors || f.out.points * f.inner != f.count * f.stride * f.size) {
    const Int64 point = place / f.inner;
    if (point >= f.out.points) return;
    if (f.out.factors) z = z * static_cast<const Cx<T>*>(f.out.factors)[point];
    if (f.out.points < f.halved && is_real_point(f, point)) z.im = T(0);
  }
  z = conj_if(f.out.conjugated, z) * T(f.out.scale);
  const Int64 at = line * f.out.points * f.inner + place;
  if (f.out.real) static_cast<T*>(f.out.data)[at] = z.re;
  else static_cast<Cx<T>*>(f.out.data)[at] = z;
}

// ---- butterflies: the transform of the R points x

template <int R, class T>
struct Butterfly;

template <class T>
struct Butterfly<2, T> {
  FACULA_FN static void run(Cx<T>* x, const Cx<T>*, int) {
    const Cx<T> a = x[0];
    x[0] = a + x[1];
    x[1] = a - x[1];
  }
};
template <class T>
struct Butterfly<4, T> {
  FACULA_FN static void run(Cx<T>* x, const Cx<T>*, int) {
    const Cx<T> a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = over_i(x[1] - x[3]);
    x[0] = a + c;
    x[1] = b + d;
    x[2] = a - c;
    x[3] = b - d;
  }
};
template <class T>
struct Butterfly<8, T> {
  FACULA_FN static void run(Cx<T>* x, const Cx<T>*, int) {
    Cx<T> even[4] = {x[0], x[2], x[4], x[6]}, odd[4] = {x[1], x[3], x[5], x[7]};
    Butterfly<4, T>::run(even, nullptr, 0);
    Butterfly<4, T>::run(odd, nullptr, 0);
    const T h = T(0.70710678118654752440);
    odd[1] = Cx<T>{odd[1].re + odd[1].im, odd[1].im - odd[1].re} * h;
    odd[2] = over_i(odd[2]);
    odd[3] = Cx<T>{odd[3].im - odd[3].re, -odd[3].re - odd[3].im} * h;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      x[j] = even[j] + odd[j];
      x[j + 4] = even[j] - odd[j];
    }
  }
};
/// Odd radices; `step` roots of the table are one of the R-th. Points j and R - j share their products.
template <int R, class T>
struct Butterfly {
  FACULA_FN static void run(Cx<T>* x, const Cx<T>* roots, int step) {
    constexpr int kHalf = R / 2;
    Cx<T> sum[kHalf], difference[kHalf], first = x[0];
#pragma unroll
    for (int k = 1; k <= kHalf; ++k) {
      sum[k - 1] = x[k] + x[R - k];
      difference[k - 1] = over_i(x[k] - x[R - k]);
      x[0] += sum[k - 1];
    }
#pragma unroll
    for (int j = 1; j <= kHalf; ++j) {
      Cx<T> a = first, b{T(0), T(0)};
#pragma unroll
      for (int k = 1; k <= kHalf; ++k) {
        const Cx<T> w = roots[j * k % R * step];
        a += sum[k - 1] * w.re;
        b += difference[k - 1] * -w.im;
      }
      x[j] = a + b;
      x[R - j] = a - b;
    }
  }
};

/// One pass over the block's lines of n points, whose first places are `pitch` apart.
template <class T>
struct SharedPass {
  const Cx<T>* from;
  Cx<T>* to;
  const Cx<T>* roots;
  int n, lines, pitch, count, stride;

  template <int R>
  FACULA_FN void run() const {
    const int each = n / R, total = each * lines;
    for (int b = threadIdx.x; b < total; b += blockDim.x) {
      const int line = b / each, at = b - line * each, p = at / stride, q = at - p * stride;
      const Cx<T>* in = from + line * pitch + at;
      Cx<T>* out = to + line * pitch + q + stride * R * p;
      Cx<T> x[R];
#pragma unroll
      for (int k = 0; k < R; ++k) x[k] = in[each * k];
      Butterfly<R, T>::run(x, roots, each);
      out[0] = x[0];
#pragma unroll
      for (int j = 1; j < R; ++j) out[stride * j] = p ? x[j] * roots[p * stride * j] : x[j];
    }
  }
  /// Any radix: a thread makes a point.
  FACULA_FN void run_any(int radix) const {
    const int each = n / radix, total = n * lines;
    for (int b = threadIdx.x; b < total; b += blockDim.x) {
      const int line = b / n, place = b - line * n, j = place / each, at = place - j * each;
      const int p = at / stride, q = at - p * stride;
      const Cx<T>* in = from + line * pitch + at;
      Cx<T> sum = in[0];
      for (int k = 1, turn = j; k < radix; ++k) {
        sum += in[each * k] * roots[turn * each];
        turn = turn + j < radix ? turn + j : turn + j - radix;
      }
      to[line * pitch + q + stride * (radix * p + j)] = sum * roots[p * stride * j];
    }
  }
  FACULA_FN void run(int radix) const {
    switch (radix) {
      case 2: return run<2>();
      case 3: return run<3>();
      case 4: return run<4>();
      case 5: return run<5>();
      case 7: return run<7>();
      case 8: return run<8>();
      default: return run_any(radix);
    }
  }
};

// ---- a pass

/// Which line of the pass, and where in the tensors' line.
struct FftPlace {
  Int64 line, q, p;
};
FACULA_FN FftPlace fft_place(const FftPass& f, Int64 number) {
  const Int64 each = f.count * f.stride, line = each == 1 ? number : number / each, u = number - line * each;
  const Int64 p = f.count == 1 ? 0 : u / f.stride;
  return {line, u - p * f.stride, p};
}

/// Between passes points are turned by exp(-2 pi i k / (size * count)).
template <class T>
FACULA_FN Cx<T> turned(const FftPass& f, Cx<T> z, Int64 k) {
  const auto *coarse = static_cast<const Cx<double>*>(f.coarse), *fine = static_cast<const Cx<double>*>(f.fine);
  const Cx<double> w = coarse[k >> f.shift] * fine[k & ((Int64(1) << f.shift) - 1)];
  return z * Cx<T>{T(w.re), T(w.im)};
}

template <class T>
__global__ __launch_bounds__(256) void fft_pass(FftPass f) {
  FACULA_DYNAMIC_SHARED(Cx<T>, points);
  const int n = f.size, pitch = f.pitch, most = 1 << f.lines_log, total = n * most;
  const Int64 each = f.count * f.stride, all = f.outer * each;
  for (Int64 first = Int64(blockIdx.x) * most; first < all; first += Int64(gridDim.x) * most) {
    const int lines = all - first < most ? int(all - first) : most;
    Cx<T>*from = points, *to = points + most * pitch;
    for (int e = threadIdx.x; e < total; e += blockDim.x) {
      const int line = f.lines_adjacent_in ? e & (most - 1) : e / n;
      const int k = f.lines_adjacent_in ? e >> f.lines_log : e - line * n;
      if (line >= lines) continue;
      const FftPlace at = fft_place(f, first + line);
      from[line * pitch + k] = load_point<T>(f, at.line, at.q + f.stride * at.p + each * k);
    }
    __syncthreads();
    int count = n, stride = 1;
    for (int i = 0; i < f.radices; ++i) {
      const int radix = f.radix[i];
      count /= radix;
      SharedPass<T>{from, to, static_cast<const Cx<T>*>(f.roots), n, lines, pitch, count, stride}.run(radix);
      stride *= radix;
      Cx<T>* other = from;
      from = to;
      to = other;
      __syncthreads();
    }
    for (int e = threadIdx.x; e < total; e += blockDim.x) {
      const int line = f.lines_adjacent_out ? e & (most - 1) : e / n;
      const int j = f.lines_adjacent_out ? e >> f.lines_log : e - line * n;
      if (line >= lines) continue;
      const FftPlace at = fft_place(f, first + line);
      Cx<T> z = from[line * pitch + j];
      if (f.coarse) z = turned(f, z, at.p * j);
      store_point(f, at.line, at.q + f.stride * (at.p * n + j), z);
    }
    __syncthreads();
  }
}

/// Point n - k is the conjugate of point k.
template <class T>
__global__ __launch_bounds__(256) void fft_mirror(FftMirror f) {
  const Int64 all = f.outer * f.points * f.inner, half_points = f.points / 2 + 1;
  for (Int64 i = thread_number(); i < all; i += thread_count()) {
    const Int64 row = i / f.inner, line = row / f.points, point = row - line * f.points;
    const bool beyond = point >= half_points;
    const Int64 from = (line * half_points + (beyond ? f.points - point : point)) * f.inner + (i - row * f.inner);
    static_cast<Cx<T>*>(f.out)[i] = conj_if(beyond != f.conjugated, static_cast<const Cx<T>*>(f.half)[from]);
  }
}

/// The first point and the middle one are real.
template <class T>
__global__ __launch_bounds__(256) void fft_clear_imaginary(FftHalf f) {
  for (Int64 i = thread_number(); i < f.outer * f.inner; i += thread_count()) {
    const Int64 line = i / f.inner;
    Cx<T>* first = static_cast<Cx<T>*>(f.data) + line * f.points * f.inner + (i - line * f.inner);
    first->im = T(0);
    if (f.has_middle) first[(f.points - 1) * f.inner].im = T(0);
  }
}

}  // namespace facula::cuda

// Blocks of Fourier transforms, one in every lane: from tensors into buffers and back, and one long transform. The
// policy is in src/cpu/fft.cpp, the passes are in fft_passes.h.
#include <algorithm>

#include "cpu/isa/fft_passes.h"

namespace facula::cpu::FACULA_ISA {
namespace {

// ---- from tensors into buffers and back

template <class T>
void set_lanes_zero(T* points, int64_t n, int64_t from) {
  for (int64_t i = 0; i < n; ++i) {
    std::fill(points + i * kPair<T> + from, points + i * kPair<T> + kLanes<T>, T(0));
    std::fill(points + i * kPair<T> + kLanes<T> + from, points + (i + 1) * kPair<T>, T(0));
  }
}

/// Whether lines lie next to each other, or each of them is contiguous; and all lanes have theirs.
template <class T>
bool all_adjacent(const FftBlock<T>& b, int64_t lines) {
  return b.adjacent && b.lines == lines;
}

template <class T>
void gather_complex(const FftBlock<T>& b, int64_t n, T sign, T* points) {
  for (int64_t lane = 0; lane < b.lines; ++lane) {
    const T* line = b.in + 2 * b.in_line[lane];
    for (int64_t i = 0; i < n; ++i) {
      points[i * kPair<T> + lane] = line[2 * i * b.in_step];
      points[i * kPair<T> + kLanes<T> + lane] = sign * line[2 * i * b.in_step + 1];
    }
  }
}

/// Whether so many lanes have lines that it takes less time to fill the others with what is already there than to go
/// line by line.
template <class T>
bool fill_lanes(const FftBlock<T>& b, int64_t n) {
  return 4 * b.lines >= kLanes<T> && n >= kLanes<T>;
}

/// A square of complex numbers, `lanes` points of as many contiguous lines; the last line once more where there are
/// less.
template <class T>
FACULA_INLINE void gather_square(const FftBlock<T>& b, int64_t from, T sign, T* points) {
  constexpr int N = kLanes<T>;
  Lanes<T> re[N], im[N];
  FACULA_UNROLL
  for (int i = 0; i < N; ++i) {
    Points<T> p = load_complex(b.in + 2 * (b.in_line[std::min<int64_t>(i, b.lines - 1)] + from));
    re[i] = p.re;
    im[i] = p.im * sign;
  }
  transpose<T>(re);
  transpose<T>(im);
  FACULA_UNROLL
  for (int i = 0; i < N; ++i) store_pair(points + (from + kOrder<T>[i]) * kPair<T>, Points<T>{re[i], im[i]});
}

template <class T>
void load_lines(const FftBlock<T>& b, int64_t n, bool backward, T* points) {
  constexpr int64_t N = kLanes<T>;
  const T sign = backward ? T(-1) : T(1);
  int64_t i = 0;
  if (all_adjacent(b, N)) {
    const ColumnIn<T> in{b.in + 2 * b.in_line[0], 2 * b.in_step, sign};
    for (; i < n; ++i) store_pair(points + i * kPair<T>, in.load(i));
    return;
  }
  if (b.in_step == 1 && fill_lanes(b, n)) {
    for (; i < n; i += N) gather_square(b, std::min(i, n - N), sign, points);
    return;
  }
  if (b.lines < N) set_lanes_zero(points, n, b.lines);
  gather_complex(b, n, sign, points);
}

template <class T>
void scatter_complex(const FftBlock<T>& b, int64_t n, T re, T im, const T* points) {
  for (int64_t lane = 0; lane < b.lines; ++lane) {
    T* line = b.out + 2 * b.out_line[lane];
    for (int64_t i = 0; i < n; ++i) {
      line[2 * i * b.out_step] = re * points[i * kPair<T> + lane];
      line[2 * i * b.out_step + 1] = im * points[i * kPair<T> + kLanes<T> + lane];
    }
  }
}

template <class T>
FACULA_INLINE void scatter_square(const FftBlock<T>& b, int64_t from, T re_factor, T im_factor, const T* points) {
  constexpr int N = kLanes<T>;
  Lanes<T> re[N], im[N];
  FACULA_UNROLL
  for (int i = 0; i < N; ++i) {
    Points<T> p = load_pair(points + (from + kOrder<T>[i]) * kPair<T>);
    re[i] = p.re * re_factor;
    im[i] = p.im * im_factor;
  }
  transpose<T>(re);
  transpose<T>(im);
  FACULA_UNROLL
  for (int i = 0; i < N; ++i) {
    if (i < b.lines) store_complex(b.out + 2 * (b.out_line[i] + from), Points<T>{re[i], im[i]});
  }
}

template <class T>
void store_lines(const FftBlock<T>& b, int64_t n, bool backward, const T* points) {
  constexpr int64_t N = kLanes<T>;
  const T re = static_cast<T>(b.scale), im = backward ? -re : re;
  int64_t i = 0;
  if (all_adjacent(b, N)) {
    const ColumnOut<T> out{b.out + 2 * b.out_line[0], 2 * b.out_step, re, im};
    for (; i < n; ++i) out.store(i, load_pair(points + i * kPair<T>));
    return;
  }
  if (b.out_step == 1 && fill_lanes(b, n)) {
    for (; i < n; i += N) scatter_square(b, std::min(i, n - N), re, im, points);
    return;
  }
  scatter_complex(b, n, re, im, points);
}

// Two real lines are the real and the imaginary parts of a complex one: a lane has the lines `lane` and `lanes + lane`.

template <class T>
void load_real_lines(const FftBlock<T>& b, int64_t n, T* points) {
  constexpr int64_t N = kLanes<T>;
  int64_t i = 0;
  if (all_adjacent(b, 2 * N)) {
    const T* in = b.in + b.in_line[0];
    for (; i < n; ++i, in += b.in_step) store_pair(points + i * kPair<T>, load_pair(in));
    return;
  }
  if (b.lines == 2 * N && b.in_step == 1 && n >= N) {
    for (; i < n; i += N) {
      const int64_t at = std::min(i, n - N);
      for (int64_t part = 0; part < 2; ++part) {
        Lanes<T> row[N];
        FACULA_UNROLL
        for (int r = 0; r < N; ++r) row[r] = load_vector(b.in + b.in_line[part * N + r] + at);
        transpose<T>(row);
        FACULA_UNROLL
        for (int r = 0; r < N; ++r) store_vector(points + (at + r) * kPair<T> + part * N, row[r]);
      }
    }
    return;
  }
  if (b.lines < 2 * N) std::fill(points, points + n * kPair<T>, T(0));
  for (int64_t line = 0; line < b.lines; ++line) {
    for (int64_t k = 0; k < n; ++k) points[k * kPair<T> + line] = b.in[b.in_line[line] + k * b.in_step];
  }
}

template <class T>
void store_real_lines(const FftBlock<T>& b, int64_t n, const T* points) {
  constexpr int64_t N = kLanes<T>;
  const T re = static_cast<T>(b.scale), im = -re;
  int64_t i = 0;
  if (all_adjacent(b, 2 * N)) {
    T* out = b.out + b.out_line[0];
    for (; i < n; ++i, out += b.out_step) {
      Points<T> p = load_pair(points + i * kPair<T>);
      store_pair(out, Points<T>{p.re * re, p.im * im});
    }
    return;
  }
  if (b.lines == 2 * N && b.out_step == 1 && n >= N) {
    for (; i < n; i += N) {
      const int64_t at = std::min(i, n - N);
      for (int64_t part = 0; part < 2; ++part) {
        Lanes<T> row[N];
        FACULA_UNROLL
        for (int r = 0; r < N; ++r) row[r] = load_vector(points + (at + r) * kPair<T> + part * N) * (part ? im : re);
        transpose<T>(row);
        FACULA_UNROLL
        for (int r = 0; r < N; ++r) store_vector(b.out + b.out_line[part * N + r] + at, row[r]);
      }
    }
    return;
  }
  for (int64_t line = 0; line < b.lines; ++line) {
    for (int64_t k = 0; k < n; ++k)
      b.out[b.out_line[line] + k * b.out_step] = points[k * kPair<T> + line] * (line < N ? re : im);
  }
}

/// Halves of the transforms of the two real lines of each lane.
template <class T>
struct TwoHalves {
  Points<T> a, b;
};
template <class T>
FACULA_INLINE TwoHalves<T> two_halves(const T* points, int64_t k, int64_t n, T half) {
  const Points<T> z = load_pair(points + k * kPair<T>), m = load_pair(points + (k ? n - k : 0) * kPair<T>);
  return {Points<T>{z.re + m.re, z.im - m.im} * half, Points<T>{z.im + m.im, m.re - z.re} * half};
}

template <class T>
void store_halves(const FftBlock<T>& b, int64_t n, const T* points) {
  constexpr int64_t N = kLanes<T>;
  const T half = static_cast<T>(b.scale / 2);
  const int64_t count = n / 2 + 1;
  int64_t k = 0;
  if (all_adjacent(b, 2 * N)) {
    T* out = b.out + 2 * b.out_line[0];
    for (; k < count; ++k, out += 2 * b.out_step) {
      const TwoHalves<T> h = two_halves(points, k, n, half);
      store_natural(out, h.a);
      store_natural(out + 2 * N, h.b);
    }
    return;
  }
  if (b.lines == 2 * N && b.out_step == 1 && count >= N) {
    for (; k < count; k += N) {
      const int64_t at = std::min(k, count - N);
      Lanes<T> re[2][N], im[2][N];
      FACULA_UNROLL
      for (int i = 0; i < N; ++i) {
        const TwoHalves<T> h = two_halves(points, at + kOrder<T>[i], n, half);
        re[0][i] = h.a.re, im[0][i] = h.a.im, re[1][i] = h.b.re, im[1][i] = h.b.im;
      }
      for (int64_t part = 0; part < 2; ++part) {
        transpose<T>(re[part]);
        transpose<T>(im[part]);
        FACULA_UNROLL
        for (int i = 0; i < N; ++i)
          store_complex(b.out + 2 * (b.out_line[part * N + i] + at), Points<T>{re[part][i], im[part][i]});
      }
    }
    return;
  }
  for (; k < count; ++k) {
    const TwoHalves<T> h = two_halves(points, k, n, half);
    for (int64_t line = 0; line < b.lines; ++line) {
      T* out = b.out + 2 * (b.out_line[line] + k * b.out_step);
      out[0] = line < N ? h.a.re[line] : h.b.re[line - N];
      out[1] = line < N ? h.a.im[line] : h.b.im[line - N];
    }
  }
}

/// The conjugate of a + i b where a and b are the whole transforms of which halves are given, at k and n - k.
template <class T>
FACULA_INLINE void store_whole(T* points, int64_t k, int64_t n, Points<T> a, Points<T> b) {
  if (k == 0 || 2 * k == n) return store_pair(points + k * kPair<T>, Points<T>{a.re, -b.re});
  store_pair(points + k * kPair<T>, Points<T>{a.re - b.im, -(a.im + b.re)});
  store_pair(points + (n - k) * kPair<T>, Points<T>{a.re + b.im, a.im - b.re});
}

template <class T>
void load_halves(const FftBlock<T>& b, int64_t n, T* points) {
  constexpr int64_t N = kLanes<T>;
  const int64_t count = n / 2 + 1;
  int64_t k = 0;
  if (all_adjacent(b, 2 * N)) {
    const T* in = b.in + 2 * b.in_line[0];
    for (; k < count; ++k, in += 2 * b.in_step) store_whole(points, k, n, load_natural(in), load_natural(in + 2 * N));
    return;
  }
  if (b.lines == 2 * N && b.in_step == 1 && count >= N) {
    for (; k < count; k += N) {
      const int64_t at = std::min(k, count - N);
      Lanes<T> re[2][N], im[2][N];
      for (int64_t part = 0; part < 2; ++part) {
        FACULA_UNROLL
        for (int i = 0; i < N; ++i) {
          const Points<T> p = load_complex(b.in + 2 * (b.in_line[part * N + i] + at));
          re[part][i] = p.re, im[part][i] = p.im;
        }
        transpose<T>(re[part]);
        transpose<T>(im[part]);
      }
      FACULA_UNROLL
      for (int i = 0; i < N; ++i) {
        const Points<T> first{re[0][i], im[0][i]}, second{re[1][i], im[1][i]};
        store_whole(points, at + kOrder<T>[i], n, first, second);
      }
    }
    return;
  }
  for (; k < count; ++k) {
    Points<T> h[2] = {};
    for (int64_t line = 0; line < b.lines; ++line) {
      const T* in = b.in + 2 * (b.in_line[line] + k * b.in_step);
      h[line / N].re[line % N] = in[0];
      h[line / N].im[line % N] = in[1];
    }
    store_whole(points, k, n, h[0], h[1]);
  }
}

/// The lines of a block read by the first pass and written by the last. A single pass reads all that it writes.
template <class T, class In, class Out>
void transform_through(const FftLanes<T>& plan, const In& in, const Out& out, T* points, T* spare) {
  if (plan.stages.size() == 1) return run_last(plan, in, out);
  run_first(plan, in, points);
  run_last(plan, BufferIn<T>{run_but_last(plan, 1, points, spare)}, out);
}

template <class T>
void transform_complex(const FftLanes<T>& plan, const FftBlock<T>& b, bool backward, T* points, T* spare) {
  const T re = static_cast<T>(b.scale), sign = backward ? T(-1) : T(1);
  if (!plan.stages.empty() && all_adjacent(b, kLanes<T>)) {
    const ColumnIn<T> in{b.in + 2 * b.in_line[0], 2 * b.in_step, sign};
    return transform_through(plan, in, ColumnOut<T>{b.out + 2 * b.out_line[0], 2 * b.out_step, re, sign * re}, points,
                             spare);
  }
  if constexpr (2 * sizeof(T) == 16) {
    if (!plan.stages.empty() && b.lines == kLanes<T> && b.in_step == 1 && b.out_step == 1)
      return transform_through(plan, RowsIn<T>(b, sign), RowsOut<T>(b, re, sign * re), points, spare);
  }
  load_lines(b, plan.n, backward, points);
  store_lines(b, plan.n, backward, transform_buffer(plan, points, spare));
}

template <class T>
void transform_block(const FftLanes<T>& plan, const FftBlock<T>& b, T* buffers) {
  T *points = buffers, *spare = buffers + plan.room() * kPair<T>;
  switch (b.kind) {
    case FftKind::Forward:
    case FftKind::Backward: return transform_complex(plan, b, b.kind == FftKind::Backward, points, spare);
    case FftKind::RealToHalf:
      load_real_lines(b, plan.n, points);
      return store_halves(b, plan.n, transform_buffer(plan, points, spare));
    case FftKind::HalfToReal:
      load_halves(b, plan.n, points);
      return store_real_lines(b, plan.n, transform_buffer(plan, points, spare));
  }
}

// ---- one long transform

/// Returns where a block of neighbors begins. The last one overlaps the one before, if there are enough.
template <class T>
int64_t block_start(int64_t block, int64_t size) {
  return std::max<int64_t>(0, std::min(block * kLanes<T>, size - kLanes<T>));
}

template <class T>
void sweep_columns(const FftSweep<T>& s, int64_t from, int64_t to, T* buffers) {
  const FftLanes<T>& plan = *s.plan->columns;
  const int64_t width = s.plan->rows->n;
  T *points = buffers, *spare = buffers + plan.room() * kPair<T>;
  for (int64_t block = from; block < to; ++block) {
    const ColumnIn<T> in{s.in + 2 * block_start<T>(block, width), 2 * width, s.backward ? T(-1) : T(1)};
    T* out = s.between + block * plan.n * kPair<T>;
    if (plan.stages.size() == 1) {
      for (int64_t i = 0; i < plan.n; ++i) store_pair(points + i * kPair<T>, in.load(i));
      run_last(plan, BufferIn<T>{points}, BufferOut<T>{out});
      continue;
    }
    run_first(plan, in, points);
    run_last(plan, BufferIn<T>{run_but_last(plan, 1, points, spare)}, BufferOut<T>{out});
  }
}

/// The factors between the sweeps, of a table in the order of `between`.
template <class T>
struct TurnTable {
  const T* all;
  FACULA_INLINE Points<T> at(int row) const { return load_pair(all + row * kPair<T>); }
};
/// The same as products.
template <class T>
struct TurnProducts {
  const T *coarse, *fine;
  FACULA_INLINE Points<T> at(int row) const {
    return times(load_pair(fine + row * kPair<T>), coarse[2 * row], coarse[2 * row + 1]);
  }
};

/// Turns a square of what the columns gave, and puts rows into lanes; `rows` of them are there.
template <class T, class Turns>
FACULA_INLINE void turn_square(const T* square, const Turns& turns, int64_t rows, T* points) {
  constexpr int N = kLanes<T>;
  Lanes<T> re[N] = {}, im[N] = {};
  FACULA_UNROLL
  for (int i = 0; i < N; ++i) {
    const int row = kOrder<T>[i];
    if (row >= rows) continue;
    const Points<T> w = turns.at(row), p = times(load_pair(square + row * kPair<T>), w.re, w.im);
    re[i] = p.re;
    im[i] = p.im;
  }
  transpose<T>(re);
  transpose<T>(im);
  FACULA_UNROLL
  for (int i = 0; i < N; ++i) store_pair(points + kOrder<T>[i] * kPair<T>, Points<T> { re[i], im[i] });
}

/// `lanes` rows, or fewer, into the lanes of a buffer.
template <class T>
void turn_rows(const FftSweep<T>& s, int64_t row, int64_t rows, T* points) {
  constexpr int64_t N = kLanes<T>;
  const FftLong<T>& plan = *s.plan;
  const int64_t height = plan.columns->n, width = plan.rows->n;
  for (int64_t b = 0; b * N < width; ++b) {
    const int64_t at = b * height + row;
    const T* square = s.between + at * kPair<T>;
    T* turned = points + block_start<T>(b, width) * kPair<T>;
    const TurnProducts<T> products{plan.coarse.data() + 2 * at, plan.fine.data() + row * kPair<T>};
    if (rows < N) turn_square(square, products, rows, turned);
    else if (plan.turns.size()) turn_square(square, TurnTable<T>{plan.turns.data() + at * kPair<T>}, N, turned);
    else turn_square(square, products, N, turned);
  }
}

template <class T>
void sweep_rows(const FftSweep<T>& s, int64_t from, int64_t to, T* buffers) {
  constexpr int64_t N = kLanes<T>;
  const FftLanes<T>& plan = *s.plan->rows;
  const int64_t height = s.plan->columns->n, width = plan.n;
  T *points = buffers, *spare = buffers + plan.room() * kPair<T>;
  const T re = static_cast<T>(s.scale), im = s.backward ? -re : re;
  for (int64_t block = from; block < to; ++block) {
    const int64_t row = block_start<T>(block, height), rows = std::min(N, height - row);
    turn_rows(s, row, rows, points);
    T* last = run_but_last(plan, 0, points, spare);
    if (rows == N) {
      run_last(plan, BufferIn<T>{last}, ColumnOut<T>{s.out + 2 * row, 2 * height, re, im});
      continue;
    }
    T* result = last == points ? spare : points;
    run_last(plan, BufferIn<T>{last}, BufferOut<T>{result});
    for (int64_t i = 0; i < width; ++i) {
      for (int64_t lane = 0; lane < rows; ++lane) {
        s.out[2 * (i * height + lane)] = re * result[i * kPair<T> + kLaneOf<T>[lane]];
        s.out[2 * (i * height + lane) + 1] = im * result[i * kPair<T> + N + kLaneOf<T>[lane]];
      }
    }
  }
}

// ---- between n real points and n / 2 complex ones

/// The points k and n/2 - k of the real transform from those of the complex one.
template <class P, class F>
FACULA_INLINE void untangle_pair(P& a, P& b, const F& w, auto half) {
  const P even{(a.re + b.re) * half, (a.im - b.im) * half}, odd{(a.im + b.im) * half, (b.re - a.re) * half};
  const P turned{odd.re * w.re - odd.im * w.im, odd.re * w.im + odd.im * w.re};
  a = {even.re + turned.re, even.im + turned.im};
  b = {even.re - turned.re, turned.im - even.im};
}
/// The other way, times two.
template <class P, class F>
FACULA_INLINE void tangle_pair(P& a, P& b, const F& w) {
  const P even{a.re + b.re, a.im - b.im}, difference{a.re - b.re, a.im + b.im};
  // i times the difference times the conjugate of w
  const P odd{difference.re * w.im - difference.im * w.re, difference.re * w.re + difference.im * w.im};
  a = {even.re + odd.re, even.im + odd.im};
  b = {even.re - odd.re, odd.im - even.im};
}

template <class T>
struct Number {
  T re, im;
};
template <class T>
Number<T> number_at(const T* from, int64_t i) {
  return {from[2 * i], from[2 * i + 1]};
}
template <class T>
void set_number(T* to, int64_t i, Number<T> value) {
  to[2 * i] = value.re;
  to[2 * i + 1] = value.im;
}

template <class T>
void untangle(const FftHalves<T>& plan, T* data, int64_t n, int64_t from, int64_t to) {
  constexpr int64_t N = kLanes<T>;
  const int64_t half = n / 2;
  const T* w = plan.factors.data();
  int64_t k = from;
  if (k == 0 && k < to) {
    const Number<T> z = number_at(data, 0);
    set_number(data, 0, {z.re + z.im, T(0)});
    set_number(data, half, {z.re - z.im, T(0)});
    ++k;
  }
  for (; k + N <= to && k + N <= half - k - N + 2; k += N) {
    T* mirror = data + 2 * (half - k - N + 1);
    Points<T> a = load_complex(data + 2 * k), b = mirrored(load_complex(mirror));
    untangle_pair(a, b, load_complex(w + 2 * k), T(0.5));
    store_complex(data + 2 * k, a);
    store_complex(mirror, mirrored(b));
  }
  for (; k < to; ++k) {
    Number<T> a = number_at(data, k), b = number_at(data, half - k);
    untangle_pair(a, b, number_at(w, k), T(0.5));
    set_number(data, k, a);
    set_number(data, half - k, b);
  }
}

template <class T>
void tangle(const FftHalves<T>& plan, const T* in, T* out, int64_t n, int64_t from, int64_t to) {
  constexpr int64_t N = kLanes<T>;
  const int64_t half = n / 2;
  const T* w = plan.factors.data();
  int64_t k = from;
  if (k == 0 && k < to) {
    set_number(out, 0, {in[0] + in[2 * half], in[0] - in[2 * half]});
    ++k;
  }
  for (; k + N <= to && k + N <= half - k - N + 2; k += N) {
    const int64_t mirror = 2 * (half - k - N + 1);
    Points<T> a = load_complex(in + 2 * k), b = mirrored(load_complex(in + mirror));
    tangle_pair(a, b, load_complex(w + 2 * k));
    store_complex(out + 2 * k, a);
    store_complex(out + mirror, mirrored(b));
  }
  for (; k < to; ++k) {
    Number<T> a = number_at(in, k), b = number_at(in, half - k);
    tangle_pair(a, b, number_at(w, k));
    set_number(out, k, a);
    set_number(out, half - k, b);
  }
}

template <class T>
void multiply(const T* a, const T* b, T* out, double scale, bool conj_a, bool conj_out, int64_t from, int64_t to) {
  constexpr int64_t N = kLanes<T>;
  const T sign = conj_a ? T(-1) : T(1), re = static_cast<T>(scale), im = conj_out ? -re : re;
  int64_t i = from;
  for (; i + N <= to; i += N) {
    Points<T> x = load_complex(a + 2 * i), y = load_complex(b + 2 * i);
    x.im = x.im * sign;
    x = times(x, y.re, y.im);
    store_complex(out + 2 * i, Points<T>{x.re * re, x.im * im});
  }
  for (; i < to; ++i) {
    const Number<T> x{a[2 * i], a[2 * i + 1] * sign}, y = number_at(b, i);
    set_number(out, i, {(x.re * y.re - x.im * y.im) * re, (x.re * y.im + x.im * y.re) * im});
  }
}

template <class T>
void offer() {
  fft_level<T> = {kLanes<T>,     kOrder<T>.data(), transform_block<T>, sweep_columns<T>,
                  sweep_rows<T>, untangle<T>,      tangle<T>,          multiply<T>};
}

}  // namespace

void register_fft() {
  offer<float>();
  offer<double>();
}

}  // namespace facula::cpu::FACULA_ISA

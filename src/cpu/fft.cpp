// Fourier transforms on the CPU.
//
// Arithmetic is on vectors whose lanes belong to different transforms, so that there is nothing to shuffle between
// the points of one. What the lanes are depends on how long the lines are and how many there are:
//
// - Short lines (FftLanes): a block of neighboring lines is put into a buffer, a line in every lane. Where lines lie
//   next to each other (a transform along any dimension but the last), the first pass reads the tensor and the last one
//   writes it; contiguous lines are transposed in registers on the way. Passes are Stockham's with radices 8, 4, 2, 3,
//   5, 7 and primes up to kLargestRadix, so points come out in order.
// - Long lines (FftLong): the n points are a matrix of columns.n rows of rows.n. One sweep transforms its columns, the
//   second multiplies by exp(-2 pi i c r / n) and transforms its rows; both have neighbors in their lanes, and what
//   they work on fits in the cache where the line does not. Blocks of a sweep are shared out among threads.
// - Lengths with a larger prime factor are convolutions of a length without (Bluestein's algorithm).
//
// Two real lines in short blocks are one complex line. A long real line of even length is a complex one of half the
// length, with one more pass (FftHalves); of odd length it is taken as complex. Backward transforms are conjugates of
// forward ones of conjugates: signs change while points are read and written, as scale does.
//
// Factors (ops/fft_plan.h) are cached with the plan, and plans by length. Blocks are where they are whatever the number
// of threads, so results do not depend on it.
#include "cpu/fft.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/parallel.h"
#include "ops/fft_plan.h"

namespace facula::cpu {
namespace {

using namespace fft;

// ---- measured bounds

constexpr int64_t kRowsAreLongFrom = 400;            // points of contiguous lines
constexpr int64_t kColumnsAreLongFrom = 4096;        // points of lines next to each other
constexpr int64_t kLanesConvolveUpTo = 1024;         // points of a convolution in lanes
constexpr int64_t kTurnsUpTo = 8192;                 // points of lines with a factor for every point between the sweeps
constexpr int64_t kLongestAlone = int64_t{1} << 18;  // points of lines that a thread has for itself
constexpr int64_t kDividedFrom = 1 << 20;            // bytes of lines whose parts are shared out among threads
constexpr int64_t kShortest = 16;                    // of long lines

// ---- plans

/// What a point costs in a pass, about.
double pass_cost(int64_t radix) {
  switch (radix) {
    case 2: return 2.4;
    case 3: return 3;
    case 4: return 3;
    case 5: return 4;
    case 7: return 5.5;
    case 8: return 4.5;
    default: return 4 + static_cast<double>(radix);
  }
}

/// What a point costs in a transform in lanes.
double point_cost(int64_t n) {
  double cost = n > 1024 ? 2 : 0;  // beyond the first-level cache
  for (int64_t radix : radices_of(n)) cost += pass_cost(radix);
  return cost;
}

int64_t convolution_length(int64_t n) {
  return cheapest_convolution(n, [](int64_t length) { return point_cost(length) + 3; });
}

template <class T>
void add_stages(FftLanes<T>& plan) {
  const std::vector<int64_t> radices = radices_of(plan.n);
  int64_t size = 0, rest = plan.n, stride = 1;
  for (int64_t radix : radices) {
    rest /= radix;
    plan.stages.push_back({radix, rest, stride, size, 0});
    size += 2 * (radix - 1) * rest;
    stride *= radix;
  }
  for (FftStage& s : plan.stages) {
    s.roots = size;
    if (s.radix > 8) size += 2 * (s.radix / 2) * (s.radix / 2);
  }
  plan.factors = AlignedArray<T>(size);
  const UnitRoots<T> roots(plan.n);
  for (const FftStage& s : plan.stages) {
    T* to = plan.factors.data() + s.twiddles;
    for (int64_t p = 0; p < s.count; ++p)
      for (int64_t j = 1; j < s.radix; ++j, to += 2) roots.write(p * j * s.stride, to);
    if (s.radix <= 8) continue;
    to = plan.factors.data() + s.roots;
    for (int64_t j = 1; j <= s.radix / 2; ++j) {
      for (int64_t k = 1; k <= s.radix / 2; ++k, to += 2) {
        roots.write(j * k % s.radix * (plan.n / s.radix), to);
        to[1] = -to[1];
      }
    }
  }
}

/// `transform` overwrites an array with its unscaled transform.
template <class T, class Transform>
FftChirp<T> make_chirp(int64_t n, int64_t length, Transform&& transform) {
  FftChirp<T> chirp{AlignedArray<T>(2 * n), AlignedArray<T>(2 * length)};
  write_chirp(n, length, chirp.factors.data(), chirp.kernel.data());
  transform(chirp.kernel.data());
  return chirp;
}

template <class T>
void transform_one(const FftLanes<T>& plan, FftKind kind, double scale, const T* in, T* out);

template <class T>
std::shared_ptr<const FftLanes<T>> lanes_plan(int64_t n) {
  return plans<FftLanes<T>>().get(n, [&] {
    auto plan = std::make_shared<FftLanes<T>>();
    plan->n = n;
    if (is_smooth(n)) {
      add_stages(*plan);
      return plan;
    }
    const int64_t length = convolution_length(n);
    plan->convolution = lanes_plan<T>(length);
    plan->chirp = make_chirp<T>(
        n, length, [&](T* kernel) { transform_one(*plan->convolution, FftKind::Forward, 1, kernel, kernel); });
    return plan;
  });
}

/// Whether a smooth length is a number of columns times at least `lanes` rows; above kLargestRadix * lanes each is.
bool is_divisible(int64_t n, int64_t lanes) {
  for (int64_t columns = 2; columns <= kLargestRadix && columns * lanes <= n; ++columns)
    if (n % columns == 0) return true;
  return false;
}

/// Numbers of columns and rows of a long line.
struct Division {
  int64_t columns = 0, rows = 0;
  double cost(int64_t lanes) const {
    if (columns < 2 || rows < lanes) return std::numeric_limits<double>::infinity();
    return static_cast<double>((rows + lanes - 1) / lanes * columns) * point_cost(columns) +
           static_cast<double>((columns + lanes - 1) / lanes * rows) * (point_cost(rows) + 3);
  }
};
Division divide(int64_t n, int64_t lanes) {
  Division best;
  for (int64_t factor = 2; factor * factor <= n; ++factor) {
    if (n % factor != 0) continue;
    for (const Division& d : {Division{factor, n / factor}, Division{n / factor, factor}})
      if (d.cost(lanes) < best.cost(lanes)) best = d;
  }
  return best;
}

template <class T>
void long_line(const FftLong<T>& plan, const T* in, T* out, bool backward, double scale, T* work = nullptr);

template <class T>
void add_turns(FftLong<T>& plan) {
  const FftLevel<T>& level = fft_level<T>;
  const int64_t N = level.lanes, height = plan.columns->n, width = plan.rows->n, blocks = (width + N - 1) / N;
  plan.coarse = AlignedArray<T>(2 * blocks * height);
  plan.fine = AlignedArray<T>(2 * N * height);
  const UnitRoots<T> roots(plan.n);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t start = std::min(b * N, width - N);
    for (int64_t r = 0; r < height; ++r) roots.write(r * start, plan.coarse.data() + 2 * (b * height + r));
  }
  auto write_pairs = [&](int64_t start, T* to) {
    for (int64_t r = 0; r < height; ++r) {
      for (int64_t lane = 0; lane < N; ++lane) {
        T w[2];
        roots.write(r * (start + level.order[lane]), w);
        to[r * 2 * N + lane] = w[0];
        to[r * 2 * N + N + lane] = w[1];
      }
    }
  };
  write_pairs(0, plan.fine.data());
  if (plan.n > kTurnsUpTo) return;
  plan.turns = AlignedArray<T>(2 * N * blocks * height);
  for (int64_t b = 0; b < blocks; ++b) write_pairs(std::min(b * N, width - N), plan.turns.data() + b * height * 2 * N);
}

template <class T>
std::shared_ptr<const FftLong<T>> long_plan(int64_t n) {
  return plans<FftLong<T>>().get(n, [&] {
    auto plan = std::make_shared<FftLong<T>>();
    plan->n = n;
    if (is_smooth(n)) {
      const Division d = divide(n, fft_level<T>.lanes);
      plan->columns = lanes_plan<T>(d.columns);
      plan->rows = lanes_plan<T>(d.rows);
      add_turns(*plan);
      return plan;
    }
    const int64_t length = convolution_length(n);
    plan->convolution = long_plan<T>(length);
    plan->chirp =
        make_chirp<T>(n, length, [&](T* kernel) { long_line<T>(*plan->convolution, kernel, kernel, false, 1); });
    return plan;
  });
}

template <class T>
std::shared_ptr<const FftHalves<T>> halves_plan(int64_t n) {
  return plans<FftHalves<T>>().get(n, [&] {
    auto plan = std::make_shared<FftHalves<T>>();
    plan->factors = AlignedArray<T>(2 * (n / 4 + 1));
    const UnitRoots<T> roots(n);
    for (int64_t k = 0; k <= n / 4; ++k) roots.write(k, plan->factors.data() + 2 * k);
    return plan;
  });
}

// ---- work

/// Memory for a while, from the allocator of tensors.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : held_(facula::empty({count}, std::is_same_v<T, float> ? DType::Float32 : DType::Float64)) {}
  T* data() const { return held_.template data<T>(); }

 private:
  Tensor held_;
};

/// Operations per point, about, as grains count them.
int64_t operations(int64_t n) {
  int64_t log = 1;
  while (n > 1) {
    n /= 2;
    ++log;
  }
  return log;
}

/// So many pieces of `points` points each are worth a thread.
int64_t grain_of(int64_t points, int64_t n) { return std::max<int64_t>(1, 4 * kGrain / (points * operations(n))); }

/// A line meets its threads more than once, and its points then move from one's cache to another's.
template <class T>
bool worth_dividing(int64_t n) {
  return n * static_cast<int64_t>(2 * sizeof(T)) >= kDividedFrom;
}

/// The grain of pieces of a line of n points.
template <class T>
int64_t grain_within(int64_t n, int64_t pieces, int64_t grain) {
  return worth_dividing<T>(n) ? grain : pieces;
}

template <class T>
void transform_one(const FftLanes<T>& plan, FftKind kind, double scale, const T* in, T* out) {
  const int64_t begin = 0;
  Scratch<T> buffers(4 * plan.room() * fft_level<T>.lanes);
  fft_level<T>.block(plan, {kind, scale, in, out, 1, 1, &begin, &begin, 1, false}, buffers.data());
}

/// Sizes of the memory that the sweeps of a line work in.
template <class T>
struct Workspace {
  int64_t between, buffers;
  explicit Workspace(const FftLong<T>& plan) {
    if (plan.convolution) {
      *this = Workspace(*plan.convolution);
      return;
    }
    const int64_t N = fft_level<T>.lanes, height = plan.columns->n, width = plan.rows->n;
    between = (width + N - 1) / N * height * 2 * N;
    buffers = 4 * N * std::max(height, width);
  }
};

/// In `work` if it is given, on this thread alone.
template <class T>
void two_sweeps(const FftLong<T>& plan, const T* in, T* out, bool backward, double scale, T* work) {
  const FftLevel<T>& level = fft_level<T>;
  const int64_t N = level.lanes, height = plan.columns->n, width = plan.rows->n;
  const int64_t column_blocks = (width + N - 1) / N, row_blocks = (height + N - 1) / N;
  const Workspace<T> size(plan);
  if (work) {
    const FftSweep<T> sweep{&plan, in, out, work, backward, scale};
    level.columns(sweep, 0, column_blocks, work + size.between);
    level.rows(sweep, 0, row_blocks, work + size.between);
    return;
  }
  Scratch<T> between(size.between);
  const FftSweep<T> sweep{&plan, in, out, between.data(), backward, scale};
  const int64_t column_grain = grain_within<T>(plan.n, column_blocks, grain_of(N * height, height));
  const int64_t row_grain = grain_within<T>(plan.n, row_blocks, grain_of(N * width, width));
  parallel_for(0, column_blocks, column_grain, [&](int64_t from, int64_t to) {
    Scratch<T> buffers(size.buffers);
    level.columns(sweep, from, to, buffers.data());
  });
  parallel_for(0, row_blocks, row_grain, [&](int64_t from, int64_t to) {
    Scratch<T> buffers(size.buffers);
    level.rows(sweep, from, to, buffers.data());
  });
}

constexpr int64_t kPiece = 2048;  // points, of work that is shared out by pieces of always the same places

/// f(from, to) for all pieces of [0, n).
template <class T, class F>
void in_pieces(int64_t n, F&& f) {
  const int64_t pieces = (n + kPiece - 1) / kPiece;
  parallel_for(0, pieces, grain_within<T>(n, pieces, 16), [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) f(i * kPiece, std::min(n, (i + 1) * kPiece));
  });
}

template <class T>
void convolve_line(const FftLong<T>& plan, const T* in, T* out, bool backward, double scale, T* work) {
  const FftLevel<T>& level = fft_level<T>;
  const int64_t n = plan.n, length = plan.convolution->n;
  const T *chirp = plan.chirp.factors.data(), *kernel = plan.chirp.kernel.data();
  Scratch<T> points(2 * length);
  T* p = points.data();
  in_pieces<T>(n, [&](int64_t from, int64_t to) { level.multiply(in, chirp, p, 1, backward, false, from, to); });
  std::fill(p + 2 * n, p + 2 * length, T(0));
  two_sweeps(*plan.convolution, p, p, false, 1, work);
  in_pieces<T>(length, [&](int64_t from, int64_t to) { level.multiply(p, kernel, p, 1, false, true, from, to); });
  two_sweeps(*plan.convolution, p, p, false, 1, work);
  in_pieces<T>(n, [&](int64_t from, int64_t to) { level.multiply(p, chirp, out, scale, true, backward, from, to); });
}

/// One complex line; `out` may be `in`.
template <class T>
void long_line(const FftLong<T>& plan, const T* in, T* out, bool backward, double scale, T* work) {
  if (plan.convolution) convolve_line(plan, in, out, backward, scale, work);
  else two_sweeps(plan, in, out, backward, scale, work);
}

/// Everything that lines of one kind and length need.
template <class T>
struct LongLines {
  FftKind kind;
  int64_t n;
  double scale;
  bool halved;  // real lines of even length
  std::shared_ptr<const FftLong<T>> plan;
  std::shared_ptr<const FftHalves<T>> halves;

  LongLines(FftKind kind, int64_t n, double scale)
      : kind(kind),
        n(n),
        scale(scale),
        halved((kind == FftKind::RealToHalf || kind == FftKind::HalfToReal) && n % 2 == 0),
        plan(long_plan<T>(halved ? n / 2 : n)),
        halves(halved ? halves_plan<T>(n) : nullptr) {}

  void run(const T* in, T* out, T* work) const {
    switch (kind) {
      case FftKind::Forward:
      case FftKind::Backward: return long_line(*plan, in, out, kind == FftKind::Backward, scale, work);
      case FftKind::RealToHalf: return halved ? real_even(in, out, work) : real_odd(in, out, work);
      case FftKind::HalfToReal: return halved ? half_even(in, out, work) : half_odd(in, out, work);
    }
  }

 private:
  void real_even(const T* in, T* out, T* work) const {
    long_line(*plan, in, out, false, scale, work);
    in_pieces<T>(n / 4 + 1, [&](int64_t from, int64_t to) { fft_level<T>.untangle(*halves, out, n, from, to); });
  }
  void real_odd(const T* in, T* out, T* work) const {
    Scratch<T> line(2 * n);
    T* p = line.data();
    for (int64_t i = 0; i < n; ++i) {
      p[2 * i] = in[i];
      p[2 * i + 1] = T(0);
    }
    long_line(*plan, p, p, false, scale, work);
    std::copy(p, p + 2 * (n / 2 + 1), out);
    out[1] = T(0);
  }
  void half_even(const T* in, T* out, T* work) const {
    Scratch<T> line(n);
    in_pieces<T>(n / 4 + 1,
                 [&](int64_t from, int64_t to) { fft_level<T>.tangle(*halves, in, line.data(), n, from, to); });
    long_line(*plan, line.data(), out, true, scale, work);
  }
  void half_odd(const T* in, T* out, T* work) const {
    Scratch<T> line(2 * n);
    T* p = line.data();
    p[0] = in[0];
    p[1] = T(0);
    for (int64_t k = 1; k <= n / 2; ++k) {
      p[2 * k] = p[2 * (n - k)] = in[2 * k];
      p[2 * k + 1] = in[2 * k + 1];
      p[2 * (n - k) + 1] = -in[2 * k + 1];
    }
    long_line(*plan, p, p, true, scale, work);
    for (int64_t i = 0; i < n; ++i) out[i] = p[2 * i];
  }
};

/// Copies between `count` neighbors, `n` points of `parts` numbers each, and as many contiguous lines.
template <bool to_lines, int parts, class T>
void move_lines(T* neighbors, T* lines, int64_t n, int64_t step, int64_t count) {
  for (int64_t i = 0; i < n; ++i, neighbors += parts * step) {
    for (int64_t line = 0; line < count; ++line) {
      for (int part = 0; part < parts; ++part) {
        T &a = neighbors[parts * line + part], &b = lines[parts * (line * n + i) + part];
        if (to_lines) b = a;
        else a = b;
      }
    }
  }
}

template <class T>
void gather_and_transform(const Lines& l, const LongLines<T>& lines, const T* in, T* out, int64_t count, T* from, T* to,
                          T* work) {
  T* source = const_cast<T*>(in);  // only read
  if (l.real_in()) move_lines<true, 1>(source, from, l.in_size(), l.inner, count);
  else move_lines<true, 2>(source, from, l.in_size(), l.inner, count);
  for (int64_t i = 0; i < count; ++i)
    lines.run(from + i * l.in_size() * (l.real_in() ? 1 : 2), to + i * l.out_size() * (l.real_out() ? 1 : 2), work);
  if (l.real_out()) move_lines<false, 1>(out, to, l.out_size(), l.inner, count);
  else move_lines<false, 2>(out, to, l.out_size(), l.inner, count);
}

template <class T>
void long_lines(const Lines& l, const T* in, T* out) {
  const LongLines<T> lines(l.kind, l.n, l.scale);
  const int64_t in_item = l.real_in() ? 1 : 2, out_item = l.real_out() ? 1 : 2;
  // as many neighbors as lie in a cache line or two
  const int64_t together = std::min<int64_t>(l.inner, 128 / static_cast<int64_t>(2 * sizeof(T)));
  const int64_t groups_inner = (l.inner + together - 1) / together, groups = l.outer * groups_inner;
  // fewer lines than threads: these are for the parts of a line, if it is long; nor is a very long one left to a thread
  const bool divided = (groups < num_threads() && worth_dividing<T>(l.n)) || l.n > kLongestAlone;
  const Workspace<T> size(*lines.plan);
  auto run = [&](int64_t first, int64_t last) {
    Scratch<T> work(divided ? 0 : size.between + size.buffers);
    Scratch<T> spare(l.inner == 1 ? 0 : together * (in_item * l.in_size() + out_item * l.out_size()));
    for (int64_t g = first; g < last; ++g) {
      const int64_t o = g / groups_inner, i = g % groups_inner * together;
      const T* from = in + in_item * (o * l.in_size() * l.inner + i);
      T* to = out + out_item * (o * l.out_size() * l.inner + i);
      if (l.inner == 1) lines.run(from, to, divided ? nullptr : work.data());
      else
        gather_and_transform(l, lines, from, to, std::min(together, l.inner - i), spare.data(),
                             spare.data() + together * in_item * l.in_size(), divided ? nullptr : work.data());
    }
  };
  if (divided) sliced_for(0, groups, 1, run);
  else parallel_for(0, groups, grain_of(l.n * together, l.n), run);
}

/// Where `count` lines from `first` on begin.
void place_lines(const Lines& l, int64_t first, int64_t count, int64_t* in_line, int64_t* out_line) {
  if (l.inner == 1) {
    for (int64_t i = 0; i < count; ++i) {
      in_line[i] = (first + i) * l.in_size();
      out_line[i] = (first + i) * l.out_size();
    }
    return;
  }
  int64_t o = first / l.inner, at = first % l.inner;
  for (int64_t i = 0; i < count; ++i) {
    in_line[i] = o * l.in_size() * l.inner + at;
    out_line[i] = o * l.out_size() * l.inner + at;
    if (++at < l.inner) continue;
    at = 0;
    ++o;
  }
}

/// Blocks of lines: of neighbors, or where there are too few of those of whatever comes next.
template <class T>
void short_lines(const Lines& l, const T* in, T* out) {
  const FftLevel<T>& level = fft_level<T>;
  const auto plan = lanes_plan<T>(l.n);
  const int64_t width = level.lanes * (l.real_in() || l.real_out() ? 2 : 1);
  const bool neighbors = l.inner >= level.lanes;
  const int64_t run = neighbors ? l.inner : l.count();  // lines of which whole blocks are taken
  const int64_t run_blocks = (run + width - 1) / width, blocks = neighbors ? l.outer * run_blocks : run_blocks;
  parallel_for(0, blocks, grain_of(l.n * width, l.n), [&](int64_t from, int64_t to) {
    Scratch<T> buffers(4 * plan->room() * level.lanes);
    constexpr int64_t kMost = 64;  // lines in a block
    int64_t in_line[kMost], out_line[kMost];
    for (int64_t block = from; block < to; ++block) {
      const int64_t o = neighbors ? block / run_blocks : 0;
      const int64_t first = o * l.inner + (block - o * run_blocks) * width, end = neighbors ? (o + 1) * l.inner : run;
      const int64_t count = std::min(width, end - first);
      place_lines(l, first, count, in_line, out_line);
      level.block(*plan, {l.kind, l.scale, in, out, l.inner, l.inner, in_line, out_line, count, neighbors},
                  buffers.data());
    }
  });
}

/// Whether lines are transformed one by one.
template <class T>
bool are_long(const Lines& l) {
  const bool halved = (l.real_in() || l.real_out()) && l.n % 2 == 0;
  const int64_t lanes = fft_level<T>.lanes, n = halved ? l.n / 2 : l.n;
  if (n < kShortest) return false;
  if (is_smooth(n) && !is_divisible(n, lanes)) return false;
  if (!is_smooth(l.n) && 2 * l.n > kLanesConvolveUpTo) return true;
  return l.n >= (l.inner == 1 ? kRowsAreLongFrom : kColumnsAreLongFrom) || 2 * l.count() < lanes;
}

template <class T>
void transform_lines(const Lines& l, const Tensor& in, const Tensor& out) {
  if (are_long<T>(l)) long_lines(l, in.data<T>(), out.data<T>());
  else short_lines(l, in.data<T>(), out.data<T>());
}

void fft_cpu(const Tensor& out, const Tensor& in, IntList dims, FftKind kind, double scale) {
  const LockRelease release(in.numel() + out.numel() > kGrain);
  const DType dtype = real_dtype(out.dtype());
  if (dtype == DType::Float32) return transform_dims(out, in, dims, kind, scale, transform_lines<float>);
  if (dtype == DType::Float64) return transform_dims(out, in, dims, kind, scale, transform_lines<double>);
  throw_error(ErrorKind::NotImplemented, "fft: not implemented for dtype ", in.dtype());
}

/// Rows of `inner` complex numbers, n / 2 + 1 of them, into n: row n - k is the conjugate of row k.
template <class T>
void mirror_rows(const T* half, T* out, int64_t n, int64_t inner, T sign) {
  const int64_t given = n / 2 + 1, width = 2 * inner;
  for (int64_t i = 0; i < given * inner; ++i) {
    out[2 * i] = half[2 * i];
    out[2 * i + 1] = sign * half[2 * i + 1];
  }
  if (inner == 1) {
    for (int64_t k = given; k < n; ++k) {
      out[2 * k] = half[2 * (n - k)];
      out[2 * k + 1] = -sign * half[2 * (n - k) + 1];
    }
    return;
  }
  for (int64_t k = given; k < n; ++k) {
    const T* from = half + (n - k) * width;
    T* to = out + k * width;
    for (int64_t i = 0; i < inner; ++i) {
      to[2 * i] = from[2 * i];
      to[2 * i + 1] = -sign * from[2 * i + 1];
    }
  }
}

template <class T>
void mirror(const Tensor& out, const Tensor& half, int64_t dim, bool conjugated) {
  const Lines l = lines_along(out, dim, FftKind::RealToHalf, 1);
  const int64_t in = 2 * l.out_size() * l.inner, to = 2 * l.n * l.inner;
  parallel_for(0, l.outer, std::max<int64_t>(1, kGrain / to), [&](int64_t first, int64_t last) {
    for (int64_t o = first; o < last; ++o)
      mirror_rows(half.data<T>() + o * in, out.data<T>() + o * to, l.n, l.inner, T(conjugated ? -1 : 1));
  });
}

void fft_mirror_cpu(const Tensor& out, const Tensor& half, int64_t dim, bool conjugated) {
  const LockRelease release(out.numel() > kGrain);
  if (out.dtype() == DType::Complex64) mirror<float>(out, half, dim, conjugated);
  else mirror<double>(out, half, dim, conjugated);
}

}  // namespace

void register_fft() {
  fft_kernel.set(DeviceType::CPU, fft_cpu);
  fft_mirror_kernel.set(DeviceType::CPU, fft_mirror_cpu);
}

}  // namespace facula::cpu

// Defines what plans of Fourier transforms have in common on all devices: lengths, factors, and which lines are
// transformed in which order.
//
// A length whose prime factors are radices (smooth) is transformed by Stockham's passes; others are convolutions of a
// smooth length (Bluestein's algorithm). Factors are made from angles of at most an eighth of a turn in more than the
// precision of the elements. The recently used plans are cached by a key, within kMostCachedBytes for
// a kind of plan and a dtype.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "ops/fft.h"

namespace facula::fft {

constexpr int64_t kMostCachedBytes = int64_t{64} << 20;  // bytes
constexpr size_t kMostPlans = 64;

// ---- factors

template <class T>
using Wider = std::conditional_t<std::is_same_v<T, float>, double, long double>;

template <class W>
struct Root {
  W re, im;
};

/// exp(-2 pi i k / n), 0 <= k < n, by the symmetries of the circle.
template <class W>
Root<W> unit_root(int64_t k, int64_t n) {
  const bool below = 2 * k > n;  // the angle is in the lower half
  int64_t m = below ? n - k : k;
  const bool left = 4 * m > n;
  m = left ? 2 * n - 4 * m : 4 * m;  // quarter turns by n, in [0, n]
  const bool steep = 2 * m > n;
  const W quarter = static_cast<W>(1.57079632679489661923132169163975144L);
  const W angle = quarter * static_cast<W>(steep ? n - m : m) / static_cast<W>(n);
  W c = std::cos(angle), s = std::sin(angle);
  if (steep) std::swap(c, s);
  return {left ? -c : c, below ? s : -s};
}

/// All exp(-2 pi i k / n), as products of two.
template <class T>
class UnitRoots {
  using W = Wider<T>;

 public:
  explicit UnitRoots(int64_t n) : shift_(0) {
    while ((int64_t{1} << (2 * shift_)) < n) ++shift_;
    for (int64_t k = 0; k < std::min(n, int64_t{1} << shift_); ++k) fine_.push_back(unit_root<W>(k, n));
    for (int64_t k = 0; k < n; k += int64_t{1} << shift_) coarse_.push_back(unit_root<W>(k, n));
  }
  void write(int64_t k, T* to) const {
    const Root<W> a = coarse_[static_cast<size_t>(k >> shift_)];
    const Root<W> b = fine_[static_cast<size_t>(k & ((int64_t{1} << shift_) - 1))];
    to[0] = static_cast<T>(a.re * b.re - a.im * b.im);
    to[1] = static_cast<T>(a.re * b.im + a.im * b.re);
  }
  /// root k = coarse[k >> shift] * fine[k & (2^shift - 1)].
  int shift() const { return shift_; }
  const std::vector<Root<W>>& fine() const { return fine_; }
  const std::vector<Root<W>>& coarse() const { return coarse_; }

 private:
  int shift_;
  std::vector<Root<W>> fine_, coarse_;
};

/// Of a convolution in the place of n points: exp(-pi i t^2 / n), and what is convolved with, by its length.
template <class T>
void write_chirp(int64_t n, int64_t length, T* factors, T* kernel) {
  const UnitRoots<T> roots(2 * n);
  std::fill(kernel, kernel + 2 * length, T(0));
  int64_t square = 0;  // i^2 modulo 2 n
  for (int64_t i = 0; i < n; ++i) {
    roots.write(square, factors + 2 * i);
    const T re = factors[2 * i] / static_cast<T>(length), im = -factors[2 * i + 1] / static_cast<T>(length);
    for (int64_t at : {i, (length - i) % length}) {
      kernel[2 * at] = re;
      kernel[2 * at + 1] = im;
    }
    square = (square + 2 * i + 1) % (2 * n);
  }
}

// ---- lengths

/// Whether all prime factors are radices.
inline bool is_smooth(int64_t n) {
  for (int64_t f = 2; f <= kLargestRadix; ++f)
    while (n % f == 0) n /= f;
  return n == 1;
}

/// The radices of a smooth length. Powers of two last: the last pass has no factors, and 8 has the most.
inline std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> radices;
  for (int64_t f = 3; f <= kLargestRadix; f += 2)
    for (; n % f == 0; n /= f) radices.push_back(f);
  int64_t twos = 0;
  for (; n > 1; n /= 2) ++twos;
  if (twos == 1) radices.push_back(2);
  const int64_t fours = twos == 1 ? 0 : (3 - twos % 3) % 3;
  for (int64_t i = 0; i < fours; ++i) radices.push_back(4);
  for (int64_t i = 0; i < (twos - 2 * fours) / 3; ++i) radices.push_back(8);
  return radices;
}

/// The cheapest length for a cyclic convolution of n points with 2 n - 1, by what a point of a length costs.
template <class PointCost>
int64_t cheapest_convolution(int64_t n, PointCost&& point_cost) {
  const int64_t least = 2 * n - 1;
  int64_t best = 0;
  double best_cost = std::numeric_limits<double>::infinity();
  for (int64_t odd : {1, 3, 5, 7, 9, 15, 21, 25, 27, 35, 45}) {
    int64_t length = odd * 4;
    while (length < least) length *= 2;
    const double cost = static_cast<double>(length) * point_cost(length);
    if (cost >= best_cost) continue;
    best = length;
    best_cost = cost;
  }
  return best;
}

// ---- plans, cached

template <class FftPlan, class Key = int64_t>
class FftPlanCache {
 public:
  template <class Make>
  std::shared_ptr<const FftPlan> get(const Key& key, Make&& make) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (size_t i = 0; i < entries_.size(); ++i) {
        if (entries_[i].key != key) continue;
        std::rotate(entries_.begin(), entries_.begin() + static_cast<int64_t>(i),
                    entries_.begin() + static_cast<int64_t>(i) + 1);
        return entries_.front().plan;
      }
    }
    std::shared_ptr<const FftPlan> plan = make();  // not locked: it takes long, and asks for other plans
    std::lock_guard<std::mutex> lock(mutex_);
    cache(key, plan);
    return plan;
  }

  size_t size() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return entries_.size();
  }
  size_t most() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return most_;
  }
  void set_most(size_t most) {
    std::lock_guard<std::mutex> lock(mutex_);
    most_ = most;
    if (entries_.size() > most) entries_.resize(most);
  }
  void clear() {
    std::lock_guard<std::mutex> lock(mutex_);
    entries_.clear();
  }

 private:
  struct Entry {
    Key key;
    std::shared_ptr<const FftPlan> plan;
  };
  void cache(const Key& key, const std::shared_ptr<const FftPlan>& plan) {
    if (plan->bytes() > kMostCachedBytes) return;
    entries_.insert(entries_.begin(), {key, plan});
    int64_t total = 0;
    size_t count = 0;
    for (; count < std::min(entries_.size(), most_); ++count) {
      total += entries_[count].plan->bytes();
      if (total > kMostCachedBytes) break;
    }
    entries_.resize(count);
  }

  mutable std::mutex mutex_;
  size_t most_ = kMostPlans;
  std::vector<Entry> entries_;  // the most recently used first
};

template <class FftPlan>
FftPlanCache<FftPlan>& plans() {
  static auto* cache = new FftPlanCache<FftPlan>;  // for ever: threads may outlive static objects
  return *cache;
}

// ---- lines

/// Lines along one dimension of contiguous tensors: `outer` times `inner` of them, neighbors next to each other.
struct Lines {
  int64_t outer, inner, n;
  FftKind kind;
  double scale;
  bool real_in() const { return kind == FftKind::RealToHalf; }
  bool real_out() const { return kind == FftKind::HalfToReal; }
  int64_t in_size() const { return real_out() ? n / 2 + 1 : n; }
  int64_t out_size() const { return real_in() ? n / 2 + 1 : n; }
  int64_t count() const { return outer * inner; }
};

/// `whole` is the tensor that has all points of the lines.
inline Lines lines_along(const Tensor& whole, int64_t dim, FftKind kind, double scale) {
  Lines l{1, 1, whole.size(dim), kind, scale};
  for (int64_t d = 0; d < whole.dim(); ++d) {
    if (d < dim) l.outer *= whole.size(d);
    if (d > dim) l.inner *= whole.size(d);
  }
  return l;
}

/// Complex transforms along `dims`, the last one from `in` to `out`, the others within `out`.
template <class Transform>
void complex_dims(const Tensor& out, const Tensor& in, IntList dims, FftKind kind, double scale,
                  Transform&& transform) {
  for (size_t i = dims.size(); i-- > 0;) {
    const bool first = i + 1 == dims.size();
    transform(lines_along(out, dims[i], kind, first ? scale : 1), first ? in : out, out);
  }
}

/// What fft_kernel does, by transform(lines, in, out), where `in` may be `out` if both are complex.
template <class Transform>
void transform_dims(const Tensor& out, const Tensor& in, IntList dims, FftKind kind, double scale,
                    Transform&& transform) {
  if (kind == FftKind::Forward || kind == FftKind::Backward) return complex_dims(out, in, dims, kind, scale, transform);
  const int64_t last = dims.back();
  const IntList others = dims.slice(0, dims.size() - 1);
  if (kind == FftKind::RealToHalf) {
    transform(lines_along(in, last, kind, scale), in, out);
    return complex_dims(out, out, others, FftKind::Forward, 1, transform);
  }
  Tensor half = in;
  if (!others.empty()) {
    half = facula::empty(in.sizes(), in.dtype(), in.device());
    complex_dims(half, in, others, FftKind::Backward, 1, transform);
  }
  transform(lines_along(out, last, kind, scale), half, out);
}

}  // namespace facula::fft

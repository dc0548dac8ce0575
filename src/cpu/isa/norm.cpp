// Normalizations on the CPU. Sums run over blocks of a fixed length whose totals are added in double precision, and
// work is split by rows or channels only, so results do not depend on the number of threads.
#include "ops/norm.h"

#include <cmath>
#include <limits>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/floating.h"
#include "cpu/isa/norm_affine.h"
#include "cpu/isa/norm_rows.h"
#include "cpu/isa/stream.h"
#include "cpu/isa/sums.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kBlock = 512;
constexpr int64_t kColumnRows = 32, kRowRun = 16;  // rows that are added up before their sum is added in double
constexpr int64_t kLongWork = 1 << 15;

/// The sum of n elements.
template <class A, class T>
double plain_sum(const T* x, int64_t n) {
  double total = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const T* v = x + i;
    total += sum_by<A>(std::min(kBlock, n - i), [=](auto at) { return at(v); });
  }
  return total;
}

/// The sum of their squared distances from a center.
template <class A, class T>
double squared_distances(const T* x, int64_t n, A center) {
  double total = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const T* v = x + i;
    total += sum_by<A>(std::min(kBlock, n - i), [=](auto at) {
      const auto d = at(v) - center;
      return d * d;
    });
  }
  return total;
}

/// The sums of g and of g * (x - center); of g * weight in place of g where there is a weight.
template <class A, class T>
std::pair<double, double> gradient_sums(const T* grad, const T* self, const A* weight, int64_t n, A center) {
  double total = 0, with_x = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    const T *g = grad + i, *x = self + i;
    const A* w = weight ? weight + i : nullptr;
    const auto [a, b] = w ? sums_of<A>(count,
                                       [=](auto at) {
                                         const auto v = at(g) * at(w);
                                         return Two{v, v * (at(x) - center)};
                                       })
                          : sums_of<A>(count, [=](auto at) {
                              const auto v = at(g);
                              return Two{v, v * (at(x) - center)};
                            });
    total += a;
    with_x += b;
  }
  return {total, with_x};
}

// ---- rows

template <class A>
const A* row_parameter(const Tensor& t, const RowLayout& layout, int64_t row) {
  return t.defined() ? t.data<A>() + row % layout.groups * layout.channels : nullptr;
}

template <class T, class A>
void normalize_row(T* out, const T* x, const A* weight, const A* bias, const RowLayout& layout, A mean, A rstd) {
  const int64_t n = layout.channels;
  if (layout.inner == 1) {
    if (weight && bias) return write_by(n, out, [=](auto at) { return (at(x) - mean) * rstd * at(weight) + at(bias); });
    if (weight) return write_by(n, out, [=](auto at) { return (at(x) - mean) * rstd * at(weight); });
    if (bias) return write_by(n, out, [=](auto at) { return (at(x) - mean) * rstd + at(bias); });
    return write_by(n, out, [=](auto at) { return (at(x) - mean) * rstd; });
  }
  for (int64_t k = 0; k < n; ++k) {
    const A scale = weight ? rstd * weight[k] : rstd;
    const A shift = bias ? bias[k] : A(0);
    const T* from = x + k * layout.inner;
    write_by(layout.inner, out + k * layout.inner, [=](auto at) { return (at(from) - mean) * scale + shift; });
  }
}

void row_norm_cpu(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& self, const Tensor& weight,
                  const Tensor& bias, const RowLayout& layout, double eps, bool center) {
  const int64_t n = layout.length();
#ifdef __AVX512F__
  if (self.dtype() == DType::Float32 && n <= VectorOf<float>::lanes && n > 0 && layout.inner == 1 &&
      layout.groups == 1) {
    const auto floats = [](const Tensor& t) { return t.defined() ? t.data<float>() : nullptr; };
    const VectorRows rows{self.data<float>(),
                          floats(weight),
                          floats(bias),
                          out.data<float>(),
                          mean.data<float>(),
                          rstd.data<float>(),
                          n,
                          eps,
                          center};
    parallel_for(0, layout.rows, kGrain / n, [&](int64_t from, int64_t to) { rows.run(from, to); });
    return;
  }
#endif
  LockRelease unlocked(self.numel() > kLongWork);
  visit_floating("layer_norm", self.dtype(), [&]<class T, class A>(T, A) {
    parallel_for(0, layout.rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(n, 1)), [&](int64_t from, int64_t to) {
      for (int64_t r = from; r < to; ++r) {
        const T* x = self.data<T>() + r * n;
        const A m = center ? A(plain_sum<A>(x, n) / static_cast<double>(n)) : A(0);
        const double squares = squared_distances<A>(x, n, m);
        const A inverse = A(1.0 / std::sqrt(squares / static_cast<double>(n) + eps));
        mean.data<A>()[r] = m;
        rstd.data<A>()[r] = inverse;
        normalize_row(out.data<T>() + r * n, x, row_parameter<A>(weight, layout, r), row_parameter<A>(bias, layout, r),
                      layout, m, inverse);
      }
    });
  });
}

/// What the gradients of a row are made of.
template <class T, class A>
struct RowBackward {
  const T *grad, *self;
  const A* weight;  // of the row's group, if there is one
  A mean, rstd;
  const RowLayout& layout;
  bool center;

  /// rstd * (g * w - mean(g * w) - x^ * mean(g * w * x^)) with x^ the normalized row, from the sums of g * w and of
  /// g * w * (x - mean).
  void write(T* out, double total, double with_x) const {
    const double n = static_cast<double>(layout.length());
    const A a = center ? A(total / n) : A(0), b = A(with_x * rstd * rstd / n);
    const T *g = grad, *x = self;
    const A r = rstd, m = mean;
    if (layout.inner == 1) {
      const int64_t count = layout.channels;
      if (const A* w = weight)
        return write_by(count, out, [=](auto at) { return r * (at(g) * at(w) - a - b * (at(x) - m)); });
      return write_by(count, out, [=](auto at) { return r * (at(g) - a - b * (at(x) - m)); });
    }
    for (int64_t k = 0; k < layout.channels; ++k, g += layout.inner, x += layout.inner, out += layout.inner) {
      const A factor = weight ? weight[k] : A(1);
      write_by(layout.inner, out, [=](auto at) { return r * (at(g) * factor - a - b * (at(x) - m)); });
    }
  }

  /// Adds this row to the gradients of weight and bias, where there are any, and writes that of the input.
  void run(T* out, A* of_weight, A* of_bias) const {
    double total = 0, with_x = 0;
    if (layout.inner == 1) {
      if (out) std::tie(total, with_x) = gradient_sums<A>(grad, self, weight, layout.channels, mean);
      add_elements(of_weight, of_bias);
    } else {
      for (int64_t k = 0; k < layout.channels; ++k) {
        const int64_t at = k * layout.inner;
        const auto [g, gx] = gradient_sums<A>(grad + at, self + at, static_cast<const A*>(nullptr), layout.inner, mean);
        const double factor = weight ? weight[k] : A(1);
        total += factor * g;
        with_x += factor * gx;
        if (of_weight) of_weight[k] += A(gx) * rstd;
        if (of_bias) of_bias[k] += A(g);
      }
    }
    if (out) write(out, total, with_x);
  }

 private:
  void add_elements(A* of_weight, A* of_bias) const {
    const int64_t n = layout.channels;
    const T *g = grad, *x = self;
    const A r = rstd, m = mean;
    if (of_weight && of_bias) {
      return write_both_by(n, of_weight, of_bias, [=](auto at) {
        const auto value = at(g);
        return Two{at(of_weight) + value * (at(x) - m) * r, at(of_bias) + value};
      });
    }
    if (of_weight) write_by(n, of_weight, [=](auto at) { return at(of_weight) + at(g) * (at(x) - m) * r; });
    if (of_bias) write_by(n, of_bias, [=](auto at) { return at(of_bias) + at(g); });
  }
};

/// Sums of rows, element by element: a few rows at a time in the compute type, whose sums are added up in double.
template <class A>
class RowSums {
 public:
  RowSums(bool wanted, int64_t parts, int64_t width)
      : width_(wanted ? width : 0), totals_(static_cast<size_t>(parts * width_)) {}

  /// Room for the sum of the next rows, null where nothing is added up.
  A* begin(std::vector<A>& room) const {
    room.assign(static_cast<size_t>(width_), A(0));
    return width_ ? room.data() : nullptr;
  }
  /// Adds what is in the room to the total of a part, and empties it.
  void add(int64_t part, std::vector<A>& room) {
    double* total = totals_.data() + part * width_;
    for (int64_t i = 0; i < width_; ++i) total[i] += room[static_cast<size_t>(i)];
    std::fill(room.begin(), room.end(), A(0));
  }
  void write(const Tensor& out) const {
    for (int64_t i = 0; i < width_; ++i) {
      double total = 0;
      for (size_t at = static_cast<size_t>(i); at < totals_.size(); at += static_cast<size_t>(width_))
        total += totals_[at];
      out.data<A>()[i] = A(total);
    }
  }

 private:
  int64_t width_;
  std::vector<double> totals_;
};

void row_norm_backward_cpu(const RowGradients& made, const Tensor& grad, const Tensor& self, const Tensor& weight,
                           const Tensor& mean, const Tensor& rstd, const RowLayout& layout, bool center) {
  constexpr int64_t kParts = 32;  // fixed, so that the order of additions is too
  const int64_t n = layout.length(), width = layout.groups * layout.channels;
  const bool sums = made.weight.defined() || made.bias.defined();
  // with nothing to add up every row is for itself
  const int64_t most = sums ? std::min(kParts, self.numel() / kGrain) : layout.rows;
  const int64_t parts = std::max<int64_t>(1, most), rows_per_part = (layout.rows + parts - 1) / parts;
  LockRelease unlocked(self.numel() > kLongWork);
  visit_floating("layer_norm", self.dtype(), [&]<class T, class A>(T, A) {
    RowSums<A> of_weight(made.weight.defined(), parts, width), of_bias(made.bias.defined(), parts, width);
    T* out = made.self.defined() ? made.self.data<T>() : nullptr;
    const auto each_row = [&](int64_t r, A* to_weight, A* to_bias) {
      const int64_t group = r % layout.groups * layout.channels;
      RowBackward<T, A>{grad.data<T>() + r * n,
                        self.data<T>() + r * n,
                        row_parameter<A>(weight, layout, r),
                        mean.data<A>()[r],
                        rstd.data<A>()[r],
                        layout,
                        center}
          .run(out ? out + r * n : nullptr, to_weight ? to_weight + group : nullptr,
               to_bias ? to_bias + group : nullptr);
    };
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(n * rows_per_part, 1));
    parallel_for(0, parts, grain, [&](int64_t from, int64_t to) {
      std::vector<A> weights, biases;
      A *const to_weight = of_weight.begin(weights), *const to_bias = of_bias.begin(biases);
      for (int64_t part = from; part < to; ++part) {
        const int64_t last = std::min((part + 1) * rows_per_part, layout.rows);
        for (int64_t r = part * rows_per_part; r < last; r += kRowRun * layout.groups) {
          for (int64_t k = r; k < std::min(last, r + kRowRun * layout.groups); ++k) each_row(k, to_weight, to_bias);
          of_weight.add(part, weights);
          of_bias.add(part, biases);
        }
      }
    });
    if (made.weight.defined()) of_weight.write(made.weight);
    if (made.bias.defined()) of_bias.write(made.bias);
  });
}

// ---- channels

/// Calls f(part, from, to) over parts of the outer * inner elements of each channel: f gets whole runs.
template <class T, class F>
void each_run(const T* data, const ChannelLayout& layout, int64_t channel, F&& f) {
  for (int64_t o = 0; o < layout.outer; ++o) f(data + (o * layout.channels + channel) * layout.inner);
}

/// How many parts, for one thread each, several of small samples.
int64_t part_grain(const ChannelLayout& layout, int64_t parts) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(layout.outer * layout.channels / parts, 1));
}

/// With one element per run, sums go down columns: all channels at once, over the rows of a block. rows(sums, at,
/// sample, together) adds the row that begins at `at`, or kRowsTogether rows from there on, to `count` sums per
/// channel. Blocks are shared out by a fixed number of parts of each sample, whose totals follow one another.
template <class A, class F>
std::vector<double> column_sums(const ChannelLayout& layout, int64_t count, F rows) {
  constexpr int64_t kParts = 32;
  const int64_t width = layout.channels * count, blocks = (layout.outer + kColumnRows - 1) / kColumnRows;
  const int64_t parts = std::clamp<int64_t>(layout.outer * layout.channels / (4 * kGrain), 1, kParts);
  std::vector<double> totals(static_cast<size_t>(layout.samples * parts * width));
  parallel_for(0, layout.samples * parts, part_grain(layout, parts), [&](int64_t from, int64_t to) {
    std::vector<A> partial(static_cast<size_t>(width));
    for (int64_t place = from; place < to; ++place) {
      const int64_t sample = place / parts, part = place % parts, first = sample * layout.outer;
      double* total = totals.data() + place * width;
      for (int64_t block = blocks * part / parts; block < blocks * (part + 1) / parts; ++block) {
        std::fill(partial.begin(), partial.end(), A(0));
        const int64_t start = block * kColumnRows;
        by_rows_together(std::min(kColumnRows, layout.outer - start), [&](int64_t o, auto together) {
          rows(partial.data(), (first + start + o) * layout.channels, sample, together);
        });
        for (int64_t c = 0; c < width; ++c) total[c] += partial[static_cast<size_t>(c)];
      }
    }
  });
  for (int64_t sample = 0; sample < layout.samples; ++sample) {
    double* sum = totals.data() + sample * width;
    for (int64_t p = 0; p < parts; ++p) {
      const double* from = totals.data() + (sample * parts + p) * width;
      for (int64_t c = 0; c < width; ++c) sum[c] = p ? sum[c] + from[c] : from[c];
    }
  }
  return totals;
}

/// Means of columns and the sums of the squared distances from them, over `rows` rows.
struct ColumnMoments {
  std::vector<double> mean, squares;
  double rows = 0;

  explicit ColumnMoments(int64_t columns) : mean(static_cast<size_t>(columns)), squares(static_cast<size_t>(columns)) {}

  /// Takes `more` rows in (Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm", 1979).
  template <class B>
  void add(double more, const B* their_mean, const B* their_squares) {
    if (more == 0) return;
    const double share = more / (rows + more), weight = rows * share;
    FACULA_SIMD
    for (size_t c = 0; c < mean.size(); ++c) {
      const double apart = static_cast<double>(their_mean[c]) - mean[c];
      mean[c] += apart * share;
      squares[c] += static_cast<double>(their_squares[c]) + apart * apart * weight;
    }
    rows += more;
  }
};

/// Sums of `rows` rows and, while these are in cache, of the squared distances from their means.
template <class T, class A>
void moments_of_rows(const T* x, int64_t rows, int64_t channels, A* mean, A* squares) {
  std::fill_n(mean, channels, A(0));
  std::fill_n(squares, channels, A(0));
  if constexpr (is_narrow<T>) {  // a row at a time, converted in registers
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = x + r * channels;
      write_by(channels, mean, [=](auto at) { return at(mean) + at(row); });
    }
    for (int64_t c = 0; c < channels; ++c) mean[c] /= A(rows);
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = x + r * channels;
      write_by(channels, squares, [=](auto at) {
        const auto d = at(row) - at(mean);
        return at(squares) + d * d;
      });
    }
  } else {
    by_rows_together(rows, [=](int64_t r, auto together) {
      const T* row = x + r * channels;
      FACULA_SIMD
      for (int64_t c = 0; c < channels; ++c)
        mean[c] += sum_of_rows<together()>([=](int64_t i) { return A(load(row[i * channels + c])); });
    });
    for (int64_t c = 0; c < channels; ++c) mean[c] /= A(rows);
    by_rows_together(rows, [=](int64_t r, auto together) {
      const T* row = x + r * channels;
      FACULA_SIMD
      for (int64_t c = 0; c < channels; ++c) {
        const A center = mean[c];
        squares[c] += sum_of_rows<together()>([=](int64_t i) {
          const A d = load(row[i * channels + c]) - center;
          return d * d;
        });
      }
    });
  }
}

/// Of one sample, in `parts` parts, into `all`.
template <class T, class A>
void moments_of_part(ColumnMoments& all, const T* x, const ChannelLayout& layout, int64_t part, int64_t parts) {
  constexpr int64_t kCached = 32768;  // elements
  const int64_t channels = layout.channels, rows = std::clamp<int64_t>(kCached / channels, 1, kBlock);
  const int64_t blocks = (layout.outer + rows - 1) / rows;
  std::vector<A> mean(static_cast<size_t>(channels)), squares(static_cast<size_t>(channels));
  for (int64_t block = blocks * part / parts; block < blocks * (part + 1) / parts; ++block) {
    const int64_t first = block * rows, count = std::min(rows, layout.outer - first);
    moments_of_rows(x + first * channels, count, channels, mean.data(), squares.data());
    all.add(static_cast<double>(count), mean.data(), squares.data());
  }
}

template <class T, class A>
void column_moments(A* mean, A* variance, const T* x, const ChannelLayout& layout) {
  constexpr int64_t kParts = 32;
  const int64_t channels = layout.channels, columns = layout.samples * channels;
  if (layout.outer == 0) {  // the mean of nothing
    std::fill_n(mean, columns, std::numeric_limits<A>::quiet_NaN());
    std::fill_n(variance, columns, std::numeric_limits<A>::quiet_NaN());
    return;
  }
  const int64_t parts = std::clamp<int64_t>(layout.outer * channels / (4 * kGrain), 1, kParts);
  std::vector<ColumnMoments> of_parts(static_cast<size_t>(layout.samples * parts), ColumnMoments(channels));
  parallel_for(0, layout.samples * parts, part_grain(layout, parts), [&](int64_t from, int64_t to) {
    for (int64_t place = from; place < to; ++place)
      moments_of_part<T, A>(of_parts[static_cast<size_t>(place)], x + place / parts * layout.outer * channels, layout,
                            place % parts, parts);
  });
  for (int64_t sample = 0; sample < layout.samples; ++sample) {
    ColumnMoments* all = &of_parts[static_cast<size_t>(sample * parts)];
    for (int64_t p = 1; p < parts; ++p) all->add(all[p].rows, all[p].mean.data(), all[p].squares.data());
    for (int64_t c = 0; c < channels; ++c) {
      mean[sample * channels + c] = A(all->mean[static_cast<size_t>(c)]);
      variance[sample * channels + c] = A(all->squares[static_cast<size_t>(c)] / static_cast<double>(layout.count()));
    }
  }
}

template <class T, class A>
void column_gradients(A* total, A* centered, const T* grad, const T* self, const A* mean, const ChannelLayout& layout) {
  const int64_t channels = layout.channels;
  const std::vector<double> sums = column_sums<A>(layout, 2, [=](A* plain, int64_t at, int64_t sample, auto together) {
    A* with_x = plain + channels;
    const T *g = grad + at, *x = self + at;
    const A* centers = mean + sample * channels;
    if constexpr (is_narrow<T>) {  // a row at a time, converted in registers
      for (int64_t r = 0; r < (together() ? kRowsTogether : 1); ++r) {
        const T *gr = g + r * channels, *xr = x + r * channels;
        write_both_by(channels, plain, with_x, [=](auto i) {
          const auto value = i(gr);
          return Two{i(plain) + value, i(with_x) + value * (i(xr) - i(centers))};
        });
      }
    } else {
      FACULA_SIMD
      for (int64_t c = 0; c < channels; ++c) {
        const A center = centers[c];
        plain[c] += sum_of_rows<together()>([=](int64_t i) { return A(load(g[i * channels + c])); });
        with_x[c] += sum_of_rows<together()>(
            [=](int64_t i) { return A(load(g[i * channels + c])) * (load(x[i * channels + c]) - center); });
      }
    }
  });
  for (int64_t place = 0; place < layout.samples * channels; ++place) {
    const size_t from = static_cast<size_t>(place + place / channels * channels);
    total[place] = A(sums[from]);
    centered[place] = A(sums[from + static_cast<size_t>(channels)]);
  }
}

int64_t channel_grain(const ChannelLayout& layout) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(layout.count(), 1));
}

void channel_moments_cpu(const Tensor& mean, const Tensor& variance, const Tensor& self, const ChannelLayout& layout) {
  if (layout.channels == 0) return;
  LockRelease unlocked(self.numel() > kLongWork);
  visit_floating("batch_norm", self.dtype(), [&]<class T, class A>(T, A) {
    A *m = mean.data<A>(), *v = variance.data<A>();
    if (layout.inner == 1) return column_moments(m, v, self.data<T>(), layout);
    const double count = static_cast<double>(layout.count());
    parallel_for(0, layout.channels, channel_grain(layout), [&](int64_t from, int64_t to) {
      for (int64_t c = from; c < to; ++c) {
        double total = 0, squares = 0;
        each_run(self.data<T>(), layout, c, [&](const T* x) { total += plain_sum<A>(x, layout.inner); });
        const A center = A(total / count);
        each_run(self.data<T>(), layout, c,
                 [&](const T* x) { squares += squared_distances<A>(x, layout.inner, center); });
        m[c] = center;
        v[c] = A(squares / count);
      }
    });
  });
}

void channel_sums_cpu(const Tensor& total, const Tensor& centered, const Tensor& grad, const Tensor& self,
                      const Tensor& mean, const ChannelLayout& layout) {
  if (layout.channels == 0) return;
  LockRelease unlocked(self.numel() > kLongWork);
  visit_floating("batch_norm", self.dtype(), [&]<class T, class A>(T, A) {
    const T *g = grad.data<T>(), *x = self.data<T>();
    const A* m = mean.data<A>();
    A *plain = total.data<A>(), *with_x = centered.data<A>();
    if (layout.inner == 1) return column_gradients(plain, with_x, g, x, m, layout);
    parallel_for(0, layout.channels, channel_grain(layout), [&](int64_t from, int64_t to) {
      for (int64_t c = from; c < to; ++c) {
        double first = 0, second = 0;
        for (int64_t o = 0; o < layout.outer; ++o) {
          const int64_t at = (o * layout.channels + c) * layout.inner;
          auto [a, b] = gradient_sums<A>(g + at, x + at, static_cast<const A*>(nullptr), layout.inner, m[c]);
          first += a;
          second += b;
        }
        plain[c] = A(first);
        with_x[c] = A(second);
      }
    });
  });
}

/// Runs body(to, at, count, channel, first) over pieces of runs of one channel, or (with one element per run) whole
/// rows with channel -1 and the place of the factors of their first; what it writes to `to` is the result at element
/// `at` of `out`, whose memory it does not read.
template <class T, class F>
void each_channel_run(const ChannelLayout& layout, T* out, F&& body) {
  using Writer = BlockWriter<T>;
  const bool rows = layout.inner == 1;
  const int64_t run = rows ? layout.channels : layout.inner;
  const int64_t runs = rows ? layout.samples * layout.outer : layout.outer * layout.channels;
  const bool around = Writer::is_worth(runs * run) && (!rows || run <= Writer::kElements);
  const int64_t piece = around ? std::min(run, Writer::kElements) : run;
  parallel_for(0, runs, std::max<int64_t>(1, kGrain / std::max<int64_t>(run, 1)), [&](int64_t from, int64_t to) {
    Writer writer(out + from * run, around);
    for (int64_t r = from; r < to; ++r) {
      const int64_t first = layout.samples > 1 ? r / layout.outer * layout.channels : 0;
      for (int64_t done = 0; done < run; done += piece) {
        const int64_t count = std::min(piece, run - done);
        body(writer.next(count), r * run + done, count, rows ? -1 : r % layout.channels, first);
      }
    }
  });
}

void channel_factors_cpu(const Tensor& rstd, const Tensor& scale, const Tensor& shift, const Tensor& mean,
                         const Tensor& variance, const Tensor& weight, const Tensor& bias, double eps) {
  visit_floating("batch_norm", rstd.dtype(), [&]<class T, class A>(T, A) {
    T *r = rstd.data<T>(), *s = scale.data<T>(), *b = shift.data<T>();
    const T *m = mean.data<T>(), *v = variance.data<T>();
    const T *w = weight.defined() ? weight.data<T>() : nullptr, *o = bias.defined() ? bias.data<T>() : nullptr;
    FACULA_SIMD
    for (int64_t c = 0; c < rstd.numel(); ++c) {
      const double inverse = 1.0 / std::sqrt(static_cast<double>(load(v[c])) + eps);
      const T factor = T(w ? inverse * static_cast<double>(load(w[c])) : inverse);
      const double offset = o ? static_cast<double>(load(o[c])) : 0.0;
      r[c] = T(inverse);
      s[c] = factor;
      b[c] = T(offset - static_cast<double>(load(m[c])) * static_cast<double>(load(factor)));
    }
  });
}

void channel_affine_cpu(const Tensor& out, const Tensor& self, const Tensor& scale, const Tensor& shift,
                        const ChannelLayout& layout) {
  if (layout.channels == 0) return;
  LockRelease unlocked(self.numel() > kLongWork);
  visit_floating("batch_norm", self.dtype(), [&]<class T, class A>(T, A) {
    const A *a = scale.data<A>(), *b = shift.data<A>();
    each_channel_run(layout, out.data<T>(), [&](T* to, int64_t at, int64_t count, int64_t channel, int64_t first) {
      const T* x = self.data<T>() + at;
      if (channel < 0) affine_row(count, to, x, a + first, b + first);
      else affine_run(count, to, x, a[channel], b[channel]);
    });
  });
}

void channel_combine_cpu(const Tensor& out, const Tensor& grad, const Tensor& self, const Tensor& a, const Tensor& b,
                         const Tensor& c, const ChannelLayout& layout) {
  if (layout.channels == 0) return;
  LockRelease unlocked(self.numel() > kLongWork);
  visit_floating("batch_norm", self.dtype(), [&]<class T, class A>(T, A) {
    const A *p = a.data<A>(), *q = b.data<A>(), *r = c.data<A>();
    each_channel_run(layout, out.data<T>(), [&](T* to, int64_t at, int64_t count, int64_t channel, int64_t first) {
      const T *g = grad.data<T>() + at, *x = self.data<T>() + at;
      if (channel < 0) {
        const A *ga = p + first, *xa = q + first, *offsets = r + first;
        write_by(count, to, [=](auto i) { return i(g) * i(ga) + i(x) * i(xa) + i(offsets); });
      } else {
        const A ga = p[channel], xa = q[channel], offset = r[channel];
        write_by(count, to, [=](auto i) { return i(g) * ga + i(x) * xa + offset; });
      }
    });
  });
}

}  // namespace

void register_norm() {
  row_norm_kernel.set(DeviceType::CPU, row_norm_cpu);
  row_norm_backward_kernel.set(DeviceType::CPU, row_norm_backward_cpu);
  channel_moments_kernel.set(DeviceType::CPU, channel_moments_cpu);
  channel_factors_kernel.set(DeviceType::CPU, channel_factors_cpu);
  channel_affine_kernel.set(DeviceType::CPU, channel_affine_cpu);
  channel_sums_kernel.set(DeviceType::CPU, channel_sums_cpu);
  channel_combine_kernel.set(DeviceType::CPU, channel_combine_cpu);
}

}  // namespace facula::cpu::FACULA_ISA

// Normalisations on the CPU. Sums run over blocks of a fixed length whose totals are added in double precision, and
// work is split by rows or channels only, so results do not depend on the number of threads.
#include "ops/norm.h"

#include <cmath>
#include <type_traits>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/floating.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kBlock = 512;
constexpr int64_t kLongWork = 1 << 15;

/// The sum of f(i) for i below n.
template <class A, class F>
double block_sum(int64_t n, F&& f) {
  double total = 0;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t end = std::min(at + kBlock, n);
    A partial = 0;
#pragma omp simd reduction(+ : partial)
    for (int64_t i = at; i < end; ++i) partial += f(i);
    total += partial;
  }
  return total;
}

/// Two sums in one pass.
template <class A, class F>
std::pair<double, double> block_sums(int64_t n, F&& f) {
  double first = 0, second = 0;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t end = std::min(at + kBlock, n);
    A a = 0, b = 0;
#pragma omp simd reduction(+ : a, b)
    for (int64_t i = at; i < end; ++i) {
      auto [x, y] = f(i);
      a += x;
      b += y;
    }
    first += a;
    second += b;
  }
  return {first, second};
}

// ---- rows

template <class A>
const A* row_parameter(const Tensor& t, const RowLayout& layout, int64_t row) {
  return t.defined() ? t.data<A>() + row % layout.groups * layout.channels : nullptr;
}

template <class T, class A>
void normalise_row(T* out, const T* x, const A* weight, const A* bias, const RowLayout& layout, A mean, A rstd) {
  if (layout.inner == 1) {
    const int64_t n = layout.channels;
    if (weight && bias) {
      FACULA_SIMD
      for (int64_t i = 0; i < n; ++i) out[i] = T((load(x[i]) - mean) * rstd * weight[i] + bias[i]);
      return;
    }
    FACULA_SIMD
    for (int64_t i = 0; i < n; ++i)
      out[i] = T((load(x[i]) - mean) * rstd * (weight ? weight[i] : A(1)) + (bias ? bias[i] : A(0)));
    return;
  }
  for (int64_t k = 0; k < layout.channels; ++k) {
    const A scale = weight ? rstd * weight[k] : rstd;
    const A shift = bias ? bias[k] : A(0);
    const T* from = x + k * layout.inner;
    T* to = out + k * layout.inner;
    FACULA_SIMD
    for (int64_t i = 0; i < layout.inner; ++i) to[i] = T((load(from[i]) - mean) * scale + shift);
  }
}

void row_norm_cpu(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& self, const Tensor& weight,
                  const Tensor& bias, const RowLayout& layout, double eps, bool center) {
  const int64_t n = layout.length();
  LockRelease unlocked(self.numel() > kLongWork);
  visit_floating("layer_norm", self.dtype(), [&]<class T, class A>(T, A) {
    parallel_for(0, layout.rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(n, 1)), [&](int64_t from, int64_t to) {
      for (int64_t r = from; r < to; ++r) {
        const T* x = self.data<T>() + r * n;
        const A m = center ? A(block_sum<A>(n, [&](int64_t i) { return load(x[i]); }) / static_cast<double>(n)) : A(0);
        const double squares = block_sum<A>(n, [&](int64_t i) {
          const A d = load(x[i]) - m;
          return d * d;
        });
        const A inverse = A(1.0 / std::sqrt(squares / static_cast<double>(n) + eps));
        mean.data<A>()[r] = m;
        rstd.data<A>()[r] = inverse;
        normalise_row(out.data<T>() + r * n, x, row_parameter<A>(weight, layout, r), row_parameter<A>(bias, layout, r),
                      layout, m, inverse);
      }
    });
  });
}

/// grad_input = rstd * (g * w - mean(g * w) - x^ * mean(g * w * x^)) with x^ the normalised row.
template <class T, class A>
void row_backward(T* out, const T* grad, const T* x, const A* weight, const RowLayout& layout, A mean, A rstd,
                  bool center) {
  const int64_t n = layout.length();
  double total = 0, with_x = 0;
  if (layout.inner == 1) {
    auto factor = [&](int64_t i) { return weight ? weight[i] : A(1); };
    std::tie(total, with_x) = block_sums<A>(n, [&](int64_t i) {
      const A g = load(grad[i]) * factor(i);
      return std::pair<A, A>(g, g * (load(x[i]) - mean));
    });
  } else {
    for (int64_t k = 0; k < layout.channels; ++k) {
      const int64_t at = k * layout.inner;
      auto [t, w] = block_sums<A>(layout.inner, [&](int64_t i) {
        const A g = load(grad[at + i]);
        return std::pair<A, A>(g, g * (load(x[at + i]) - mean));
      });
      const double factor = weight ? weight[k] : A(1);
      total += factor * t;
      with_x += factor * w;
    }
  }
  const A a = center ? A(total / static_cast<double>(n)) : A(0);
  const A b = A(with_x * rstd * rstd / static_cast<double>(n));
  for (int64_t k = 0; k < (layout.inner == 1 ? 1 : layout.channels); ++k) {
    const int64_t at = k * layout.inner, count = layout.inner == 1 ? n : layout.inner;
    const A one = weight && layout.inner != 1 ? weight[k] : A(1);
    const A* each = layout.inner == 1 ? weight : nullptr;
    FACULA_SIMD
    for (int64_t i = at; i < at + count; ++i)
      out[i] = T(rstd * (load(grad[i]) * (each ? each[i] : one) - a - b * (load(x[i]) - mean)));
  }
}

void row_norm_backward_cpu(const Tensor& grad_input, const Tensor& grad, const Tensor& self, const Tensor& weight,
                           const Tensor& mean, const Tensor& rstd, const RowLayout& layout, bool center) {
  const int64_t n = layout.length();
  LockRelease unlocked(self.numel() > kLongWork);
  visit_floating("layer_norm", self.dtype(), [&]<class T, class A>(T, A) {
    parallel_for(0, layout.rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(n, 1)), [&](int64_t from, int64_t to) {
      for (int64_t r = from; r < to; ++r) {
        row_backward(grad_input.data<T>() + r * n, grad.data<T>() + r * n, self.data<T>() + r * n,
                     row_parameter<A>(weight, layout, r), layout, mean.data<A>()[r], rstd.data<A>()[r], center);
      }
    });
  });
}

/// Adds the rows [from, to) of grad * x^ to `totals`, one per group and channel.
template <class T, class A>
void add_weight_rows(A* totals, const T* grad, const T* self, const A* mean, const A* rstd, const RowLayout& layout,
                     int64_t from, int64_t to) {
  const int64_t n = layout.length();
  for (int64_t r = from; r < to; ++r) {
    const T *g = grad + r * n, *x = self + r * n;
    const A m = mean[r], s = rstd[r];
    A* sums = totals + r % layout.groups * layout.channels;
    if (layout.inner == 1) {
      FACULA_SIMD
      for (int64_t i = 0; i < n; ++i) sums[i] += load(g[i]) * (load(x[i]) - m) * s;
      continue;
    }
    for (int64_t k = 0; k < layout.channels; ++k) {
      const int64_t at = k * layout.inner;
      sums[k] += A(block_sum<A>(layout.inner, [&](int64_t i) { return load(g[at + i]) * (load(x[at + i]) - m); })) * s;
    }
  }
}

void row_norm_backward_weight_cpu(const Tensor& grad_weight, const Tensor& grad, const Tensor& self, const Tensor& mean,
                                  const Tensor& rstd, const RowLayout& layout) {
  constexpr int64_t kParts = 32;  // fixed, so that the order of additions is too
  LockRelease unlocked(self.numel() > kLongWork);
  visit_floating("layer_norm", self.dtype(), [&]<class T, class A>(T, A) {
    const int64_t width = grad_weight.numel();
    const int64_t parts = std::max<int64_t>(1, std::min(kParts, self.numel() / kGrain));
    const int64_t rows_per_part = (layout.rows + parts - 1) / parts;
    std::vector<A> partial(static_cast<size_t>(parts * width), A(0));
    parallel_for(0, parts, 1, [&](int64_t from, int64_t to) {
      for (int64_t p = from; p < to; ++p) {
        add_weight_rows(partial.data() + p * width, grad.data<T>(), self.data<T>(), mean.data<A>(), rstd.data<A>(),
                        layout, p * rows_per_part, std::min((p + 1) * rows_per_part, layout.rows));
      }
    });
    for (int64_t i = 0; i < width; ++i) {
      double total = 0;
      for (int64_t p = 0; p < parts; ++p) total += partial[static_cast<size_t>(p * width + i)];
      grad_weight.data<A>()[i] = A(total);
    }
  });
}

// ---- channels

/// Calls f(part, from, to) over parts of the outer * inner elements of each channel: f gets whole runs.
template <class T, class F>
void each_run(const T* data, const ChannelLayout& layout, int64_t channel, F&& f) {
  for (int64_t o = 0; o < layout.outer; ++o) f(data + (o * layout.channels + channel) * layout.inner);
}

/// With one element per run, sums go down columns: all channels at once, over the rows of a block.
template <class A, class F>
void column_sums(double* totals, const ChannelLayout& layout, F&& row) {
  std::vector<A> partial(static_cast<size_t>(layout.channels));
  std::fill(totals, totals + layout.channels, 0.0);
  for (int64_t at = 0; at < layout.outer; at += kBlock) {
    std::fill(partial.begin(), partial.end(), A(0));
    for (int64_t o = at; o < std::min(at + kBlock, layout.outer); ++o) row(partial.data(), o * layout.channels);
    for (int64_t c = 0; c < layout.channels; ++c) totals[c] += partial[static_cast<size_t>(c)];
  }
}

template <class T, class A>
void column_moments(A* mean, A* variance, const T* x, const ChannelLayout& layout) {
  std::vector<double> totals(static_cast<size_t>(layout.channels));
  const double count = static_cast<double>(layout.count());
  column_sums<A>(totals.data(), layout, [&](A* sums, int64_t at) {
    FACULA_SIMD
    for (int64_t c = 0; c < layout.channels; ++c) sums[c] += load(x[at + c]);
  });
  for (int64_t c = 0; c < layout.channels; ++c) mean[c] = A(totals[static_cast<size_t>(c)] / count);
  column_sums<A>(totals.data(), layout, [&](A* sums, int64_t at) {
    FACULA_SIMD
    for (int64_t c = 0; c < layout.channels; ++c) {
      const A d = load(x[at + c]) - mean[c];
      sums[c] += d * d;
    }
  });
  for (int64_t c = 0; c < layout.channels; ++c) variance[c] = A(totals[static_cast<size_t>(c)] / count);
}

int64_t channel_grain(const ChannelLayout& layout) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(layout.count(), 1));
}

void channel_moments_cpu(const Tensor& mean, const Tensor& variance, const Tensor& self, const ChannelLayout& layout) {
  LockRelease unlocked(self.numel() > kLongWork);
  visit_floating("batch_norm", self.dtype(), [&]<class T, class A>(T, A) {
    A *m = mean.data<A>(), *v = variance.data<A>();
    if (layout.inner == 1) return column_moments(m, v, self.data<T>(), layout);
    const double count = static_cast<double>(layout.count());
    parallel_for(0, layout.channels, channel_grain(layout), [&](int64_t from, int64_t to) {
      for (int64_t c = from; c < to; ++c) {
        double total = 0, squares = 0;
        each_run(self.data<T>(), layout, c,
                 [&](const T* x) { total += block_sum<A>(layout.inner, [&](int64_t i) { return load(x[i]); }); });
        const A center = A(total / count);
        each_run(self.data<T>(), layout, c, [&](const T* x) {
          squares += block_sum<A>(layout.inner, [&](int64_t i) {
            const A d = load(x[i]) - center;
            return d * d;
          });
        });
        m[c] = center;
        v[c] = A(squares / count);
      }
    });
  });
}

void channel_sums_cpu(const Tensor& total, const Tensor& centered, const Tensor& grad, const Tensor& self,
                      const Tensor& mean, const ChannelLayout& layout) {
  LockRelease unlocked(self.numel() > kLongWork);
  visit_floating("batch_norm", self.dtype(), [&]<class T, class A>(T, A) {
    const T *g = grad.data<T>(), *x = self.data<T>();
    const A* m = mean.data<A>();
    A *plain = total.data<A>(), *with_x = centered.data<A>();
    if (layout.inner == 1) {
      std::vector<double> sums(static_cast<size_t>(layout.channels));
      column_sums<A>(sums.data(), layout, [&](A* s, int64_t at) {
        FACULA_SIMD
        for (int64_t c = 0; c < layout.channels; ++c) s[c] += load(g[at + c]);
      });
      for (int64_t c = 0; c < layout.channels; ++c) plain[c] = A(sums[static_cast<size_t>(c)]);
      column_sums<A>(sums.data(), layout, [&](A* s, int64_t at) {
        FACULA_SIMD
        for (int64_t c = 0; c < layout.channels; ++c) s[c] += load(g[at + c]) * (load(x[at + c]) - m[c]);
      });
      for (int64_t c = 0; c < layout.channels; ++c) with_x[c] = A(sums[static_cast<size_t>(c)]);
      return;
    }
    parallel_for(0, layout.channels, channel_grain(layout), [&](int64_t from, int64_t to) {
      for (int64_t c = from; c < to; ++c) {
        double first = 0, second = 0;
        for (int64_t o = 0; o < layout.outer; ++o) {
          const int64_t at = (o * layout.channels + c) * layout.inner;
          auto [a, b] = block_sums<A>(layout.inner, [&](int64_t i) {
            const A d = load(g[at + i]);
            return std::pair<A, A>(d, d * (load(x[at + i]) - m[c]));
          });
          first += a;
          second += b;
        }
        plain[c] = A(first);
        with_x[c] = A(second);
      }
    });
  });
}

/// Runs body(at, count, channel) over runs of one channel, or (with one element per run) whole rows with channel -1.
template <class F>
void each_channel_run(const ChannelLayout& layout, F&& body) {
  if (layout.inner == 1) {
    parallel_for(0, layout.outer, std::max<int64_t>(1, kGrain / std::max<int64_t>(layout.channels, 1)),
                 [&](int64_t from, int64_t to) {
                   for (int64_t o = from; o < to; ++o) body(o * layout.channels, layout.channels, int64_t{-1});
                 });
    return;
  }
  parallel_for(0, layout.outer * layout.channels, std::max<int64_t>(1, kGrain / std::max<int64_t>(layout.inner, 1)),
               [&](int64_t from, int64_t to) {
                 for (int64_t r = from; r < to; ++r) body(r * layout.inner, layout.inner, r % layout.channels);
               });
}

void channel_affine_cpu(const Tensor& out, const Tensor& self, const Tensor& scale, const Tensor& shift,
                        const ChannelLayout& layout) {
  LockRelease unlocked(self.numel() > kLongWork);
  visit_floating("batch_norm", self.dtype(), [&]<class T, class A>(T, A) {
    const A *a = scale.data<A>(), *b = shift.data<A>();
    each_channel_run(layout, [&](int64_t at, int64_t count, int64_t channel) {
      T* to = out.data<T>() + at;
      const T* x = self.data<T>() + at;
      if (channel < 0) {
        FACULA_SIMD
        for (int64_t i = 0; i < count; ++i) to[i] = T(load(x[i]) * a[i] + b[i]);
      } else {
        const A factor = a[channel], offset = b[channel];
        FACULA_SIMD
        for (int64_t i = 0; i < count; ++i) to[i] = T(load(x[i]) * factor + offset);
      }
    });
  });
}

void channel_combine_cpu(const Tensor& out, const Tensor& grad, const Tensor& self, const Tensor& a, const Tensor& b,
                         const Tensor& c, const ChannelLayout& layout) {
  LockRelease unlocked(self.numel() > kLongWork);
  visit_floating("batch_norm", self.dtype(), [&]<class T, class A>(T, A) {
    const A *p = a.data<A>(), *q = b.data<A>(), *r = c.data<A>();
    each_channel_run(layout, [&](int64_t at, int64_t count, int64_t channel) {
      T* to = out.data<T>() + at;
      const T *g = grad.data<T>() + at, *x = self.data<T>() + at;
      if (channel < 0) {
        FACULA_SIMD
        for (int64_t i = 0; i < count; ++i) to[i] = T(load(g[i]) * p[i] + load(x[i]) * q[i] + r[i]);
      } else {
        const A ga = p[channel], xa = q[channel], offset = r[channel];
        FACULA_SIMD
        for (int64_t i = 0; i < count; ++i) to[i] = T(load(g[i]) * ga + load(x[i]) * xa + offset);
      }
    });
  });
}

}  // namespace

void register_norm() {
  row_norm_kernel.set(DeviceType::CPU, row_norm_cpu);
  row_norm_backward_kernel.set(DeviceType::CPU, row_norm_backward_cpu);
  row_norm_backward_weight_kernel.set(DeviceType::CPU, row_norm_backward_weight_cpu);
  channel_moments_kernel.set(DeviceType::CPU, channel_moments_cpu);
  channel_affine_kernel.set(DeviceType::CPU, channel_affine_cpu);
  channel_sums_kernel.set(DeviceType::CPU, channel_sums_cpu);
  channel_combine_kernel.set(DeviceType::CPU, channel_combine_cpu);
}

}  // namespace facula::cpu::FACULA_ISA

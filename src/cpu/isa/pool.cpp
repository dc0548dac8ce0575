// Pooling loops: plane by plane for contiguous tensors, over vectors of channels for channels-last ones.
#include "ops/pool.h"

#include <atomic>
#include <vector>

#include "core/parallel.h"
#include "cpu/isa.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
using Compute = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

template <class T>
bool is_nan(T value) {
  return value != value;
}

template <class F>
void visit_real(DType dtype, F&& f) {
  visit_dtype(dtype, [&]<class T>(TypeTag<T> tag) {
    if constexpr ((std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) || std::is_same_v<T, Half> ||
                  std::is_same_v<T, BFloat16>)
      f(tag);
  });
}

template <class F>
void visit_wide(DType dtype, F&& f) {
  if (dtype == DType::Float32)
    f(TypeTag<float>{});
  else
    f(TypeTag<double>{});
}

int64_t spatial_count(const Tensor& t) {
  int64_t count = 1;
  for (int64_t s : spatial_part(t)) count *= s;
  return count;
}

bool channels_last(const Tensor& t) { return !t.is_contiguous(); }

int64_t grain_of(int64_t work_per_item) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(work_per_item, 1));
}

// Splits a flat output position into its window along each axis.
struct Window {
  int64_t begin[3], end[3], step[3];
  double divisor = 1;
  bool empty() const { return begin[0] >= end[0] || begin[1] >= end[1] || begin[2] >= end[2]; }
};

Window window_at(const PoolGeometry& g, int64_t position) {
  Window w;
  for (int d = 2; d >= 0; --d) {
    const PoolAxis& axis = g.axes[d];
    size_t o = static_cast<size_t>(position % axis.out());
    position /= axis.out();
    w.begin[d] = axis.begin[o];
    w.end[d] = axis.end[o];
    w.step[d] = axis.step;
    w.divisor *= axis.divisor[o];
  }
  if (g.divisor != 0) w.divisor = g.divisor;
  return w;
}

// Calls f(flat input position) for every element of a window.
template <class F>
inline void for_each_in(const PoolGeometry& g, const Window& w, F&& f) {
  for (int64_t i0 = w.begin[0]; i0 < w.end[0]; i0 += w.step[0])
    for (int64_t i1 = w.begin[1]; i1 < w.end[1]; i1 += w.step[1])
      for (int64_t i2 = w.begin[2]; i2 < w.end[2]; i2 += w.step[2])
        f((i0 * g.axes[1].in + i1) * g.axes[2].in + i2);
}

int64_t window_size(const PoolGeometry& g) {
  int64_t size = 1;
  for (const PoolAxis& axis : g.axes) size *= (axis.end[0] - axis.begin[0]) / axis.step + 1;
  return size;
}

// maxima

template <class T>
void max_plane(T* out, int64_t* indices, const T* in, const PoolGeometry& g) {
  const PoolAxis &a0 = g.axes[0], &a1 = g.axes[1], &a2 = g.axes[2];
  for (int64_t o0 = 0; o0 < a0.out(); ++o0) {
    for (int64_t o1 = 0; o1 < a1.out(); ++o1) {
      for (int64_t o2 = 0; o2 < a2.out(); ++o2) {
        int64_t where = (a0.begin[o0] * a1.in + a1.begin[o1]) * a2.in + a2.begin[o2];
        Compute<T> best = in[where];
        for (int64_t i0 = a0.begin[o0]; i0 < a0.end[o0]; i0 += a0.step) {
          for (int64_t i1 = a1.begin[o1]; i1 < a1.end[o1]; i1 += a1.step) {
            int64_t row = (i0 * a1.in + i1) * a2.in;
            for (int64_t i2 = a2.begin[o2]; i2 < a2.end[o2]; i2 += a2.step) {
              Compute<T> value = in[row + i2];
              bool better = value > best || is_nan(value);
              best = better ? value : best;
              where = better ? row + i2 : where;
            }
          }
        }
        *out++ = T(best);
        *indices++ = where;
      }
    }
  }
}

// One output position of channels-last memory.
template <class T>
void max_channels(T* out, int64_t* indices, const T* in, int64_t channels, const PoolGeometry& g,
                  const Window& w, Compute<T>* best, int32_t* where) {
  bool first = true;
  for_each_in(g, w, [&](int64_t at) {
    const T* values = in + at * channels;
    int32_t here = static_cast<int32_t>(at);
    if (first) {
      for (int64_t c = 0; c < channels; ++c) {
        best[c] = values[c];
        where[c] = here;
      }
      first = false;
      return;
    }
    FACULA_SIMD
    for (int64_t c = 0; c < channels; ++c) {
      Compute<T> value = values[c];
      bool better = value > best[c] || is_nan(value);
      best[c] = better ? value : best[c];
      where[c] = better ? here : where[c];
    }
  });
  for (int64_t c = 0; c < channels; ++c) {
    out[c] = T(best[c]);
    indices[c] = where[c];
  }
}

void max_pool_cpu(const Tensor& out, const Tensor& indices, const Tensor& in, const PoolGeometry& g) {
  int64_t batch = in.size(0), channels = in.size(1), inputs = spatial_count(in), outputs = spatial_count(out);
  LockRelease release(out.numel() > kGrain);
  visit_real(in.dtype(), [&]<class T>(TypeTag<T>) {
    int64_t* where = indices.data<int64_t>();
    if (!channels_last(in) || inputs > INT32_MAX) {
      FACULA_CHECK(!channels_last(in), ErrorKind::Runtime,
                   "max_pool: a channels-last plane of more than 2^31 elements, got shape ", in.sizes());
      parallel_for(0, batch * channels, grain_of(outputs * window_size(g)), [&](int64_t from, int64_t to) {
        for (int64_t p = from; p < to; ++p)
          max_plane(out.data<T>() + p * outputs, where + p * outputs, in.data<T>() + p * inputs, g);
      });
      return;
    }
    parallel_for(0, batch * outputs, grain_of(channels * window_size(g)), [&](int64_t from, int64_t to) {
      std::vector<Compute<T>> best(static_cast<size_t>(channels));
      std::vector<int32_t> places(static_cast<size_t>(channels));
      for (int64_t p = from; p < to; ++p) {
        max_channels(out.data<T>() + p * channels, where + p * channels,
                     in.data<T>() + p / outputs * inputs * channels, channels, g, window_at(g, p % outputs),
                     best.data(), places.data());
      }
    });
  });
}

// means

template <class T>
T mean(Compute<T> sum, double divisor) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(sum / static_cast<T>(divisor));
  else
    return T(sum / static_cast<Compute<T>>(divisor));
}

template <class T>
Compute<T> sum_of(const T* values, int64_t count) {
  constexpr int64_t kVectorPays = 16;
  Compute<T> sum = 0;
  if (count < kVectorPays) {
    for (int64_t i = 0; i < count; ++i) sum += Compute<T>(values[i]);
    return sum;
  }
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += Compute<T>(values[i]);
  return sum;
}

// Calls f(output position, window) for every output of a plane, in order.
template <class F>
void for_each_window(const PoolGeometry& g, F&& f) {
  const PoolAxis &a0 = g.axes[0], &a1 = g.axes[1], &a2 = g.axes[2];
  Window w{{0, 0, 0}, {0, 0, 0}, {1, 1, 1}};
  int64_t position = 0;
  for (int64_t o0 = 0; o0 < a0.out(); ++o0) {
    for (int64_t o1 = 0; o1 < a1.out(); ++o1) {
      w.begin[0] = a0.begin[o0], w.end[0] = a0.end[o0];
      w.begin[1] = a1.begin[o1], w.end[1] = a1.end[o1];
      double divisor = a0.divisor[o0] * a1.divisor[o1];
      for (int64_t o2 = 0; o2 < a2.out(); ++o2, ++position) {
        w.begin[2] = a2.begin[o2], w.end[2] = a2.end[o2];
        w.divisor = g.divisor != 0 ? g.divisor : divisor * a2.divisor[o2];
        f(position, w);
      }
    }
  }
}

// Calls f(flat position of the first element) for every row of a window.
template <class F>
void for_each_row(const PoolGeometry& g, const Window& w, F&& f) {
  for (int64_t i0 = w.begin[0]; i0 < w.end[0]; ++i0)
    for (int64_t i1 = w.begin[1]; i1 < w.end[1]; ++i1)
      f((i0 * g.axes[1].in + i1) * g.axes[2].in + w.begin[2]);
}

template <class T>
void mean_plane(T* out, const T* in, const PoolGeometry& g) {
  for_each_window(g, [&](int64_t o, const Window& w) {
    Compute<T> sum = 0;
    for_each_row(g, w, [&](int64_t at) { sum += sum_of(in + at, w.end[2] - w.begin[2]); });
    out[o] = w.empty() ? T(0) : mean<T>(sum, w.divisor);
  });
}

template <class T>
void mean_channels(T* out, const T* in, int64_t channels, const PoolGeometry& g, const Window& w,
                   Compute<T>* sum) {
  std::fill_n(sum, channels, Compute<T>(0));
  for_each_in(g, w, [&](int64_t at) {
    const T* values = in + at * channels;
    FACULA_SIMD
    for (int64_t c = 0; c < channels; ++c) sum[c] += Compute<T>(values[c]);
  });
  for (int64_t c = 0; c < channels; ++c) out[c] = w.empty() ? T(0) : mean<T>(sum[c], w.divisor);
}

void avg_pool_cpu(const Tensor& out, const Tensor& in, const PoolGeometry& g) {
  int64_t batch = in.size(0), channels = in.size(1), inputs = spatial_count(in), outputs = spatial_count(out);
  LockRelease release(in.numel() > kGrain);
  visit_real(in.dtype(), [&]<class T>(TypeTag<T>) {
    if (!channels_last(in)) {
      parallel_for(0, batch * channels, grain_of(outputs * window_size(g)), [&](int64_t from, int64_t to) {
        for (int64_t p = from; p < to; ++p)
          mean_plane(out.data<T>() + p * outputs, in.data<T>() + p * inputs, g);
      });
      return;
    }
    parallel_for(0, batch * outputs, grain_of(channels * window_size(g)), [&](int64_t from, int64_t to) {
      std::vector<Compute<T>> sum(static_cast<size_t>(channels));
      for (int64_t p = from; p < to; ++p) {
        mean_channels(out.data<T>() + p * channels, in.data<T>() + p / outputs * inputs * channels, channels,
                      g, window_at(g, p % outputs), sum.data());
      }
    });
  });
}

template <class T>
void spread_plane(T* out, const T* in, const PoolGeometry& g) {
  for_each_window(g, [&](int64_t o, const Window& w) {
    T share = in[o] / static_cast<T>(w.divisor);
    for_each_row(g, w, [&](int64_t at) {
      for (int64_t i = at; i < at + w.end[2] - w.begin[2]; ++i) out[i] += share;
    });
  });
}

template <class T>
void spread_channels(T* out, const T* in, int64_t channels, const PoolGeometry& g, T* shares) {
  for_each_window(g, [&](int64_t o, const Window& w) {
    T divisor = static_cast<T>(w.divisor);
    const T* values = in + o * channels;
    FACULA_SIMD
    for (int64_t c = 0; c < channels; ++c) shares[c] = values[c] / divisor;
    for_each_in(g, w, [&](int64_t at) {
      T* sums = out + at * channels;
      FACULA_SIMD
      for (int64_t c = 0; c < channels; ++c) sums[c] += shares[c];
    });
  });
}

// Every image is one thread's: windows of one image may overlap.
void avg_pool_transpose_cpu(const Tensor& out, const Tensor& in, const PoolGeometry& g) {
  int64_t batch = in.size(0), channels = in.size(1), inputs = spatial_count(in), outputs = spatial_count(out);
  LockRelease release(out.numel() > kGrain);
  visit_wide(in.dtype(), [&]<class T>(TypeTag<T>) {
    if (!channels_last(out)) {
      parallel_for(0, batch * channels, grain_of(outputs), [&](int64_t from, int64_t to) {
        for (int64_t p = from; p < to; ++p)
          spread_plane(out.data<T>() + p * outputs, in.data<T>() + p * inputs, g);
      });
      return;
    }
    parallel_for(0, batch, grain_of(outputs * channels), [&](int64_t from, int64_t to) {
      std::vector<T> shares(static_cast<size_t>(channels));
      for (int64_t n = from; n < to; ++n) {
        spread_channels(out.data<T>() + n * outputs * channels, in.data<T>() + n * inputs * channels,
                        channels, g, shares.data());
      }
    });
  });
}

// Values at positions in planes. Elements of a plane lie `vector` apart, in both formats.

// Calls f(offset among the small planes, offset among the large ones) or gives back a bad index.
template <class F>
int64_t for_each_index(const Tensor& large, const Tensor& indices, F&& f) {
  int64_t batch = indices.size(0), channels = indices.size(1), few = spatial_count(indices),
          many = spatial_count(large);
  bool last = channels_last(large) || channels_last(indices);  // a plane of one element says nothing
  int64_t vector = last ? channels : 1, images = last ? batch : batch * channels;
  std::atomic<int64_t> bad{-1};
  const int64_t* where = indices.data<int64_t>();
  parallel_for(0, images, grain_of(few * vector), [&](int64_t from, int64_t to) {
    for (int64_t image = from; image < to; ++image) {
      int64_t small = image * few * vector, base = image * many * vector;
      for (int64_t i = 0; i < few; ++i) {
        for (int64_t c = 0; c < vector; ++c, ++small) {
          int64_t at = where[small];
          if (at < 0 || at >= many) {
            bad = at == -1 ? many : at;
            return;
          }
          f(small, base + at * vector + c);
        }
      }
    }
  });
  return bad;
}

int64_t scatter_planes_cpu(const Tensor& out, const Tensor& values, const Tensor& indices, bool accumulate) {
  int64_t bad = -1;
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    T* to = out.data<T>();
    const T* from = values.data<T>();
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      if (accumulate) {
        bad = for_each_index(out, indices, [&](int64_t small, int64_t large) { to[large] += from[small]; });
        return;
      }
    }
    bad = for_each_index(out, indices, [&](int64_t small, int64_t large) { to[large] = from[small]; });
  });
  return bad;
}

int64_t gather_planes_cpu(const Tensor& out, const Tensor& in, const Tensor& indices) {
  int64_t bad = -1;
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    T* to = out.data<T>();
    const T* from = in.data<T>();
    bad = for_each_index(in, indices, [&](int64_t small, int64_t large) { to[small] = from[large]; });
  });
  return bad;
}

}  // namespace

void register_pool() {
  max_pool_kernel.set(DeviceType::CPU, max_pool_cpu);
  avg_pool_kernel.set(DeviceType::CPU, avg_pool_cpu);
  avg_pool_transpose_kernel.set(DeviceType::CPU, avg_pool_transpose_cpu);
  scatter_planes_kernel.set(DeviceType::CPU, scatter_planes_cpu);
  gather_planes_kernel.set(DeviceType::CPU, gather_planes_cpu);
}

}  // namespace facula::cpu::FACULA_ISA

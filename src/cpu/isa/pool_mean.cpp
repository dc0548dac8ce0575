// Means of windows, and their transpose: plane by plane for contiguous tensors, over vectors of channels for
// channels-last ones.
#include <vector>

#include "core/checked.h"
#include "cpu/isa/grain.h"
#include "cpu/isa/pool_rows.h"
#include "cpu/isa/pool_small.h"
#include "cpu/isa/pool_windows.h"
#include "cpu/isa/sums.h"
#include "ops/pool.h"

namespace facula::cpu::FACULA_ISA {
namespace {

using Averaged = Types<float, double, Half, BFloat16, int64_t>;

template <class T>
T mean(PoolCompute<T> sum, double divisor) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(sum / static_cast<T>(divisor));
  else return T(sum / static_cast<PoolCompute<T>>(divisor));
}

/// Integers wrap around.
template <class T>
void enter(T& sum, T value) {
  if constexpr (std::is_integral_v<T>) sum = wrapping_add(sum, value);
  else sum += value;
}

template <class T>
PoolCompute<T> run_sum(const T* values, int64_t count) {
  constexpr int64_t kVectorPays = 16;
  PoolCompute<T> sum = 0;
  if (count < kVectorPays) {
    for (int64_t i = 0; i < count; ++i) enter(sum, PoolCompute<T>(values[i]));
    return sum;
  }
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    return sum_of(count, values);
  } else {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) enter(sum, PoolCompute<T>(values[i]));
    return sum;
  }
}

// Calls f(output position, window) for every output of a plane, in order.
template <class F>
void for_each_window(const WindowTables& g, F&& f) {
  const AxisTable &a0 = g.axes[0], &a1 = g.axes[1], &a2 = g.axes[2];
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
void for_each_row(const WindowTables& g, const Window& w, F&& f) {
  for (int64_t i0 = w.begin[0]; i0 < w.end[0]; ++i0)
    for (int64_t i1 = w.begin[1]; i1 < w.end[1]; ++i1) f((i0 * g.axes[1].in + i1) * g.axes[2].in + w.begin[2]);
}

// Calls f(flat position, length) for every run of neighboring elements of a window.
template <class F>
void for_each_run(const WindowTables& g, const Window& w, F&& f) {
  const int64_t width = g.axes[2].in, rows = w.end[1] - w.begin[1];
  if (w.end[2] - w.begin[2] != width || rows <= 0)
    return for_each_row(g, w, [&](int64_t at) { f(at, w.end[2] - w.begin[2]); });
  for (int64_t i0 = w.begin[0]; i0 < w.end[0]; ++i0) f((i0 * g.axes[1].in + w.begin[1]) * width, rows * width);
}

// All alike outputs of a row at once, element by element of their windows.
template <class T>
void mean_row(T* out, const T* in, const WindowTables& g, const UniformRange& inner, int64_t o0, int64_t o1,
              std::vector<PoolCompute<T>>& sums) {
  const AxisTable &a0 = g.axes[0], &a1 = g.axes[1], &a2 = g.axes[2];
  const int64_t n = inner.to - inner.from;
  PoolCompute<T>* sum = sums.data();
  std::fill_n(sum, n, PoolCompute<T>(0));
  for_window_rows(g, o0, o1, [&](int64_t row) {
    for (int64_t k = 0; k < inner.size; ++k) {
      const T* x = in + row + a2.begin[inner.from] + k;
      if (inner.stride == 1) {
        FACULA_SIMD
        for (int64_t i = 0; i < n; ++i) enter(sum[i], PoolCompute<T>(x[i]));
      } else if (inner.stride == 2) {
        FACULA_SIMD
        for (int64_t i = 0; i < n; ++i) enter(sum[i], PoolCompute<T>(x[2 * i]));
      } else {
        for (int64_t i = 0; i < n; ++i) enter(sum[i], PoolCompute<T>(x[inner.stride * i]));
      }
    }
  });
  const double rows = a0.divisor[o0] * a1.divisor[o1];
  for (int64_t i = 0; i < n; ++i) {
    const int64_t o2 = inner.from + i;
    out[o2] = mean<T>(sum[i], g.divisor != 0 ? g.divisor : rows * a2.divisor[o2]);
  }
}

template <class T>
void mean_plane(T* out, const T* in, const WindowTables& g, const UniformRange& inner,
                std::vector<PoolCompute<T>>& sums) {
  const bool side_by_side = inner.size > 0 && inner.size < 8 && inner.to - inner.from >= 8 && !std::is_integral_v<T>;
  const int64_t width = g.axes[2].out();
  sums.resize(static_cast<size_t>(width));
  for_each_window(g, [&](int64_t o, const Window& w) {
    const int64_t o2 = o % width;
    if (side_by_side && o2 >= inner.from && o2 < inner.to) {
      if (o2 == inner.from)
        mean_row(out + o - o2, in, g, inner, o / width / g.axes[1].out(), o / width % g.axes[1].out(), sums);
      return;
    }
    PoolCompute<T> sum = 0;
    for_each_run(g, w, [&](int64_t at, int64_t count) { enter(sum, run_sum(in + at, count)); });
    out[o] = w.empty() ? T(0) : mean<T>(sum, w.divisor);
  });
}

template <class T>
void mean_channels(T* out, const T* in, int64_t channels, const WindowTables& g, const Window& w, PoolCompute<T>* sum) {
  std::fill_n(sum, channels, PoolCompute<T>(0));
  for_each_in(g, w, [&](int64_t at) {
    const T* values = in + at * channels;
    FACULA_SIMD
    for (int64_t c = 0; c < channels; ++c) enter(sum[c], PoolCompute<T>(values[c]));
  });
  for (int64_t c = 0; c < channels; ++c) out[c] = w.empty() ? T(0) : mean<T>(sum[c], w.divisor);
}

void avg_pool_cpu(const Tensor& out, const Tensor& in, const PoolGeometry& geometry) {
#ifdef __AVX512F__
  // tiles are joined before they are divided, which takes longer
  if ((in.dim() > 4 || !are_tiles(geometry)) && pool_by_rows<RowPool::Mean>(out, {}, in, geometry)) return;
#endif
  if (are_small_planes(in, out, geometry, false)) return mean_of_small(out, in, geometry);
  const WindowTables g(geometry);
  int64_t batch = in.size(0), channels = in.size(1), inputs = spatial_count(in), outputs = spatial_count(out);
  LockRelease release(in.numel() > kGrain);
  visit_types(Averaged(), in.dtype(), [&]<class T>(TypeTag<T>) {
    if (!channels_last(in, out)) {
      UniformRange inner(g.axes[2]);
      parallel_for(0, batch * channels, grain_of(outputs * window_size(g)), [&](int64_t from, int64_t to) {
        std::vector<PoolCompute<T>> sums;
        for (int64_t p = from; p < to; ++p)
          mean_plane(out.data<T>() + p * outputs, in.data<T>() + p * inputs, g, inner, sums);
      });
      return;
    }
    parallel_for(0, batch * outputs, grain_of(channels * window_size(g)), [&](int64_t from, int64_t to) {
      std::vector<PoolCompute<T>> sum(static_cast<size_t>(channels));
      for (int64_t p = from; p < to; ++p) {
        mean_channels(out.data<T>() + p * channels, in.data<T>() + p / outputs * inputs * channels, channels, g,
                      window_at(g, p % outputs), sum.data());
      }
    });
  });
}

template <class T>
void spread_plane(T* out, const T* in, const WindowTables& g) {
  for_each_window(g, [&](int64_t o, const Window& w) {
    T share = in[o] / static_cast<T>(w.divisor);
    for_each_row(g, w, [&](int64_t at) {
      for (int64_t i = at; i < at + w.end[2] - w.begin[2]; ++i) out[i] += share;
    });
  });
}

template <class T>
void spread_channels(T* out, const T* in, int64_t channels, const WindowTables& g, T* shares) {
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
void avg_pool_transpose_cpu(const Tensor& out, const Tensor& in, const PoolGeometry& geometry) {
  const WindowTables g(geometry);
  int64_t batch = in.size(0), channels = in.size(1), inputs = spatial_count(in), outputs = spatial_count(out);
  LockRelease release(out.numel() > kGrain);
  visit_types(Floats(), in.dtype(), [&]<class T>(TypeTag<T>) {
    if (!channels_last(in, out)) {
      parallel_for(0, batch * channels, grain_of(outputs), [&](int64_t from, int64_t to) {
        for (int64_t p = from; p < to; ++p) spread_plane(out.data<T>() + p * outputs, in.data<T>() + p * inputs, g);
      });
      return;
    }
    parallel_for(0, batch, grain_of(outputs * channels), [&](int64_t from, int64_t to) {
      std::vector<T> shares(static_cast<size_t>(channels));
      for (int64_t n = from; n < to; ++n) {
        spread_channels(out.data<T>() + n * outputs * channels, in.data<T>() + n * inputs * channels, channels, g,
                        shares.data());
      }
    });
  });
}

}  // namespace

void register_pool_mean() {
  avg_pool_kernel.set(DeviceType::CPU, avg_pool_cpu);
  avg_pool_transpose_kernel.set(DeviceType::CPU, avg_pool_transpose_cpu);
}

}  // namespace facula::cpu::FACULA_ISA

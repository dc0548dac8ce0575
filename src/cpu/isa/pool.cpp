// Pooling loops: plane by plane for contiguous tensors, over vectors of channels for channels-last ones.
#include "ops/pool.h"

#include <atomic>
#include <vector>

#include "core/checked.h"
#include "cpu/isa.h"
#include "cpu/isa/by_size.h"
#include "cpu/isa/combine.h"
#include "cpu/isa/grain.h"
#include "cpu/isa/pool_rows.h"
#include "cpu/isa/pool_small.h"
#include "cpu/isa/pool_windows.h"
#include "cpu/isa/sums.h"
#include "cpu/isa/types.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
using Compute = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

template <class T>
bool is_nan(T value) {
  return value != value;
}

using AllFloats = Types<float, double, Half, BFloat16>;
using Averaged = Types<float, double, Half, BFloat16, int64_t>;
using Integers = Types<uint8_t, int8_t, int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t>;

/// Maxima of integers, which few ask for, are compiled for the lowest level alone.
decltype(max_pool_kernel)::Function max_pool_of_integers = nullptr;

// maxima

// The values of the best elements so far, for a row of outputs or of columns, and their flat positions where those have
// `places`.
template <class T, bool places>
struct Best {
  std::vector<Compute<T>> value;
  std::vector<int32_t> where;

  void reset(int64_t n) {
    value.resize(static_cast<size_t>(n));
    where.resize(places ? static_cast<size_t>(n) : 0);
  }
  // Element i sees in[i * stride], at the position first + i * stride. The first of equals stays; NaN wins.
  template <int64_t known_stride>
  void see(int64_t from, int64_t to, const T* in, int32_t first, int64_t any_stride, bool start) {
    const int64_t stride = known_stride ? known_stride : any_stride;
    Compute<T>* best = value.data() + from;
    int32_t* place = where.data() + from;
    const int64_t n = to - from;
    if (start) {
      FACULA_SIMD
      for (int64_t i = 0; i < n; ++i) {
        best[i] = in[i * stride];
        if constexpr (places) place[i] = first + static_cast<int32_t>(i * stride);
      }
      return;
    }
    FACULA_SIMD
    for (int64_t i = 0; i < n; ++i) {
      Compute<T> x = in[i * stride];
      bool better = (x > best[i]) | is_nan(x);
      best[i] = better ? x : best[i];
      if constexpr (places) place[i] = better ? first + static_cast<int32_t>(i * stride) : place[i];
    }
  }
  [[gnu::noinline]] void see(int64_t from, int64_t to, const T* in, int64_t first, int64_t stride, bool start) {
    int32_t at = static_cast<int32_t>(first);
    if (stride == 1) see<1>(from, to, in, at, 1, start);
    else if (stride == 2) see<2>(from, to, in, at, 2, start);
    else see<0>(from, to, in, at, stride, start);
  }
};

// The outputs [from, to) of an axis whose windows are alike and equally far apart.
struct UniformRange {
  int64_t from = 0, to = 0, size = 0, stride = 1;

  explicit UniformRange(const AxisTable& axis) {
    size_t n = axis.begin.size(), middle = n / 2, low = middle, high = middle;
    if (n == 0) return;
    size = axis.end[middle] - axis.begin[middle];
    stride = middle + 1 < n ? axis.begin[middle + 1] - axis.begin[middle] : 1;
    auto alike = [&](size_t o) { return axis.end[o] - axis.begin[o] == size; };
    while (low > 0 && alike(low - 1) && axis.begin[low] - axis.begin[low - 1] == stride) --low;
    while (high < n && alike(high) && axis.begin[high] == axis.begin[low] + static_cast<int64_t>(high - low) * stride)
      ++high;
    from = static_cast<int64_t>(low), to = static_cast<int64_t>(high);
  }
};

// Calls f(position of the row) for the rows of a window.
template <class F>
void for_window_rows(const WindowTables& g, int64_t o0, int64_t o1, F&& f) {
  const AxisTable &a0 = g.axes[0], &a1 = g.axes[1];
  for (int64_t i0 = a0.begin[o0]; i0 < a0.end[o0]; i0 += a0.step)
    for (int64_t i1 = a1.begin[o1]; i1 < a1.end[o1]; i1 += a1.step) f((i0 * a1.in + i1) * g.axes[2].in);
}

// The largest of no elements, where all of a window lies in the padding; its position is -1.
template <class T>
constexpr T lowest() {
  if constexpr (std::is_integral_v<T>) return std::numeric_limits<T>::lowest();
  else return -std::numeric_limits<T>::infinity();
}

template <bool places, class T>
void max_plane(T* out, int64_t* indices, const T* in, const WindowTables& g, const UniformRange& inner,
               Best<T, places>& best, Best<T, places>& columns) {
  const AxisTable &a0 = g.axes[0], &a1 = g.axes[1], &a2 = g.axes[2];
  const int64_t width = a2.out();
  bool side_by_side = inner.to - inner.from >= 8 && inner.size > 0;
  best.reset(width);
  columns.reset(a2.in);
  for (int64_t o0 = 0; o0 < a0.out(); ++o0) {
    for (int64_t o1 = 0; o1 < a1.out(); ++o1, out += width, indices += places ? width : 0) {
      if (a0.begin[o0] >= a0.end[o0] || a1.begin[o1] >= a1.end[o1]) {
        std::fill_n(out, width, T(lowest<Compute<T>>()));
        if constexpr (places) std::fill_n(indices, width, -1);
        continue;
      }
      if (side_by_side) {  // all alike outputs of the row at once, element by element of their windows
        bool start = true;
        for_window_rows(g, o0, o1, [&](int64_t row) {
          for (int64_t k = 0; k < inner.size; k += a2.step, start = false) {
            int64_t at = row + a2.begin[inner.from] + k;
            best.see(inner.from, inner.to, in + at, at, inner.stride, start);
          }
        });
      } else {  // the best of every column first
        bool start = true;
        for_window_rows(g, o0, o1, [&](int64_t row) {
          columns.see(0, a2.in, in + row, row, 1, start);
          start = false;
        });
      }
      for (int64_t o2 = 0; o2 < width; ++o2) {
        if (side_by_side && o2 == inner.from) o2 = inner.to;
        if (o2 == width) break;
        if (a2.begin[o2] >= a2.end[o2]) {
          best.value[o2] = lowest<Compute<T>>();
          if constexpr (places) best.where[o2] = -1;
          continue;
        }
        int32_t where = static_cast<int32_t>((a0.begin[o0] * a1.in + a1.begin[o1]) * a2.in + a2.begin[o2]);
        Compute<T> value = in[where];
        auto see = [&](Compute<T> x, int32_t at) {  // of equals the first, of NaNs the last
          bool better = x > value || (x == value && at < where) || (is_nan(x) && (!is_nan(value) || at > where));
          value = better ? x : value;
          where = better ? at : where;
        };
        if (!side_by_side) {
          for (int64_t i = a2.begin[o2]; i < a2.end[o2]; i += a2.step)
            see(columns.value[i], places ? columns.where[i] : 0);
        } else {
          for_window_rows(g, o0, o1, [&](int64_t row) {
            for (int64_t i = a2.begin[o2]; i < a2.end[o2]; i += a2.step)
              see(in[row + i], static_cast<int32_t>(row + i));
          });
        }
        best.value[o2] = value;
        if constexpr (places) best.where[o2] = where;
      }
      for (int64_t o2 = 0; o2 < width; ++o2) out[o2] = T(best.value[o2]);
      for (int64_t o2 = 0; places && o2 < width; ++o2) indices[o2] = best.where[o2];
    }
  }
}

// One output position of channels-last memory.
template <bool places, class T>
void max_channels(T* out, int64_t* indices, const T* in, int64_t channels, const WindowTables& g, const Window& w,
                  Compute<T>* best, int32_t* where) {
  bool first = true;
  if (w.empty()) {
    std::fill_n(best, channels, lowest<Compute<T>>());
    if constexpr (places) std::fill_n(where, channels, -1);
  }
  for_each_in(g, w, [&](int64_t at) {
    const T* values = in + at * channels;
    int32_t here = static_cast<int32_t>(at);
    if (first) {
      FACULA_SIMD
      for (int64_t c = 0; c < channels; ++c) {
        best[c] = values[c];
        if constexpr (places) where[c] = here;
      }
      first = false;
      return;
    }
    FACULA_SIMD
    for (int64_t c = 0; c < channels; ++c) {
      Compute<T> value = values[c];
      bool better = (value > best[c]) | is_nan(value);
      best[c] = better ? value : best[c];
      if constexpr (places) where[c] = better ? here : where[c];
    }
  });
  for (int64_t c = 0; c < channels; ++c) out[c] = T(best[c]);
  for (int64_t c = 0; places && c < channels; ++c) indices[c] = where[c];
}

template <class T, bool places>
void max_pool_of(const Tensor& out, const Tensor& indices, const Tensor& in, const WindowTables& g) {
  const int64_t batch = in.size(0), channels = in.size(1), inputs = spatial_count(in), outputs = spatial_count(out);
  int64_t* where = places ? indices.data<int64_t>() : nullptr;
  auto where_at = [where](int64_t position) { return places ? where + position : nullptr; };
  if (!channels_last(in, out)) {
    UniformRange inner(g.axes[2]);
    parallel_for(0, batch * channels, grain_of(outputs * window_size(g)), [&](int64_t from, int64_t to) {
      Best<T, places> best, columns;
      for (int64_t p = from; p < to; ++p)
        max_plane(out.data<T>() + p * outputs, where_at(p * outputs), in.data<T>() + p * inputs, g, inner, best,
                  columns);
    });
    return;
  }
  parallel_for(0, batch * outputs, grain_of(channels * window_size(g)), [&](int64_t from, int64_t to) {
    std::vector<Compute<T>> best(static_cast<size_t>(channels));
    std::vector<int32_t> places_of_best(static_cast<size_t>(channels));
    for (int64_t p = from; p < to; ++p) {
      max_channels<places>(out.data<T>() + p * channels, where_at(p * channels),
                           in.data<T>() + p / outputs * inputs * channels, channels, g, window_at(g, p % outputs),
                           best.data(), places_of_best.data());
    }
  });
}

template <class TypeList>
void max_pool_cpu(const Tensor& out, const Tensor& indices, const Tensor& in, const PoolGeometry& geometry) {
  if (std::is_same_v<TypeList, AllFloats> && !is_floating(in.dtype()))
    return max_pool_of_integers(out, indices, in, geometry);
  FACULA_CHECK(spatial_count(in) <= INT32_MAX, ErrorKind::Runtime,
               "max_pool: planes of at most 2^31 elements, got shape ", in.sizes());
#ifdef __AVX512F__
  if (indices.defined() ? pool_by_rows<RowPool::Places>(out, indices, in, geometry)
                        : pool_by_rows<RowPool::Max>(out, indices, in, geometry))
    return;
#endif
  if (are_small_planes(in, out, geometry, indices.defined()))
    return indices.defined() ? max_of_small<true>(out, indices, in, geometry)
                             : max_of_small<false>(out, indices, in, geometry);
  const WindowTables g(geometry);
  LockRelease release(out.numel() > kGrain);
  visit_types(TypeList(), in.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_integral_v<T>) {
      if (!indices.defined()) return max_pool_of<T, false>(out, indices, in, g);
    }
    max_pool_of<T, true>(out, indices, in, g);
  });
}

// Where the windows of one dimension begin, for one sample in [0, 1).
template <class T>
void fractional_starts(AxisTable& axis, T sample, int64_t kernel) {
  const int64_t out = axis.out();
  const T alpha = out > 1 ? static_cast<T>(axis.in - kernel) / static_cast<T>(out - 1) : T(0);
  for (int64_t o = 0; o < out; ++o) {
    const bool last = o == out - 1;
    axis.begin[o] =
        last ? axis.in - kernel
             : static_cast<int64_t>((static_cast<T>(o) + sample) * alpha) - static_cast<int64_t>(sample * alpha);
    axis.end[o] = axis.begin[o] + kernel;
  }
}

void fractional_max_pool_cpu(const Tensor& out, const Tensor& indices, const Tensor& in, const Tensor& samples,
                             std::array<int64_t, 3> kernel) {
  const int64_t planes = in.size(0) * in.size(1), inputs = spatial_count(in), outputs = spatial_count(out);
  const auto spatial = static_cast<size_t>(in.dim() - 2);
  FACULA_CHECK(inputs <= INT32_MAX, ErrorKind::Runtime,
               "fractional_max_pool: planes of at most 2^31 elements, got shape ", in.sizes());
  LockRelease release(out.numel() > kGrain);
  visit_types(AllFloats(), in.dtype(), [&]<class T>(TypeTag<T>) {
    using Position = std::conditional_t<std::is_same_v<T, double>, double, float>;
    parallel_for(0, planes, grain_of(outputs * kernel[0] * kernel[1] * kernel[2]), [&](int64_t from, int64_t to) {
      WindowTables g;
      Best<T, true> best, columns;
      for (size_t d = 0; d < spatial; ++d) {
        AxisTable& axis = g.axes[3 - spatial + d];
        const auto places = static_cast<size_t>(out.size(static_cast<int64_t>(2 + d)));
        axis.in = in.size(static_cast<int64_t>(2 + d));
        axis.resize(places);
        std::fill_n(axis.divisor.data(), places, 1.0);
      }
      for (int64_t p = from; p < to; ++p) {
        const T* u = samples.data<T>() + p * static_cast<int64_t>(spatial);
        for (size_t d = 0; d < spatial; ++d)
          fractional_starts(g.axes[3 - spatial + d], static_cast<Position>(u[spatial == 2 ? 1 - d : d]),
                            kernel[3 - spatial + d]);
        max_plane(out.data<T>() + p * outputs, indices.data<int64_t>() + p * outputs, in.data<T>() + p * inputs, g,
                  UniformRange(g.axes[2]), best, columns);
      }
    });
  });
}

// means

template <class T>
T mean(Compute<T> sum, double divisor) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(sum / static_cast<T>(divisor));
  else return T(sum / static_cast<Compute<T>>(divisor));
}

/// Integers wrap around.
template <class T>
void enter(T& sum, T value) {
  if constexpr (std::is_integral_v<T>) sum = wrapping_add(sum, value);
  else sum += value;
}

template <class T>
Compute<T> run_sum(const T* values, int64_t count) {
  constexpr int64_t kVectorPays = 16;
  Compute<T> sum = 0;
  if (count < kVectorPays) {
    for (int64_t i = 0; i < count; ++i) enter(sum, Compute<T>(values[i]));
    return sum;
  }
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    return sum_of(count, values);
  } else {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) enter(sum, Compute<T>(values[i]));
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

// Calls f(flat position, length) for every run of neighbouring elements of a window.
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
              std::vector<Compute<T>>& sums) {
  const AxisTable &a0 = g.axes[0], &a1 = g.axes[1], &a2 = g.axes[2];
  const int64_t n = inner.to - inner.from;
  Compute<T>* sum = sums.data();
  std::fill_n(sum, n, Compute<T>(0));
  for_window_rows(g, o0, o1, [&](int64_t row) {
    for (int64_t k = 0; k < inner.size; ++k) {
      const T* x = in + row + a2.begin[inner.from] + k;
      if (inner.stride == 1) {
        FACULA_SIMD
        for (int64_t i = 0; i < n; ++i) enter(sum[i], Compute<T>(x[i]));
      } else if (inner.stride == 2) {
        FACULA_SIMD
        for (int64_t i = 0; i < n; ++i) enter(sum[i], Compute<T>(x[2 * i]));
      } else {
        for (int64_t i = 0; i < n; ++i) enter(sum[i], Compute<T>(x[inner.stride * i]));
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
void mean_plane(T* out, const T* in, const WindowTables& g, const UniformRange& inner, std::vector<Compute<T>>& sums) {
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
    Compute<T> sum = 0;
    for_each_run(g, w, [&](int64_t at, int64_t count) { enter(sum, run_sum(in + at, count)); });
    out[o] = w.empty() ? T(0) : mean<T>(sum, w.divisor);
  });
}

template <class T>
void mean_channels(T* out, const T* in, int64_t channels, const WindowTables& g, const Window& w, Compute<T>* sum) {
  std::fill_n(sum, channels, Compute<T>(0));
  for_each_in(g, w, [&](int64_t at) {
    const T* values = in + at * channels;
    FACULA_SIMD
    for (int64_t c = 0; c < channels; ++c) enter(sum[c], Compute<T>(values[c]));
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
        std::vector<Compute<T>> sums;
        for (int64_t p = from; p < to; ++p)
          mean_plane(out.data<T>() + p * outputs, in.data<T>() + p * inputs, g, inner, sums);
      });
      return;
    }
    parallel_for(0, batch * outputs, grain_of(channels * window_size(g)), [&](int64_t from, int64_t to) {
      std::vector<Compute<T>> sum(static_cast<size_t>(channels));
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

// Values at positions in planes. Elements of a plane lie `vector` apart, in both formats.

// Calls f(offset among the small planes, offset among the large ones), and none(offset among the small ones) for -1,
// where that may stand for no element; throws, as `op`, where an index lies outside.
template <class F, class None = std::nullptr_t>
void for_each_index(const Tensor& large, const Tensor& indices, const char* op, F&& f, None none = nullptr) {
  int64_t batch = indices.size(0), channels = indices.size(1), few = spatial_count(indices),
          many = spatial_count(large);
  bool last = channels_last(large, indices);
  int64_t vector = last ? channels : 1, images = last ? batch : batch * channels;
  std::atomic<bool> failed{false};
  std::atomic<int64_t> bad{0};
  const int64_t* where = indices.data<int64_t>();
  parallel_for(0, images, grain_of(few * vector), [&](int64_t from, int64_t to) {
    for (int64_t image = from; image < to; ++image) {
      int64_t small = image * few * vector, base = image * many * vector;
      for (int64_t i = 0; i < few; ++i) {
        for (int64_t c = 0; c < vector; ++c, ++small) {
          int64_t at = where[small];
          if constexpr (!std::is_null_pointer_v<None>) {
            if (at == -1) {
              none(small);
              continue;
            }
          }
          if (at < 0 || at >= many) {
            bad = at;
            failed = true;
            return;
          }
          f(small, base + at * vector + c);
        }
      }
    }
  });
  FACULA_CHECK(!failed, ErrorKind::Runtime, op, ": indices must lie in planes of size ", spatial_part(large), ", got ",
               bad.load());
}

void scatter_planes_cpu(const Tensor& out, const Tensor& values, const Tensor& indices, bool accumulate,
                        const char* op) {
  const auto nothing = [](int64_t) {};
  if (accumulate) {
    return visit_types(Numbers(), out.dtype(), [&]<class T>(TypeTag<T>) {
      T* to = out.data<T>();
      const T* from = values.data<T>();
      for_each_index(
          out, indices, op,
          [&](int64_t small, int64_t large) { to[large] = combine<Combine::Add>(to[large], from[small]); }, nothing);
    });
  }
  visit_size(item_size(out.dtype()), [&]<class T>(TypeTag<T>) {
    T* to = out.data<T>();
    const T* from = values.data<T>();
    for_each_index(out, indices, op, [&](int64_t small, int64_t large) { to[large] = from[small]; });
  });
}

void gather_planes_cpu(const Tensor& out, const Tensor& in, const Tensor& indices, const char* op) {
  visit_size(item_size(out.dtype()), [&]<class T>(TypeTag<T>) {
    T* to = out.data<T>();
    const T* from = in.data<T>();
    for_each_index(
        in, indices, op, [&](int64_t small, int64_t large) { to[small] = from[large]; },
        [&](int64_t small) { to[small] = T(); });
  });
}

}  // namespace

void register_pool() {
#ifdef FACULA_LOWEST
  max_pool_of_integers = max_pool_cpu<Integers>;
#else
  max_pool_of_integers = max_pool_kernel.table[static_cast<size_t>(DeviceType::CPU)];  // a lower level's
#endif
  max_pool_kernel.set(DeviceType::CPU, max_pool_cpu<AllFloats>);
  fractional_max_pool_kernel.set(DeviceType::CPU, fractional_max_pool_cpu);
  avg_pool_kernel.set(DeviceType::CPU, avg_pool_cpu);
  avg_pool_transpose_kernel.set(DeviceType::CPU, avg_pool_transpose_cpu);
  scatter_planes_kernel.set(DeviceType::CPU, scatter_planes_cpu);
  gather_planes_kernel.set(DeviceType::CPU, gather_planes_cpu);
}

}  // namespace facula::cpu::FACULA_ISA

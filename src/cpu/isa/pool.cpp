// Maxima of windows: plane by plane for contiguous tensors, over vectors of channels for channels-last ones.
#include "ops/pool.h"

#include <vector>

#include "cpu/isa.h"
#include "cpu/isa/grain.h"
#include "cpu/isa/pool_rows.h"
#include "cpu/isa/pool_small.h"
#include "cpu/isa/pool_windows.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
bool is_nan(T value) {
  return value != value;
}

using Integers = Types<uint8_t, int8_t, int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t>;

/// Maxima of integers, which few ask for, are compiled for the lowest level alone.
decltype(max_pool_kernel)::Function max_pool_of_integers = nullptr;

// The values of the best elements so far, for a row of outputs or of columns, and their flat positions where those have
// `places`.
template <class T, bool places>
struct Best {
  std::vector<PoolCompute<T>> value;
  std::vector<int32_t> where;

  void reset(int64_t n) {
    value.resize(static_cast<size_t>(n));
    where.resize(places ? static_cast<size_t>(n) : 0);
  }
  // Element i sees in[i * stride], at the position first + i * stride. The first of equals stays; NaN wins.
  template <int64_t known_stride>
  void see(int64_t from, int64_t to, const T* in, int32_t first, int64_t any_stride, bool start) {
    const int64_t stride = known_stride ? known_stride : any_stride;
    PoolCompute<T>* best = value.data() + from;
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
      PoolCompute<T> x = in[i * stride];
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

// The largest of no elements, where all of a window lies in the padding; its position is -1.
template <class T>
constexpr T lowest() {
  if constexpr (std::is_integral_v<T>) return std::numeric_limits<T>::lowest();
  else return -std::numeric_limits<T>::infinity();
}

// The best element of a window so far: of equals the first, of NaNs the last.
template <class V>
struct Candidate {
  V value;
  int32_t where;

  void see(V x, int32_t at) {
    const bool better = x > value || (x == value && at < where) || (is_nan(x) && (!is_nan(value) || at > where));
    value = better ? x : value;
    where = better ? at : where;
  }
};

// Maxima of a plane, one row of outputs after the other. Where most windows of a row are alike, those are computed side
// by side, element by element of their windows, and the others one by one. Else the best of every column of the windows
// comes first, and an output is the best of its columns.
template <bool places, class T>
class MaxPlane {
 public:
  MaxPlane(const T* in, const WindowTables& g, const UniformRange& alike, Best<T, places>& best,
           Best<T, places>& columns)
      : in_(in), g_(g), alike_(alike), best_(best), columns_(columns) {
    best.reset(width());
    columns.reset(g.axes[2].in);
  }

  void write(T* out, int64_t* indices) {
    for (int64_t o0 = 0; o0 < g_.axes[0].out(); ++o0)
      for (int64_t o1 = 0; o1 < g_.axes[1].out(); ++o1, out += width(), indices += places ? width() : 0)
        write_row(o0, o1, out, indices);
  }

 private:
  using V = PoolCompute<T>;

  int64_t width() const { return g_.axes[2].out(); }
  bool side_by_side() const { return alike_.to - alike_.from >= 8 && alike_.size > 0; }

  void write_row(int64_t o0, int64_t o1, T* out, int64_t* indices) {
    if (g_.axes[0].begin[o0] >= g_.axes[0].end[o0] || g_.axes[1].begin[o1] >= g_.axes[1].end[o1]) {
      std::fill_n(out, width(), T(lowest<V>()));
      if constexpr (places) std::fill_n(indices, width(), -1);
      return;
    }
    if (side_by_side()) {
      see_alike(o0, o1);
      see_windows(o0, o1, 0, alike_.from);
      see_windows(o0, o1, alike_.to, width());
    } else {
      see_columns(o0, o1);
      see_windows(o0, o1, 0, width());
    }
    for (int64_t o2 = 0; o2 < width(); ++o2) out[o2] = T(best_.value[o2]);
    for (int64_t o2 = 0; places && o2 < width(); ++o2) indices[o2] = best_.where[o2];
  }

  void see_alike(int64_t o0, int64_t o1) {
    bool start = true;
    for_window_rows(g_, o0, o1, [&](int64_t row) {
      for (int64_t k = 0; k < alike_.size; k += g_.axes[2].step, start = false) {
        const int64_t at = row + g_.axes[2].begin[alike_.from] + k;
        best_.see(alike_.from, alike_.to, in_ + at, at, alike_.stride, start);
      }
    });
  }

  void see_columns(int64_t o0, int64_t o1) {
    bool start = true;
    for_window_rows(g_, o0, o1, [&](int64_t row) {
      columns_.see(0, g_.axes[2].in, in_ + row, row, 1, start);
      start = false;
    });
  }

  // The outputs [from, to) of a row, one by one.
  void see_windows(int64_t o0, int64_t o1, int64_t from, int64_t to) {
    const AxisTable &a0 = g_.axes[0], &a1 = g_.axes[1], &a2 = g_.axes[2];
    for (int64_t o2 = from; o2 < to; ++o2) {
      Candidate<V> best{lowest<V>(), -1};  // of a window that lies in the padding
      if (a2.begin[o2] < a2.end[o2]) {
        const int64_t first = (a0.begin[o0] * a1.in + a1.begin[o1]) * a2.in + a2.begin[o2];
        best = {in_[first], static_cast<int32_t>(first)};
        if (side_by_side()) see_elements(o0, o1, o2, best);
        else
          for (int64_t i = a2.begin[o2]; i < a2.end[o2]; i += a2.step)
            best.see(columns_.value[i], places ? columns_.where[i] : 0);
      }
      best_.value[o2] = best.value;
      if constexpr (places) best_.where[o2] = best.where;
    }
  }

  void see_elements(int64_t o0, int64_t o1, int64_t o2, Candidate<V>& best) const {
    const AxisTable& a2 = g_.axes[2];
    for_window_rows(g_, o0, o1, [&](int64_t row) {
      for (int64_t i = a2.begin[o2]; i < a2.end[o2]; i += a2.step)
        best.see(in_[row + i], static_cast<int32_t>(row + i));
    });
  }

  const T* in_;
  const WindowTables& g_;
  const UniformRange& alike_;
  Best<T, places>&best_, &columns_;
};

// One output position of channels-last memory.
template <bool places, class T>
void max_channels(T* out, int64_t* indices, const T* in, int64_t channels, const WindowTables& g, const Window& w,
                  PoolCompute<T>* best, int32_t* where) {
  bool first = true;
  if (w.empty()) {
    std::fill_n(best, channels, lowest<PoolCompute<T>>());
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
      PoolCompute<T> value = values[c];
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
    const UniformRange alike(g.axes[2]);
    parallel_for(0, batch * channels, grain_of(outputs * window_size(g)), [&](int64_t from, int64_t to) {
      Best<T, places> best, columns;
      for (int64_t p = from; p < to; ++p)
        MaxPlane<places, T>(in.data<T>() + p * inputs, g, alike, best, columns)
            .write(out.data<T>() + p * outputs, where_at(p * outputs));
    });
    return;
  }
  parallel_for(0, batch * outputs, grain_of(channels * window_size(g)), [&](int64_t from, int64_t to) {
    std::vector<PoolCompute<T>> best(static_cast<size_t>(channels));
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
  if (std::is_same_v<TypeList, PooledFloats> && !is_floating(in.dtype()))
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
  visit_types(PooledFloats(), in.dtype(), [&]<class T>(TypeTag<T>) {
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
        const UniformRange alike(g.axes[2]);
        MaxPlane<true, T>(in.data<T>() + p * inputs, g, alike, best, columns)
            .write(out.data<T>() + p * outputs, indices.data<int64_t>() + p * outputs);
      }
    });
  });
}

}  // namespace

void register_pool() {
#ifdef FACULA_LOWEST
  max_pool_of_integers = max_pool_cpu<Integers>;
#else
  max_pool_of_integers = max_pool_kernel.table[static_cast<size_t>(DeviceType::CPU)];  // a lower level's
#endif
  max_pool_kernel.set(DeviceType::CPU, max_pool_cpu<PooledFloats>);
  fractional_max_pool_kernel.set(DeviceType::CPU, fractional_max_pool_cpu);
}

}  // namespace facula::cpu::FACULA_ISA

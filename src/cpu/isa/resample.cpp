// Interpolation along one dimension, and sampling at the positions of a grid.
#include "ops/resample.h"

#include <cmath>
#include <cstring>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "ops/pool.h"

namespace facula::cpu::FACULA_ISA {
namespace {

int64_t grain_of(int64_t work_per_item) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(work_per_item, 1));
}

template <class T>
void copy_taps(T* out, const T* in, int64_t outer, int64_t inner, const Taps& taps) {
  int64_t outputs = taps.out();
  parallel_for(0, outer, grain_of(outputs * inner), [&](int64_t from, int64_t to) {
    for (int64_t a = from; a < to; ++a) {
      const T* source = in + a * taps.in * inner;
      T* target = out + a * outputs * inner;
      if (inner == 1) {
        for (int64_t o = 0; o < outputs; ++o) target[o] = source[taps.index[o]];
      } else {
        for (int64_t o = 0; o < outputs; ++o) {
          std::memcpy(static_cast<void*>(target + o * inner), source + taps.index[o] * inner,
                      static_cast<size_t>(inner) * sizeof(T));
        }
      }
    }
  });
}

template <class T>
void weigh_row(T* row, const T* source, int64_t inner, const Taps& taps, const T* weight, int64_t o) {
  int64_t from = taps.first[o], to = taps.first[o + 1];
  if (from == to) {
    std::fill_n(row, inner, T(0));
    return;
  }
  const T* first = source + taps.index[from] * inner;
  T w = weight[from];
  FACULA_SIMD
  for (int64_t i = 0; i < inner; ++i) row[i] = first[i] * w;
  for (int64_t k = from + 1; k < to; ++k) {
    const T* next = source + taps.index[k] * inner;
    w = weight[k];
    FACULA_SIMD
    for (int64_t i = 0; i < inner; ++i) row[i] += next[i] * w;
  }
}

template <class T>
void weigh_taps(T* out, const T* in, int64_t outer, int64_t inner, const Taps& taps) {
  int64_t outputs = taps.out();
  std::vector<T> weights(taps.weight.begin(), taps.weight.end());
  int64_t reads = static_cast<int64_t>(weights.size()) / std::max<int64_t>(outputs, 1) + 1;
  parallel_for(0, outer * outputs, grain_of(reads * inner), [&](int64_t from, int64_t to) {
    for (int64_t row = from; row < to; ++row) {
      int64_t a = row / outputs, o = row % outputs;
      const T* source = in + a * taps.in * inner;
      if (inner > 1) {
        weigh_row(out + row * inner, source, inner, taps, weights.data(), o);
        continue;
      }
      T sum = 0;
      for (int64_t k = taps.first[o]; k < taps.first[o + 1]; ++k) sum += source[taps.index[k]] * weights[k];
      out[row] = sum;
    }
  });
}

void resample_cpu(const Tensor& out, const Tensor& in, int64_t outer, int64_t inner, const Taps& taps) {
  LockRelease release(out.numel() > kGrain);
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      if (!taps.copies()) return weigh_taps(out.data<T>(), in.data<T>(), outer, inner, taps);
    }
    copy_taps(out.data<T>(), in.data<T>(), outer, inner, taps);
  });
}

// grid sampling

// What one coordinate reads along its axis.
template <class T>
struct AxisTaps {
  int count = 0;
  int64_t index[4];  // -1: outside
  T weight[4];
  T slope[4];  // derivative of weight by the coordinate
};

template <class T>
struct AxisRule {
  int64_t size;
  GridSampling how;

  T unnormalized(T x) const {
    return how.align_corners ? (x + 1) / 2 * static_cast<T>(size - 1)
                             : ((x + 1) * static_cast<T>(size) - 1) / 2;
  }
  T rate() const { return static_cast<T>(how.align_corners ? size - 1 : size) / 2; }

  // The coordinate brought into the input as the padding mode says; `slope` is multiplied by the derivative.
  T padded(T x, T& slope) const {
    if (how.padding == 2) x = reflected(x, slope);
    if (how.padding != 0) {
      T last = static_cast<T>(size - 1);
      if (x <= 0) {
        x = 0;
        slope = 0;
      } else if (x >= last) {
        x = last;
        slope = 0;
      }
    }
    return x;
  }
  // Mirrored at the outer pixels' centres or edges, as often as needed.
  T reflected(T x, T& slope) const {
    T low = how.align_corners ? T(0) : T(-0.5), span = static_cast<T>(how.align_corners ? size - 1 : size);
    if (span == 0) {
      slope = 0;
      return 0;
    }
    x -= low;
    if (x < 0) {
      x = -x;
      slope = -slope;
    }
    T extra = std::fmod(x, span);
    bool odd = std::fmod(std::floor(x / span), T(2)) != 0;
    if (odd) slope = -slope;
    return (odd ? span - extra : extra) + low;
  }
  // An index, or -1; anything that no integer holds is outside.
  int64_t index(T x) const { return x >= 0 && x < static_cast<T>(size) ? static_cast<int64_t>(x) : -1; }

  AxisTaps<T> taps(T coordinate) const {
    AxisTaps<T> t;
    T slope = rate(), x = unnormalized(coordinate);
    if (how.interpolation == 2) {
      cubic(t, x, slope);
      return t;
    }
    x = padded(x, slope);
    if (how.interpolation == 1) {
      t.count = 1;
      t.index[0] = index(std::nearbyint(x));
      t.weight[0] = 1;
      t.slope[0] = 0;
      return t;
    }
    T low = std::floor(x);
    t.count = 2;
    t.index[0] = index(low);
    t.index[1] = index(low + 1);
    t.weight[0] = low + 1 - x;
    t.weight[1] = x - low;
    t.slope[0] = -slope;
    t.slope[1] = slope;
    return t;
  }

  void cubic(AxisTaps<T>& t, T x, T slope) const {
    const T a = T(-0.75);
    T low = std::floor(x), u = x - low;
    t.count = 4;
    for (int k = 0; k < 4; ++k) {
      T ignored = 0, d = std::abs(u - static_cast<T>(k - 1)),
        sign = u - static_cast<T>(k - 1) < 0 ? T(-1) : T(1);
      t.index[k] = index(std::nearbyint(padded(low + static_cast<T>(k - 1), ignored)));
      bool inner = k == 1 || k == 2;
      t.weight[k] = inner ? ((a + 2) * d - (a + 3)) * d * d + 1 : (((d - 5) * d + 8) * d - 4) * a;
      T derivative = inner ? (3 * (a + 2) * d - 2 * (a + 3)) * d : (3 * d * d - 10 * d + 8) * a;
      t.slope[k] = derivative * sign * slope;
    }
  }
};

constexpr int kMaxPoints = 16;

// The input elements that one grid position reads, all axes together.
template <class T>
struct Sample {
  int count = 0;
  int64_t offset[kMaxPoints];
  T weight[kMaxPoints];
  T slope[kMaxPoints][3];  // by x, y, z
};

template <class T>
class Sampler {
 public:
  // `input` gives sizes and strides.
  Sampler(const Tensor& input, const GridSampling& how) : dims_(static_cast<int>(input.dim()) - 2) {
    for (int d = 0; d < dims_; ++d) {  // x is of the last dimension
      rules_[d] = {input.size(-1 - d), how};
      strides_[d] = input.stride(-1 - d);
    }
  }

  Sample<T> at(const T* position) const {
    AxisTaps<T> axis[3];
    for (int d = 0; d < dims_; ++d) axis[d] = rules_[d].taps(position[d]);
    if (dims_ == 2) {
      axis[2].count = 1;
      axis[2].index[0] = 0;
      axis[2].weight[0] = 1;
      axis[2].slope[0] = 0;
    }
    Sample<T> s;
    for (int k = 0; k < axis[2].count; ++k)
      for (int j = 0; j < axis[1].count; ++j)
        for (int i = 0; i < axis[0].count; ++i) {
          if (axis[0].index[i] < 0 || axis[1].index[j] < 0 || axis[2].index[k] < 0) continue;
          T wx = axis[0].weight[i], wy = axis[1].weight[j], wz = axis[2].weight[k];
          s.offset[s.count] = axis[0].index[i] * strides_[0] + axis[1].index[j] * strides_[1] +
                              axis[2].index[k] * strides_[2];
          s.weight[s.count] = wx * wy * wz;
          s.slope[s.count][0] = axis[0].slope[i] * wy * wz;
          s.slope[s.count][1] = wx * axis[1].slope[j] * wz;
          s.slope[s.count][2] = wx * wy * axis[2].slope[k];
          ++s.count;
        }
    return s;
  }

 private:
  int dims_;
  AxisRule<T> rules_[3];
  int64_t strides_[3] = {0, 0, 0};
};

int64_t points_of(const Tensor& grid) { return grid.numel() / (grid.size(0) * grid.size(-1)); }

template <class F>
void visit_float(DType dtype, F&& f) {
  if (dtype == DType::Float32)
    f(TypeTag<float>{});
  else
    f(TypeTag<double>{});
}

void grid_sampler_cpu(const Tensor& out, const Tensor& input, const Tensor& grid, const GridSampling& how) {
  LockRelease release(out.numel() > kGrain);
  int64_t batch = input.size(0), channels = input.size(1), points = points_of(grid), dims = grid.size(-1);
  visit_float(out.dtype(), [&]<class T>(TypeTag<T>) {
    Sampler<T> sampler(input, how);
    parallel_for(0, batch * points, grain_of(channels * 8), [&](int64_t from, int64_t to) {
      for (int64_t p = from; p < to; ++p) {
        int64_t n = p / points;
        Sample<T> s = sampler.at(grid.data<T>() + p * dims);
        const T* source = input.data<T>() + n * input.stride(0);
        T* target = out.data<T>() + n * channels * points + p % points;
        for (int64_t c = 0; c < channels; ++c, source += input.stride(1), target += points) {
          T sum = 0;
          for (int k = 0; k < s.count; ++k) sum += source[s.offset[k]] * s.weight[k];
          *target = sum;
        }
      }
    });
  });
}

// Threads share the channels of an image, so that no two add to one element.
void grid_sampler_input_cpu(const Tensor& result, const Tensor& gradient, const Tensor& grid,
                            const GridSampling& how) {
  LockRelease release(gradient.numel() > kGrain);
  int64_t batch = result.size(0), channels = result.size(1), points = points_of(grid), dims = grid.size(-1);
  visit_float(result.dtype(), [&]<class T>(TypeTag<T>) {
    Sampler<T> sampler(result, how);
    for (int64_t n = 0; n < batch; ++n) {
      parallel_for(0, channels, grain_of(points * 8), [&](int64_t from, int64_t to) {
        for (int64_t p = 0; p < points; ++p) {
          Sample<T> s = sampler.at(grid.data<T>() + (n * points + p) * dims);
          for (int64_t c = from; c < to; ++c) {
            T g = gradient.data<T>()[(n * channels + c) * points + p];
            T* target = result.data<T>() + n * result.stride(0) + c * result.stride(1);
            for (int k = 0; k < s.count; ++k) target[s.offset[k]] += g * s.weight[k];
          }
        }
      });
    }
  });
}

void grid_sampler_grid_cpu(const Tensor& result, const Tensor& gradient, const Tensor& input,
                           const Tensor& grid, const GridSampling& how) {
  if (how.interpolation == 1) return;  // nearest: zero everywhere
  LockRelease release(gradient.numel() > kGrain);
  int64_t batch = input.size(0), channels = input.size(1), points = points_of(grid), dims = grid.size(-1);
  visit_float(result.dtype(), [&]<class T>(TypeTag<T>) {
    Sampler<T> sampler(input, how);
    parallel_for(0, batch * points, grain_of(channels * 16), [&](int64_t from, int64_t to) {
      for (int64_t p = from; p < to; ++p) {
        int64_t n = p / points;
        Sample<T> s = sampler.at(grid.data<T>() + p * dims);
        const T* source = input.data<T>() + n * input.stride(0);
        const T* g = gradient.data<T>() + n * channels * points + p % points;
        T sums[3] = {0, 0, 0};
        for (int64_t c = 0; c < channels; ++c, source += input.stride(1), g += points) {
          for (int k = 0; k < s.count; ++k) {
            T value = source[s.offset[k]] * *g;
            for (int d = 0; d < 3; ++d) sums[d] += value * s.slope[k][d];
          }
        }
        for (int64_t d = 0; d < dims; ++d) result.data<T>()[p * dims + d] = sums[d];
      }
    });
  });
}

}  // namespace

void register_resample() {
  resample_kernel.set(DeviceType::CPU, resample_cpu);
  grid_sampler_kernel.set(DeviceType::CPU, grid_sampler_cpu);
  grid_sampler_input_kernel.set(DeviceType::CPU, grid_sampler_input_cpu);
  grid_sampler_grid_kernel.set(DeviceType::CPU, grid_sampler_grid_cpu);
}

}  // namespace facula::cpu::FACULA_ISA

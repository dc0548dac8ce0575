// Sampling at the positions of a grid.
#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/isa.h"
#include "cpu/isa/grain.h"
#include "cpu/isa/grid_samples.h"
#include "cpu/isa/lanes.h"
#include "cpu/isa/transpose.h"
#include "ops/pool.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Elements at `n` offsets, the first one where the offset is negative. One by one: taking indices out of vectors, as
/// the compiler would, takes longer. Nothing branches, as nobody can guess what is outside.
template <class T>
void read_each(int64_t n, const T* source, const int32_t* offset, T* values) {
#pragma GCC unroll 4
  for (int64_t p = 0; p < n; ++p) {
    int64_t place = offset[p] & ~(offset[p] >> 31);
    asm("" : "+r"(place));
    values[p] = source[place];
  }
}

int64_t points_of(const Tensor& grid) { return grid.numel() / (grid.size(0) * grid.size(-1)); }

template <class F>
void visit_float(DType dtype, F&& f) {
  if (dtype == DType::Float32) f(TypeTag<float>{});
  else f(TypeTag<double>{});
}

// Calls f(image, first position, count, samples) for runs of positions of one image.
template <class T, class F>
void for_samples(const Tensor& input, const Tensor& grid, const GridSampling& how, bool slopes, int64_t work, F&& f) {
  int64_t batch = input.size(0), points = points_of(grid), dims = grid.size(-1),
          runs = (points + kPoints - 1) / kPoints;
  Sampler<T> sampler(input, how);
  parallel_for(0, batch * runs, grain_of(work * kPoints), [&](int64_t from, int64_t to) {
    Samples<T> s;
    for (int d = 0; slopes && d < 3; ++d) s.slope[d].resize(kMaxReads * kPoints);
    for (int64_t run = from; run < to; ++run) {
      int64_t n = run / runs, first = run % runs * kPoints, count = std::min(kPoints, points - first);
      sampler.read(grid.data<T>() + (n * points + first) * dims, count, s);
      f(n, first, count, s);
    }
  });
}

// ---- channels that lie side by side: positions read, and write, vectors of them

/// Vectors of channels have 32 bytes at most, so that images of eight channels fill them at every level.
constexpr int kChannelBytes = std::min(kVectorBytes, 32);
template <class T>
using Channels = VectorOf<T, kChannelBytes>;

template <class T>
bool has_vectors_of_channels(const Tensor& image) {
  return image.stride(1) == 1 && image.size(1) >= Channels<T>::lanes;
}

/// The row that a position reads, or one that stands for nothing.
template <class T>
T* row_at(T* image, int32_t offset, T* nothing) {
  return offset < 0 ? nothing : image + offset;
}

/// The weighted rows of `vectors` vectors of channels that one position reads.
template <int vectors, class T>
void weigh_channels(T* out, const T* image, const Samples<T>& s, int64_t p) {
  constexpr int64_t lanes = Channels<T>::lanes;
  static constexpr T nothing[vectors * lanes] = {};
  typename Channels<T>::type sums[vectors] = {};
  for (int k = 0; k < s.reads; ++k) {
    const T* row = row_at(image, s.offset[k * kPoints + p], nothing);
    const T weight = s.weight[k * kPoints + p];
    for (int v = 0; v < vectors; ++v) sums[v] += load_vector<kChannelBytes>(row + v * lanes) * weight;
  }
  std::memcpy(out, sums, sizeof sums);
}

/// A run of positions of one image: `rows` receives their channels.
template <class T>
void sample_channels(T* rows, const T* image, int64_t channels, int64_t count, const Samples<T>& s) {
  constexpr int64_t lanes = Channels<T>::lanes;
  for (int64_t p = 0; p < count; ++p) {
    T* row = rows + p * channels;
    int64_t c = 0;
    for (; c + 4 * lanes <= channels; c += 4 * lanes) weigh_channels<4>(row + c, image + c, s, p);
    for (; c + 2 * lanes <= channels; c += 2 * lanes) weigh_channels<2>(row + c, image + c, s, p);
    for (; c + lanes <= channels; c += lanes) weigh_channels<1>(row + c, image + c, s, p);
    c = channels - lanes;  // the rest, some of it again
    if (channels % lanes) weigh_channels<1>(row + c, image + c, s, p);
  }
}

/// Values of positions in planes of `points` positions, turned into rows of channels, and back.
template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
template <class T>
void planes_to_rows(T* rows, const T* planes, int64_t points, int64_t channels, int64_t count) {
  constexpr int64_t item = sizeof(T);
  transpose_tiles<BitsOf<T>>(reinterpret_cast<const char*>(planes), points * item, reinterpret_cast<char*>(rows),
                             channels * item, count, channels);
}
template <class T>
void rows_to_planes(T* planes, const T* rows, int64_t points, int64_t channels, int64_t count) {
  constexpr int64_t item = sizeof(T);
  transpose_tiles<BitsOf<T>>(reinterpret_cast<const char*>(rows), channels * item, reinterpret_cast<char*>(planes),
                             points * item, channels, count);
}

/// The channels of a run of positions, plane by plane.
template <class T>
void sample_planes(T* out, int64_t points, const T* image, int64_t channels, int64_t channel_step, int64_t count,
                   const Samples<T>& s) {
  for (int64_t c = 0; c < channels; ++c) {
    const T* source = image + c * channel_step;
    T sums[kPoints] = {};
    for (int k = 0; k < s.reads; ++k) {
      const int32_t* offset = s.offset.data() + k * kPoints;
      const T* weight = s.weight.data() + k * kPoints;
      T value[kPoints];
      read_each(count, source, offset, value);
      FACULA_SIMD
      for (int64_t p = 0; p < count; ++p) sums[p] += offset[p] >= 0 ? value[p] * weight[p] : T(0);
    }
    std::copy_n(sums, count, out + c * points);
  }
}

constexpr int64_t kMoved = 16 * kPoints;  // positions that read one element each, handled together

/// The elements of planes at `count` positions, 0 for what is outside: plane after plane, as each fits into the cache.
template <class T>
void move_to_planes(T* out, int64_t points, const T* image, int64_t channels, int64_t channel_step, int64_t count,
                    const int32_t* offset) {
  int32_t outside[kMoved], others = 0;
  for (int64_t p = 0; p < count; ++p) {
    outside[others] = static_cast<int32_t>(p);
    others += offset[p] < 0;
  }
  for (int64_t c = 0; c < channels; ++c, out += points, image += channel_step) {
    read_each(count, image, offset, out);
    for (int32_t k = 0; k < others; ++k) out[outside[k]] = T(0);
  }
}

template <class T>
void nearest_planes(const Tensor& out, const Tensor& input, const Tensor& grid, const GridSampling& how) {
  const int64_t channels = input.size(1), points = points_of(grid), dims = grid.size(-1),
                blocks = (points + kMoved - 1) / kMoved;
  const Sampler<T> sampler(input, how);
  parallel_for(0, input.size(0) * blocks, grain_of(channels * kMoved), [&](int64_t from, int64_t to) {
    Samples<T> s;
    int32_t offset[kMoved];
    for (int64_t block = from; block < to; ++block) {
      const int64_t n = block / blocks, first = block % blocks * kMoved, total = std::min(kMoved, points - first);
      for (int64_t p = 0; p < total; p += kPoints) {
        const int64_t count = std::min(kPoints, total - p);
        sampler.read(grid.data<T>() + (n * points + first + p) * dims, count, s);
        std::copy_n(s.offset.data(), count, offset + p);
      }
      move_to_planes(out.data<T>() + n * channels * points + first, points, input.data<T>() + n * input.stride(0),
                     channels, input.stride(1), total, offset);
    }
  });
}

void grid_sampler_cpu(const Tensor& out, const Tensor& input, const Tensor& grid, const GridSampling& how) {
  LockRelease release(out.numel() > kGrain);
  int64_t channels = input.size(1), points = points_of(grid);
  visit_float(out.dtype(), [&]<class T>(TypeTag<T>) {
    const bool by_vectors = has_vectors_of_channels<T>(input);
    if (how.interpolation == 1 && !by_vectors) return nearest_planes<T>(out, input, grid, how);
    for_samples<T>(input, grid, how, false, channels * 8, [&](int64_t n, int64_t first, int64_t count, Samples<T>& s) {
      const T* image = input.data<T>() + n * input.stride(0);
      T* to = out.data<T>() + n * channels * points + first;
      if (!by_vectors) return sample_planes(to, points, image, channels, input.stride(1), count, s);
      T* rows = s.room(kPoints * channels);
      sample_channels(rows, image, channels, count, s);
      rows_to_planes(to, rows, points, channels, count);
    });
  });
}

/// Adds `vectors` vectors of channels of one position, weighted, to the rows that it read.
template <int vectors, class T>
void add_channels(T* image, const T* values, const Samples<T>& s, int64_t p) {
  constexpr int64_t lanes = Channels<T>::lanes;
  T nothing[vectors * lanes] = {};
  typename Channels<T>::type g[vectors];
  std::memcpy(g, values, sizeof g);
  for (int k = 0; k < s.reads; ++k) {
    T* row = row_at(image, s.offset[k * kPoints + p], nothing);
    const T weight = s.weight[k * kPoints + p];
    for (int v = 0; v < vectors; ++v) {
      const auto sum = load_vector<kChannelBytes>(row + v * lanes) + g[v] * weight;
      std::memcpy(row + v * lanes, &sum, sizeof sum);
    }
  }
}

/// Adds the channels [from, to) of a run of positions, which `rows` holds, to an image.
template <class T>
void spread_channels(T* image, const T* rows, int64_t from, int64_t to, int64_t count, const Samples<T>& s) {
  constexpr int64_t lanes = Channels<T>::lanes;
  const int64_t width = to - from;
  for (int64_t p = 0; p < count; ++p) {
    const T* row = rows + p * width;
    T* target = image + from;
    int64_t c = 0;
    for (; c + 2 * lanes <= width; c += 2 * lanes) add_channels<2>(target + c, row + c, s, p);
    for (; c + lanes <= width; c += lanes) add_channels<1>(target + c, row + c, s, p);
    for (int k = 0; c < width && k < s.reads; ++k) {
      const int32_t offset = s.offset[k * kPoints + p];
      for (int64_t rest = c; rest < width && offset >= 0; ++rest)
        target[offset + rest] += row[rest] * s.weight[k * kPoints + p];
    }
  }
}

/// The same for planes.
template <class T>
void spread_planes(const Tensor& result, int64_t n, int64_t from, int64_t to, const T* gradient, int64_t points,
                   int64_t count, const Samples<T>& s) {
  for (int64_t c = from; c < to; ++c) {
    const T* g = gradient + (c - from) * points;
    T* target = result.data<T>() + n * result.stride(0) + c * result.stride(1);
    for (int k = 0; k < s.reads; ++k) {
      for (int64_t p = 0; p < count; ++p) {
        int32_t offset = s.offset[k * kPoints + p];
        if (offset >= 0) target[offset] += g[p] * s.weight[k * kPoints + p];
      }
    }
  }
}

// Threads share the images and blocks of their channels, so that no two add to one element.
void grid_sampler_input_cpu(const Tensor& result, const Tensor& gradient, const Tensor& grid, const GridSampling& how) {
  LockRelease release(gradient.numel() > kGrain);
  int64_t batch = result.size(0), channels = result.size(1), points = points_of(grid), dims = grid.size(-1);
  visit_float(result.dtype(), [&]<class T>(TypeTag<T>) {
    const bool by_vectors = has_vectors_of_channels<T>(result);
    const int64_t width = by_vectors ? 2 * Channels<T>::lanes : 1, blocks = (channels + width - 1) / width;
    Sampler<T> sampler(result, how);
    parallel_for(0, batch * blocks, grain_of(points * 8 * width), [&](int64_t begin, int64_t end) {
      Samples<T> s;
      while (begin < end) {
        const int64_t n = begin / blocks, last = std::min(end, (n + 1) * blocks);
        const int64_t from = begin % blocks * width, to = std::min(channels, (last - n * blocks) * width);
        T* image = result.data<T>() + n * result.stride(0);
        for (int64_t first = 0; first < points; first += kPoints) {
          int64_t count = std::min(kPoints, points - first);
          sampler.read(grid.data<T>() + (n * points + first) * dims, count, s);
          const T* g = gradient.data<T>() + (n * channels + from) * points + first;
          if (!by_vectors) {
            spread_planes(result, n, from, to, g, points, count, s);
            continue;
          }
          T* rows = s.room(kPoints * (to - from));
          planes_to_rows(rows, g, points, to - from, count);
          spread_channels(image, rows, from, to, count, s);
        }
        begin = last;
      }
    });
  });
}

/// The derivatives of a run of positions by their coordinates: sums[d][p].
template <class T>
void slopes_of_planes(T (*sums)[kPoints], int64_t dims, const T* gradient, int64_t points, const T* image,
                      int64_t channels, int64_t channel_step, int64_t count, const Samples<T>& s) {
  for (int64_t c = 0; c < channels; ++c) {
    const T *source = image + c * channel_step, *g = gradient + c * points;
    for (int k = 0; k < s.reads; ++k) {
      const int32_t* offset = s.offset.data() + k * kPoints;
      T value[kPoints];
      read_each(count, source, offset, value);
      FACULA_SIMD
      for (int64_t p = 0; p < count; ++p) value[p] = offset[p] >= 0 ? value[p] * g[p] : T(0);
      for (int64_t d = 0; d < dims; ++d) {
        const T* slope = s.slope[d].data() + k * kPoints;
        FACULA_SIMD
        for (int64_t p = 0; p < count; ++p) sums[d][p] += value[p] * slope[p];
      }
    }
  }
}

/// The product of two rows of channels, added up to one vector.
template <class T>
auto row_product(const T* a, const T* b, int64_t channels) {
  constexpr int64_t lanes = Channels<T>::lanes;
  auto sum = load_vector<kChannelBytes>(a) * load_vector<kChannelBytes>(b);
  int64_t c = lanes;
  for (; c + lanes <= channels; c += lanes)
    sum += load_vector<kChannelBytes>(a + c) * load_vector<kChannelBytes>(b + c);
  for (; c < channels; ++c) sum[0] += a[c] * b[c];
  return sum;
}

template <class T>
void slopes_of_channels(T (*sums)[kPoints], int64_t dims, const T* rows, const T* image, int64_t channels,
                        int64_t count, const Samples<T>& s) {
  for (int64_t p = 0; p < count; ++p) {
    typename Channels<T>::type total[3] = {};
    for (int k = 0; k < s.reads; ++k) {
      const int64_t at = k * kPoints + p;
      if (s.offset[at] < 0) continue;
      const auto product = row_product(rows + p * channels, image + s.offset[at], channels);
      for (int64_t d = 0; d < dims; ++d) total[d] += product * s.slope[d][at];
    }
    for (int64_t d = 0; d < dims; ++d) {
      auto pair = merge_lanes<2>(total[d], [](auto a, auto b) { return a + b; });
      sums[d][p] = T(pair[0]) + T(pair[1]);
    }
  }
}

void grid_sampler_grid_cpu(const Tensor& result, const Tensor& gradient, const Tensor& input, const Tensor& grid,
                           const GridSampling& how) {
  if (how.interpolation == 1) return;  // nearest: zero everywhere
  LockRelease release(gradient.numel() > kGrain);
  int64_t channels = input.size(1), points = points_of(grid), dims = grid.size(-1);
  visit_float(result.dtype(), [&]<class T>(TypeTag<T>) {
    const bool by_vectors = has_vectors_of_channels<T>(input);
    for_samples<T>(input, grid, how, true, channels * 16, [&](int64_t n, int64_t first, int64_t count, Samples<T>& s) {
      T sums[3][kPoints] = {};
      const T* image = input.data<T>() + n * input.stride(0);
      const T* g = gradient.data<T>() + n * channels * points + first;
      if (by_vectors) {
        T* rows = s.room(kPoints * channels);
        planes_to_rows(rows, g, points, channels, count);
        slopes_of_channels(sums, dims, rows, image, channels, count, s);
      } else {
        slopes_of_planes(sums, dims, g, points, image, channels, input.stride(1), count, s);
      }
      T* to = result.data<T>() + (n * points + first) * dims;
      for (int64_t p = 0; p < count; ++p)
        for (int64_t d = 0; d < dims; ++d) to[p * dims + d] = sums[d][p];
    });
  });
}

}  // namespace

void register_resample_grid() {
  grid_sampler_kernel.set(DeviceType::CPU, grid_sampler_cpu);
  grid_sampler_input_kernel.set(DeviceType::CPU, grid_sampler_input_cpu);
  grid_sampler_grid_kernel.set(DeviceType::CPU, grid_sampler_grid_cpu);
}

}  // namespace facula::cpu::FACULA_ISA

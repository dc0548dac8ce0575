// What is read from regions of images, and where its gradients go.
#include <limits>
#include <span>

#include "cpu/isa/grain.h"
#include "cpu/isa/lanes.h"
#include "cpu/isa/transpose.h"
#include "cpu/isa/types.h"
#include "cpu/isa/vision_samples.h"

namespace facula::cpu::FACULA_ISA {
namespace {

bool has_channels_last(const Tensor& images) {
  return !images.is_contiguous() && images.is_contiguous(MemoryFormat::ChannelsLast);
}

template <class T>
struct Tap {
  int64_t offset;  // of the pixel in its image, in elements
  T weight;
};

/// The pixels of all bins of one region.
template <class T>
struct RegionList {
  std::vector<Tap<T>> samples;
  std::vector<size_t> end;  // by bin
  std::vector<T> divisor;

  void read(const RegionSamples<T>& t, const RegionBins& bins, int64_t region, int64_t width, int64_t pixel) {
    samples.clear();
    end.clear();
    divisor.clear();
    const SideSamples<T>&rows = t.rows, &columns = t.columns;
    for (int64_t y = region * bins.rows; y < (region + 1) * bins.rows; ++y) {
      for (int64_t x = region * bins.columns; x < (region + 1) * bins.columns; ++x) {
        const auto r = static_cast<size_t>(y), c = static_cast<size_t>(x);
        for (auto j = static_cast<size_t>(rows.first[r]); j < static_cast<size_t>(rows.first[r + 1]); ++j)
          for (auto i = static_cast<size_t>(columns.first[c]); i < static_cast<size_t>(columns.first[c + 1]); ++i)
            samples.push_back({(rows.index[j] * width + columns.index[i]) * pixel, rows.weight[j] * columns.weight[i]});
        end.push_back(samples.size());
        divisor.push_back(rows.divisor[r] * columns.divisor[c]);
      }
    }
  }
  /// f(bin, its samples, its divisor)
  template <class F>
  void for_bins(F f) const {
    const Tap<T>* from = samples.data();
    for (size_t bin = 0; bin < end.size(); ++bin) {
      const Tap<T>* to = samples.data() + end[bin];
      f(static_cast<int64_t>(bin), std::span<const Tap<T>>(from, to), divisor[bin]);
      from = to;
    }
  }
};

// ---- channels side by side

/// `vectors` vectors of channels of one bin.
template <int vectors, class T>
void weigh(T* to, const T* image, std::span<const Tap<T>> samples, T divisor) {
  constexpr int64_t lanes = VectorOf<T>::lanes;
  typename VectorOf<T>::type sum[vectors] = {};
  for (const Tap<T>& tap : samples)
    for (int v = 0; v < vectors; ++v) sum[v] += load_vector(image + tap.offset + v * lanes) * tap.weight;
  for (int v = 0; v < vectors; ++v) {
    const auto mean = sum[v] / divisor;
    std::memcpy(to + v * lanes, &mean, sizeof mean);
  }
}

template <class T>
void mean_of_channels(T* to, const T* image, std::span<const Tap<T>> samples, T divisor, int64_t channels) {
  constexpr int64_t lanes = VectorOf<T>::lanes;
  int64_t c = 0;
  for (; c + 8 * lanes <= channels; c += 8 * lanes) weigh<8>(to + c, image + c, samples, divisor);
  for (; c + lanes <= channels; c += lanes) weigh<1>(to + c, image + c, samples, divisor);
  for (; c < channels; ++c) {
    T sum = 0;
    for (const Tap<T>& tap : samples) sum += image[tap.offset + c] * tap.weight;
    to[c] = sum / divisor;
  }
}

template <class T>
void means_of_channels(const Tensor& out, const Tensor& images, const RegionBins& bins, const RegionSamples<T>& t) {
  const int64_t channels = images.size(1), width = images.size(3), count = bins.count();
  const int64_t image_size = channels * images.size(2) * width, regions = out.size(0);
  parallel_for(0, regions, grain_of(t.total / regions * channels), [&](int64_t from, int64_t to) {
    RegionList<T> list;
    std::vector<T> rows(static_cast<size_t>(count * channels));
    for (int64_t r = from; r < to; ++r) {
      const T* image = images.data<T>() + t.image[static_cast<size_t>(r)] * image_size;
      list.read(t, bins, r, width, channels);
      list.for_bins([&](int64_t bin, std::span<const Tap<T>> samples, T divisor) {
        mean_of_channels(rows.data() + bin * channels, image, samples, divisor, channels);
      });
      transpose_tiles<T>(reinterpret_cast<const char*>(rows.data()), channels * int64_t{sizeof(T)},
                         reinterpret_cast<char*>(out.data<T>() + r * channels * count), count * int64_t{sizeof(T)},
                         channels, count);
    }
  });
}

/// Adds `width` channels of a bin's gradient, weighted, to the pixels that it read.
template <class T>
void spread_channels(T* image, const T* gradient, std::span<const Tap<T>> samples, T divisor, int64_t width) {
  for (const Tap<T>& tap : samples) {
    T* to = image + tap.offset;
    const T factor = tap.weight / divisor;
    FACULA_SIMD
    for (int64_t c = 0; c < width; ++c) to[c] += gradient[c] * factor;
  }
}

// Threads have blocks of channels, so that no two add to one element.
template <class T>
void spread_by_channels(const Tensor& images, const Tensor& gradient, const RegionBins& bins,
                        const RegionSamples<T>& t) {
  const int64_t channels = images.size(1), width = images.size(3), count = bins.count();
  const int64_t image_size = channels * images.size(2) * width, unit = VectorOf<T>::lanes;
  const int64_t units = (channels + unit - 1) / unit;
  parallel_for(0, units, grain_of(t.total * unit), [&](int64_t from, int64_t to) {
    const int64_t begin = from * unit, mine = std::min(channels, to * unit) - begin;
    RegionList<T> list;
    std::vector<T> rows(static_cast<size_t>(count * mine));
    for (int64_t r = 0; r < gradient.size(0); ++r) {
      const T* given = gradient.data<T>() + (r * channels + begin) * count;
      transpose_tiles<T>(reinterpret_cast<const char*>(given), count * int64_t{sizeof(T)},
                         reinterpret_cast<char*>(rows.data()), mine * int64_t{sizeof(T)}, count, mine);
      T* image = images.data<T>() + t.image[static_cast<size_t>(r)] * image_size + begin;
      list.read(t, bins, r, width, channels);
      list.for_bins([&](int64_t bin, std::span<const Tap<T>> samples, T divisor) {
        spread_channels(image, rows.data() + bin * mine, samples, divisor, mine);
      });
    }
  });
}

// ---- plane after plane

/// The planes of a region's image that a result channel reads.
struct Planes {
  int64_t size, channels;  // of a plane, and of an image
  bool by_place;
  int64_t bins;

  Planes(const Tensor& images, const RegionBins& b)
      : size(images.size(2) * images.size(3)), channels(images.size(1)), by_place(b.by_place()), bins(b.count()) {}
  int64_t offset(int64_t image, int64_t channel, int64_t bin) const {
    return (image * channels + (by_place ? channel * bins + bin : channel)) * size;
  }
};

template <class T>
void means_of_planes(const Tensor& out, const Tensor& images, const RegionBins& bins, const RegionSamples<T>& t) {
  const Planes planes(images, bins);
  const int64_t channels = out.size(1), width = images.size(3), count = bins.count();
  parallel_for(0, out.size(0) * channels, grain_of(t.total / out.size(0)), [&](int64_t from, int64_t to) {
    RegionList<T> list;
    while (from < to) {
      const int64_t r = from / channels, begin = from % channels, end = std::min(channels, begin + to - from);
      const int64_t image = t.image[static_cast<size_t>(r)];
      list.read(t, bins, r, width, 1);
      for (int64_t c = begin; c < end; ++c) {
        T* mean = out.data<T>() + (r * channels + c) * count;
        list.for_bins([&](int64_t bin, std::span<const Tap<T>> samples, T divisor) {
          const T* plane = images.data<T>() + planes.offset(image, c, bin);
          T sum = 0;
          for (const Tap<T>& tap : samples) sum += plane[tap.offset] * tap.weight;
          mean[bin] = sum / divisor;
        });
      }
      from += end - begin;
    }
  });
}

template <class T>
void spread_by_planes(const Tensor& images, const Tensor& gradient, const RegionBins& bins, const RegionSamples<T>& t) {
  const Planes planes(images, bins);
  const int64_t channels = gradient.size(1), width = images.size(3), count = bins.count();
  parallel_for(0, channels, grain_of(t.total), [&](int64_t from, int64_t to) {
    RegionList<T> list;
    for (int64_t r = 0; r < gradient.size(0); ++r) {
      const int64_t image = t.image[static_cast<size_t>(r)];
      list.read(t, bins, r, width, 1);
      for (int64_t c = from; c < to; ++c) {
        const T* given = gradient.data<T>() + (r * channels + c) * count;
        list.for_bins([&](int64_t bin, std::span<const Tap<T>> samples, T divisor) {
          T* plane = images.data<T>() + planes.offset(image, c, bin);
          const T g = given[bin] / divisor;
          for (const Tap<T>& tap : samples) plane[tap.offset] += g * tap.weight;
        });
      }
    }
  });
}

void region_means_cpu(const Tensor& out, const Tensor& images, const Tensor& rois, const RegionBins& bins) {
  LockRelease release(out.numel() > kGrain);
  visit_types(Floats{}, out.dtype(), [&]<class T>(TypeTag<T>) {
    const RegionSamples<T> samples(rois, images.sizes(), bins);
    if (has_channels_last(images)) means_of_channels(out, images, bins, samples);
    else means_of_planes(out, images, bins, samples);
  });
}

void region_means_gradient_cpu(const Tensor& images, const Tensor& gradient, const Tensor& rois,
                               const RegionBins& bins) {
  LockRelease release(gradient.numel() > kGrain);
  visit_types(Floats{}, images.dtype(), [&]<class T>(TypeTag<T>) {
    const RegionSamples<T> samples(rois, images.sizes(), bins);
    if (has_channels_last(images)) spread_by_channels(images, gradient, bins, samples);
    else spread_by_planes(images, gradient, bins, samples);
  });
}

// ---- maxima

/// Pixels [begin, end) of a bin along one side; end is -1 where the region is not finite.
struct Range {
  int64_t begin, end;
};

template <class T>
Range range_of(const RegionBins& bins, T from, T to, int64_t bin, int64_t count, int64_t size) {
  const T scale = static_cast<T>(bins.scale);
  const T begin = std::round(from * scale), end = std::round(to * scale);
  if (!std::isfinite(begin) || !std::isfinite(end) || !std::isfinite(end - begin)) return {0, -1};
  const T length = std::max(end - begin + T(1), T(1)) / static_cast<T>(count);
  auto inside = [&](T at) {
    return static_cast<int64_t>(std::clamp(static_cast<double>(at) + begin, 0.0, static_cast<double>(size)));
  };
  return {inside(std::floor(static_cast<T>(bin) * length)), inside(std::ceil(static_cast<T>(bin + 1) * length))};
}

template <class T>
void find_maximum(const T* plane, int64_t width, Range y, Range x, T& value, int32_t& place) {
  const bool finite = y.end >= 0 && x.end >= 0;
  place = -1;
  value = finite ? T(0) : std::numeric_limits<T>::quiet_NaN();
  if (!finite || y.end <= y.begin || x.end <= x.begin) return;
  value = std::numeric_limits<T>::lowest();
  for (int64_t h = y.begin; h < y.end; ++h) {
    for (int64_t w = x.begin; w < x.end; ++w) {
      if (!(plane[h * width + w] > value)) continue;
      value = plane[h * width + w];
      place = static_cast<int32_t>(h * width + w);
    }
  }
}

void region_maxima_cpu(const Tensor& out, const Tensor& argmax, const Tensor& images, const Tensor& rois,
                       const RegionBins& bins) {
  LockRelease release(out.numel() > kGrain);
  visit_types(Floats{}, out.dtype(), [&]<class T>(TypeTag<T>) {
    const std::vector<int64_t> image = images_of<T>(rois, images.size(0), bins.op);
    const int64_t channels = out.size(1), height = images.size(2), width = images.size(3), count = bins.count();
    parallel_for(0, out.size(0) * channels, grain_of(count * 16), [&](int64_t from, int64_t to) {
      while (from < to) {
        const int64_t r = from / channels, begin = from % channels, end = std::min(channels, begin + to - from);
        const T* roi = rois.data<T>() + r * 5;
        const T* planes = images.data<T>() + image[static_cast<size_t>(r)] * channels * height * width;
        for (int64_t bin = 0; bin < count; ++bin) {
          const Range y = range_of(bins, roi[2], roi[4], bin / bins.columns, bins.rows, height),
                      x = range_of(bins, roi[1], roi[3], bin % bins.columns, bins.columns, width);
          for (int64_t c = begin; c < end; ++c) {
            const int64_t at = (r * channels + c) * count + bin;
            find_maximum(planes + c * height * width, width, y, x, out.data<T>()[at], argmax.data<int32_t>()[at]);
          }
        }
        from += end - begin;
      }
    });
  });
}

void check_places(const Tensor& argmax, int64_t pixels, const char* op) {
  const int32_t* place = argmax.data<int32_t>();
  for (int64_t i = 0; i < argmax.numel(); ++i) {
    FACULA_CHECK(place[i] >= -1 && place[i] < pixels, ErrorKind::Index, op, ": argmax must be in a plane of ", pixels,
                 " pixels or -1, got ", place[i]);
  }
}

void region_maxima_gradient_cpu(const Tensor& images, const Tensor& gradient, const Tensor& argmax, const Tensor& rois,
                                const RegionBins& bins) {
  LockRelease release(gradient.numel() > kGrain);
  const int64_t channels = images.size(1), pixels = images.size(2) * images.size(3), count = bins.count();
  check_places(argmax, pixels, bins.op);
  visit_types(Floats{}, images.dtype(), [&]<class T>(TypeTag<T>) {
    const std::vector<int64_t> image = images_of<T>(rois, images.size(0), bins.op);
    const int64_t regions = gradient.size(0);
    parallel_for(0, channels, grain_of(regions * count), [&](int64_t from, int64_t to) {
      for (int64_t r = 0; r < regions; ++r) {
        for (int64_t c = from; c < to; ++c) {
          T* plane = images.data<T>() + (image[static_cast<size_t>(r)] * channels + c) * pixels;
          const T* g = gradient.data<T>() + (r * channels + c) * count;
          const int32_t* place = argmax.data<int32_t>() + (r * channels + c) * count;
          for (int64_t bin = 0; bin < count; ++bin)
            if (place[bin] >= 0) plane[place[bin]] += g[bin];
        }
      }
    });
  });
}

void region_channels_cpu(const Tensor& channels) {
  int32_t* to = channels.data<int32_t>();
  const int64_t each = channels.numel() / channels.size(0);
  for (int64_t i = 0; i < channels.numel(); ++i) to[i] = static_cast<int32_t>(i % each);
}

}  // namespace

void register_vision_regions() {
  region_means_kernel.set(DeviceType::CPU, region_means_cpu);
  region_means_gradient_kernel.set(DeviceType::CPU, region_means_gradient_cpu);
  region_maxima_kernel.set(DeviceType::CPU, region_maxima_cpu);
  region_maxima_gradient_kernel.set(DeviceType::CPU, region_maxima_gradient_cpu);
  region_channels_kernel.set(DeviceType::CPU, region_channels_cpu);
}

}  // namespace facula::cpu::FACULA_ISA

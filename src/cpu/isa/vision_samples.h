// Which pixels the bins of regions read, with which weights. All rules are separable: a bin's weights are the products
// of those of its rows and its columns, so both sides are worked out once for each region, and pixels that several
// points of a bin read are read once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cpu/isa.h"
#include "ops/vision.h"

namespace facula::cpu::FACULA_ISA {

/// Along one side of all regions: bin b of region r reads pixel index[k] with weight[k], for first[r * bins + b] <= k <
/// first[r * bins + b + 1]; the sum is divided by divisor[r * bins + b].
template <class T>
class SideSamples {
 public:
  using Rule = RegionBins::Rule;

  SideSamples(int64_t bins, int64_t size, int64_t regions) : bins_(bins), size_(size) {
    first.reserve(static_cast<size_t>(regions * bins + 1));
    divisor.reserve(static_cast<size_t>(regions * bins));
    first.push_back(0);
  }

  std::vector<int64_t> first;
  std::vector<int32_t> index;
  std::vector<T> weight, divisor;

  /// The next region, from one coordinate to the other.
  void add(const RegionBins& bins, T from, T to) {
    const T scale = static_cast<T>(bins.scale);
    if (!std::isfinite(from * scale) || !std::isfinite(to * scale) || !std::isfinite((to - from) * scale)) {
      for (int64_t b = 0; b < bins_; ++b) close(0);  // nothing by nothing
    } else if (bins.rule == Rule::MeanByPlace) {
      add_pixels(std::round(from * scale), std::round(to * scale));
    } else {
      add_points(bins, from * scale, to * scale);
    }
  }

 private:
  int64_t bins_, size_;

  void close(T divided_by) {
    first.push_back(static_cast<int64_t>(index.size()));
    divisor.push_back(divided_by);
  }

  // To one of the last two of the bin where it is that pixel: points go on in steps of at most one.
  void read(int64_t pixel, T factor) {
    const size_t count = index.size(), mine = static_cast<size_t>(first.back());
    for (size_t back = 1; back <= 2 && count >= mine + back; ++back) {
      if (index[count - back] != pixel) continue;
      weight[count - back] += factor;
      return;
    }
    index.push_back(static_cast<int32_t>(pixel));
    weight.push_back(factor);
  }

  void read_linearly(T at) {
    if (!(at >= T(-1) && at <= static_cast<T>(size_))) return;
    at = std::max(at, T(0));
    const int64_t low = static_cast<int64_t>(at);
    if (low >= size_ - 1) return read(size_ - 1, T(1));
    const T rest = at - static_cast<T>(low);
    read(low, T(1) - rest);
    read(low + 1, rest);
  }

  void add_points(const RegionBins& bins, T from, T to) {
    const T shift = bins.rule == Rule::Align ? T(0) : T(0.5);
    from -= shift;
    to -= shift;
    const T length = bins.rule == Rule::Align ? std::max(to - from, T(1)) : to - from;
    const T bin = length / static_cast<T>(bins_),
            count = bins.sampling > 0 ? static_cast<T>(bins.sampling) : std::ceil(bin);
    const T divided_by = bins.rule == Rule::AlignByPlace ? count : std::max(count, T(1));
    const int64_t points = static_cast<int64_t>(std::clamp(static_cast<double>(count), 0.0, 0x1p62));
    for (int64_t b = 0; b < bins_; ++b) {
      const T begin = from + static_cast<T>(b) * bin;
      const auto [low, high] = near_points(begin, bin / count, points);
      for (int64_t i = low; i < high; ++i) read_linearly(begin + (static_cast<T>(i) + T(0.5)) * bin / count);
      close(divided_by);
    }
  }

  // Of `points` points from `begin` on, those that may lie in the image, and a few more.
  std::pair<int64_t, int64_t> near_points(double begin, double step, int64_t points) const {
    if (!(step > 0)) return {0, points};
    auto inside = [&](double at) { return static_cast<int64_t>(std::clamp(at, 0.0, static_cast<double>(points))); };
    return {inside((-1 - begin) / step - 2), std::min(points, inside((static_cast<double>(size_) - begin) / step + 2))};
  }

  void add_pixels(double from, double to) {
    const double bin = static_cast<double>(static_cast<T>(std::max(to - from, 1.0)) / static_cast<T>(bins_));
    const double last = static_cast<double>(size_ - 1);
    for (int64_t b = 0; b < bins_; ++b) {
      const T length = static_cast<T>(bin);
      const double begin = std::clamp(static_cast<double>(std::floor(static_cast<T>(b) * length)) + from, 0.0, last),
                   end = std::clamp(static_cast<double>(std::ceil(static_cast<T>(b + 1) * length)) + from, 0.0, last);
      for (double at = begin; at < end; ++at) read(static_cast<int64_t>(at), T(1));
      close(static_cast<T>(std::max(end - begin, 1.0)));
    }
  }
};

/// The image of every region; throws where there is none.
template <class T>
std::vector<int64_t> images_of(const Tensor& rois, int64_t images, const char* op) {
  std::vector<int64_t> numbers(static_cast<size_t>(rois.size(0)));
  const T* row = rois.data<T>();
  for (int64_t& number : numbers) {
    const double value = static_cast<double>(*row);
    FACULA_CHECK(value > -1 && value < static_cast<double>(images), ErrorKind::Index, op,
                 ": the first column of rois must be the number of an image, 0 to ", images - 1, ", got ", value);
    number = static_cast<int64_t>(value);
    row += 5;
  }
  return numbers;
}

/// Both sides of all regions.
template <class T>
struct RegionSamples {
  std::vector<int64_t> image;
  SideSamples<T> rows, columns;
  int64_t total = 0;  // pixels that bins read

  RegionSamples(const Tensor& rois, IntList images, const RegionBins& bins)
      : image(images_of<T>(rois, images[0], bins.op)),
        rows(bins.rows, images[2], rois.size(0)),
        columns(bins.columns, images[3], rois.size(0)) {
    const T* r = rois.data<T>();
    for (int64_t k = 0; k < rois.size(0); ++k, r += 5) {
      rows.add(bins, r[2], r[4]);
      columns.add(bins, r[1], r[3]);
      total += (rows.first[static_cast<size_t>((k + 1) * bins.rows)] - rows.first[static_cast<size_t>(k * bins.rows)]) *
               (columns.first[static_cast<size_t>((k + 1) * bins.columns)] -
                columns.first[static_cast<size_t>(k * bins.columns)]);
    }
  }
};

}  // namespace facula::cpu::FACULA_ISA

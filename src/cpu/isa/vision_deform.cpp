// Columns of deformable convolution. Images have their channels side by side, so that every place that a tap reads is
// worked out once, and is four rows of vectors.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/isa/grain.h"
#include "cpu/isa/lanes.h"
#include "cpu/isa/types.h"
#include "ops/vision.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Channels [from, to) of an image that belong to one group of weights and one of offsets.
struct Segment {
  int64_t from, to, group, offset_group;
};

std::vector<Segment> segments_of(const DeformPlan& p) {
  const int64_t each = p.channels / p.groups, moved = p.channels / p.offset_groups;
  std::vector<Segment> all;
  for (int64_t c = 0; c < p.channels;) {
    const int64_t group = c / each, offset_group = c / moved;
    const int64_t to = std::min((group + 1) * each, (offset_group + 1) * moved);
    all.push_back({c, to, group, offset_group});
    c = to;
  }
  return all;
}

/// The four pixels around a place, their weights, and how these change with the place; offsets of pixels outside
/// are -1.
template <class T>
struct Corners {
  int64_t offset[4];
  T weight[4], down[4], right[4];
};

template <class T>
Corners<T> corners_at(const DeformPlan& p, T y, T x) {
  Corners<T> c;
  const T top = std::floor(y), left = std::floor(x);
  const T below = y - top, beside = x - left;
  const T weights[2][2] = {{T(1) - below, below}, {T(1) - beside, beside}};
  for (int k = 0; k < 4; ++k) {
    const int i = k / 2, j = k % 2;
    const T row = top + static_cast<T>(i), column = left + static_cast<T>(j);
    const bool inside =
        row >= T(0) && row < static_cast<T>(p.height) && column >= T(0) && column < static_cast<T>(p.width);
    c.offset[k] = inside ? (static_cast<int64_t>(row) * p.width + static_cast<int64_t>(column)) * p.channels : -1;
    c.weight[k] = weights[0][i] * weights[1][j];
    c.down[k] = (i ? T(1) : T(-1)) * weights[1][j];
    c.right[k] = (j ? T(1) : T(-1)) * weights[0][i];
  }
  return c;
}

/// Where a tap of an offset group reads at a position, and the place of its numbers in the planes of offsets and mask.
template <class T>
struct Read {
  Corners<T> corners;
  T factor;  // of the mask
  int64_t plane, at;
};

template <class T>
Read<T> read_of(const DeformPlan& p, int64_t position, int64_t tap, int64_t offset_group) {
  const int64_t positions = p.positions(), plane = offset_group * p.taps() + tap;
  const T* offset = static_cast<const T*>(p.offset) + 2 * plane * positions + position;
  const int64_t y = position / p.out_width * p.stride[0] - p.padding[0] + tap / p.kernel_width * p.dilation[0];
  const int64_t x = position % p.out_width * p.stride[1] - p.padding[1] + tap % p.kernel_width * p.dilation[1];
  const T factor = p.mask ? static_cast<const T*>(p.mask)[plane * positions + position] : T(1);
  return {corners_at(p, static_cast<T>(y) + offset[0], static_cast<T>(x) + offset[positions]), factor, plane, position};
}

/// The columns of one position and tap in a segment.
template <class T>
T* column_of(const DeformPlan& p, T* columns, const Segment& s, int64_t position, int64_t tap) {
  const int64_t each = p.channels / p.groups, row = s.group * (p.to - p.from) + position - p.from;
  return columns + (row * p.taps() + tap) * each + (s.from - s.group * each);
}

/// f(segment, position, tap, where the tap reads) over positions [from, to); places are worked out once for each
/// offset group.
template <class T, class F>
void for_reads(const DeformPlan& p, const std::vector<Segment>& segments, int64_t from, int64_t to, F f) {
  const int64_t taps = p.taps();
  for (int64_t position = from; position < to; ++position) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      Read<T> read{};
      int64_t known = -1;
      for (const Segment& s : segments) {
        if (s.offset_group != known) read = read_of<T>(p, position, tap, known = s.offset_group);
        f(s, position, tap, read);
      }
    }
  }
}

template <class T>
void blend(T* to, const T* image, const Segment& s, const Read<T>& read, const T* nothing) {
  const T* row[4];
  T weight[4];
  for (int k = 0; k < 4; ++k) {
    const int64_t offset = read.corners.offset[k];
    row[k] = offset >= 0 ? image + offset + s.from : nothing;
    weight[k] = read.corners.weight[k] * read.factor;
  }
  FACULA_SIMD
  for (int64_t c = 0; c < s.to - s.from; ++c)
    to[c] = row[0][c] * weight[0] + row[1][c] * weight[1] + row[2][c] * weight[2] + row[3][c] * weight[3];
}

void deform_columns_cpu(DType dtype, void* columns, const void* image, const DeformPlan& p) {
  LockRelease release((p.to - p.from) * p.channels > kGrain / 8);
  const std::vector<Segment> segments = segments_of(p);
  visit_types(Floats{}, dtype, [&]<class T>(TypeTag<T>) {
    const std::vector<T> nothing(static_cast<size_t>(p.channels));
    parallel_for(p.from, p.to, grain_of(p.taps() * p.channels * 2), [&](int64_t from, int64_t to) {
      for_reads<T>(p, segments, from, to, [&](const Segment& s, int64_t position, int64_t tap, const Read<T>& read) {
        blend(column_of(p, static_cast<T*>(columns), s, position, tap), static_cast<const T*>(image), s, read,
              nothing.data());
      });
    });
  });
}

// Threads have blocks of channels, so that no two add to one element.
void deform_image_gradient_cpu(DType dtype, void* image_gradient, const void* columns, const DeformPlan& p) {
  LockRelease release((p.to - p.from) * p.channels > kGrain / 8);
  const std::vector<Segment> all = segments_of(p);
  visit_types(Floats{}, dtype, [&]<class T>(TypeTag<T>) {
    const int64_t unit = VectorOf<T>::lanes, units = (p.channels + unit - 1) / unit;
    parallel_for(0, units, grain_of((p.to - p.from) * p.taps() * 4 * unit), [&](int64_t first, int64_t last) {
      std::vector<Segment> mine;
      for (const Segment& s : all) {
        const Segment part{std::max(s.from, first * unit), std::min(s.to, last * unit), s.group, s.offset_group};
        if (part.from < part.to) mine.push_back(part);
      }
      for_reads<T>(p, mine, p.from, p.to, [&](const Segment& s, int64_t position, int64_t tap, const Read<T>& read) {
        const T* g = column_of(p, static_cast<const T*>(columns), s, position, tap);
        for (int k = 0; k < 4; ++k) {
          if (read.corners.offset[k] < 0) continue;
          T* to = static_cast<T*>(image_gradient) + read.corners.offset[k] + s.from;
          const T weight = read.corners.weight[k] * read.factor;
          FACULA_SIMD
          for (int64_t c = 0; c < s.to - s.from; ++c) to[c] += g[c] * weight;
        }
      });
    });
  });
}

template <class T>
T product(const T* a, const T* b, int64_t count) {
  constexpr int64_t lanes = VectorOf<T>::lanes;
  typename VectorOf<T>::type sum = {};
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes) sum += load_vector(a + c) * load_vector(b + c);
  auto pair = merge_lanes<2>(sum, [](auto x, auto y) { return x + y; });
  T total = pair[0] + pair[1];
  for (; c < count; ++c) total += a[c] * b[c];
  return total;
}

void deform_offset_gradient_cpu(DType dtype, void* offset_gradient, void* mask_gradient, const void* columns,
                                const void* image, const DeformPlan& p) {
  LockRelease release((p.to - p.from) * p.channels > kGrain / 8);
  const std::vector<Segment> segments = segments_of(p);
  const int64_t positions = p.positions();
  visit_types(Floats{}, dtype, [&]<class T>(TypeTag<T>) {
    T *offsets = static_cast<T*>(offset_gradient), *masks = static_cast<T*>(mask_gradient);
    parallel_for(p.from, p.to, grain_of(p.taps() * p.channels * 4), [&](int64_t from, int64_t to) {
      for_reads<T>(p, segments, from, to, [&](const Segment& s, int64_t position, int64_t tap, const Read<T>& read) {
        const T* g = column_of(p, static_cast<const T*>(columns), s, position, tap);
        T value = 0, down = 0, right = 0;
        for (int k = 0; k < 4; ++k) {
          if (read.corners.offset[k] < 0) continue;
          const T sum = product(g, static_cast<const T*>(image) + read.corners.offset[k] + s.from, s.to - s.from);
          value += sum * read.corners.weight[k];
          down += sum * read.corners.down[k];
          right += sum * read.corners.right[k];
        }
        if (masks) masks[read.plane * positions + read.at] += value;
        if (!offsets) return;
        offsets[2 * read.plane * positions + read.at] += down * read.factor;
        offsets[(2 * read.plane + 1) * positions + read.at] += right * read.factor;
      });
    });
  });
}

}  // namespace

void register_vision_deform() {
  deform_columns_kernel.set(DeviceType::CPU, deform_columns_cpu);
  deform_image_gradient_kernel.set(DeviceType::CPU, deform_image_gradient_cpu);
  deform_offset_gradient_kernel.set(DeviceType::CPU, deform_offset_gradient_cpu);
}

}  // namespace facula::cpu::FACULA_ISA

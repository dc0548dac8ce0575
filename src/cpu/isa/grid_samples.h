// What the positions of a grid read: which elements of an image, with which weights and derivatives of those.
//
//     coordinates ---> AxisRule, along each axis ---> AxisReads ---> Sampler, products of axes ---> Samples
//                        padded, interpolated           1, 2 or 4                                     up to 4 x 4 x 4
//
// Positions are handled in runs of kPoints, and all arrays are over the positions of a run, so that the loops have no
// branches and become vector code.
#pragma once

#include <memory>
#include <vector>

#include "core/error.h"
#include "cpu/isa.h"
#include "kernels/math.h"
#include "ops/resample.h"

namespace facula::cpu::FACULA_ISA {

constexpr int64_t kPoints = 64;  // positions handled together

// What a run of coordinates reads along its axis.
template <class T>
struct AxisReads {
  int count = 1;
  int32_t index[4][kPoints];  // -1: outside
  T weight[4][kPoints];
  T slope[4][kPoints];  // derivative of weight by the coordinate
};

// How an axis of a size is read.
template <class T>
struct AxisRule {
  int64_t size;
  GridSampling how;

  T unnormalized(T x) const {
    return how.align_corners ? (x + 1) / 2 * static_cast<T>(size - 1) : ((x + 1) * static_cast<T>(size) - 1) / 2;
  }
  T rate() const { return static_cast<T>(how.align_corners ? size - 1 : size) / 2; }

  // Coordinates brought into the input as the padding mode says; `slope` is multiplied by the derivative.
  void pad(int64_t n, T* x, T* slope) const {
    if (how.padding == 2) reflect(n, x, slope);
    if (how.padding == 0) return;
    const T last = static_cast<T>(size - 1);
    FACULA_SIMD
    for (int64_t p = 0; p < n; ++p) {
      const bool inner = x[p] > 0;  // a position that is no number is at the edge
      slope[p] = inner & (x[p] < last) ? slope[p] : T(0);
      const T raised = inner ? x[p] : T(0);
      x[p] = raised >= last ? last : raised;
    }
  }
  // Mirrored at the outer pixels' centers or edges, as often as needed.
  void reflect(int64_t n, T* x, T* slope) const {
    const T low = how.align_corners ? T(0) : T(-0.5), span = static_cast<T>(how.align_corners ? size - 1 : size);
    FACULA_SIMD
    for (int64_t p = 0; p < n; ++p) {
      const T from_low = x[p] - low, distance = kernels::abs(from_low), turns = kernels::floor(distance / span);
      const T extra = kernels::fmod_quick(distance, span);
      const bool odd = turns - T(2) * kernels::floor(turns / T(2)) != T(0);
      const T turned = (from_low < 0) != odd ? -slope[p] : slope[p];
      slope[p] = span == 0 ? T(0) : turned;
      x[p] = span == 0 ? T(0) : (odd ? span - extra : extra) + low;
    }
  }
  // An index, or 0 for a position that is no number: its weight is none, too, and so is what comes of it.
  int32_t index_or_first(T x) const { return x == x ? index(x) : 0; }
  // An index, or -1; anything that no integer holds is outside.
  int32_t index(T x) const {
    const bool inside = (x >= 0) & (x < static_cast<T>(size));
    return inside ? static_cast<int32_t>(inside ? x : T(0)) : -1;
  }

  /// What `n` coordinates read, which lie `step` apart.
  void reads(int64_t n, const T* coordinates, int64_t step, AxisReads<T>& axis) const {
    T x[kPoints], slope[kPoints];
    for (int64_t p = 0; p < n; ++p) x[p] = unnormalized(coordinates[p * step]), slope[p] = rate();
    if (how.interpolation == 2) return cubic(n, x, slope, axis);
    pad(n, x, slope);
    if (how.interpolation == 1) nearest(n, x, axis);
    else linear(n, x, slope, axis);
  }

  void nearest(int64_t n, const T* x, AxisReads<T>& axis) const {
    axis.count = 1;
    FACULA_SIMD
    for (int64_t p = 0; p < n; ++p) {
      axis.index[0][p] = index(kernels::round_half_even(x[p]));
      axis.weight[0][p] = 1;
      axis.slope[0][p] = 0;
    }
  }

  void linear(int64_t n, const T* x, const T* slope, AxisReads<T>& axis) const {
    axis.count = 2;
    FACULA_SIMD
    for (int64_t p = 0; p < n; ++p) {
      const T low = kernels::floor(x[p]);
      axis.index[0][p] = index_or_first(low);
      axis.index[1][p] = index_or_first(low + 1);
      axis.weight[0][p] = low + 1 - x[p];
      axis.weight[1][p] = x[p] - low;
      axis.slope[0][p] = -slope[p];
      axis.slope[1][p] = slope[p];
    }
  }

  /// The four neighbors are padded each by itself, and their weights are those of the coordinate before padding.
  void cubic(int64_t n, const T* x, const T* slope, AxisReads<T>& axis) const {
    const T a = T(-0.75);
    axis.count = 4;
    for (int k = 0; k < 4; ++k) {
      T place[kPoints], ignored[kPoints] = {};
      const bool inner = k == 1 || k == 2;
      FACULA_SIMD
      for (int64_t p = 0; p < n; ++p) {
        const T low = kernels::floor(x[p]), u = x[p] - low - static_cast<T>(k - 1), d = kernels::abs(u);
        place[p] = low + static_cast<T>(k - 1);
        axis.weight[k][p] = inner ? ((a + 2) * d - (a + 3)) * d * d + 1 : (((d - 5) * d + 8) * d - 4) * a;
        const T derivative = inner ? (3 * (a + 2) * d - 2 * (a + 3)) * d : (3 * d * d - 10 * d + 8) * a;
        axis.slope[k][p] = derivative * (u < 0 ? -slope[p] : slope[p]);
      }
      pad(n, place, ignored);
      FACULA_SIMD
      for (int64_t p = 0; p < n; ++p) axis.index[k][p] = index_or_first(kernels::round_half_even(place[p]));
    }
  }
};

constexpr int kMaxReads = 64;  // of one position: four along each of three axes

// The input elements that a run of grid positions reads, all axes together: arrays over the positions, one after the
// other for each element of their neighborhoods.
template <class T>
struct Samples {
  int reads = 0;
  std::vector<int32_t> offset = std::vector<int32_t>(kMaxReads * kPoints);  // -1: outside
  std::vector<T> weight = std::vector<T>(kMaxReads * kPoints);
  std::vector<T> slope[3];  // of the weight by x, y, z; empty unless requested
  std::unique_ptr<AxisReads<T>[]> axis{new AxisReads<T>[3]};
  std::vector<T> rows;  // of channels, one for each position

  T* room(int64_t elements) {
    rows.resize(static_cast<size_t>(elements));
    return rows.data();
  }
};

template <class T>
class Sampler {
 public:
  // `input` gives sizes and strides.
  Sampler(const Tensor& input, const GridSampling& how) : dims_(static_cast<int>(input.dim()) - 2) {
    int64_t extent = 0;
    for (int d = 0; d < dims_; ++d) {  // x is of the last dimension
      rules_[d] = {input.size(-1 - d), how};
      strides_[d] = input.stride(-1 - d);
      extent += (input.size(-1 - d) - 1) * strides_[d];
    }
    FACULA_CHECK(extent <= INT32_MAX, ErrorKind::NotImplemented,
                 "grid_sample: planes of at most 2^31 elements, got shape ", input.sizes());
  }

  /// What `n` positions read, their coordinates side by side in `grid`.
  void read(const T* grid, int64_t n, Samples<T>& s) const {
    AxisReads<T>* axis = s.axis.get();
    for (int d = 0; d < dims_; ++d) rules_[d].reads(n, grid + d, dims_, axis[d]);
    if (dims_ == 2) {
      axis[2].count = 1;
      for (int64_t p = 0; p < n; ++p) axis[2].index[0][p] = 0, axis[2].weight[0][p] = 1, axis[2].slope[0][p] = 0;
    }
    s.reads = 0;
    for (int k = 0; k < axis[2].count; ++k)
      for (int j = 0; j < axis[1].count; ++j)
        for (int i = 0; i < axis[0].count; ++i) add_read(n, i, j, k, s);
  }

 private:
  /// One more element for each position: number i along x, j along y and k along z.
  [[gnu::always_inline]] void add_read(int64_t n, int i, int j, int k, Samples<T>& s) const {
    const int32_t stride0 = static_cast<int32_t>(strides_[0]), stride1 = static_cast<int32_t>(strides_[1]),
                  stride2 = static_cast<int32_t>(strides_[2]);
    const AxisReads<T>* axis = s.axis.get();
    const int32_t *x = axis[0].index[i], *y = axis[1].index[j], *z = axis[2].index[k];
    const T *wx = axis[0].weight[i], *wy = axis[1].weight[j], *wz = axis[2].weight[k];
    const int64_t at = s.reads++ * kPoints;
    int32_t* offset = s.offset.data() + at;
    T* weight = s.weight.data() + at;
    FACULA_SIMD
    for (int64_t p = 0; p < n; ++p) {
      offset[p] = (x[p] | y[p] | z[p]) < 0 ? -1 : x[p] * stride0 + y[p] * stride1 + z[p] * stride2;
      weight[p] = offset[p] < 0 ? T(0) : wx[p] * wy[p] * wz[p];
    }
    if (s.slope[0].empty()) return;
    T *by_x = s.slope[0].data() + at, *by_y = s.slope[1].data() + at, *by_z = s.slope[2].data() + at;
    FACULA_SIMD
    for (int64_t p = 0; p < n; ++p) {
      by_x[p] = axis[0].slope[i][p] * wy[p] * wz[p];
      by_y[p] = wx[p] * axis[1].slope[j][p] * wz[p];
      by_z[p] = wx[p] * wy[p] * axis[2].slope[k][p];
    }
  }

  int dims_;
  AxisRule<T> rules_[3];
  int64_t strides_[3] = {0, 0, 0};
};

}  // namespace facula::cpu::FACULA_ISA

// Pools of small planes of float32: tables of windows (pool_windows.h) would take longer to write than the windows to
// look at.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>

#include "cpu/isa/pool_windows.h"
#include "cpu/isa/softmax.h"
#include "cpu/isa/sums.h"

namespace facula::cpu::FACULA_ISA {

constexpr int64_t kSmallPlanes = 1 << 10;  // elements of all inputs, or of all results
constexpr int64_t kTiledPlanes = 1 << 14;  // the same of windows that are tiles, which are looked at by vectors

/// Shares of an axis that are all alike are windows; others have edges that take divisions to find.
inline PoolAxis as_window(const PoolAxis& axis) {
  if (!axis.adaptive || axis.out == 0 || axis.in % axis.out != 0) return axis;
  return {.in = axis.in, .out = axis.out, .kernel = axis.in / axis.out, .stride = axis.in / axis.out};
}

/// Windows side by side, each whole.
inline bool are_tiles(const PoolAxis& axis) {
  return !axis.adaptive && axis.kernel == axis.stride && axis.padding == 0 && axis.step == 1 &&
         axis.kernel * axis.out <= axis.in;
}

inline bool are_tiles(const PoolGeometry& g) {
  return are_tiles(as_window(g.axes[1])) && are_tiles(as_window(g.axes[2]));
}

/// `places`: of the largest elements, too, which are found one by one.
inline bool are_small_planes(const Tensor& in, const Tensor& out, const PoolGeometry& g, bool places) {
  const bool slide = !as_window(g.axes[1]).adaptive && !as_window(g.axes[2]).adaptive;
  const int64_t most = !places && are_tiles(g) ? kTiledPlanes : kSmallPlanes;
  return in.dtype() == DType::Float32 && slide && in.dim() <= 4 && in.numel() <= most && out.numel() <= most &&
         !channels_last(in, out);
}

/// Where a result lies and what its window shows: elements of a plane from (top, left) to before (bottom, right).
struct SmallWindow {
  int64_t plane, result, row, column, top, bottom, left, right;
  bool empty() const { return top >= bottom || left >= right; }
};

template <class F>
[[gnu::always_inline]] inline void for_small_windows(const PoolAxis& rows, const PoolAxis& columns, int64_t planes,
                                                     F f) {
  int64_t at = 0;
  for (int64_t p = 0; p < planes; ++p) {
    for (int64_t y = 0; y < rows.out; ++y) {
      const int64_t top = rows.begin(y), bottom = rows.end(y);
      for (int64_t x = 0; x < columns.out; ++x, ++at)
        f(SmallWindow{p, at, y, x, top, bottom, columns.begin(x), columns.end(x)});
    }
  }
}

inline float larger(float best, float value) { return (value > best) | (value != value) ? value : best; }

/// Joins `width` elements to each one of `to`, of which there are n.
template <class Join>
void join_across(int64_t n, int64_t width, const float* from, float* to, Join join) {
  if (width == 2) {
    FACULA_SIMD
    for (int64_t i = 0; i < n; ++i) to[i] = join(from[2 * i], from[2 * i + 1]);
    return;
  }
  if (width == 4) {
    FACULA_SIMD
    for (int64_t i = 0; i < n; ++i)
      to[i] = join(join(from[4 * i], from[4 * i + 1]), join(from[4 * i + 2], from[4 * i + 3]));
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    float joined = from[i * width];
    for (int64_t k = 1; k < width; ++k) joined = join(joined, from[i * width + k]);
    to[i] = joined;
  }
}

/// The elements of each tile joined: at first columns of it, as many rows of tiles as there is room for, then those.
/// `line` joins many that lie one behind the other.
template <class Join, class Line>
void join_tiles(const Tensor& out, const Tensor& in, const PoolAxis& rows, const PoolAxis& columns, Join join,
                Line line) {
  constexpr int64_t kRoom = 2048;
  float room[kRoom];
  const float* plane = in.data<float>();
  float* to = out.data<float>();
  const int64_t planes = in.size(0) * in.size(1), most = kRoom / columns.kernel;
  if (columns.out == 1 && columns.kernel == columns.in) {
    const int64_t count = rows.kernel * columns.in;
    for (int64_t p = 0; p < planes; ++p, plane += rows.in * columns.in)
      for (int64_t y = 0; y < rows.out; ++y) *to++ = line(count, plane + y * count);
    return;
  }
  int64_t held = 0;
  const auto flush = [&] {
    join_across(held, columns.kernel, room, to, join);
    to += held;
    held = 0;
  };
  for (int64_t p = 0; p < planes; ++p, plane += rows.in * columns.in) {
    for (int64_t y = 0; y < rows.out; ++y) {
      for (int64_t first = 0; first < columns.out; first += most) {
        const int64_t tiles = std::min(columns.out - first, most), width = tiles * columns.kernel;
        if (held + tiles > most) flush();
        const float* row = plane + y * rows.kernel * columns.in + first * columns.kernel;
        float* joined = room + held * columns.kernel;
        if (rows.kernel == 1) std::memcpy(joined, row, static_cast<size_t>(width) * sizeof(float));
        for (int64_t k = 1; k < rows.kernel; ++k) {
          const float *above = k == 1 ? row : joined, *here = row + k * columns.in;
          FACULA_SIMD
          for (int64_t x = 0; x < width; ++x) joined[x] = join(above[x], here[x]);
        }
        held += tiles;
      }
    }
  }
  flush();
}

/// Of equals the first, of NaNs the last. The place of no element is -1.
template <bool places>
void max_of_small(const Tensor& out, const Tensor& indices, const Tensor& in, const PoolGeometry& g) {
  const PoolAxis rows = as_window(g.axes[1]), columns = as_window(g.axes[2]);
  if (!places && are_tiles(g) && columns.kernel <= kSmallPlanes)
    return join_tiles(out, in, rows, columns, [](float a, float b) { return larger(a, b); }, extremum<float, true>);
  const float* from = in.data<float>();
  float* to = out.data<float>();
  int64_t* where = places ? indices.data<int64_t>() : nullptr;
  for_small_windows(rows, columns, in.size(0) * in.size(1), [=](const SmallWindow& w) {
    const float* plane = from + w.plane * rows.in * columns.in;
    float best = -std::numeric_limits<float>::infinity();
    int64_t place = w.empty() ? -1 : w.top * columns.in + w.left;
    for (int64_t y = w.top; y < w.bottom; y += rows.step) {
      for (int64_t x = w.left; x < w.right; x += columns.step) {
        const float value = plane[y * columns.in + x];
        const bool better = (value > best) | (value != value);
        best = better ? value : best;
        if constexpr (places) place = better ? y * columns.in + x : place;
      }
    }
    to[w.result] = best;
    if constexpr (places) where[w.result] = place;
  });
}

inline void mean_of_small(const Tensor& out, const Tensor& in, const PoolGeometry& g) {
  const PoolAxis rows = as_window(g.axes[1]), columns = as_window(g.axes[2]);
  const float* from = in.data<float>();
  float* to = out.data<float>();
  if (are_tiles(g) && columns.kernel <= kSmallPlanes) {
    join_tiles(out, in, rows, columns, [](float a, float b) { return a + b; }, sum_of<float>);
    const int64_t count = out.numel(), shared = rows.kernel * columns.kernel;
    const float divisor = static_cast<float>(g.divisor != 0 ? g.divisor : static_cast<double>(shared));
    FACULA_SIMD
    for (int64_t i = 0; i < count; ++i) to[i] /= divisor;
    return;
  }
  for_small_windows(rows, columns, in.size(0) * in.size(1), [=, &g](const SmallWindow& w) {
    const float* plane = from + w.plane * rows.in * columns.in;
    float sum = 0;
    for (int64_t y = w.top; y < w.bottom; ++y) {
      float line = 0;
      for (int64_t x = w.left; x < w.right; ++x) line += plane[y * columns.in + x];
      sum += line;
    }
    const double divisor = g.divisor != 0 ? g.divisor : rows.divisor(w.row) * columns.divisor(w.column);
    to[w.result] = w.empty() ? 0 : sum / static_cast<float>(divisor);
  });
}

}  // namespace facula::cpu::FACULA_ISA

// Pooling of planes by small windows whose size and stride the instance knows: a thread has several results below each
// other, or a vector of channels, and loads all that they show before it compares or adds.
#pragma once

#include "address.cuh"
#include "pool_args.h"
#include "vector.cuh"

namespace facula::cuda {

/// The part of a plane that a thread has: kRows rows of kChannels neighboring channels, or of one plane where
/// kChannels is 0.
template <class T, int kChannels, int kRows>
struct PlanePart {
  static constexpr int kVector = kChannels ? kChannels : 1;
  using C = Compute<T>;
  using Elements = Vector<T, kVector>;
  using Places = Vector<Int64, kVector>;

  bool has;
  int row, column;  // rows and columns as the grid counts them
  UInt32 step;      // vectors from one column of a plane to the next
  UInt32 plane, channel;

  FACULA_FN explicit PlanePart(const PoolWindowArgs& p) {
    UInt32 i = blockIdx.x * 256 + threadIdx.x;
    has = i < p.threads;
    channel = 0;
    step = 1;
    if constexpr (kChannels > 0) {
      channel = i;
      i = p.vectors.divide(channel);
      step = p.vectors.by;
    }
    UInt32 strip = p.columns.divide(i);
    plane = p.strips.divide(strip);
    row = int(strip) * kRows;
    column = int(i);
  }
  /// Where a plane of so many elements begins.
  template <class V, class M>
  FACULA_FN V* begin(M* data, int elements) const {
    return fixed_address(reinterpret_cast<V*>(data) + (UInt64(plane) * UInt32(elements) * step + channel));
  }
};

FACULA_FN int clamped(int at, int size) {
  const int from = at > 0 ? at : 0;
  return from < size - 1 ? from : size - 1;
}

/// The first of the largest, or the last NaN.
template <class C>
struct Largest {
  C value;
  int place;
  FACULA_FN void take(C x, int at) {
    if (x > value || x != x) value = x, place = at;
  }
};

template <class T, int kHigh, int kLong, int kStepHigh, int kStepLong, int kChannels, int kRows>
__global__ __launch_bounds__(256) void max_pool_windows(PoolWindowArgs p) {
  using Part = PlanePart<T, kChannels, kRows>;
  using Best = Largest<Compute<T>>;
  constexpr int kInRows = kStepHigh * (kRows - 1) + kHigh;
  const Part part(p);
  if (!part.has) return;
  // a place outside is replaced by the nearest one inside, which the window shows too
  int line[kInRows], column[kLong];
  typename Part::Elements x[kInRows][kLong];
#pragma unroll
  for (int a = 0; a < kInRows; ++a) line[a] = clamped(part.row * kStepHigh - p.pad_high + a, p.in_high) * p.in_long;
  const auto* in = part.template begin<const typename Part::Elements>(p.in, p.in_high * p.in_long);
#pragma unroll
  for (int b = 0; b < kLong; ++b) {
    column[b] = clamped(part.column * kStepLong - p.pad_long + b, p.in_long);
    const auto* from = fixed_address(in + UInt32(column[b]) * part.step);
#pragma unroll
    for (int a = 0; a < kInRows; ++a) x[a][b] = from[UInt32(line[a]) * part.step];
  }

  Best best[kRows][Part::kVector];
#pragma unroll
  for (int a = 0; a < kInRows; ++a)
#pragma unroll
    for (int j = 0; j < Part::kVector; ++j) {
      Best of_line{convert<Compute<T>>(x[a][0].at[j]), column[0]};
#pragma unroll
      for (int b = 1; b < kLong; ++b) of_line.take(convert<Compute<T>>(x[a][b].at[j]), column[b]);
      of_line.place += line[a];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (a == r * kStepHigh) best[r][j] = of_line;
        else if (a > r * kStepHigh && a < r * kStepHigh + kHigh) best[r][j].take(of_line.value, of_line.place);
      }
    }

  auto* out = part.template begin<typename Part::Elements>(p.out, p.out_high * p.out_long);
  auto* places = part.template begin<typename Part::Places>(p.places, p.out_high * p.out_long);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (part.row + r >= p.out_high) break;
    const UInt32 to = UInt32((part.row + r) * p.out_long + part.column) * part.step;
    Vector<Compute<T>, Part::kVector> values;
    typename Part::Places at;
#pragma unroll
    for (int j = 0; j < Part::kVector; ++j) values.at[j] = best[r][j].value, at.at[j] = best[r][j].place;
    out[to] = narrow_all<T>(values);
    if (p.places) places[to] = at;
  }
}

/// What windows at a place show along one dimension, or what they count of it.
FACULA_FN int window_count(const PoolWindowArgs& p, int at, int size, int in, int pad) {
  if (p.counts_padding) return (at + size < in + pad ? at + size : in + pad) - at;
  return (at + size < in ? at + size : in) - (at > 0 ? at : 0);
}
template <class C>
FACULA_FN C window_divisor(const PoolWindowArgs& p, int rows, int columns) {
  return p.divisor != 0 ? C(p.divisor) : C(rows * columns);
}

template <class T, int kHigh, int kLong, int kStepHigh, int kStepLong, int kChannels, int kRows>
__global__ __launch_bounds__(256) void avg_pool_windows(PoolWindowArgs p) {
  using Part = PlanePart<T, kChannels, kRows>;
  using Sums = Vector<Compute<T>, Part::kVector>;
  constexpr int kInRows = kStepHigh * (kRows - 1) + kHigh;
  const Part part(p);
  if (!part.has) return;
  const int top = part.row * kStepHigh - p.pad_high, left = part.column * kStepLong - p.pad_long;
  typename Part::Elements x[kInRows][kLong];
  const auto* in = part.template begin<const typename Part::Elements>(p.in, p.in_high * p.in_long);
#pragma unroll
  for (int b = 0; b < kLong; ++b) {
    const auto* from = fixed_address(in + Int64(left + b) * part.step);
#pragma unroll
    for (int a = 0; a < kInRows; ++a) {
      const bool inside = UInt32(top + a) < UInt32(p.in_high) && UInt32(left + b) < UInt32(p.in_long);
      x[a][b] = inside ? from[UInt32((top + a) * p.in_long) * part.step] : typename Part::Elements{};
    }
  }
  Sums sum[kRows] = {};
#pragma unroll
  for (int a = 0; a < kInRows; ++a)
#pragma unroll
    for (int j = 0; j < Part::kVector; ++j) {
      Compute<T> of_line = convert<Compute<T>>(x[a][0].at[j]);
#pragma unroll
      for (int b = 1; b < kLong; ++b) of_line += convert<Compute<T>>(x[a][b].at[j]);
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        if (a >= r * kStepHigh && a < r * kStepHigh + kHigh) sum[r].at[j] += of_line;
    }
  const int columns = window_count(p, left, kLong, p.in_long, p.pad_long);
  auto* out = part.template begin<typename Part::Elements>(p.out, p.out_high * p.out_long);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (part.row + r >= p.out_high) break;
    const auto divisor =
        window_divisor<Compute<T>>(p, window_count(p, top + r * kStepHigh, kHigh, p.in_high, p.pad_high), columns);
#pragma unroll
    for (int j = 0; j < Part::kVector; ++j) sum[r].at[j] = sum[r].at[j] / divisor;
    out[UInt32((part.row + r) * p.out_long + part.column) * part.step] = narrow_all<T>(sum[r]);
  }
}

// ---- transposed: `in` has a value for each window, and `out` the planes that windows look at. A thread has the
// elements between the beginnings of kRows windows and of the next ones, counted from the padding on: then it is known
// which windows show which of them.

template <class T, int kHigh, int kLong, int kStepHigh, int kStepLong, int kChannels, int kRows>
struct TransposedPart : PlanePart<T, kChannels, kRows> {
  static constexpr int kBefore = (kHigh - 1) / kStepHigh, kBeside = (kLong - 1) / kStepLong;  // windows that reach in
  static constexpr int kWindowRows = kRows + kBefore, kWindowColumns = 1 + kBeside;
  static constexpr int kOutRows = kRows * kStepHigh, kOutColumns = kStepLong;

  FACULA_FN explicit TransposedPart(const PoolWindowArgs& p) : PlanePart<T, kChannels, kRows>(p) {}

  /// Calls act(a, b, place of the window, row and column of it) for the windows that there are.
  template <class F>
  FACULA_FN void windows(const PoolWindowArgs& p, F act) const {
#pragma unroll
    for (int a = 0; a < kWindowRows; ++a)
#pragma unroll
      for (int b = 0; b < kWindowColumns; ++b) {
        const int row = this->row + a - kBefore, column = this->column + b - kBeside;
        if (UInt32(row) < UInt32(p.out_high) && UInt32(column) < UInt32(p.out_long))
          act(a, b, UInt32(row * p.out_long + column) * this->step, row, column);
      }
  }
  /// Stores, for each element, the sum of give(a, b, j, the element's place) of the windows that show it.
  template <class F>
  FACULA_FN void store(const PoolWindowArgs& p, F give) const {
    using Part = PlanePart<T, kChannels, kRows>;
    auto* out = this->template begin<typename Part::Elements>(p.out, p.in_high * p.in_long);
#pragma unroll
    for (int y = 0; y < kOutRows; ++y)
#pragma unroll
      for (int x = 0; x < kOutColumns; ++x) {
        const int row = this->row * kStepHigh - p.pad_high + y, column = this->column * kStepLong - p.pad_long + x;
        if (UInt32(row) >= UInt32(p.in_high) || UInt32(column) >= UInt32(p.in_long)) continue;
        const int place = row * p.in_long + column;
        Vector<Compute<T>, Part::kVector> sum{};
#pragma unroll
        for (int a = 0; a < kWindowRows; ++a)
#pragma unroll
          for (int b = 0; b < kWindowColumns; ++b) {
            const int inside_row = y - (a - kBefore) * kStepHigh, inside_column = x - (b - kBeside) * kStepLong;
            if (inside_row < 0 || inside_row >= kHigh || inside_column < 0 || inside_column >= kLong) continue;
#pragma unroll
            for (int j = 0; j < Part::kVector; ++j) sum.at[j] += give(a, b, j, place);
          }
        out[UInt32(place) * this->step] = narrow_all<T>(sum);
      }
  }
};

template <class T, int kHigh, int kLong, int kStepHigh, int kStepLong, int kChannels, int kRows>
__global__ __launch_bounds__(256) void avg_pool_windows_transpose(PoolWindowArgs p) {
  using Part = TransposedPart<T, kHigh, kLong, kStepHigh, kStepLong, kChannels, kRows>;
  using C = Compute<T>;
  const Part part(p);
  if (!part.has) return;
  const auto* in = part.template begin<const typename Part::Elements>(p.in, p.out_high * p.out_long);
  typename Part::Elements value[Part::kWindowRows][Part::kWindowColumns] = {};
  part.windows(p, [&](int a, int b, UInt32 from, int, int) { value[a][b] = in[from]; });
  Vector<C, Part::kVector> share[Part::kWindowRows][Part::kWindowColumns] = {};
  part.windows(p, [&](int a, int b, UInt32, int row, int column) {
    const auto divisor =
        window_divisor<C>(p, window_count(p, row * kStepHigh - p.pad_high, kHigh, p.in_high, p.pad_high),
                          window_count(p, column * kStepLong - p.pad_long, kLong, p.in_long, p.pad_long));
#pragma unroll
    for (int j = 0; j < Part::kVector; ++j) share[a][b].at[j] = convert<C>(value[a][b].at[j]) / divisor;
  });
  part.store(p, [&](int a, int b, int j, int) { return share[a][b].at[j]; });
}

}  // namespace facula::cuda

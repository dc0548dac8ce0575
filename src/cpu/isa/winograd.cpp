// The transformations of Winograd's minimal filtering F(4x4, 3x3) and F(2x2, 5x5) (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2016), along vectors of channels, with the points 0, p, -p, q, -q and infinity. The
// usual 1 and 2 for p and q save a few multiplications and double the rounding error; 5/8 and 3/2 come near the least
// error. With a seventh point r, F(5x5, 3x3) and F(3x3, 5x5): its error is 2.7 times as large with the points below,
// which is a quarter more than that of F(4x4, 3x3) with the usual ones.
#include <algorithm>

#include "cpu/conv_winograd.h"
#include "cpu/convolution.h"
#include "cpu/isa/lanes.h"
#include "cpu/isa/transpose.h"

namespace facula::cpu::FACULA_ISA {
namespace {

using V = VectorOf<float>::type;
constexpr int64_t kLanes = VectorOf<float>::lanes;
static_assert(kWinogradChannels % kLanes == 0);

[[gnu::always_inline]] inline void store_vector(float* to, V v) { std::memcpy(to, &v, sizeof v); }

/// The points of a tile, besides 0 and infinity. The products of a point's distances from the others divide its
/// weights: at p and -p they are at_p but for the distance from r, and so at q.
template <int points>
struct Points;
template <>
struct Points<6> {
  static constexpr float p = 0.625f, q = 1.5f, p2 = p * p, q2 = q * q;
  static constexpr float at_zero = p2 * q2, at_p = 2 * p2 * (p2 - q2), at_q = 2 * q2 * (q2 - p2);
};
template <>
struct Points<7> {
  static constexpr float p = 0.875f, q = 2, r = 0.375f, p2 = p * p, q2 = q * q, r2 = r * r;
  static constexpr float at_zero = -r * p2 * q2, at_p = 2 * p2 * (p2 - q2), at_q = 2 * q2 * (q2 - p2);
  static constexpr float at_r = r * (r2 - p2) * (r2 - q2);
};

/// What lies `stride` apart: as many inputs of a tile's line as there are points become factors.
template <int points>
[[gnu::always_inline]] inline void transform_inputs(V* d, int64_t stride) {
  using P = Points<points>;
  constexpr float p = P::p, q = P::q, p2 = P::p2, q2 = P::q2, product = p2 * q2;
  V u[6];
  if constexpr (points == 7) {  // the polynomials of the six others have the factor x - r
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) u[i] = d[(i + 1) * stride] - P::r * d[i * stride];
    d[5 * stride] = product * d[stride] - (p2 + q2) * d[3 * stride] + d[5 * stride];
  } else {
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) u[i] = d[i * stride];
  }
  const V even = u[4] - q2 * u[2], odd = p * (u[3] - q2 * u[1]), even2 = u[4] - p2 * u[2],
          odd2 = q * (u[3] - p2 * u[1]);
  d[0] = product * u[0] - (p2 + q2) * u[2] + u[4];
  d[stride] = even + odd;
  d[2 * stride] = even - odd;
  d[3 * stride] = even2 + odd2;
  d[4 * stride] = even2 - odd2;
  d[(points - 1) * stride] = product * u[1] - (p2 + q2) * u[3] + u[5];
}

/// x to the power of n, which is known when this is compiled.
constexpr float power(float x, int n) { return n ? x * power(x, n - 1) : 1; }

/// What scales the value at a point, of those that are `divided`, where the distances from all points but r do so
/// already: 1 / (x - r).
template <int points, bool divided>
[[gnu::always_inline]] inline V by_distance(V v, [[maybe_unused]] float x) {
  if constexpr (points == 7 && divided) return v * (1 / (x - Points<7>::r));
  else return v;
}

/// `n` values of a line, coefficients of a polynomial, become its values at the points; those of weights are
/// `divided` by the distances.
template <int points, int n, bool divided>
[[gnu::always_inline]] inline void evaluate(const V* from, int64_t stride, V* to, int64_t step) {
  using P = Points<points>;
  constexpr float by_zero = divided ? 1 / P::at_zero : 1, by_p = divided ? 1 / P::at_p : 1,
                  by_q = divided ? 1 / P::at_q : 1;
  V even = from[0] * by_p, odd = from[stride] * (P::p * by_p), even2 = from[0] * by_q,
    odd2 = from[stride] * (P::q * by_q);
#pragma GCC unroll 5
  for (int i = 2; i < n; ++i) {
    const V v = from[i * stride];
    (i % 2 ? odd : even) += v * (power(P::p, i) * by_p);
    (i % 2 ? odd2 : even2) += v * (power(P::q, i) * by_q);
  }
  to[0] = from[0] * by_zero;
  to[step] = by_distance<points, divided>(even + odd, P::p);
  to[2 * step] = by_distance<points, divided>(even - odd, -P::p);
  to[3 * step] = by_distance<points, divided>(even2 + odd2, P::q);
  to[4 * step] = by_distance<points, divided>(even2 - odd2, -P::q);
  if constexpr (points == 7) {
    constexpr float by_r = divided ? 1 / P::at_r : 1;
    V v = from[0] * by_r;
#pragma GCC unroll 5
    for (int i = 1; i < n; ++i) v += from[i * stride] * (power(P::r, i) * by_r);
    to[5 * step] = v;
  }
  to[(points - 1) * step] = from[(n - 1) * stride];
}

/// The transpose: the products of a line become `n` results, or taps (`divided`).
template <int points, int n, bool divided>
[[gnu::always_inline]] inline void gather(const V* m, int64_t stride, V* to, int64_t step) {
  using P = Points<points>;
  constexpr float by_zero = divided ? 1 / P::at_zero : 1, by_p = divided ? 1 / P::at_p : 1,
                  by_q = divided ? 1 / P::at_q : 1;
  const V plus = by_distance<points, divided>(m[stride], P::p),
          minus = by_distance<points, divided>(m[2 * stride], -P::p);
  const V plus2 = by_distance<points, divided>(m[3 * stride], P::q),
          minus2 = by_distance<points, divided>(m[4 * stride], -P::q);
  const V sum = plus + minus, difference = plus - minus, sum2 = plus2 + minus2, difference2 = plus2 - minus2;
#pragma GCC unroll 5
  for (int i = 0; i < n; ++i) {
    V v = (i % 2 ? difference : sum) * (power(P::p, i) * by_p) + (i % 2 ? difference2 : sum2) * (power(P::q, i) * by_q);
    if (i == 0) v = m[0] * by_zero + sum * by_p + sum2 * by_q;
    if constexpr (points == 7) v += m[5 * stride] * (power(P::r, i) * (divided ? 1 / Points<7>::at_r : 1));
    to[i * step] = i == n - 1 ? v + m[(points - 1) * stride] : v;
  }
}

// In what follows `side` is that of a window where weights are concerned, else that of a tile's results.

template <int points>
constexpr int kPlaces = points * points;

/// The taps of kLanes windows, `step` apart, one vector for each tap. What lies behind the last window, before `end`,
/// may be read.
template <int count>
[[gnu::always_inline]] inline void load_taps(const float* windows, int64_t step, const float* end, V* taps) {
  const bool inside = windows + (kLanes - 1) * step + (count + kLanes - 1) / kLanes * kLanes <= end;
#pragma GCC unroll 8
  for (int first = 0; first < count; first += kLanes) {
    const int there = std::min<int>(kLanes, count - first);
    if (there == 1) {
      for (int lane = 0; lane < kLanes; ++lane) taps[first][lane] = windows[lane * step + first];
      continue;
    }
    V row[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      const float* from = windows + lane * step + first;
      if (inside || there == kLanes) row[lane] = load_vector(from);
      else std::memcpy(&row[lane], from, static_cast<size_t>(there) * sizeof(float));
    }
    Square<float>::transpose(row);
    for (int tap = 0; tap < there; ++tap) taps[first + tap] = row[tap];
  }
}

/// The other way, for windows that lie one after the other.
template <int count>
[[gnu::always_inline]] inline void store_taps(const V* taps, float* windows) {
#pragma GCC unroll 8
  for (int first = 0; first < count; first += kLanes) {
    const int there = std::min<int>(kLanes, count - first);
    if (there == 1) {
      for (int lane = 0; lane < kLanes; ++lane) windows[lane * count + first] = taps[first][lane];
      continue;
    }
    V row[kLanes];
    for (int tap = 0; tap < kLanes; ++tap) row[tap] = tap < there ? taps[first + tap] : V{};
    Square<float>::transpose(row);
    for (int lane = 0; lane < kLanes; ++lane)
      std::memcpy(windows + lane * count + first, &row[lane], static_cast<size_t>(there) * sizeof(float));
  }
}

// Memory is prefetched so far ahead: windows lie far apart in both directions of the matrix.
constexpr int64_t kRowsAhead = 4, kWindowsAhead = 16;

template <int points, int side>
void weights_isa(const float* weights, int64_t outputs, int64_t channels, bool back, int64_t column, int64_t width,
                 int64_t from, int64_t to, const WeightPanel& panel) {
  constexpr int taps = side * side;
  const float* end = weights + outputs * channels * taps;
  const int64_t row_step = back ? channels * taps : taps, column_step = back ? taps : channels * taps;
  for (int64_t j = 0; j < width; j += kLanes) {
    for (int64_t k = from; k < to; ++k) {
      V given[taps], g[taps], lines[points * side], factors[kPlaces<points>];
      const float* windows = weights + k * row_step + (column + j) * column_step;
      for (int lane = 0; lane < kLanes; ++lane)
        __builtin_prefetch(windows + lane * column_step + (back ? kRowsAhead : kWindowsAhead) * row_step);
      load_taps<taps>(windows, column_step, end, given);
      for (int tap = 0; tap < taps; ++tap) g[tap] = given[back ? taps - 1 - tap : tap];
      for (int s = 0; s < side; ++s) evaluate<points, side, true>(g + s, side, lines + s, side);
      for (int r = 0; r < points; ++r) evaluate<points, side, true>(lines + side * r, 1, factors + points * r, 1);
      float* at = panel.first + (k - from) * panel.step + j;
      for (int64_t i = 0; i < kPlaces<points>; ++i) store_vector(at + i * panel.matrix, factors[i]);
    }
  }
}

struct Tile {
  int64_t image, row, column;
  Tile(const TiledImages& images, int64_t number)
      : image(number / (images.tile_rows * images.tile_columns)),
        row(number / images.tile_columns % images.tile_rows * images.side),
        column(number % images.tile_columns * images.side) {}
};

/// Asks for the memory of `rows` by `columns` pixels, which the next tile reads: it lies in too many lines for the
/// processor to see.
template <int rows, int columns, bool written = false>
[[gnu::always_inline]] inline void ask_for(const float* pixels, int64_t width, int64_t channels) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) __builtin_prefetch(pixels + (i * width + j) * channels, written);
}

template <int points>
void inputs_isa(const TiledImages& images, const TileBlock& block, int64_t from, int64_t to, float* transformed) {
  const int64_t matrix = matrix_step(block.count * images.channels);
  for (int64_t t = from; t < to; ++t) {
    const Tile tile(images, block.first + t);
    const int64_t y0 = tile.row - images.padding_top, x0 = tile.column - images.padding_left;
    const float* image = images.inputs + tile.image * images.in_height * images.in_width * images.channels;
    const bool inside = y0 >= 0 && x0 >= 0 && y0 + points <= images.in_height && x0 + points <= images.in_width;
    for (int64_t c = 0; c < images.channels; c += kLanes) {
      V d[kPlaces<points>];
      float* at = transformed + t * images.channels + c;
      const float* next = image + (y0 * images.in_width + x0 + points) * images.channels + c;
      ask_for<points, points - 2>(next, images.in_width, images.channels);
      for (int64_t i = 0; i < points; ++i) {
        for (int64_t j = 0; j < points; ++j) {
          const int64_t y = y0 + i, x = x0 + j;
          const bool there = inside || (y >= 0 && y < images.in_height && x >= 0 && x < images.in_width);
          d[i * points + j] = there ? load_vector(image + (y * images.in_width + x) * images.channels + c) : V{};
        }
      }
      for (int64_t j = 0; j < points; ++j) transform_inputs<points>(d + j, points);
      for (int64_t i = 0; i < points; ++i) transform_inputs<points>(d + points * i, 1);
      for (int64_t i = 0; i < kPlaces<points>; ++i) store_vector(at + i * matrix, d[i]);
    }
  }
}

template <int points, int side>
void results_isa(const TiledImages& images, const TileBlock& block, int64_t from, int64_t to, const float* transformed,
                 const float* bias) {
  const int64_t matrix = matrix_step(block.count * block.width);
  for (int64_t t = from; t < to; ++t) {
    const Tile tile(images, block.first + t);
    const int64_t rows = std::min<int64_t>(side, images.out_height - tile.row);
    const int64_t columns = std::min<int64_t>(side, images.out_width - tile.column);
    float* results = images.results +
                     ((tile.image * images.out_height + tile.row) * images.out_width + tile.column) * images.outputs +
                     block.column;
    for (int64_t k = 0; k < block.width; k += kLanes) {
      ask_for<side, side, true>(results + side * images.outputs + k, images.out_width, images.outputs);
      V m[kPlaces<points>], lines[points * side], y[side * side];
      const float* at = transformed + t * block.width + k;
      for (int64_t i = 0; i < kPlaces<points>; ++i) m[i] = load_vector(at + i * matrix);
      for (int64_t j = 0; j < points; ++j) gather<points, side, false>(m + j, points, lines + j, points);
      for (int64_t i = 0; i < side; ++i) gather<points, side, false>(lines + points * i, 1, y + side * i, 1);
      const V offset = bias ? load_vector(bias + block.column + k) : V{};
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
          store_vector(results + (i * images.out_width + j) * images.outputs + k, y[side * i + j] + offset);
    }
  }
}

template <int points, int side>
void gradients_isa(const TiledImages& images, const TileBlock& block, int64_t from, int64_t to, float* transformed) {
  const int64_t matrix = matrix_step(block.count * block.width);
  for (int64_t t = from; t < to; ++t) {
    const Tile tile(images, block.first + t);
    const int64_t rows = std::min<int64_t>(side, images.out_height - tile.row);
    const int64_t columns = std::min<int64_t>(side, images.out_width - tile.column);
    const float* results =
        images.results +
        ((tile.image * images.out_height + tile.row) * images.out_width + tile.column) * images.outputs + block.column;
    for (int64_t k = 0; k < block.width; k += kLanes) {
      ask_for<side, side>(results + side * images.outputs + k, images.out_width, images.outputs);
      V y[side * side], lines[points * side], factors[kPlaces<points>];
      for (int64_t i = 0; i < side; ++i)
        for (int64_t j = 0; j < side; ++j)
          y[side * i + j] =
              i < rows && j < columns ? load_vector(results + (i * images.out_width + j) * images.outputs + k) : V{};
      for (int64_t j = 0; j < side; ++j) evaluate<points, side, false>(y + j, side, lines + j, side);
      for (int64_t i = 0; i < points; ++i) evaluate<points, side, false>(lines + side * i, 1, factors + points * i, 1);
      float* at = transformed + t * block.width + k;
      for (int64_t i = 0; i < kPlaces<points>; ++i) store_vector(at + i * matrix, factors[i]);
    }
  }
}

template <int points, int side>
void weight_gradients_isa(const float* transformed, int64_t outputs, int64_t channels, int64_t from, int64_t to,
                          float* weights) {
  const int64_t matrix = matrix_step(outputs * channels);
  for (int64_t o = from; o < to; ++o) {
    for (int64_t c = 0; c < channels; c += kLanes) {
      V m[kPlaces<points>], lines[points * side], g[side * side];
      for (int64_t i = 0; i < kPlaces<points>; ++i) m[i] = load_vector(transformed + i * matrix + o * channels + c);
      for (int64_t j = 0; j < points; ++j) gather<points, side, true>(m + j, points, lines + j, points);
      for (int64_t i = 0; i < side; ++i) gather<points, side, true>(lines + points * i, 1, g + side * i, 1);
      store_taps<side * side>(g, weights + (o * channels + c) * side * side);
    }
  }
}

template <int points, int window>
WinogradSteps steps_of() {
  constexpr int side = points - window + 1;
  return {inputs_isa<points>, weights_isa<points, window>, results_isa<points, side>, gradients_isa<points, side>,
          weight_gradients_isa<points, window>};
}

}  // namespace

// Measured against oneDNN's convolutions of the level, one thread. Its AVX2 kernels run slower than products, at worst
// at half the rate, so that gathering windows pays where it costs little beside the products: many channels, windows
// that overlap little or not at all. Its AVX-512 kernels (AMD Zen 4 and 5) run at the rate of products, but for
// gradients of weights, where it takes up to 2.7 times as long, unless there are so few channels that gathering is most
// of the work, and for one-pixel windows with few results or large weights; tiles take 0.4 to 0.8 of their time. Where
// both take as long, products are better: what runs before and after them shares their threads, and OpenMP's would spin
// beside these.
void register_winograd() {
#if defined(__AVX512F__)
  conv_policy = {.tiles = true,
                 .weight_channels = 16,
                 .pointwise_percent = 100,
                 .pointwise_results = 24,
                 .heavy_weights = 1 << 20};
#elif defined(__AVX2__)
  conv_policy = {.tiles = true,
                 .weight_channels = 0,
                 .pointwise_percent = 125,
                 .gathered_channels = 512,
                 .gathered_step = 4,
                 .spread = true};
#endif
  winograd_of_three[0] = steps_of<6, 3>();
  winograd_of_three[1] = steps_of<7, 3>();
  winograd_of_five[0] = steps_of<6, 5>();
  winograd_of_five[1] = steps_of<7, 5>();
}

}  // namespace facula::cpu::FACULA_ISA

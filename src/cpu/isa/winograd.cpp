// The transformations of Winograd's minimal filtering F(4x4, 3x3) and F(2x2, 5x5) (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2016), along vectors of channels, with the points 0, p, -p, q, -q and infinity. The
// usual 1 and 2 for p and q save a few multiplications and double the rounding error; 5/8 and 3/2 come near the least
// error.
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

constexpr float p = 0.625f, p2 = p * p, q = 1.5f, q2 = q * q;
/// The products of a point's distances from the others divide its weights.
constexpr float at_zero = p2 * q2, at_p = 2 * p2 * (p2 - q2), at_q = 2 * q2 * (q2 - p2);

/// What lies `stride` apart: six inputs of a tile's line become six factors.
[[gnu::always_inline]] inline void transform_inputs(V* d, int64_t stride) {
  const V a = d[0], b = d[stride], c = d[2 * stride], e = d[3 * stride], f = d[4 * stride], g = d[5 * stride];
  const V even = f - q2 * c, odd = p * (e - q2 * b), even2 = f - p2 * c, odd2 = q * (e - p2 * b);
  d[0] = at_zero * a - (p2 + q2) * c + f;
  d[stride] = even + odd;
  d[2 * stride] = even - odd;
  d[3 * stride] = even2 + odd2;
  d[4 * stride] = even2 - odd2;
  d[5 * stride] = at_zero * b - (p2 + q2) * e + g;
}

constexpr float powers_of_p[] = {1, p, p2, p2* p, p2* p2}, powers_of_q[] = {1, q, q2, q2* q, q2* q2};

/// `n` values of a line, coefficients of a polynomial, become its values at the six points; those of weights are
/// `divided` by the distances.
template <int n, bool divided>
[[gnu::always_inline]] inline void evaluate(const V* from, int64_t stride, V* to, int64_t step) {
  constexpr float by_zero = divided ? 1 / at_zero : 1, by_p = divided ? 1 / at_p : 1, by_q = divided ? 1 / at_q : 1;
  V even = from[0] * by_p, odd = from[stride] * (p * by_p), even2 = from[0] * by_q, odd2 = from[stride] * (q * by_q);
#pragma GCC unroll 5
  for (int i = 2; i < n; ++i) {
    const V v = from[i * stride];
    (i % 2 ? odd : even) += v * (powers_of_p[i] * by_p);
    (i % 2 ? odd2 : even2) += v * (powers_of_q[i] * by_q);
  }
  to[0] = from[0] * by_zero;
  to[step] = even + odd;
  to[2 * step] = even - odd;
  to[3 * step] = even2 + odd2;
  to[4 * step] = even2 - odd2;
  to[5 * step] = from[(n - 1) * stride];
}

/// The transpose: six products of a line become `n` results, or taps (`divided`).
template <int n, bool divided>
[[gnu::always_inline]] inline void gather(const V* m, int64_t stride, V* to, int64_t step) {
  constexpr float by_zero = divided ? 1 / at_zero : 1, by_p = divided ? 1 / at_p : 1, by_q = divided ? 1 / at_q : 1;
  const V sum = m[stride] + m[2 * stride], difference = m[stride] - m[2 * stride];
  const V sum2 = m[3 * stride] + m[4 * stride], difference2 = m[3 * stride] - m[4 * stride];
  to[0] = m[0] * by_zero + sum * by_p + sum2 * by_q;
#pragma GCC unroll 5
  for (int i = 1; i < n; ++i) {
    V v = (i % 2 ? difference : sum) * (powers_of_p[i] * by_p) + (i % 2 ? difference2 : sum2) * (powers_of_q[i] * by_q);
    to[i * step] = i == n - 1 ? v + m[5 * stride] : v;
  }
}

// In what follows `side` is that of a window where weights are concerned, else that of a tile's results.

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

// Memory is asked for so far ahead: windows lie far apart in both directions of the matrix.
constexpr int64_t kRowsAhead = 4, kWindowsAhead = 16;

template <int side>
void weights_isa(const float* weights, int64_t outputs, int64_t channels, bool back, int64_t column, int64_t width,
                 int64_t from, int64_t to, const WeightPanel& panel) {
  constexpr int taps = side * side;
  const float* end = weights + outputs * channels * taps;
  const int64_t row_step = back ? channels * taps : taps, column_step = back ? taps : channels * taps;
  for (int64_t j = 0; j < width; j += kLanes) {
    for (int64_t k = from; k < to; ++k) {
      V given[taps], g[taps], lines[6 * side], factors[kTileProducts];
      const float* windows = weights + k * row_step + (column + j) * column_step;
      for (int lane = 0; lane < kLanes; ++lane)
        __builtin_prefetch(windows + lane * column_step + (back ? kRowsAhead : kWindowsAhead) * row_step);
      load_taps<taps>(windows, column_step, end, given);
      for (int tap = 0; tap < taps; ++tap) g[tap] = given[back ? taps - 1 - tap : tap];
      for (int s = 0; s < side; ++s) evaluate<side, true>(g + s, side, lines + s, side);
      for (int r = 0; r < 6; ++r) evaluate<side, true>(lines + side * r, 1, factors + 6 * r, 1);
      float* at = panel.first + (k - from) * panel.step + j;
      for (int64_t i = 0; i < kTileProducts; ++i) store_vector(at + i * panel.matrix, factors[i]);
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

void inputs_isa(const TiledImages& images, const TileBlock& block, int64_t from, int64_t to, float* transformed) {
  const int64_t matrix = matrix_step(block.count * images.channels);
  for (int64_t t = from; t < to; ++t) {
    const Tile tile(images, block.first + t);
    const int64_t y0 = tile.row - images.padding_top, x0 = tile.column - images.padding_left;
    const float* image = images.inputs + tile.image * images.in_height * images.in_width * images.channels;
    const bool inside =
        y0 >= 0 && x0 >= 0 && y0 + kTileInputs <= images.in_height && x0 + kTileInputs <= images.in_width;
    for (int64_t c = 0; c < images.channels; c += kLanes) {
      V d[kTileProducts];
      float* at = transformed + t * images.channels + c;
      const float* next = image + (y0 * images.in_width + x0 + kTileInputs) * images.channels + c;
      ask_for<kTileInputs, kTileInputs - 2>(next, images.in_width, images.channels);
      for (int64_t i = 0; i < kTileInputs; ++i) {
        for (int64_t j = 0; j < kTileInputs; ++j) {
          const int64_t y = y0 + i, x = x0 + j;
          const bool there = inside || (y >= 0 && y < images.in_height && x >= 0 && x < images.in_width);
          d[i * 6 + j] = there ? load_vector(image + (y * images.in_width + x) * images.channels + c) : V{};
        }
      }
      for (int64_t j = 0; j < 6; ++j) transform_inputs(d + j, 6);
      for (int64_t i = 0; i < 6; ++i) transform_inputs(d + 6 * i, 1);
      for (int64_t i = 0; i < kTileProducts; ++i) store_vector(at + i * matrix, d[i]);
    }
  }
}

template <int side>
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
      V m[kTileProducts], lines[6 * side], y[side * side];
      const float* at = transformed + t * block.width + k;
      for (int64_t i = 0; i < kTileProducts; ++i) m[i] = load_vector(at + i * matrix);
      for (int64_t j = 0; j < 6; ++j) gather<side, false>(m + j, 6, lines + j, 6);
      for (int64_t i = 0; i < side; ++i) gather<side, false>(lines + 6 * i, 1, y + side * i, 1);
      const V offset = bias ? load_vector(bias + block.column + k) : V{};
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
          store_vector(results + (i * images.out_width + j) * images.outputs + k, y[side * i + j] + offset);
    }
  }
}

template <int side>
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
      V y[side * side], lines[6 * side], factors[kTileProducts];
      for (int64_t i = 0; i < side; ++i)
        for (int64_t j = 0; j < side; ++j)
          y[side * i + j] =
              i < rows && j < columns ? load_vector(results + (i * images.out_width + j) * images.outputs + k) : V{};
      for (int64_t j = 0; j < side; ++j) evaluate<side, false>(y + j, side, lines + j, side);
      for (int64_t i = 0; i < 6; ++i) evaluate<side, false>(lines + side * i, 1, factors + 6 * i, 1);
      float* at = transformed + t * block.width + k;
      for (int64_t i = 0; i < kTileProducts; ++i) store_vector(at + i * matrix, factors[i]);
    }
  }
}

template <int side>
void weight_gradients_isa(const float* transformed, int64_t outputs, int64_t channels, int64_t from, int64_t to,
                          float* weights) {
  const int64_t matrix = matrix_step(outputs * channels);
  for (int64_t o = from; o < to; ++o) {
    for (int64_t c = 0; c < channels; c += kLanes) {
      V m[kTileProducts], lines[6 * side], g[side * side];
      for (int64_t i = 0; i < kTileProducts; ++i) m[i] = load_vector(transformed + i * matrix + o * channels + c);
      for (int64_t j = 0; j < 6; ++j) gather<side, true>(m + j, 6, lines + j, 6);
      for (int64_t i = 0; i < side; ++i) gather<side, true>(lines + 6 * i, 1, g + side * i, 1);
      store_taps<side * side>(g, weights + (o * channels + c) * side * side);
    }
  }
}

}  // namespace

// Measured against oneDNN's convolutions of the level, one thread. Its AVX2 kernels run slower than products, at worst
// at half the rate, so that gathering windows pays where it costs little beside the products: many channels, windows
// that overlap little or not at all. Its AVX-512 kernels (AMD Zen 4) run at the rate of products, but for gradients of
// large weights and one-pixel windows with few results; tiles take 0.4 to 0.8 of their time.
void register_winograd() {
#if defined(__AVX512F__)
  conv_policy = {
      .tiles = true, .weight_outputs = 256, .weight_size = 1 << 14, .pointwise_results = 16, .heavy_weights = 1 << 20};
#elif defined(__AVX2__)
  conv_policy = {.tiles = true,
                 .weight_outputs = 0,
                 .weight_size = 0,
                 .pointwise_percent = 125,
                 .gathered_channels = 512,
                 .gathered_step = 4,
                 .spread = true};
#endif
  winograd_inputs = inputs_isa;
  winograd_of_three = {weights_isa<3>, results_isa<4>, gradients_isa<4>, weight_gradients_isa<3>};
  winograd_of_five = {weights_isa<5>, results_isa<2>, gradients_isa<2>, weight_gradients_isa<5>};
}

}  // namespace facula::cpu::FACULA_ISA

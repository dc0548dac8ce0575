// The transformations of Winograd's minimal filtering F(4x4, 3x3) (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2016), along vectors of channels, with the points 0, p, -p, q, -q and infinity. The usual 1 and 2
// for p and q save a few multiplications and double the rounding error; 5/8 and 3/2 come near the least error.
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

constexpr float p = 0.625f, p2 = p * p, p3 = p2 * p, q = 1.5f, q2 = q * q, q3 = q2 * q;
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

/// Six products of a line become four results.
[[gnu::always_inline]] inline void transform_results(const V* m, int64_t stride, V* to, int64_t step) {
  const V sum1 = m[stride] + m[2 * stride], difference1 = m[stride] - m[2 * stride];
  const V sum2 = m[3 * stride] + m[4 * stride], difference2 = m[3 * stride] - m[4 * stride];
  to[0] = m[0] + sum1 + sum2;
  to[step] = p * difference1 + q * difference2;
  to[2 * step] = p2 * sum1 + q2 * sum2;
  to[3 * step] = p3 * difference1 + q3 * difference2 + m[5 * stride];
}

/// Three taps of a line become six factors.
[[gnu::always_inline]] inline void transform_weights(const V* g, int64_t stride, V* to, int64_t step) {
  const V a = g[0], b = g[stride], c = g[2 * stride];
  const V even = a * (1 / at_p) + c * (p2 / at_p), odd = b * (p / at_p);
  const V even2 = a * (1 / at_q) + c * (q2 / at_q), odd2 = b * (q / at_q);
  to[0] = a * (1 / at_zero);
  to[step] = even + odd;
  to[2 * step] = even - odd;
  to[3 * step] = even2 + odd2;
  to[4 * step] = even2 - odd2;
  to[5 * step] = c;
}

/// The transpose of transform_results: four gradients become six factors.
[[gnu::always_inline]] inline void transform_gradients(const V* y, int64_t stride, V* to, int64_t step) {
  const V a = y[0], b = y[stride], c = y[2 * stride], d = y[3 * stride];
  const V even = a + p2 * c, odd = p * b + p3 * d, even2 = a + q2 * c, odd2 = q * b + q3 * d;
  to[0] = a;
  to[step] = even + odd;
  to[2 * step] = even - odd;
  to[3 * step] = even2 + odd2;
  to[4 * step] = even2 - odd2;
  to[5 * step] = d;
}

/// The transpose of transform_weights: six sums become three taps.
[[gnu::always_inline]] inline void transform_sums(const V* m, int64_t stride, V* to, int64_t step) {
  const V sum1 = m[stride] + m[2 * stride], difference1 = m[stride] - m[2 * stride];
  const V sum2 = m[3 * stride] + m[4 * stride], difference2 = m[3 * stride] - m[4 * stride];
  to[0] = m[0] * (1 / at_zero) + sum1 * (1 / at_p) + sum2 * (1 / at_q);
  to[step] = difference1 * (p / at_p) + difference2 * (q / at_q);
  to[2 * step] = sum1 * (p2 / at_p) + sum2 * (q2 / at_q) + m[5 * stride];
}

constexpr int64_t kTaps = 9;

/// The taps of kLanes windows, `step` apart, one vector for each tap. What lies behind the last window, before `end`,
/// may be read.
[[gnu::always_inline]] inline void load_taps(const float* windows, int64_t step, const float* end, V* taps) {
  V row[kLanes];
  if constexpr (kLanes > kTaps) {
    const bool inside = windows + (kLanes - 1) * step + kLanes <= end;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      if (inside) row[lane] = load_vector(windows + lane * step);
      else std::memcpy(&row[lane], windows + lane * step, kTaps * sizeof(float));
    }
    Square<float>::transpose(row);
    for (int64_t tap = 0; tap < kTaps; ++tap) taps[tap] = row[tap];
  } else {
    for (int64_t first = 0; first + kLanes < kTaps; first += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) row[lane] = load_vector(windows + lane * step + first);
      Square<float>::transpose(row);
      for (int64_t tap = 0; tap < kLanes; ++tap) taps[first + tap] = row[tap];
    }
    for (int64_t lane = 0; lane < kLanes; ++lane) taps[kTaps - 1][lane] = windows[lane * step + kTaps - 1];
  }
}

/// The other way, for windows that lie one after the other.
[[gnu::always_inline]] inline void store_taps(const V* taps, float* windows) {
  V row[kLanes];
  if constexpr (kLanes > kTaps) {
    for (int64_t tap = 0; tap < kLanes; ++tap) row[tap] = tap < kTaps ? taps[tap] : V{};
    Square<float>::transpose(row);
    // what is written behind a window is the next one's, which comes after it
    for (int64_t lane = 0; lane + 1 < kLanes; ++lane) store_vector(windows + lane * kTaps, row[lane]);
    std::memcpy(windows + (kLanes - 1) * kTaps, &row[kLanes - 1], kTaps * sizeof(float));
  } else {
    for (int64_t first = 0; first + kLanes < kTaps; first += kLanes) {
      for (int64_t tap = 0; tap < kLanes; ++tap) row[tap] = taps[first + tap];
      Square<float>::transpose(row);
      for (int64_t lane = 0; lane < kLanes; ++lane) store_vector(windows + lane * kTaps + first, row[lane]);
    }
    for (int64_t lane = 0; lane < kLanes; ++lane) windows[lane * kTaps + kTaps - 1] = taps[kTaps - 1][lane];
  }
}

void weights_isa(const float* weights, int64_t outputs, int64_t channels, bool back, int64_t column, int64_t width,
                 int64_t from, int64_t to, float* transformed) {
  const float* end = weights + outputs * channels * kTaps;
  const int64_t matrix = matrix_step((back ? outputs : channels) * width);
  const int64_t row_step = back ? channels * kTaps : kTaps, column_step = back ? kTaps : channels * kTaps;
  for (int64_t j = 0; j < width; j += kLanes) {
    for (int64_t k = from; k < to; ++k) {
      V given[kTaps], g[kTaps], lines[18], factors[kTileProducts];
      load_taps(weights + k * row_step + (column + j) * column_step, column_step, end, given);
      for (int64_t tap = 0; tap < kTaps; ++tap) g[tap] = given[back ? kTaps - 1 - tap : tap];
      for (int s = 0; s < 3; ++s) transform_weights(g + s, 3, lines + s, 3);
      for (int r = 0; r < 6; ++r) transform_weights(lines + 3 * r, 1, factors + 6 * r, 1);
      float* at = transformed + k * width + j;
      for (int64_t i = 0; i < kTileProducts; ++i) store_vector(at + i * matrix, factors[i]);
    }
  }
}

struct Tile {
  int64_t image, row, column;
  Tile(const TiledImages& images, int64_t number)
      : image(number / (images.tile_rows * images.tile_columns)),
        row(number / images.tile_columns % images.tile_rows * kTileResults),
        column(number % images.tile_columns * kTileResults) {}
};

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
      for (int64_t i = 0; i < kTileInputs; ++i) {
        for (int64_t j = 0; j < kTileInputs; ++j) {
          const int64_t y = y0 + i, x = x0 + j;
          const bool there = inside || (y >= 0 && y < images.in_height && x >= 0 && x < images.in_width);
          d[i * 6 + j] = there ? load_vector(image + (y * images.in_width + x) * images.channels + c) : V{};
        }
      }
      for (int64_t j = 0; j < 6; ++j) transform_inputs(d + j, 6);
      for (int64_t i = 0; i < 6; ++i) transform_inputs(d + 6 * i, 1);
      float* at = transformed + t * images.channels + c;
      for (int64_t i = 0; i < kTileProducts; ++i) store_vector(at + i * matrix, d[i]);
    }
  }
}

void results_isa(const TiledImages& images, const TileBlock& block, int64_t from, int64_t to, const float* transformed,
                 const float* bias) {
  const int64_t matrix = matrix_step(block.count * block.width);
  for (int64_t t = from; t < to; ++t) {
    const Tile tile(images, block.first + t);
    const int64_t rows = std::min(kTileResults, images.out_height - tile.row);
    const int64_t columns = std::min(kTileResults, images.out_width - tile.column);
    float* results = images.results +
                     ((tile.image * images.out_height + tile.row) * images.out_width + tile.column) * images.outputs +
                     block.column;
    for (int64_t k = 0; k < block.width; k += kLanes) {
      V m[kTileProducts], lines[24], y[16];
      const float* at = transformed + t * block.width + k;
      for (int64_t i = 0; i < kTileProducts; ++i) m[i] = load_vector(at + i * matrix);
      for (int64_t j = 0; j < 6; ++j) transform_results(m + j, 6, lines + j, 6);
      for (int64_t i = 0; i < 4; ++i) transform_results(lines + 6 * i, 1, y + 4 * i, 1);
      const V offset = bias ? load_vector(bias + block.column + k) : V{};
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
          store_vector(results + (i * images.out_width + j) * images.outputs + k, y[4 * i + j] + offset);
    }
  }
}

void gradients_isa(const TiledImages& images, const TileBlock& block, int64_t from, int64_t to, float* transformed) {
  const int64_t matrix = matrix_step(block.count * block.width);
  for (int64_t t = from; t < to; ++t) {
    const Tile tile(images, block.first + t);
    const int64_t rows = std::min(kTileResults, images.out_height - tile.row);
    const int64_t columns = std::min(kTileResults, images.out_width - tile.column);
    const float* results =
        images.results +
        ((tile.image * images.out_height + tile.row) * images.out_width + tile.column) * images.outputs + block.column;
    for (int64_t k = 0; k < block.width; k += kLanes) {
      V y[16], lines[24], factors[kTileProducts];
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t j = 0; j < 4; ++j)
          y[4 * i + j] =
              i < rows && j < columns ? load_vector(results + (i * images.out_width + j) * images.outputs + k) : V{};
      for (int64_t j = 0; j < 4; ++j) transform_gradients(y + j, 4, lines + j, 4);
      for (int64_t i = 0; i < 6; ++i) transform_gradients(lines + 4 * i, 1, factors + 6 * i, 1);
      float* at = transformed + t * block.width + k;
      for (int64_t i = 0; i < kTileProducts; ++i) store_vector(at + i * matrix, factors[i]);
    }
  }
}

void weight_gradients_isa(const float* transformed, int64_t outputs, int64_t channels, int64_t from, int64_t to,
                          float* weights) {
  const int64_t matrix = matrix_step(outputs * channels);
  for (int64_t o = from; o < to; ++o) {
    for (int64_t c = 0; c < channels; c += kLanes) {
      V m[kTileProducts], lines[18], g[kTaps];
      for (int64_t i = 0; i < kTileProducts; ++i) m[i] = load_vector(transformed + i * matrix + o * channels + c);
      for (int64_t j = 0; j < 6; ++j) transform_sums(m + j, 6, lines + j, 6);
      for (int64_t i = 0; i < 3; ++i) transform_sums(lines + 6 * i, 1, g + 3 * i, 1);
      store_taps(g, weights + (o * channels + c) * kTaps);
    }
  }
}

}  // namespace

// Measured against oneDNN's convolutions of the level, one thread, on AMD Zen 3 and Zen 4. Its AVX2 kernels run slower
// than products, at worst at half the rate, so that gathering windows pays where it costs little beside the products:
// many channels, windows that overlap little or not at all. Its AVX-512 kernels run at the rate of products, but for
// gradients of large weights; tiles take 0.4 to 0.75 of their time.
void register_winograd() {
#if defined(__AVX512F__)
  conv_policy = {.tiles = true, .weight_outputs = 256, .weight_size = 1 << 15};
#elif defined(__AVX2__)
  conv_policy = {.tiles = true,
                 .weight_outputs = 0,
                 .weight_size = 0,
                 .pointwise_percent = 125,
                 .gathered_channels = 512,
                 .gathered_step = 4,
                 .spread = true};
#endif
  winograd_gradients = gradients_isa;
  winograd_weight_gradients = weight_gradients_isa;
  winograd_weights = weights_isa;
  winograd_inputs = inputs_isa;
  winograd_results = results_isa;
}

}  // namespace facula::cpu::FACULA_ISA

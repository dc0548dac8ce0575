// Computes convolutions of 3x3 and 5x5 windows by Winograd's minimal filtering: a tile of 4x4 results (2x2 of the
// larger windows) costs 36 multiplications for each pair of channels in place of 144 (100), one of 5x5 results (3x3) 49
// in place of 225.
#pragma once

#include "ops/conv.h"

namespace facula::cpu {

/// Channels-last images cut into tiles. The tile in row i and column j of an image gives `side` by `side` results from
/// (side i, side j) on, and reads `points` by `points` pixels from (side i - padding, side j - padding) on.
struct TiledImages {
  const float* inputs;
  float* results;
  int64_t channels, outputs;  // of an input pixel, of a result
  int64_t in_height, in_width, out_height, out_width;
  int64_t padding_top, padding_left;
  int64_t points, side, tile_rows, tile_columns;

  /// Products of a tile, for each pair of channels: its places.
  int64_t products() const { return points * points; }
};

/// What is computed at a time: `count` tiles from `first` on, and of the results' channels `width` from `column` on.
struct TileBlock {
  int64_t first, count, column, width;
};

// The steps around the products, one set per instruction-set level; channels and outputs are multiples of
// kWinogradChannels. `transformed` holds a matrix for each place in a tile, each matrix_step(elements) after the one
// before: steps of a power of two would let all of them meet in a few lines of the caches.
constexpr int64_t kWinogradChannels = 16;
constexpr int64_t matrix_step(int64_t elements) { return elements + 3 * 16; }

/// Places of transformed weights: row `from` to `first`, the next `step` after it; the matrices of the places in a tile
/// lie `matrix` apart.
struct WeightPanel {
  float* first;
  int64_t step, matrix;
};

/// What depends on the windows' size, `k` by `k`, and on the points of a tile.
struct WinogradSteps {
  /// Tiles [from, to) of a block, all channels: matrices of `count` rows (one per tile) and `channels` columns.
  void (*inputs)(const TiledImages& images, const TileBlock& block, int64_t from, int64_t to, float* transformed);
  /// Transforms weights (O, C, k, k) for columns [column, column + width) of the product, its rows [from, to).
  /// Forwards rows are channels and columns outputs; where `back`, windows are turned around, rows are outputs and
  /// columns channels.
  void (*weights)(const float* weights, int64_t outputs, int64_t channels, bool back, int64_t column, int64_t width,
                  int64_t from, int64_t to, const WeightPanel& panel);
  /// Tiles [from, to) of a block become results: matrices of `count` rows and `width` columns. `bias` (of all outputs)
  /// may be null.
  void (*results)(const TiledImages& images, const TileBlock& block, int64_t from, int64_t to, const float* transformed,
                  const float* bias);
  /// The tiles of `images.results`, read as gradients: matrices of `count` rows and `width` columns.
  void (*gradients)(const TiledImages& images, const TileBlock& block, int64_t from, int64_t to, float* transformed);
  /// Sums of products (matrices of `outputs` rows and C columns) become gradients of weights (outputs, C, k, k),
  /// outputs [from, to).
  void (*weight_gradients)(const float* transformed, int64_t outputs, int64_t channels, int64_t from, int64_t to,
                           float* weights);
};
constexpr int64_t kFewestPoints = 6;
inline WinogradSteps winograd_of_three[2], winograd_of_five[2];  // of six points, of seven

/// Any of the three maps; false where it does not apply, and then nothing was written.
bool convolve_by_tiles(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                       const ConvGeometry& geometry);

}  // namespace facula::cpu

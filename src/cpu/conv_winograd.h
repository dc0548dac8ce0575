// Convolutions of 3x3 windows by Winograd's minimal filtering, F(4x4, 3x3): a tile of 4x4 results costs 36
// multiplications for each pair of channels in place of 144.
#pragma once

#include "ops/conv.h"

namespace facula::cpu {

constexpr int64_t kTileResults = 4, kTileInputs = 6, kTileProducts = kTileInputs * kTileInputs;

/// Channels-last images cut into tiles. The tile in row i and column j of an image gives results from (4i, 4j) on, and
/// reads pixels from (4i - padding, 4j - padding) on.
struct TiledImages {
  const float* inputs;
  float* results;
  int64_t channels, outputs;  // of an input pixel, of a result
  int64_t in_height, in_width, out_height, out_width;
  int64_t padding_top, padding_left;
  int64_t tile_rows, tile_columns;
};

// The three steps around the products, one set per instruction-set level; channels and outputs are multiples of
// kWinogradChannels. `transformed` holds kTileProducts matrices one after the other.
constexpr int64_t kWinogradChannels = 16;

/// Weights (O, C, 3, 3), for outputs [from, to): matrices of O rows and C columns. `flipped` turns the windows around.
inline void (*winograd_weights)(const float* weights, int64_t outputs, int64_t channels, bool flipped, int64_t from,
                                int64_t to, float* transformed) = nullptr;
/// Tiles [first + from, first + to): matrices of `count` rows (one per tile from `first` on) and `channels` columns.
inline void (*winograd_inputs)(const TiledImages& images, int64_t first, int64_t count, int64_t from, int64_t to,
                               float* transformed) = nullptr;
/// The same tiles back: matrices of `count` rows and `outputs` columns. `bias` may be null.
inline void (*winograd_results)(const TiledImages& images, int64_t first, int64_t count, int64_t from, int64_t to,
                                const float* transformed, const float* bias) = nullptr;

/// The tiles of `images.results`, read as gradients: matrices of `count` rows and `outputs` columns.
inline void (*winograd_gradients)(const TiledImages& images, int64_t first, int64_t count, int64_t from, int64_t to,
                                  float* transformed) = nullptr;
/// Sums of products (matrices of O rows and C columns) become gradients of weights (O, C, 3, 3), outputs [from, to).
inline void (*winograd_weight_gradients)(const float* transformed, int64_t outputs, int64_t channels, int64_t from,
                                         int64_t to, float* weights) = nullptr;

/// Any of the three maps; false where it does not apply, and then nothing was written.
bool convolve_by_tiles(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                       const ConvGeometry& geometry);

}  // namespace facula::cpu

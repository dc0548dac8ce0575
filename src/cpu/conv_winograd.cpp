#include "cpu/conv_winograd.h"

#include <algorithm>

#include "core/parallel.h"
#include "cpu/gemm.h"
#include "cpu/packed_weights.h"
#include "ops/matmul.h"

namespace facula::cpu {
namespace {

// Tiles are worked through in blocks whose matrices stay in cache, but of enough rows for products to run at full rate.
// So are large weights, which become four times as large: a block of them is transformed, multiplied by all tiles of a
// block and forgotten. Doing so again for the next block of tiles costs less than reading all of them from memory.
constexpr int64_t kBlockBytes = 8 << 20, kInputBytes = 16 << 20, kWeightBytes = 4 << 20;
constexpr int64_t kFewestTiles = 128, kFewestColumns = 64, kFewestOutputs = 112;
constexpr int64_t kItem = sizeof(float);
// Fewer do not repay the transformation of the weights, which become four times as large, or reading them where they
// are kept (packed_weights.h).
constexpr int64_t kFewestForImages = 16, kFewestForWeights = 12;

bool all(IntList list, int64_t value) {
  return std::all_of(list.begin(), list.end(), [=](int64_t v) { return v == value; });
}

// Fewer channels spend more time on the transformations than the products save.
bool applies(const Tensor& y, const Tensor& x, const Tensor& w, const ConvGeometry& g) {
  constexpr int64_t kFewChannels = 32;
  return x.dim() == 4 && x.dtype() == DType::Float32 && g.groups == 1 && w.is_contiguous() &&
         x.is_contiguous(MemoryFormat::ChannelsLast) && y.is_contiguous(MemoryFormat::ChannelsLast) &&
         (all(w.sizes().slice(2, 2), 3) || all(w.sizes().slice(2, 2), 5)) && all(g.stride, 1) && all(g.dilation, 1) &&
         g.padding[0] < w.size(2) && g.padding[1] < w.size(2) && std::min(w.size(0), w.size(1)) >= kFewChannels &&
         w.size(0) % kWinogradChannels == 0 && w.size(1) % kWinogradChannels == 0;
}

const WinogradSteps& steps_of(const Tensor& w) { return w.size(2) == 3 ? winograd_of_three : winograd_of_five; }

/// Results (tiles x outputs) = inputs (tiles x channels) times weights, one product for each place in a tile.
MatrixProduct product_of(int64_t channels, int64_t outputs, const float* weights) {
  MatrixProduct m;
  m.batch = kTileProducts;
  m.inner = channels;
  m.columns = outputs;
  m.b = {reinterpret_cast<const char*>(weights), matrix_step(channels * outputs), outputs, 1};
  return m;
}

void multiply(MatrixProduct m, const PackedColumns& packed, int64_t count, const float* inputs, float* results) {
  m.rows = count;
  m.a = {reinterpret_cast<const char*>(inputs), matrix_step(count * m.inner), m.inner, 1};
  m.out = reinterpret_cast<char*>(results);
  m.out_batch = matrix_step(count * m.columns);
  m.out_row = m.columns;
  if (has_own_gemm()) own_product(m, packed);  // whether packed or not, and however few tiles are left
  else matrix_product_kernel(kCPU, m);
}

int64_t grain_of(int64_t channels) { return std::max<int64_t>(1, kGrain / (kTileProducts * channels)); }

/// The tiles of a map that reads `in` and writes `out`, or of one that reads both.
TiledImages cut(const Tensor& in, const Tensor& out, int64_t side, int64_t padding_top, int64_t padding_left) {
  TiledImages p{in.data<float>(), out.data<float>(), in.size(1),   out.size(1), in.size(2), in.size(3), out.size(2),
                out.size(3),      padding_top,       padding_left, side,        0,          0};
  p.tile_rows = (p.out_height + side - 1) / side;
  p.tile_columns = (p.out_width + side - 1) / side;
  return p;
}

Tensor matrices(int64_t rows, int64_t columns) {
  return facula::empty({kTileProducts * matrix_step(rows * columns)}, DType::Float32);
}

/// Columns, or rows, of `length` elements whose matrices for all places in a tile take `bytes`.
int64_t that_fit(int64_t bytes, int64_t length, int64_t fewest, int64_t count) {
  const int64_t fit = bytes / (kTileProducts * kItem * length) / fewest * fewest;
  return std::min(std::max(fit, fewest), count);
}

void transform_inputs(const TiledImages& p, const TileBlock& block, const Tensor& inputs) {
  parallel_for(0, block.count, grain_of(p.channels),
               [&](int64_t from, int64_t to) { winograd_inputs(p, block, from, to, inputs.data<float>()); });
}

/// f(block, inputs transformed) for blocks of tiles whose results have `width` channels.
template <class F>
void for_blocks(const TiledImages& p, int64_t tiles, int64_t width, F&& f) {
  const int64_t most = that_fit(kBlockBytes, p.channels + width, 1, tiles);
  const int64_t block = std::min(tiles, std::max(kFewestTiles, most));
  const Tensor inputs = matrices(block, p.channels);
  for (int64_t first = 0; first < tiles; first += block) {
    const TileBlock now{first, std::min(block, tiles - first), 0, width};
    transform_inputs(p, now, inputs);
    f(now, inputs.data<float>());
  }
}

/// Columns [column, column + width) of the weights.
void transform_weights(ConvMap map, const Tensor& w, int64_t column, int64_t width, const Tensor& weights) {
  const bool back = map == ConvMap::Input;
  parallel_for(0, w.size(back ? 0 : 1), grain_of(width), [&](int64_t from, int64_t to) {
    steps_of(w).weights(w.data<float>(), w.size(0), w.size(1), back, column, width, from, to, weights.data<float>());
  });
}

/// What is kept of the weights, transformed and packed.
Tensor kept_tiles(ConvMap map, const TiledImages& p, const Tensor& w) {
  if (!has_own_gemm()) return Tensor();
  const int64_t words[] = {static_cast<int64_t>(PackedAs::Tiles), static_cast<int64_t>(map), w.size(0), w.size(1),
                           w.size(2)};
  const int64_t bytes = packed_bytes(product_of(p.channels, p.outputs, nullptr));
  return packed_weight({w.storage(), w.data<char>(), IntList(words, std::size(words))}, kTileProducts * bytes,
                       [&](char* to) {
                         const Tensor weights = matrices(p.channels, p.outputs);
                         transform_weights(map, w, 0, p.outputs, weights);
                         MatrixProduct one = product_of(p.channels, p.outputs, weights.data<float>());
                         for (int64_t i = 0; i < kTileProducts; ++i, to += bytes, one.b.data += one.b.batch * kItem)
                           pack_columns(one, reinterpret_cast<float*>(to));
                       });
}

void convolve_images(ConvMap map, const TiledImages& p, int64_t tiles, const Tensor& w, const float* bias) {
  const Tensor kept = kept_tiles(map, p, w);
  const PackedColumns packed =
      kept.defined() ? as_packed(product_of(p.channels, p.outputs, nullptr), kept.data<float>()) : PackedColumns{};
  const int64_t width = kept.defined() ? p.outputs : that_fit(kWeightBytes, p.channels, kFewestColumns, p.outputs);
  const bool whole = width == p.outputs;
  const Tensor weights = kept.defined() ? Tensor() : matrices(p.channels, width);
  if (whole && weights.defined()) transform_weights(map, w, 0, width, weights);
  Tensor results;
  for_blocks(p, tiles, width, [&](TileBlock block, const float* inputs) {
    if (!results.defined()) results = matrices(block.count, width);  // the first block is the largest
    for (block.column = 0; block.column < p.outputs; block.column += width) {
      block.width = std::min(width, p.outputs - block.column);
      if (!whole) transform_weights(map, w, block.column, block.width, weights);
      const float* b = weights.defined() ? weights.data<float>() : nullptr;
      multiply(product_of(p.channels, block.width, b), packed, block.count, inputs, results.data<float>());
      parallel_for(0, block.count, grain_of(block.width), [&](int64_t from, int64_t to) {
        steps_of(w).results(p, block, from, to, results.data<float>(), bias);
      });
    }
  });
}

/// sums (outputs of the block x channels) = or += products of gradients and inputs, one for each place in a tile.
void add_products(const TiledImages& p, const TileBlock& block, const Tensor& gradients, const float* inputs,
                  const Tensor& sums, bool first, const WinogradSteps& steps) {
  parallel_for(0, block.count, grain_of(block.width),
               [&](int64_t from, int64_t to) { steps.gradients(p, block, from, to, gradients.data<float>()); });
  MatrixProduct m;
  m.batch = kTileProducts;
  m.rows = block.width;
  m.inner = block.count;
  m.columns = p.channels;
  m.a = {gradients.data<char>(), matrix_step(block.count * block.width), 1, block.width};
  m.b = {reinterpret_cast<const char*>(inputs), matrix_step(block.count * p.channels), p.channels, 1};
  m.out = sums.data<char>();
  m.out_batch = matrix_step(block.width * p.channels);
  m.out_row = p.channels;
  m.beta = first ? 0 : 1;
  matrix_product_kernel(kCPU, m);
}

/// The gradients of the weights of outputs [column, column + width).
void weights_from_sums(const TiledImages& p, const Tensor& sums, int64_t column, int64_t width, const Tensor& w) {
  float* to_weights = w.data<float>() + column * w.stride(0);
  parallel_for(0, width, grain_of(p.channels), [&](int64_t from, int64_t to) {
    steps_of(w).weight_gradients(sums.data<float>(), width, p.channels, from, to, to_weights);
  });
}

/// Outputs by blocks where the inputs of all tiles stay in cache: sums are then complete at once. Else tiles by blocks,
/// and sums of all outputs.
void weight_from_images(const TiledImages& p, int64_t tiles, const Tensor& w) {
  if (kTileProducts * kItem * p.channels * tiles <= kInputBytes) {
    const int64_t width = that_fit(kWeightBytes, p.channels, kFewestOutputs, p.outputs);
    const Tensor inputs = matrices(tiles, p.channels), sums = matrices(width, p.channels),
                 gradients = matrices(tiles, width);
    TileBlock block{0, tiles, 0, width};
    transform_inputs(p, block, inputs);
    for (; block.column < p.outputs; block.column += width) {
      block.width = std::min(width, p.outputs - block.column);
      add_products(p, block, gradients, inputs.data<float>(), sums, true, steps_of(w));
      weights_from_sums(p, sums, block.column, block.width, w);
    }
    return;
  }
  const Tensor sums = matrices(p.outputs, p.channels);
  Tensor gradients;
  for_blocks(p, tiles, p.outputs, [&](const TileBlock& block, const float* inputs) {
    if (!gradients.defined()) gradients = matrices(block.count, p.outputs);  // the first block is the largest
    add_products(p, block, gradients, inputs, sums, block.first == 0, steps_of(w));
  });
  weights_from_sums(p, sums, 0, p.outputs, w);
}

}  // namespace

bool convolve_by_tiles(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                       const ConvGeometry& g) {
  if (!applies(y, x, w, g)) return false;
  const bool back = map == ConvMap::Input;
  const int64_t reach = w.size(2) - 1, side = kTileInputs - reach;
  const TiledImages p =
      back ? cut(y, x, side, reach - g.padding[0], reach - g.padding[1]) : cut(x, y, side, g.padding[0], g.padding[1]);
  const int64_t tiles = x.size(0) * p.tile_rows * p.tile_columns;
  if (tiles < (map == ConvMap::Weight ? kFewestForWeights : kFewestForImages)) return false;
  if (map == ConvMap::Weight) weight_from_images(p, tiles, w);
  else convolve_images(map, p, tiles, w, bias.defined() ? bias.data<float>() : nullptr);
  return true;
}

}  // namespace facula::cpu

#include "cpu/conv_winograd.h"

#include <algorithm>

#include "core/parallel.h"
#include "ops/matmul.h"

namespace facula::cpu {
namespace {

// Tiles are worked through in blocks whose matrices stay in cache, but of enough rows for products to run at full rate.
constexpr int64_t kBlockBytes = 8 << 20;
constexpr int64_t kFewestTiles = 128;
// Fewer do not repay the transformation of the weights, which become four times as large.
constexpr int64_t kFewestForImages = 24, kFewestForWeights = 12;

bool all(IntList list, int64_t value) {
  return std::all_of(list.begin(), list.end(), [=](int64_t v) { return v == value; });
}

// Fewer channels spend more time on the transformations than the products save.
bool applies(const Tensor& y, const Tensor& x, const Tensor& w, const ConvGeometry& g) {
  constexpr int64_t kFewChannels = 32;
  return x.dim() == 4 && x.dtype() == DType::Float32 && g.groups == 1 && w.is_contiguous() &&
         x.is_contiguous(MemoryFormat::ChannelsLast) && y.is_contiguous(MemoryFormat::ChannelsLast) &&
         all(w.sizes().slice(2, 2), 3) && all(g.stride, 1) && all(g.dilation, 1) && g.padding[0] <= 2 &&
         g.padding[1] <= 2 && std::min(w.size(0), w.size(1)) >= kFewChannels && w.size(0) % kWinogradChannels == 0 &&
         w.size(1) % kWinogradChannels == 0;
}

/// Results (tiles x outputs) = inputs (tiles x channels) times weights, one product for each place in a tile. The
/// weights lie as outputs of the forward map by its channels: transposed for the forward map.
void multiply(ConvMap map, const TiledImages& p, int64_t count, const float* inputs, const float* weights,
              float* results) {
  MatrixProduct m;
  m.batch = kTileProducts;
  m.rows = count;
  m.inner = p.channels;
  m.columns = p.outputs;
  m.a = {reinterpret_cast<const char*>(inputs), count * p.channels, p.channels, 1};
  const int64_t matrix = p.channels * p.outputs;
  m.b = {reinterpret_cast<const char*>(weights), matrix, p.outputs, 1};
  if (map == ConvMap::Output) m.b = {reinterpret_cast<const char*>(weights), matrix, 1, p.channels};
  m.out = reinterpret_cast<char*>(results);
  m.out_batch = count * p.outputs;
  m.out_row = p.outputs;
  matrix_product_kernel(kCPU, m);
}

int64_t grain_of(int64_t channels) { return std::max<int64_t>(1, kGrain / (kTileProducts * channels)); }

/// The tiles of a map that reads `in` and writes `out`, or of one that reads both.
TiledImages cut(const Tensor& in, const Tensor& out, int64_t padding_top, int64_t padding_left) {
  TiledImages p{in.data<float>(), out.data<float>(), in.size(1),  out.size(1),  in.size(2), in.size(3),
                out.size(2),      out.size(3),       padding_top, padding_left, 0,          0};
  p.tile_rows = (p.out_height + kTileResults - 1) / kTileResults;
  p.tile_columns = (p.out_width + kTileResults - 1) / kTileResults;
  return p;
}

/// f(first, count) for blocks of tiles; `inputs` and `results` have room for the matrices of one block.
template <class F>
void for_blocks(const TiledImages& p, int64_t tiles, F&& f) {
  const int64_t tile_bytes = kTileProducts * (p.channels + p.outputs) * static_cast<int64_t>(sizeof(float));
  const int64_t block = std::min(tiles, std::max(kFewestTiles, kBlockBytes / tile_bytes));
  const Tensor inputs = facula::empty({kTileProducts, block, p.channels}, DType::Float32);
  const Tensor results = facula::empty({kTileProducts, block, p.outputs}, DType::Float32);
  for (int64_t first = 0; first < tiles; first += block) {
    const int64_t count = std::min(block, tiles - first);
    parallel_for(0, count, grain_of(p.channels),
                 [&](int64_t from, int64_t to) { winograd_inputs(p, first, count, from, to, inputs.data<float>()); });
    f(first, count, inputs.data<float>(), results.data<float>());
  }
}

void convolve_images(ConvMap map, const TiledImages& p, int64_t tiles, const Tensor& w, const float* bias) {
  const Tensor weights = facula::empty({kTileProducts, w.size(0), w.size(1)}, DType::Float32);
  parallel_for(0, w.size(0), grain_of(w.size(1)), [&](int64_t from, int64_t to) {
    winograd_weights(w.data<float>(), w.size(0), w.size(1), map == ConvMap::Input, from, to, weights.data<float>());
  });
  for_blocks(p, tiles, [&](int64_t first, int64_t count, const float* inputs, float* results) {
    multiply(map, p, count, inputs, weights.data<float>(), results);
    parallel_for(0, count, grain_of(p.outputs),
                 [&](int64_t from, int64_t to) { winograd_results(p, first, count, from, to, results, bias); });
  });
}

void sum_weight_gradients(const TiledImages& p, int64_t tiles, const Tensor& w) {
  const Tensor sums = facula::empty({kTileProducts, w.size(0), w.size(1)}, DType::Float32);
  for_blocks(p, tiles, [&](int64_t first, int64_t count, const float* inputs, float* gradients) {
    parallel_for(0, count, grain_of(p.outputs),
                 [&](int64_t from, int64_t to) { winograd_gradients(p, first, count, from, to, gradients); });
    MatrixProduct m;
    m.batch = kTileProducts;
    m.rows = p.outputs;
    m.inner = count;
    m.columns = p.channels;
    m.a = {reinterpret_cast<const char*>(gradients), count * p.outputs, 1, p.outputs};
    m.b = {reinterpret_cast<const char*>(inputs), count * p.channels, p.channels, 1};
    m.out = sums.data<char>();
    m.out_batch = p.outputs * p.channels;
    m.out_row = p.channels;
    m.beta = first ? 1 : 0;
    matrix_product_kernel(kCPU, m);
  });
  parallel_for(0, w.size(0), grain_of(w.size(1)), [&](int64_t from, int64_t to) {
    winograd_weight_gradients(sums.data<float>(), w.size(0), w.size(1), from, to, w.data<float>());
  });
}

}  // namespace

bool convolve_by_tiles(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                       const ConvGeometry& g) {
  if (!applies(y, x, w, g)) return false;
  const bool back = map == ConvMap::Input;
  const TiledImages p = back ? cut(y, x, 2 - g.padding[0], 2 - g.padding[1]) : cut(x, y, g.padding[0], g.padding[1]);
  const int64_t tiles = x.size(0) * p.tile_rows * p.tile_columns;
  if (tiles < (map == ConvMap::Weight ? kFewestForWeights : kFewestForImages)) return false;
  if (map == ConvMap::Weight) sum_weight_gradients(p, tiles, w);
  else convolve_images(map, p, tiles, w, bias.defined() ? bias.data<float>() : nullptr);
  return true;
}

}  // namespace facula::cpu

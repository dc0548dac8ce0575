#include "cpu/conv_winograd.h"

#include <algorithm>

#include "core/parallel.h"
#include "cpu/gemm.h"
#include "cpu/packed_weights.h"
#include "ops/matmul.h"

namespace facula::cpu {
namespace {

// Tiles are worked through in blocks whose matrices stay in cache, but of enough rows for products to run at full rate.
constexpr int64_t kBlockBytes = 8 << 20;
constexpr int64_t kFewestTiles = 128;
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
         all(w.sizes().slice(2, 2), 3) && all(g.stride, 1) && all(g.dilation, 1) && g.padding[0] <= 2 &&
         g.padding[1] <= 2 && std::min(w.size(0), w.size(1)) >= kFewChannels && w.size(0) % kWinogradChannels == 0 &&
         w.size(1) % kWinogradChannels == 0;
}

/// Results (tiles x outputs) = inputs (tiles x channels) times weights, one product for each place in a tile. The
/// weights lie as outputs of the forward map by its channels: transposed for the forward map.
MatrixProduct product_of(ConvMap map, int64_t channels, int64_t outputs, const float* weights) {
  MatrixProduct m;
  m.batch = kTileProducts;
  m.inner = channels;
  m.columns = outputs;
  m.b = {reinterpret_cast<const char*>(weights), channels * outputs, outputs, 1};
  if (map == ConvMap::Output) m.b.row = 1, m.b.column = channels;
  return m;
}

void multiply(MatrixProduct m, const PackedColumns& packed, int64_t count, const float* inputs, float* results) {
  m.rows = count;
  m.a = {reinterpret_cast<const char*>(inputs), count * m.inner, m.inner, 1};
  m.out = reinterpret_cast<char*>(results);
  m.out_batch = count * m.columns;
  m.out_row = m.columns;
  if (has_own_gemm()) own_product(m, packed);  // whether packed or not, and however few tiles are left
  else matrix_product_kernel(kCPU, m);
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

Tensor transformed(ConvMap map, const Tensor& w) {
  const Tensor weights = facula::empty({kTileProducts, w.size(0), w.size(1)}, DType::Float32);
  parallel_for(0, w.size(0), grain_of(w.size(1)), [&](int64_t from, int64_t to) {
    winograd_weights(w.data<float>(), w.size(0), w.size(1), map == ConvMap::Input, from, to, weights.data<float>());
  });
  return weights;
}

/// What is kept of the weights, transformed and packed.
Tensor kept_tiles(ConvMap map, const MatrixProduct& product, const Tensor& w) {
  if (!has_own_gemm()) return Tensor();
  const int64_t words[] = {static_cast<int64_t>(PackedAs::Tiles), static_cast<int64_t>(map), w.size(0), w.size(1)};
  const int64_t bytes = packed_bytes(product);
  return packed_weight({w.storage(), w.data<char>(), IntList(words, std::size(words))}, kTileProducts * bytes,
                       [&](char* to) {
                         const Tensor weights = transformed(map, w);
                         MatrixProduct one = product_of(map, product.inner, product.columns, weights.data<float>());
                         for (int64_t i = 0; i < kTileProducts; ++i, to += bytes, one.b.data += w.numel() / 9 * 4)
                           pack_columns(one, reinterpret_cast<float*>(to));
                       });
}

void convolve_images(ConvMap map, const TiledImages& p, int64_t tiles, const Tensor& w, const float* bias) {
  MatrixProduct product = product_of(map, p.channels, p.outputs, nullptr);
  const Tensor kept = kept_tiles(map, product, w), weights = kept.defined() ? Tensor() : transformed(map, w);
  const PackedColumns packed = kept.defined() ? as_packed(product, kept.data<float>()) : PackedColumns{};
  if (weights.defined()) product.b.data = weights.data<char>();
  for_blocks(p, tiles, [&](int64_t first, int64_t count, const float* inputs, float* results) {
    multiply(product, packed, count, inputs, results);
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

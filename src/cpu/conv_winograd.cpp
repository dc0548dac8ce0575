#include "cpu/conv_winograd.h"

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "cpu/gemm.h"
#include "cpu/packed_weights.h"
#include "ops/matmul.h"

namespace facula::cpu {
namespace {

// Tiles are worked through in blocks. Where the weights of all places in a tile, four times as large as given, stay in
// the third-level cache, a block's matrices stay in the second-level one. Larger weights are not transformed at once: a
// block of them is, multiplied by as many tiles as the third-level cache holds, and forgotten. Doing so again for the
// next block of tiles costs less than reading all of them from memory.
constexpr int64_t kNearBytes = 512 << 10, kBlockBytes = 8 << 20, kInputBytes = 8 << 20, kWeightBytes = 5 << 20;
constexpr int64_t kFewestNear = 28, kFewestTiles = 128, kFewestColumns = 32;
constexpr int64_t kItem = sizeof(float);
// Fewer do not repay the transformation of the weights, which become four times as large, or reading them where they
// are cached (packed_weights.h).
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

const WinogradSteps& steps_of(const Tensor& w, const TiledImages& p) {
  return (w.size(2) == 3 ? winograd_of_three : winograd_of_five)[p.points - kFewestPoints];
}

/// Transformed weights in the order in which products read them: for each place in a tile a matrix of `rows` and
/// `columns`, packed, or as it is where the level has no products of its own.
struct WeightOrder {
  int64_t places, rows, columns, panel, chain, matrix;

  WeightOrder(int64_t places, int64_t rows, int64_t width) : places(places), rows(rows) {
    const bool own = has_own_gemm();
    panel = own ? gemm_tile.columns : width;
    chain = own ? gemm_tile.chain(rows) : rows;
    columns = (width + panel - 1) / panel * panel;
    matrix = matrix_step(rows * columns);
  }
  int64_t elements() const { return places * matrix; }
};

/// Results (tiles x `width` outputs) = inputs (tiles x channels) times weights, one product for each place in a tile,
/// from column `first` of the weights on.
void multiply(const WeightOrder& order, const float* weights, int64_t first, int64_t width, int64_t count,
              const float* inputs, float* results) {
  MatrixProduct m;
  m.batch = order.places;
  m.rows = count;
  m.inner = order.rows;
  m.columns = width;
  m.a = {reinterpret_cast<const char*>(inputs), matrix_step(count * m.inner), m.inner, 1};
  m.b = {reinterpret_cast<const char*>(weights + first), order.matrix, order.columns, 1};
  m.out = reinterpret_cast<char*>(results);
  m.out_batch = matrix_step(count * m.columns);
  m.out_row = m.columns;
  if (has_own_gemm()) own_product(m, {weights, order.columns, first, order.matrix});
  else matrix_product_kernel(kCPU, m);
}

/// For what goes through so many channels of a tile, or of a window.
int64_t grain_of(const TiledImages& p, int64_t channels) {
  return std::max<int64_t>(1, kGrain / (p.products() * channels));
}

/// The tiles of a map that reads `in` and writes `out`, or of one that reads both, for windows `reach` + 1 wide.
TiledImages cut(const Tensor& in, const Tensor& out, int64_t reach, int64_t points, int64_t padding_top,
                int64_t padding_left) {
  const int64_t side = points - reach;
  TiledImages p{in.data<float>(), out.data<float>(), in.size(1),   out.size(1), in.size(2), in.size(3), out.size(2),
                out.size(3),      padding_top,       padding_left, points,      side,       0,          0};
  p.tile_rows = (p.out_height + side - 1) / side;
  p.tile_columns = (p.out_width + side - 1) / side;
  return p;
}

/// Six points or seven: tiles of seven take fewer products for each result, but may reach further past the end of an
/// image, and windows become more elements, which costs as much as so many tiles. They are less exact, so they have to
/// save something.
TiledImages cut_best(const Tensor& in, const Tensor& out, int64_t reach, int64_t padding_top, int64_t padding_left) {
  constexpr int64_t kTilesOfWeights = 32;
  auto with = [&](int64_t points) { return cut(in, out, reach, points, padding_top, padding_left); };
  auto cost = [&](const TiledImages& p) {
    return p.products() * (in.size(0) * p.tile_rows * p.tile_columns + kTilesOfWeights);
  };
  const TiledImages six = with(kFewestPoints), seven = with(kFewestPoints + 1);
  return 8 * cost(seven) < 7 * cost(six) ? seven : six;
}

Tensor matrices(const TiledImages& p, int64_t rows, int64_t columns) {
  return facula::empty({p.products() * matrix_step(rows * columns)}, DType::Float32);
}

/// Columns, or rows, of `length` elements whose matrices for all places in a tile take `bytes`.
int64_t that_fit(const TiledImages& p, int64_t bytes, int64_t length, int64_t fewest, int64_t count) {
  const int64_t fit = bytes / (p.products() * kItem * length) / fewest * fewest;
  return std::min(std::max(fit, fewest), count);
}

void transform_inputs(const TiledImages& p, const TileBlock& block, const Tensor& inputs, const WinogradSteps& steps) {
  parallel_for(0, block.count, grain_of(p, p.channels),
               [&](int64_t from, int64_t to) { steps.inputs(p, block, from, to, inputs.data<float>()); });
}

/// Tiles of a block whose results have `width` channels, for one thread or for `sharers`.
int64_t block_of(const TiledImages& p, int64_t tiles, int64_t width, bool near, int64_t sharers = 1) {
  const int64_t bytes = near ? sharers * kNearBytes : kBlockBytes, fewest = near ? sharers * kFewestNear : kFewestTiles;
  return std::min(tiles, std::max(fewest, that_fit(p, bytes, p.channels + width, 1, tiles)));
}

/// f(block) for tiles [from, to) by blocks, whose inputs are transformed.
template <class F>
void for_blocks(const TiledImages& p, const WinogradSteps& steps, int64_t from, int64_t to, int64_t block,
                int64_t width, const Tensor& inputs, F&& f) {
  for (int64_t first = from; first < to; first += block) {
    const TileBlock now{first, std::min(block, to - first), 0, width};
    transform_inputs(p, now, inputs, steps);
    f(now);
  }
}

/// Columns [column, column + width) of the weights.
void transform_weights(ConvMap map, const TiledImages& p, const Tensor& w, int64_t column, int64_t width,
                       const WeightOrder& order, float* weights) {
  const bool back = map == ConvMap::Input;
  parallel_for(0, order.rows, grain_of(p, width), [&](int64_t from, int64_t to) {
    for (int64_t chain = from / order.chain * order.chain; chain < to; chain += order.chain) {
      const int64_t begin = std::max(chain, from), length = std::min(order.chain, order.rows - chain),
                    end = std::min(chain + length, to);
      for (int64_t j = 0; j < width; j += order.panel) {
        float* first = weights + chain * order.columns + j * length + (begin - chain) * order.panel;
        steps_of(w, p).weights(w.data<float>(), w.size(0), w.size(1), back, column + j,
                               std::min(order.panel, width - j), begin, end, {first, order.panel, order.matrix});
      }
    }
  });
}

/// Returns the transformed weights that are cached, and makes them the first time.
Tensor cached_tiles(ConvMap map, const TiledImages& p, const WeightOrder& order, const Tensor& w) {
  const int64_t words[] = {
      static_cast<int64_t>(PackedAs::Tiles), static_cast<int64_t>(map), w.size(0), w.size(1), w.size(2), p.points};
  return packed_weight(
      {w.storage(), w.data<char>(), IntList(words, std::size(words))}, order.elements() * kItem,
      [&](char* to) { transform_weights(map, p, w, 0, p.outputs, order, reinterpret_cast<float*>(to)); });
}

/// One map from images to images, of some tiles.
struct ImageMap {
  ConvMap map;
  const TiledImages& p;
  const Tensor& w;
  const float* bias;
  WeightOrder order;
  bool whole;  // all weights are transformed, else `width` columns at a time
  int64_t width, block;
  Tensor weights;

  void run(int64_t from, int64_t to, const Tensor& inputs, const Tensor& results) const {
    for_blocks(p, steps_of(w, p), from, to, block, width, inputs, [&](TileBlock now) {
      for (now.column = 0; now.column < p.outputs; now.column += width) {
        now.width = std::min(width, p.outputs - now.column);
        if (!whole) transform_weights(map, p, w, now.column, now.width, order, weights.data<float>());
        multiply(order, weights.data<float>(), whole ? now.column : 0, now.width, now.count, inputs.data<float>(),
                 results.data<float>());
        parallel_for(0, now.count, grain_of(p, now.width), [&](int64_t begin, int64_t end) {
          steps_of(w, p).results(p, now, begin, end, results.data<float>(), bias);
        });
      }
    });
  }
};

/// Threads divide the tiles where each has the blocks in its own cache, else every step.
void convolve_images(ConvMap map, const TiledImages& p, int64_t tiles, const Tensor& w, const float* bias) {
  const WeightOrder all(p.products(), p.channels, p.outputs);
  Tensor weights = cached_tiles(map, p, all, w);
  const bool near = all.elements() * kItem <= kWeightBytes, cached = weights.defined();
  const int64_t width = near ? p.outputs : that_fit(p, kWeightBytes, p.channels, kFewestColumns, p.outputs);
  const WeightOrder order = near || cached ? all : WeightOrder(p.products(), p.channels, width);
  if (!cached) weights = facula::empty({order.elements()}, DType::Float32);
  if (near && !cached) transform_weights(map, p, w, 0, p.outputs, order, weights.data<float>());
  const int64_t block = block_of(p, tiles, width, near);
  const ImageMap images{map, p, w, bias, order, near || cached, width, block, weights};
  const int64_t threads = near && !in_parallel_region() ? num_threads() : 1;
  const int64_t pieces = std::min(threads, (tiles + block - 1) / block);
  std::vector<Tensor> inputs, results;
  for (int64_t i = 0; i < pieces; ++i) {
    inputs.push_back(matrices(p, block, p.channels));
    results.push_back(matrices(p, block, width));
  }
  if (pieces == 1) return images.run(0, tiles, inputs[0], results[0]);
  parallel_for(0, pieces, 1, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i)
      images.run(tiles * i / pieces, tiles * (i + 1) / pieces, inputs[static_cast<size_t>(i)],
                 results[static_cast<size_t>(i)]);
  });
}

/// sums (outputs of the block x channels) = or += products of gradients and inputs, one for each place in a tile.
void add_products(const TiledImages& p, const TileBlock& block, const Tensor& gradients, const float* inputs,
                  const Tensor& sums, bool first, const WinogradSteps& steps) {
  parallel_for(0, block.count, grain_of(p, block.width),
               [&](int64_t from, int64_t to) { steps.gradients(p, block, from, to, gradients.data<float>()); });
  MatrixProduct m;
  m.batch = p.products();
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
  parallel_for(0, width, grain_of(p, p.channels), [&](int64_t from, int64_t to) {
    steps_of(w, p).weight_gradients(sums.data<float>(), width, p.channels, from, to, to_weights);
  });
}

/// Outputs by blocks where the inputs of all tiles stay in cache: sums are then complete at once. Else tiles by blocks,
/// and sums of all outputs.
void weight_from_images(const TiledImages& p, int64_t tiles, const Tensor& w) {
  const bool near = p.products() * kItem * p.channels * p.outputs <= kWeightBytes;
  if (!near && p.products() * kItem * p.channels * tiles <= kInputBytes) {
    const int64_t width = that_fit(p, kWeightBytes, p.channels, kFewestColumns, p.outputs);
    const Tensor inputs = matrices(p, tiles, p.channels), sums = matrices(p, width, p.channels),
                 gradients = matrices(p, tiles, width);
    TileBlock block{0, tiles, 0, width};
    transform_inputs(p, block, inputs, steps_of(w, p));
    for (; block.column < p.outputs; block.column += width) {
      block.width = std::min(width, p.outputs - block.column);
      add_products(p, block, gradients, inputs.data<float>(), sums, true, steps_of(w, p));
      weights_from_sums(p, sums, block.column, block.width, w);
    }
    return;
  }
  constexpr int64_t kSharers = 2;  // whatever the number of threads, on which the order of sums must not depend
  const int64_t block = block_of(p, tiles, p.outputs, near, kSharers);
  const Tensor inputs = matrices(p, block, p.channels), gradients = matrices(p, block, p.outputs),
               sums = matrices(p, p.outputs, p.channels);
  for_blocks(p, steps_of(w, p), 0, tiles, block, p.outputs, inputs, [&](const TileBlock& now) {
    add_products(p, now, gradients, inputs.data<float>(), sums, now.first == 0, steps_of(w, p));
  });
  weights_from_sums(p, sums, 0, p.outputs, w);
}

}  // namespace

bool convolve_by_tiles(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                       const ConvGeometry& g) {
  if (!applies(y, x, w, g)) return false;
  const bool back = map == ConvMap::Input;
  const int64_t reach = w.size(2) - 1;
  const TiledImages p = back ? cut_best(y, x, reach, reach - g.padding[0], reach - g.padding[1])
                             : cut_best(x, y, reach, g.padding[0], g.padding[1]);
  const int64_t tiles = x.size(0) * p.tile_rows * p.tile_columns;
  if (tiles < (map == ConvMap::Weight ? kFewestForWeights : kFewestForImages)) return false;
  if (map == ConvMap::Weight) weight_from_images(p, tiles, w);
  else convolve_images(map, p, tiles, w, bias.defined() ? bias.data<float>() : nullptr);
  return true;
}

}  // namespace facula::cpu

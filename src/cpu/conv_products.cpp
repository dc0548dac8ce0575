// Weight gradients of channels-last convolutions as matrix products: of the result's gradient, a matrix of
// positions by outputs as it lies in memory, and the windows, a matrix of positions by taps times channels. Where the
// kernel has one tap the windows are the image itself; else a block of positions is gathered at a time, small enough
// to stay in cache and long enough that the sums, which every block reads and writes, cost little.
#include "cpu/conv_products.h"

#include <cstring>

#include "core/parallel.h"
#include "ops/matmul.h"

namespace facula::cpu {
namespace {

constexpr int64_t kBlockBytes = 4 << 20;
constexpr int64_t kShortestBlock = 128;  // positions

struct Problem {
  const char* image;  // N, height, width, channels
  int64_t item, channels, outputs, height, width, out_height, out_width, kernel_height, kernel_width;
  const ConvGeometry& geometry;

  int64_t taps() const { return kernel_height * kernel_width; }
  int64_t row_bytes() const { return taps() * channels * item; }
};

/// The pixels that the kernel sees at position `at` (of all images, row by row), one after the other; zeros outside.
void gather_window(const Problem& p, int64_t at, char* to) {
  const ConvGeometry& g = p.geometry;
  const int64_t x0 = at % p.out_width * g.stride[1] - g.padding[1], line = at / p.out_width;
  const int64_t y0 = line % p.out_height * g.stride[0] - g.padding[0], image = line / p.out_height;
  const int64_t pixel = p.channels * p.item;
  for (int64_t r = 0; r < p.kernel_height; ++r) {
    const int64_t y = y0 + r * g.dilation[0];
    const bool row_inside = y >= 0 && y < p.height;
    const char* row = p.image + (image * p.height + (row_inside ? y : 0)) * p.width * pixel;
    for (int64_t s = 0; s < p.kernel_width; ++s, to += pixel) {
      const int64_t x = x0 + s * g.dilation[1];
      if (row_inside && x >= 0 && x < p.width) std::memcpy(to, row + x * pixel, static_cast<size_t>(pixel));
      else std::memset(to, 0, static_cast<size_t>(pixel));
    }
  }
}

bool is_pointwise(const Problem& p) {
  const ConvGeometry& g = p.geometry;
  return p.taps() == 1 && g.stride[0] == 1 && g.stride[1] == 1 && g.padding[0] == 0 && g.padding[1] == 0;
}

/// sums (outputs x taps x channels) = or += transposed `gradient` (positions x outputs) times `windows`.
void add_product(const Problem& p, const Tensor& sums, const char* gradient, const char* windows, int64_t positions,
                 bool first) {
  MatrixProduct m;
  m.dtype = sums.dtype();
  m.rows = p.outputs;
  m.columns = p.taps() * p.channels;
  m.inner = positions;
  m.a = {gradient, 0, 1, p.outputs};
  m.b = {windows, 0, m.columns, 1};
  m.out = sums.data<char>();
  m.out_row = m.columns;
  m.beta = first ? 0 : 1;
  matrix_product_kernel(kCPU, m);
}

void sum_products(const Problem& p, const Tensor& sums, const char* gradient, int64_t positions) {
  if (is_pointwise(p)) return add_product(p, sums, gradient, p.image, positions, true);
  const int64_t block = std::min(positions, std::max(kShortestBlock, kBlockBytes / p.row_bytes()));
  const Tensor windows = facula::empty({block * p.row_bytes()}, DType::UInt8);
  for (int64_t from = 0; from < positions; from += block) {
    const int64_t count = std::min(block, positions - from);
    char* to = windows.data<char>();
    parallel_for(0, count, std::max<int64_t>(1, kGrain / (p.taps() * p.channels)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) gather_window(p, from + i, to + i * p.row_bytes());
    });
    add_product(p, sums, gradient + from * p.outputs * p.item, to, count, from == 0);
  }
}

}  // namespace

bool weight_by_products(const Tensor& y, const Tensor& x, const Tensor& w, const ConvGeometry& g) {
  constexpr int64_t kFewChannels = 16;  // below, products are bound by memory
  const bool fits = x.dim() == 4 && x.dtype() == DType::Float32 && g.groups == 1 && w.is_contiguous() &&
                    x.is_contiguous(MemoryFormat::ChannelsLast) && y.is_contiguous(MemoryFormat::ChannelsLast) &&
                    x.size(1) >= kFewChannels && w.size(0) >= kFewChannels;
  if (!fits) return false;
  const Problem p{x.data<char>(), x.item_size(), x.size(1), w.size(0), x.size(2), x.size(3),
                  y.size(2),      y.size(3),     w.size(2), w.size(3), g};
  const int64_t positions = y.size(0) * y.size(2) * y.size(3);
  if (p.taps() == 1) {
    sum_products(p, w, y.data<char>(), positions);
    return true;
  }
  const Tensor sums = facula::empty({p.outputs, p.kernel_height, p.kernel_width, p.channels}, w.dtype());
  sum_products(p, sums, y.data<char>(), positions);
  const int64_t c = p.channels;
  copy_elements(w, make_view(sums, w.sizes(), {p.taps() * c, 1, p.kernel_width * c, c}, 0, false));
  return true;
}

}  // namespace facula::cpu

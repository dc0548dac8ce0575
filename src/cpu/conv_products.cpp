// Convolutions of channels-last images as matrix products: of the windows, a matrix of positions by taps times
// channels, and the other images or the weights as they lie in memory. Where the kernel has one tap the windows are the
// image itself; else a block of positions is gathered at a time, small enough to stay in cache and long enough that
// what every block reads again costs little. Gradients of images are convolutions of the results' gradients with the
// windows turned around; where windows lie apart, rows of products are added to the pixels that they come from.
#include "cpu/conv_products.h"

#include <cstring>

#include "core/parallel.h"
#include "cpu/gemm.h"
#include "cpu/packed_weights.h"
#include "ops/matmul.h"

namespace facula::cpu {
namespace {

constexpr int64_t kBlockBytes = 4 << 20;
constexpr int64_t kShortestBlock = 128;  // positions

struct ImageWindows {
  const char* image;  // N, height, width, channels
  int64_t item, channels, outputs, height, width, out_height, out_width, kernel_height, kernel_width;
  const ConvGeometry& geometry;
  bool turned = false;  // windows are read from their last tap to the first

  int64_t taps() const { return kernel_height * kernel_width; }
  int64_t row_bytes() const { return taps() * channels * item; }
};

/// f(place in the window, first pixel of the image or null outside, count) for what lies together in both, at position
/// `at` of all images, row by row.
template <class F>
[[gnu::always_inline]] inline void for_runs(const ImageWindows& p, int64_t at, F f) {
  const ConvGeometry& g = p.geometry;
  const int64_t x0 = at % p.out_width * g.stride[1] - g.padding[1], line = at / p.out_width;
  const int64_t y0 = line % p.out_height * g.stride[0] - g.padding[0], image = line / p.out_height;
  const int64_t pixel = p.channels * p.item, width = p.kernel_width;
  for (int64_t r = 0; r < p.kernel_height; ++r) {
    const int64_t y = y0 + (p.turned ? p.kernel_height - 1 - r : r) * g.dilation[0];
    const char* row = p.image + (image * p.height + y) * p.width * pixel;
    const int64_t place = r * width * pixel;
    if (y < 0 || y >= p.height) {
      f(place, nullptr, width);
    } else if (p.turned || g.dilation[1] != 1) {
      for (int64_t s = 0; s < width; ++s) {
        const int64_t x = x0 + (p.turned ? width - 1 - s : s) * g.dilation[1];
        f(place + s * pixel, x >= 0 && x < p.width ? row + x * pixel : nullptr, 1);
      }
    } else {
      const int64_t from = std::clamp<int64_t>(-x0, 0, width), to = std::clamp<int64_t>(p.width - x0, from, width);
      if (from > 0) f(place, nullptr, from);
      if (from < to) f(place + from * pixel, row + (x0 + from) * pixel, to - from);
      if (to < width) f(place + to * pixel, nullptr, width - to);
    }
  }
}

/// The pixels that the kernel sees at a position, one after the other; zeros outside.
void gather_window(const ImageWindows& p, int64_t at, char* to) {
  const int64_t pixel = p.channels * p.item;
  for_runs(p, at, [&](int64_t place, const char* from, int64_t count) {
    const auto bytes = static_cast<size_t>(count * pixel);
    if (from) std::memcpy(to + place, from, bytes);
    else std::memset(to + place, 0, bytes);
  });
}

/// Positions whose windows are gathered at a time.
int64_t block_of(const ImageWindows& p, int64_t positions) {
  return std::min(positions, std::max(kShortestBlock, kBlockBytes / p.row_bytes()));
}

bool is_pointwise(const ImageWindows& p) {
  const ConvGeometry& g = p.geometry;
  return p.taps() == 1 && g.stride[0] == 1 && g.stride[1] == 1 && g.padding[0] == 0 && g.padding[1] == 0;
}

/// f(first position, count, windows of these positions).
template <class F>
void for_blocks(const ImageWindows& p, int64_t positions, F f) {
  if (is_pointwise(p)) return f(0, positions, p.image);
  const int64_t block = block_of(p, positions);
  const Tensor windows = facula::empty({block * p.row_bytes()}, DType::UInt8);
  for (int64_t from = 0; from < positions; from += block) {
    const int64_t count = std::min(block, positions - from);
    char* to = windows.data<char>();
    parallel_for(0, count, std::max<int64_t>(1, kGrain / (p.taps() * p.channels)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) gather_window(p, from + i, to + i * p.row_bytes());
    });
    f(from, count, static_cast<const char*>(to));
  }
}

/// sums (outputs x taps x channels) = or += transposed `gradient` (positions x outputs) times `windows`.
void add_product(const ImageWindows& p, const Tensor& sums, const char* gradient, const char* windows,
                 int64_t positions, bool first) {
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

/// Weights with their dimensions in another order, row by row: as they lie where that is so already.
Tensor ordered(const Tensor& w, const int (&order)[4]) {
  Dims sizes, strides;
  for (int d : order) {
    sizes.push_back(w.size(d));
    strides.push_back(w.stride(d));
  }
  const Tensor view = make_view(w, sizes, strides, 0, false);
  if (view.is_contiguous()) return view;
  Tensor made = facula::empty(sizes, w.dtype());
  copy_elements(made, view);
  return made;
}

/// The results at every position: windows times weights, which may be packed.
void write_products(const ImageWindows& p, const Tensor& result, const MatrixOperand& weights,
                    const PackedColumns& packed, const Tensor& bias) {
  const int64_t positions = result.size(0) * p.out_height * p.out_width;
  for_blocks(p, positions, [&](int64_t from, int64_t count, const char* windows) {
    MatrixProduct m;
    m.dtype = result.dtype();
    m.rows = count;
    m.columns = p.outputs;
    m.inner = p.taps() * p.channels;
    m.a = {windows, 0, m.inner, 1};
    m.b = weights;
    m.out = result.data<char>() + from * p.outputs * p.item;
    m.out_row = p.outputs;
    if (bias.defined()) m.bias = bias.data<char>();
    if (packed.data) own_product(m, packed);
    else matrix_product_kernel(kCPU, m);
  });
}

/// The forward map: each output's taps and channels are a column of the product.
void results_from_images(const ImageWindows& p, const Tensor& y, const Tensor& w, const Tensor& bias) {
  // fewer positions, also in the last block, are another kernel's
  constexpr int64_t kFewPositions = 16;
  const int64_t positions = y.size(0) * p.out_height * p.out_width;
  const int64_t block = is_pointwise(p) ? positions : block_of(p, positions), rest = positions % block;
  const bool many = block > kFewPositions && (rest == 0 || rest > kFewPositions);
  MatrixProduct m;  // what is packed
  m.inner = p.taps() * p.channels;
  m.columns = p.outputs;
  auto in_order = [&](const Tensor& weights) { return MatrixOperand{weights.data<char>(), 0, 1, m.inner}; };
  Tensor cached;
  if (many && has_own_gemm()) {
    Dims words{static_cast<int64_t>(PackedAs::Windows)};
    for (int64_t d = 0; d < 4; ++d) words.push_back(w.size(d));
    for (int64_t d = 0; d < 4; ++d) words.push_back(w.stride(d));
    cached = packed_weight({w.storage(), w.data<char>(), words}, packed_bytes(m), [&](char* to) {
      const Tensor weights = ordered(w, {0, 2, 3, 1});
      m.b = in_order(weights);
      pack_columns(m, reinterpret_cast<float*>(to));
    });
  }
  if (cached.defined()) return write_products(p, y, {}, as_packed(m, cached.data<float>()), bias);
  const Tensor weights = ordered(w, {0, 2, 3, 1});
  write_products(p, y, in_order(weights), {}, bias);
}

/// Each pixel becomes the bias, or zero.
void fill_pixels(const ImageWindows& p, char* image, int64_t pixels, const Tensor& bias) {
  const auto bytes = static_cast<size_t>(p.channels * p.item);
  parallel_for(0, pixels, std::max<int64_t>(1, kGrain / p.channels), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (bias.defined()) std::memcpy(image + static_cast<size_t>(i) * bytes, bias.data(), bytes);
      else std::memset(image + static_cast<size_t>(i) * bytes, 0, bytes);
    }
  });
}

/// Adds rows of products (one per position) to channels [begin, end) of the pixels that its windows show.
void add_window(const ImageWindows& p, int64_t at, const float* row, int64_t begin, int64_t end) {
  for_runs(p, at, [&](int64_t place, const char* pixel, int64_t count) {
    if (!pixel) return;
    float* sum = reinterpret_cast<float*>(const_cast<char*>(pixel));
    const float* add = row + place / p.item;
    const bool all = end - begin == p.channels;
    for (int64_t i = 0; i < (all ? 1 : count); ++i, sum += p.channels, add += p.channels)
      for (int64_t c = begin; c < (all ? count * end : end); ++c) sum[c] += add[c];
  });
}

/// Threads divide the channels, so that no two write to one pixel's, or the positions where windows do not overlap.
void add_windows(const ImageWindows& p, int64_t first, int64_t count, const float* rows, bool apart) {
  const int64_t length = p.taps() * p.channels, channels = p.channels;
  constexpr int64_t kPart = 16;  // a cache line
  const int64_t parts = apart ? count : (channels + kPart - 1) / kPart,
                work = p.taps() * (apart ? channels : count * kPart);
  parallel_for(0, parts, std::max<int64_t>(1, kGrain / work), [&](int64_t from, int64_t to) {
    const int64_t begin = apart ? 0 : from * kPart, end = apart ? channels : std::min(to * kPart, channels);
    for (int64_t i = apart ? from : 0; i < (apart ? to : count); ++i)
      add_window(p, first + i, rows + i * length, begin, end);
  });
}

/// The image (`p.image`) from the results' gradients, where windows lie apart.
void spread_products(const ImageWindows& p, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
  const Tensor weights = ordered(w, {0, 2, 3, 1});
  const int64_t positions = y.size(0) * p.out_height * p.out_width;
  const int64_t block = block_of(p, positions);
  const Tensor rows = facula::empty({block, p.taps() * p.channels}, x.dtype());
  fill_pixels(p, x.data<char>(), x.size(0) * p.height * p.width, bias);
  for (int64_t from = 0; from < positions; from += block) {
    MatrixProduct m;
    m.dtype = x.dtype();
    m.rows = std::min(block, positions - from);
    m.inner = p.outputs;
    m.columns = p.taps() * p.channels;
    m.a = {y.data<char>() + from * p.outputs * p.item, 0, p.outputs, 1};
    m.b = {weights.data<char>(), 0, m.columns, 1};
    m.out = rows.data<char>();
    m.out_row = m.columns;
    matrix_product_kernel(kCPU, m);
    add_windows(p, from, m.rows, rows.data<float>(), windows_are_apart(w, p.geometry));
  }
}

void weight_from_images(const ImageWindows& p, const Tensor& y, const Tensor& w) {
  const int64_t positions = y.size(0) * p.out_height * p.out_width, c = p.channels;
  const bool as_it_lies = p.taps() == 1 && w.is_contiguous();
  const Tensor sums = as_it_lies ? w : facula::empty({p.outputs, p.kernel_height, p.kernel_width, c}, w.dtype());
  for_blocks(p, positions, [&](int64_t from, int64_t count, const char* windows) {
    add_product(p, sums, y.data<char>() + from * p.outputs * p.item, windows, count, from == 0);
  });
  if (!as_it_lies) copy_elements(w, make_view(sums, w.sizes(), {p.taps() * c, 1, p.kernel_width * c, c}, 0, false));
}

/// The gradients of images whose windows lie next to each other: a convolution of `y` with turned windows.
void image_from_results(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvGeometry& g) {
  ConvGeometry turned = g;
  for (size_t d = 0; d < 2; ++d)
    turned.padding[d] = g.dilation[d] * (w.size(static_cast<int64_t>(d) + 2) - 1) - g.padding[d];
  const ImageWindows p{y.data<char>(), y.item_size(), y.size(1), x.size(1), y.size(2), y.size(3),
                       x.size(2),      x.size(3),     w.size(2), w.size(3), turned,    true};
  const Tensor weights = ordered(w, {2, 3, 0, 1});
  write_products(p, x, {weights.data<char>(), 0, x.size(1), 1}, {}, bias);
}

}  // namespace

bool convolve_by_products(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                          const ConvGeometry& g) {
  constexpr int64_t kFewChannels = 16, kShortRow = 16;  // below, products are bound by memory
  const bool fits = x.dim() == 4 && x.dtype() == DType::Float32 && g.groups == 1 &&
                    x.is_contiguous(MemoryFormat::ChannelsLast) && y.is_contiguous(MemoryFormat::ChannelsLast) &&
                    w.numel() / w.size(0) >= kShortRow && w.size(0) >= kFewChannels &&
                    (!bias.defined() || bias.is_contiguous());
  if (!fits) return false;
  const ImageWindows p{x.data<char>(), x.item_size(), x.size(1), w.size(0), x.size(2), x.size(3),
                       y.size(2),      y.size(3),     w.size(2), w.size(3), g};
  if (map == ConvMap::Weight) {
    weight_from_images(p, y, w);
  } else if (map == ConvMap::Output) {
    results_from_images(p, y, w, bias);
  } else if (g.stride[0] == 1 && g.stride[1] == 1) {
    image_from_results(y, x, w, bias, g);
  } else {
    spread_products(p, y, x, w, bias);
  }
  return true;
}

}  // namespace facula::cpu

// Convolution on the CPU: by tiles or products of channels-last images where they pay, by oneDNN where it has a
// primitive, else matrix products with columns of windows.
#include "cpu/convolution.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/parallel.h"
#include "cpu/backend.h"
#include "cpu/conv_products.h"
#include "cpu/conv_winograd.h"
#include "cpu/gemm.h"
#include "cpu/onednn.h"
#include "cpu/onednn_conv.h"
#include "ops/conv.h"
#include "ops/matmul.h"
#include "raw_ops.h"

namespace facula::cpu {
namespace {

Tensor matrix(const Tensor& of, int64_t offset, int64_t rows, int64_t columns, int64_t row_stride,
              int64_t column_stride) {
  return make_view(of, {rows, columns}, {row_stride, column_stride}, offset, false);
}

void set_zero(const Tensor& t) { std::memset(t.data<char>(), 0, static_cast<size_t>(t.numel() * t.item_size())); }

// Contiguous tensors of one dtype that matrix products support.
void convolve_columns(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const ConvGeometry& g) {
  int64_t inputs = x.size(1) / g.groups, outputs = y.size(1) / g.groups;
  IntList out = y.sizes().slice(2, g.stride.size()), kernel = w.sizes().slice(2, g.stride.size());
  Windows windows = windows_of(x, inputs, out, kernel, g);
  int64_t rows = windows.rows(), positions = windows.columns(), item = x.item_size();
  Tensor columns = facula::empty({rows, positions}, x.dtype(), x.device());
  Tensor part = map == ConvMap::Weight ? facula::empty({outputs, rows}, x.dtype(), x.device()) : Tensor();
  if (map != ConvMap::Output) set_zero(map == ConvMap::Input ? x : w);
  for (int64_t n = 0; n < x.size(0); ++n) {
    for (int64_t group = 0; group < g.groups; ++group) {
      char* image = x.data<char>() + (n * x.stride(0) + group * inputs * x.stride(1)) * item;
      Tensor weight = matrix(w, group * outputs * rows, outputs, rows, rows, 1);
      Tensor result = matrix(y, (n * y.size(1) + group * outputs) * positions, outputs, positions, positions, 1);
      if (map == ConvMap::Input) {
        ops::product_into(columns, matrix(weight, 0, rows, outputs, 1, rows), result);
        col2im_kernel(kCPU, x.dtype(), image, columns.data(), windows);
        continue;
      }
      im2col_kernel(kCPU, x.dtype(), columns.data(), image, windows);
      if (map == ConvMap::Output) {
        ops::product_into(result, weight, columns);
      } else {
        ops::product_into(part, result, matrix(columns, 0, positions, rows, 1, positions));
        accumulate_kernel(kCPU, weight, part);
      }
    }
  }
}

Tensor plain(const Tensor& t, DType dtype, bool copy) {
  if (t.is_contiguous() && t.dtype() == dtype) return t;
  Tensor made = facula::empty(t.sizes(), dtype, t.device());
  if (copy) copy_elements(made, t);
  return made;
}

// Brings everything into plain float32 (or the dtype itself), runs, and brings the result back.
void convolve_plain(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                    const ConvGeometry& g) {
  DType dtype = compute_dtype(x.dtype());
  Tensor py = plain(y, dtype, map != ConvMap::Output), px = plain(x, dtype, map != ConvMap::Input),
         pw = plain(w, dtype, map != ConvMap::Weight);
  const Tensor& result = map == ConvMap::Output ? y : map == ConvMap::Input ? x : w;
  const Tensor& made = map == ConvMap::Output ? py : map == ConvMap::Input ? px : pw;
  if (x.numel() == 0 || y.numel() == 0 || w.numel() == 0) set_zero(made);
  else convolve_columns(map, py, px, pw, g);
  if (bias.defined()) add_channels_kernel(kCPU, made, plain(bias, dtype, true));
  if (!made.is_same(result)) copy_elements(result, made);
}

Tensor wide_copy(const Tensor& t, bool filled) {
  Tensor wide = facula::empty_strided(t.sizes(), t.strides(), DType::Float32, t.device());
  if (filled) copy_elements(wide, t);
  return wide;
}

/// oneDNN's gradients of narrow images whose windows are grouped and step over pixels take 20 to 80 times as long as
/// those of float32.
bool is_slow_narrow(const ConvGeometry& g) {
  return g.groups > 1 && std::any_of(g.stride.begin(), g.stride.end(), [](int64_t s) { return s != 1; });
}

/// Images of narrow floats from their results, in float32: the bias of a transposed convolution comes after oneDNN's
/// part, and results are rounded once.
bool convolve_wide(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvGeometry& g) {
  const Tensor wide = wide_copy(x, false), offset = bias.defined() ? plain(bias, DType::Float32, true) : bias;
  const bool all_wide = is_slow_narrow(g);
  if (!onednn::convolve(ConvMap::Input, all_wide ? wide_copy(y, true) : y, wide, all_wide ? wide_copy(w, true) : w,
                        offset, g))
    return false;
  copy_elements(x, wide);
  return true;
}

// Without oneDNN the only other way is plain images, which takes 1 to 2.4 times as long with vectors of 16 bytes, too.
const ConvPolicy& policy() {
  static constexpr ConvPolicy without = {.tiles = true,
                                         .weight_channels = 0,
                                         .pointwise_percent = 1 << 20,
                                         .heavy_weights = 0,
                                         .gathered_channels = 0,
                                         .gathered_step = 0,
                                         .spread = true};
  return onednn::built_in ? conv_policy : without;
}

bool reaches(int64_t value, int64_t fewest) { return fewest >= 0 && value >= fewest; }

bool products_pay(ConvMap map, const Tensor& y, const Tensor& w, const ConvGeometry& g) {
  constexpr int64_t kFewPositions = 1 << 10;
  const ConvPolicy& p = policy();
  if (map == ConvMap::Weight) return reaches(w.size(1), p.weight_channels);
  if (w.dim() != 4) return false;
  const int64_t results = w.size(map == ConvMap::Output ? 0 : 1);
  const int64_t tiled = (results + gemm_tile.columns - 1) / gemm_tile.columns * gemm_tile.columns;
  if (w.size(2) * w.size(3) == 1) {
    const bool heavy = reaches(w.numel(), p.heavy_weights) && y.numel() / y.size(1) <= kFewPositions;
    return heavy || 100 * tiled <= p.pointwise_percent * results || results <= p.pointwise_results;
  }
  if (reaches(std::min(w.size(0), w.size(1)), p.gathered_channels)) return true;
  if (map == ConvMap::Output) return reaches(std::min(g.stride[0], g.stride[1]), p.gathered_step);
  return p.spread && windows_are_apart(w, g);
}

bool keeps_spread() { return policy().spread; }

// Where the steps are far longer than the windows, most pixels belong to none. oneDNN spends 60 to 120 ns on each of
// them, and columns of windows nothing but setting it to zero.
bool leaves_most_out(const Tensor& y, const Tensor& x, const Tensor& w) {
  constexpr int64_t kMost = 16;
  const int64_t pixels = x.numel() / x.size(1), taps = w.numel() / (w.size(0) * w.size(1));
  return pixels > kGrain && y.numel() / std::max<int64_t>(y.size(1), 1) <= pixels / kMost / taps;
}

void convolution_cpu(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                     const ConvGeometry& g) {
  LockRelease release(y.numel() + x.numel() > kGrain);
  if (x.numel() != 0 && w.numel() != 0 && !leaves_most_out(y, x, w)) {
    if (convolve_small(map, y, x, w, bias, g)) return;
    if (policy().tiles && convolve_by_tiles(map, y, x, w, bias, g)) return;
    if (products_pay(map, y, w, g) && convolve_by_products(map, y, x, w, bias, g)) return;
    const bool wide = map == ConvMap::Input && is_half(x.dtype()) && (bias.defined() || is_slow_narrow(g));
    if (wide ? convolve_wide(y, x, w, bias, g) : onednn::convolve(map, y, x, w, bias, g)) return;
  }
  convolve_plain(map, y, x, w, bias, g);
}

std::atomic<bool> private_layouts{true};

/// Other narrow floats are converted for every convolution, whose library calls take plain images then.
bool multiplies(DType dtype) {
#if defined(__x86_64__)
  static const bool bfloat16 = __builtin_cpu_supports("avx512bf16");
  if (dtype == DType::BFloat16) return onednn::built_in && bfloat16;
#endif
  return dtype == DType::Float32;
}

// Few channels do not fill the vectors that channels-last kernels run along, and small images are not worth a reorder.
bool prefers_channels_last(DType dtype, int64_t channels, int64_t numel) {
  constexpr int64_t kFewChannels = 8, kSmall = 1 << 14;
  return private_layouts.load(std::memory_order_relaxed) && multiplies(dtype) && channels >= kFewChannels &&
         numel >= kSmall && (!onednn::built_in || onednn::available());
}

}  // namespace

bool set_private_layouts(bool wanted) { return private_layouts.exchange(wanted); }

void register_convolution() {
  convolution_kernel.set(DeviceType::CPU, convolution_cpu);
  keeps_spread_channels_last = keeps_spread;
  backend_of(DeviceType::CPU).prefers_channels_last = prefers_channels_last;
}

}  // namespace facula::cpu

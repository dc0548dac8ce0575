// Convolutions of bytes: oneDNN's where the processor sums bytes exactly, else those of floating-point numbers that
// hold every sum.
#include "ops/quantize.h"

#include <cstring>

#include "core/parallel.h"
#include "cpu/onednn_conv.h"
#include "ops/contiguous.h"

namespace facula::cpu {
namespace {

void convolve_bytes(const Tensor& out, const Tensor& x, const Tensor& w, const ConvGeometry& geometry) {
  if (w.numel() == 0) {  // sums of nothing
    std::memset(out.data<char>(), 0, static_cast<size_t>(out.numel() * out.item_size()));
    return;
  }
  LockRelease release(x.numel() + out.numel() > kGrain);
  if (onednn::convolve(ConvMap::Output, out, x, w, Tensor(), geometry)) return;
  constexpr int64_t kLargestProduct = 255 * 128, kExact = int64_t{1} << 24;
  const bool fits = w.numel() / w.size(0) <= kExact / kLargestProduct;
  const DType wide = fits ? DType::Float32 : DType::Float64;
  Tensor sums = facula::empty(out.sizes(), wide);
  convolution_kernel(kCPU, ConvMap::Output, sums, ops::as_contiguous(x, wide), ops::as_contiguous(w, wide), Tensor(),
                     geometry);
  copy_elements(out, sums);
}

}  // namespace

void register_quantize() { int8_convolution_kernel.set(DeviceType::CPU, convolve_bytes); }

}  // namespace facula::cpu

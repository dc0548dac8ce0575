// Shapes of the transforms.
#include "ops/fft.h"

#include <algorithm>

#include "ops/contiguous.h"
#include "ops/sequence.h"
#include "raw_ops.h"

namespace facula::ops {
namespace {

Tensor transformed(const Tensor& self, const Dims& sizes, DType dtype, IntList dims, FftKind kind, double scale) {
  Tensor result = facula::empty(sizes, dtype, self.device());
  if (result.is_meta() || result.numel() == 0) return result;
  fft_kernel(self.device(), result, as_contiguous(self), dims, kind, scale);
  return result;
}

// The public transforms have wrapped their dimensions already.
void check_dims(const Tensor& self, IntList dims, bool halved) {
  bool inside = std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return 0 <= d && d < self.dim(); });
  FACULA_CHECK(inside && !(halved && dims.empty()), ErrorKind::Index, "fft: dimensions are in [0, ", self.dim(),
               "), got ", dims);
}

// And converted their input to one of these.
void check_dtype(const Tensor& self, bool complex) {
  const DType single = complex ? DType::Complex64 : DType::Float32,
              twice = complex ? DType::Complex128 : DType::Float64, half = complex ? DType::Complex32 : DType::Float16;
  const bool has_half = self.device().type == DeviceType::CUDA;
  FACULA_CHECK(self.dtype() == single || self.dtype() == twice || (has_half && self.dtype() == half),
               ErrorKind::NotImplemented, "fft: ", single, " or ", twice, ", got ", self.dtype());
}

Tensor frequencies(int64_t count, std::optional<DType> dtype, std::optional<Device> device, const Out& out,
                   std::initializer_list<Progression> parts) {
  DType chosen = dtype.value_or(out.given() ? DType::Float64 : default_dtype());
  FACULA_CHECK(is_inexact(chosen), ErrorKind::Runtime, "fft.fftfreq: expected a floating point or complex dtype, got ",
               chosen);
  return make_progressions(count, chosen, device.value_or(out.device_or(kCPU)), Out(), parts);
}

}  // namespace

Tensor _fft_c2c(const Tensor& self, IntList dim, double scale, bool forward) {
  check_dims(self, dim, false);
  if (dim.empty()) return mul(Operand(self), Operand(scale));
  check_dtype(self, true);
  return transformed(self, self.sizes(), self.dtype(), dim, forward ? FftKind::Forward : FftKind::Backward, scale);
}

Tensor _fft_r2c(const Tensor& self, IntList dim, double scale) {
  check_dims(self, dim, true);
  check_dtype(self, false);
  Dims sizes(self.sizes());
  int64_t& last = sizes[static_cast<size_t>(dim.back())];
  FACULA_CHECK(last > 0, ErrorKind::Runtime, "fft: expected at least one element along dimension ", dim.back(),
               ", got shape ", self.sizes());
  last = last / 2 + 1;
  return transformed(self, sizes, complex_dtype(self.dtype()), dim, FftKind::RealToHalf, scale);
}

// Half the work along the last of the dimensions; the others see complex numbers.
Tensor _fft_real(const Tensor& self, IntList dim, double scale, bool forward) {
  check_dims(self, dim, true);
  const Tensor half = _fft_r2c(self, dim.slice(dim.size() - 1, 1), scale);
  const Tensor result = facula::empty(self.sizes(), half.dtype(), self.device());
  if (result.is_meta() || result.numel() == 0) return result;
  fft_mirror_kernel(self.device(), result, half, dim.back(), !forward);
  const IntList others = dim.slice(0, dim.size() - 1);
  if (!others.empty())
    fft_kernel(self.device(), result, result, others, forward ? FftKind::Forward : FftKind::Backward, 1);
  return result;
}

Tensor _fft_c2r(const Tensor& self, IntList dim, double scale, int64_t last_size) {
  check_dims(self, dim, true);
  check_dtype(self, true);
  FACULA_CHECK(last_size > 0, ErrorKind::Runtime, "fft: the last size is positive, got ", last_size);
  Dims sizes(self.sizes());
  FACULA_CHECK(self.size(dim.back()) == last_size / 2 + 1, ErrorKind::Runtime, "fft: half of the last size ", last_size,
               ", got ", self.size(dim.back()));
  sizes[static_cast<size_t>(dim.back())] = last_size;
  return transformed(self, sizes, real_dtype(self.dtype()), dim, FftKind::HalfToReal, scale);
}

Tensor fft_fftfreq(int64_t n, double d, std::optional<DType> dtype, std::optional<Device> device, const Out& out) {
  FACULA_CHECK(n > 0, ErrorKind::Runtime, "fft.fftfreq: n is positive, got ", n);
  const double step = 1 / (static_cast<double>(n) * d);
  return frequencies(n, dtype, device, out, {{n - n / 2, 0, step, 0}, {n, 0, step, n}});
}

Tensor fft_rfftfreq(int64_t n, double d, std::optional<DType> dtype, std::optional<Device> device, const Out& out) {
  FACULA_CHECK(n > 0, ErrorKind::Runtime, "fft.rfftfreq: n is positive, got ", n);
  return frequencies(n / 2 + 1, dtype, device, out, {{n / 2 + 1, 0, 1 / (static_cast<double>(n) * d), 0}});
}

}  // namespace facula::ops

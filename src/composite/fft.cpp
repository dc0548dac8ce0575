// The public transforms: dimensions, sizes and norms brought into the form of the three private ones.
#include <cmath>

#include "core/checked.h"
#include "core/near_name.h"
#include "functions.h"

namespace facula {
namespace {

enum class Direction { Forward, Backward };

/// What one public transform does; `op` names it in errors.
struct Transform {
  const char* op;
  Direction direction;
};

double norm_scale(const Transform& t, std::optional<std::string_view> norm, int64_t count) {
  std::string_view mode = norm.value_or("backward");
  FACULA_CHECK(mode == "backward" || mode == "ortho" || mode == "forward", ErrorKind::Runtime, t.op, ": norm must be ",
               one_of({"backward", "ortho", "forward"}, mode));
  double n = static_cast<double>(count);
  if (mode == "ortho") return 1 / std::sqrt(n);
  return (mode == "forward") == (t.direction == Direction::Forward) ? 1 / n : 1;
}

/// Dimensions of a transform and the sizes that the signal is brought to.
struct TransformExtent {
  Dims dims, sizes;
  int64_t count(const char* op) const { return product_of(sizes).get(op, "the number of points", sizes); }
};

TransformExtent extent(const Transform& t, const Tensor& self, std::optional<IntList> s, std::optional<IntList> dim) {
  TransformExtent e;
  if (dim) {
    std::vector<bool> seen(static_cast<size_t>(std::max<int64_t>(self.dim(), 1)));
    for (int64_t d : *dim) {
      int64_t at = wrap_dim(d, self.dim(), t.op);
      FACULA_CHECK(!seen[static_cast<size_t>(at)], ErrorKind::Runtime, t.op, ": dims must be unique, got ", *dim);
      seen[static_cast<size_t>(at)] = true;
      e.dims.push_back(at);
    }
    FACULA_CHECK(!s || s->size() == dim->size(), ErrorKind::Runtime, t.op, ": expected one size per dimension, got s ",
                 *s, " and dim ", *dim);
  } else {
    int64_t count = s ? static_cast<int64_t>(s->size()) : self.dim();
    FACULA_CHECK(count <= self.dim(), ErrorKind::Runtime, t.op,
                 ": expected at most one size per dimension of the tensor of shape ", self.sizes(), ", got ", *s);
    for (int64_t d = self.dim() - count; d < self.dim(); ++d) e.dims.push_back(d);
  }
  FACULA_CHECK(self.dim() > 0 || e.dims.empty(), ErrorKind::Index, t.op,
               ": dim must name a dimension of the tensor, got dim=", dim ? (*dim)[0] : -1,
               " for a tensor without dimensions");
  for (size_t i = 0; i < e.dims.size(); ++i) e.sizes.push_back(s && (*s)[i] != -1 ? (*s)[i] : self.size(e.dims[i]));
  return e;
}

void check_sizes(const Transform& t, const TransformExtent& e) {
  for (int64_t s : e.sizes)
    FACULA_CHECK(s >= 1, ErrorKind::Runtime, t.op, ": at least one data point for each dimension is needed, got ",
                 e.sizes);
}

Tensor resized(const Tensor& self, const TransformExtent& e) {
  Tensor x = self;
  for (size_t i = 0; i < e.dims.size(); ++i) {
    int64_t d = e.dims[i], have = x.size(d), want = e.sizes[i];
    if (want < have) x = slice(x, d, 0, want, 1);
    if (want <= have) continue;
    Dims shape(x.sizes());
    shape[static_cast<size_t>(d)] = want - have;
    x = cat({x, zeros(shape, x.dtype(), x.device())}, d);
  }
  return x;
}

/// Half precision is for CUDA, as in PyTorch.
Tensor inexact(const Transform& t, const Tensor& self) {
  const bool half = self.dtype() == DType::Float16 || self.dtype() == DType::Complex32;
  const bool known = half ? self.device().type == DeviceType::CUDA : !is_half(self.dtype()) && !is_float8(self.dtype());
  FACULA_CHECK(known, ErrorKind::Runtime, t.op, ": not implemented for dtype ", self.dtype());
  return is_bits(self.dtype()) ? to_dtype(self, default_dtype()) : self;
}

Tensor as_complex(const Transform& t, const Tensor& self) {
  Tensor x = inexact(t, self);
  return x.is_complex() ? x : to_dtype(x, complex_dtype(x.dtype()));
}

Tensor as_real(const Transform& t, const Tensor& self) {
  FACULA_CHECK(!self.is_complex(), ErrorKind::Runtime, t.op, ": expected a real input tensor, got ", self.dtype());
  return inexact(t, self);
}

using Sizes = std::optional<IntList>;
using Norm = std::optional<std::string_view>;

Tensor complex_transform(const Transform& t, const Tensor& self, Sizes s, Sizes dim, Norm norm) {
  TransformExtent e = extent(t, self, s, dim);
  check_sizes(t, e);
  if (e.dims.empty()) return clone(as_complex(t, self));
  const Tensor given = inexact(t, self);
  const Tensor x = resized(given.dtype() == DType::Float16 ? as_complex(t, given) : given, e);
  const double scale = norm_scale(t, norm, e.count(t.op));
  const bool forward = t.direction == Direction::Forward;
  return x.is_complex() ? _fft_c2c(x, e.dims, scale, forward) : _fft_real(x, e.dims, scale, forward);
}

/// Real to half; `conjugated` for the inverse of a Hermitian transform.
Tensor real_transform(const Transform& t, const Tensor& self, Sizes s, Sizes dim, Norm norm, bool conjugated) {
  TransformExtent e = extent(t, self, s, dim);
  FACULA_CHECK(!e.dims.empty(), ErrorKind::Runtime, t.op, ": expected at least one dimension to transform, got none");
  check_sizes(t, e);
  Tensor half = _fft_r2c(resized(as_real(t, self), e), e.dims, norm_scale(t, norm, e.count(t.op)));
  return conjugated ? resolve_conj(conj(half)) : half;
}

/// Half to real; `conjugated` for a Hermitian transform.
Tensor half_transform(const Transform& t, const Tensor& self, Sizes s, Sizes dim, Norm norm, bool conjugated) {
  TransformExtent e = extent(t, self, s, dim);
  FACULA_CHECK(!e.dims.empty(), ErrorKind::Runtime, t.op, ": expected at least one dimension to transform, got none");
  int64_t& last = e.sizes.back();
  if (!s || s->back() == -1) last = 2 * (last - 1);
  check_sizes(t, e);
  double scale = norm_scale(t, norm, e.count(t.op));
  int64_t last_size = last;
  last = last / 2 + 1;
  Tensor x = resized(as_complex(t, self), e);
  return _fft_c2r(conjugated ? conj(x) : x, e.dims, scale, last_size);
}

// Among several sizes -1 stands for the tensor's own; a single one has None for that.
Sizes one(const Transform& t, const Tensor& self, const std::optional<int64_t>& n, int64_t dim) {
  if (!n) return std::nullopt;
  wrap_dim(dim, self.dim(), t.op);
  FACULA_CHECK(self.dim() > 0, ErrorKind::Index, t.op, ": dim must name a dimension of the tensor, got dim=", dim,
               " for a tensor without dimensions");
  FACULA_CHECK(*n >= 1, ErrorKind::Runtime, t.op, ": n must be at least 1, the number of data points, got ", *n);
  return IntList(&*n, 1);
}

}  // namespace

// Each public name in its three forms: one dimension, two, several. `form` is _uncast where autocast casts.
#define FACULA_FFT(name, form1, form, direction, run)                                              \
  Tensor fft_##name##form1(const Tensor& self, std::optional<int64_t> n, int64_t dim, Norm norm) { \
    const Transform t{"fft." #name, Direction::direction};                                         \
    Sizes s = one(t, self, n, dim), d = IntList(&dim, 1);                                          \
    return run;                                                                                    \
  }                                                                                                \
  Tensor fft_##name##2##form(const Tensor& self, Sizes s, IntList dims, Norm norm) {               \
    const Transform t{"fft." #name "2", Direction::direction};                                     \
    Sizes d = dims;                                                                                \
    return run;                                                                                    \
  }                                                                                                \
  Tensor fft_##name##n##form(const Tensor& self, Sizes s, Sizes d, Norm norm) {                    \
    const Transform t{"fft." #name "n", Direction::direction};                                     \
    return run;                                                                                    \
  }

FACULA_FFT(fft, _uncast, _uncast, Forward, complex_transform(t, self, s, d, norm))
FACULA_FFT(ifft, _uncast, _uncast, Backward, complex_transform(t, self, s, d, norm))
FACULA_FFT(rfft, _uncast, _uncast, Forward, real_transform(t, self, s, d, norm, false))
FACULA_FFT(irfft, _uncast, _uncast, Backward, half_transform(t, self, s, d, norm, false))
FACULA_FFT(hfft, _uncast, , Forward, half_transform(t, self, s, d, norm, true))
FACULA_FFT(ihfft, _uncast, , Backward, real_transform(t, self, s, d, norm, true))
#undef FACULA_FFT

namespace {

Tensor shifted(const char* op, const Tensor& self, std::optional<IntList> dim, bool inverse) {
  Dims dims, shifts;
  if (dim) {
    for (int64_t d : *dim) dims.push_back(wrap_dim(d, self.dim(), op));
  } else {
    for (int64_t d = 0; d < self.dim(); ++d) dims.push_back(d);
  }
  for (int64_t d : dims) shifts.push_back(inverse ? (self.size(d) + 1) / 2 : self.size(d) / 2);
  return roll(self, shifts, dims);
}

}  // namespace

Tensor fft_fftshift(const Tensor& self, std::optional<IntList> dim) {
  return shifted("fft.fftshift", self, dim, false);
}
Tensor fft_ifftshift(const Tensor& self, std::optional<IntList> dim) {
  return shifted("fft.ifftshift", self, dim, true);
}

}  // namespace facula

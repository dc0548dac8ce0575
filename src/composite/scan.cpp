// Differences, and integrals by the trapezoidal rule.
#include "core/parallel.h"
#include "functions.h"
#include "ops/out.h"

namespace facula {
namespace {

// `count` elements along dim from `from` on.
Tensor part(const Tensor& self, int64_t dim, int64_t from, int64_t count) {
  return slice(self, dim, from, from + count, 1);
}

}  // namespace

Tensor diff(const Tensor& self, int64_t n, int64_t dim, const Tensor& prepend, const Tensor& append) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Runtime, "diff: expected at least one dimension, got shape ", self.sizes());
  FACULA_CHECK(n >= 0, ErrorKind::Runtime, "diff: n must not be negative, got ", n);
  int64_t d = wrap_dim(dim, self.dim(), "diff");
  std::vector<Tensor> parts;
  if (prepend.defined()) parts.push_back(prepend);
  parts.push_back(self);
  if (append.defined()) parts.push_back(append);
  for (const Tensor& end : {prepend, append}) {
    FACULA_CHECK(!end.defined() || end.dim() == self.dim(), ErrorKind::Runtime,
                 "diff: prepend and append have as many dimensions as self, expected ", self.dim(), ", got ",
                 end.dim());
    for (int64_t k = 0; end.defined() && k < self.dim(); ++k)
      FACULA_CHECK(k == d || end.size(k) == self.size(k), ErrorKind::Runtime,
                   "diff: prepend and append have the shape of self but for dimension ", d, ", ", self.sizes(),
                   ", got ", end.sizes());
  }
  Tensor t = parts.size() > 1 && n > 0 ? cat(parts, d) : self;
  if (n == 0) return clone(self);
  for (int64_t k = 0; k < n && (k == 0 || t.size(d) > 0); ++k) {  // of nothing nothing remains
    ask_in_round(k);
    int64_t left = std::max<int64_t>(t.size(d) - 1, 0);
    Tensor after = part(t, d, std::min<int64_t>(1, t.size(d)), left), before = part(t, d, 0, left);
    t = t.dtype() == DType::Bool ? logical_xor(after, before) : after - before;
  }
  return t;
}

namespace {

// Areas of the trapezoids between neighbors along dim.
Tensor trapezoids(const Tensor& y, const Tensor& x, const Scalar& dx, int64_t dim, const char* op) {
  int64_t d = wrap_dim(dim, y.dim(), op), left = y.dim() ? std::max<int64_t>(y.size(d) - 1, 0) : 0;
  FACULA_CHECK(!is_bits(y.dtype()) || y.dtype() != DType::Bool, ErrorKind::NotImplemented, op,
               ": a tensor of numbers for y, got ", y.dtype());
  Tensor sums = part(y, d, std::min<int64_t>(1, y.size(d)), left) + part(y, d, 0, left);
  if (!x.defined()) return sums * dx / 2.0;
  FACULA_CHECK(x.dtype() != DType::Bool, ErrorKind::NotImplemented, op, ": a tensor of numbers for x, got ", x.dtype());
  Tensor places = x;
  if (x.dim() == 1) {
    FACULA_CHECK(x.size(0) == y.size(d), ErrorKind::Runtime, op,
                 ": x must have one entry per element of y along dim, got ", x.size(0), " for ", y.size(d));
    Dims shape(static_cast<size_t>(y.dim()), 1);
    shape[d] = x.size(0);
    places = reshape(x, shape);
  } else if (x.dim() < y.dim()) {
    Dims shape(static_cast<size_t>(y.dim() - x.dim()), 1);
    for (int64_t s : x.sizes()) shape.push_back(s);
    places = reshape(x, shape);
  }
  int64_t xd = d + places.dim() - y.dim();
  int64_t gaps = std::max<int64_t>(places.size(xd) - 1, 0);
  return sums * (part(places, xd, std::min<int64_t>(1, places.size(xd)), gaps) - part(places, xd, 0, gaps)) / 2.0;
}

Tensor integral(const Tensor& y, const Tensor& x, const Scalar& dx, int64_t dim) {
  FACULA_CHECK(y.dim() > 0, ErrorKind::Index, "trapezoid: y has at least one dimension, got a 0-d tensor");
  int64_t d = wrap_dim(dim, y.dim(), "trapezoid");
  if (y.size(d) == 0) {
    Dims shape(y.sizes());
    shape.erase(static_cast<size_t>(d));
    return zeros(shape, is_bits(y.dtype()) ? default_dtype() : y.dtype(), y.device());
  }
  int64_t along = d - y.dim();
  if (!x.defined() && !is_bits(y.dtype())) {  // all elements, but for halves of the first and the last
    Tensor ends = part(y, d, 0, 1) + part(y, d, y.size(d) - 1, 1);
    return (sum(y, std::optional<IntList>(IntList(&along, 1)), false, std::optional<DType>()) -
            squeeze(ends, d) / 2.0) *
           dx;
  }
  return sum(trapezoids(y, x, dx, d, "trapezoid"), std::optional<IntList>(IntList(&along, 1)), false,
             std::optional<DType>());
}

}  // namespace

Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim) { return integral(y, x, Scalar(1), dim); }
Tensor trapezoid(const Tensor& y, const Scalar& dx, int64_t dim) { return integral(y, Tensor(), dx, dim); }

Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim) {
  int64_t along = wrap_dim(dim, y.dim(), "cumulative_trapezoid") - y.dim();
  return cumsum(trapezoids(y, x, Scalar(1), dim, "cumulative_trapezoid"), along, std::nullopt);
}
Tensor cumulative_trapezoid(const Tensor& y, const Scalar& dx, int64_t dim) {
  return cumsum(trapezoids(y, Tensor(), dx, dim, "cumulative_trapezoid"), dim, std::nullopt);
}

}  // namespace facula

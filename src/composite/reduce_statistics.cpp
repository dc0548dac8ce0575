// Order statistics and covariance.
#include <cmath>

#include "autograd/batching.h"
#include "autograd/node.h"
#include "core/near_name.h"
#include "functions.h"
#include "ops/checks.h"

namespace facula {
namespace {

using OptDims = std::optional<IntList>;

Tensor middle(const Tensor& self, bool ignore_nan, const char* op) {
  FACULA_CHECK(!self.is_complex() && self.dtype() != DType::Bool, ErrorKind::NotImplemented, op,
               ": not implemented for dtype ", self.dtype());
  const bool differentiated = recorded(live_flags(self.impl()));
  if (self.numel() == 0) {
    const Tensor none = full({}, self.is_floating() ? Scalar(NAN) : Scalar(INT64_MIN), self.dtype(), self.device());
    return differentiated ? add(none, sum(self, std::optional<DType>())) : none;  // of nothing, with its history
  }
  const Tensor flat = reshape(differentiated ? alias(self) : self, {-1});
  const Tensor value = std::get<0>(ignore_nan ? nanmedian(flat, 0, false) : median(flat, 0, false));
  if (!differentiated) return value;
  // The median is the largest element that is not above it: so equal ones share the gradient, as those of amax do.
  Tensor above = gt(self, value);
  if (ignore_nan) above = logical_or(above, logical_and(isnan(self), logical_not(isnan(value))));
  return amax(where(above, -INFINITY, self), IntList(), false);
}

enum class Interpolation { Linear, Lower, Higher, Midpoint, Nearest };

Interpolation interpolation_of(std::string_view name, const char* op) {
  if (name == "linear") return Interpolation::Linear;
  if (name == "lower") return Interpolation::Lower;
  if (name == "higher") return Interpolation::Higher;
  if (name == "midpoint") return Interpolation::Midpoint;
  FACULA_CHECK(name == "nearest", ErrorKind::Runtime, op, ": interpolation must be ",
               one_of({"linear", "lower", "higher", "midpoint", "nearest"}, name));
  return Interpolation::Nearest;
}

void check_quantile(const Tensor& self, const Tensor& q, const char* op) {
  FACULA_CHECK(self.dtype() == DType::Float32 || self.dtype() == DType::Float64, ErrorKind::Runtime, op,
               ": expected a float32 or float64 tensor, got ", self.dtype());
  FACULA_CHECK(q.dtype() == self.dtype(), ErrorKind::Runtime, op, ": q must have the dtype ", self.dtype(), ", got ",
               q.dtype());
  FACULA_CHECK(q.dim() <= 1, ErrorKind::Runtime, op, ": q must be a number or a vector, got shape ", q.sizes());
  FACULA_CHECK(self.numel() > 0, ErrorKind::Runtime, op, ": a tensor that is not empty, got shape ", self.sizes());
  check_values(all_examples(q), {Holds::InUnitInterval, ErrorKind::Runtime, op, "q must be in the range [0, 1]"});
}

// The places of the quantiles among the sorted elements of each line: (..., n) sorted -> (..., q). NaN is last, so that
// without ignore_nan the last place of a line with NaN is taken.
Tensor ranks_of(const Tensor& sorted, const Tensor& q, bool ignore_nan) {
  int64_t last = -1;
  if (ignore_nan) {
    Tensor valid = sum(logical_not(isnan(sorted)), IntList(&last, 1), true, std::optional<DType>());
    Tensor ranks = q * (to_dtype(valid, q.dtype()) - 1.0);
    return where(lt(ranks, 0.0), Scalar(0.0), ranks);
  }
  double highest = static_cast<double>(sorted.size(-1) - 1);
  return where(any(isnan(sorted), -1, true), Scalar(highest), q * highest);
}

// The elements at the ranks of each line, mixed from the two neighbors of ranks that are not whole.
Tensor at_ranks(const Tensor& sorted, const Tensor& ranks, Interpolation mix) {
  auto take = [&](const Tensor& whole) { return gather(sorted, -1, to_dtype(whole, DType::Int64), false); };
  Tensor below = floor(ranks);
  switch (mix) {
    case Interpolation::Lower: return take(below);
    case Interpolation::Higher: return take(ceil(ranks));
    case Interpolation::Nearest: return take(round(ranks));
    case Interpolation::Linear: return lerp(take(below), take(ceil(ranks)), ranks - below);
    case Interpolation::Midpoint: return lerp(take(below), take(ceil(ranks)), ceil(ranks - below) * 0.5);
  }
  __builtin_unreachable();
}

Tensor quantiles(const Tensor& self, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                 std::string_view interpolation, bool ignore_nan, const char* op) {
  Interpolation mix = interpolation_of(interpolation, op);
  check_quantile(self, q, op);
  Dims shape;    // of the result, without the dimension of q
  Tensor lines;  // the elements with the reduced dimension last
  if (!dim || self.dim() == 0) {
    if (dim) wrap_dim(*dim, 0, op);
    lines = reshape(self, {-1});
    if (keepdim) shape = Dims(static_cast<size_t>(self.dim()), 1);
  } else {
    int64_t d = wrap_dim(*dim, self.dim(), op);
    lines = transpose(unsqueeze(self, -1), d, -1);
    shape = Dims(lines.sizes());
    shape.pop_back();
    if (!keepdim) shape.erase(static_cast<size_t>(d));
  }
  Tensor sorted = std::get<0>(sort(lines, -1, false));
  Tensor result = at_ranks(sorted, ranks_of(sorted, reshape(q, {-1}), ignore_nan), mix);
  Dims order{result.dim() - 1};  // (..., q) -> (q, ...)
  for (int64_t d = 0; d + 1 < result.dim(); ++d) order.push_back(d);
  if (q.dim() == 1) shape.insert(0, q.size(0));
  return reshape(permute(result, order), shape);
}

Tensor as_quantile(const Tensor& self, double q, const char* op) {
  FACULA_CHECK(q >= 0 && q <= 1, ErrorKind::Runtime, op, ": q must be in the range [0, 1], got ", q);
  return full({}, Scalar(q), self.dtype(), self.device());
}

}  // namespace

Tensor median(const Tensor& self) { return middle(self, false, "median"); }
Tensor nanmedian(const Tensor& self) { return middle(self, true, "nanmedian"); }

Tensor quantile_uncast(const Tensor& self, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                       std::string_view interpolation) {
  return quantiles(self, q, dim, keepdim, interpolation, false, "quantile");
}
Tensor quantile_uncast(const Tensor& self, double q, std::optional<int64_t> dim, bool keepdim,
                       std::string_view interpolation) {
  return quantiles(self, as_quantile(self, q, "quantile"), dim, keepdim, interpolation, false, "quantile");
}
Tensor nanquantile_uncast(const Tensor& self, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                          std::string_view interpolation) {
  return quantiles(self, q, dim, keepdim, interpolation, true, "nanquantile");
}
Tensor nanquantile_uncast(const Tensor& self, double q, std::optional<int64_t> dim, bool keepdim,
                          std::string_view interpolation) {
  return quantiles(self, as_quantile(self, q, "nanquantile"), dim, keepdim, interpolation, true, "nanquantile");
}

// ---- covariance

Tensor cov(const Tensor& self, int64_t correction, const Tensor& fweights, const Tensor& aweights) {
  FACULA_CHECK(self.dim() <= 2, ErrorKind::Runtime, "cov: expected at most two dimensions, got shape ", self.sizes());
  FACULA_CHECK(self.dtype() != DType::Bool, ErrorKind::Runtime, "cov: expected a tensor of numbers, got ",
               self.dtype());
  Tensor x = is_bits(self.dtype()) ? to_dtype(self, default_dtype()) : self;
  Tensor in = self.dim() < 2 ? reshape(x, {1, -1}) : x;
  int64_t observations = in.size(1);
  Tensor w;
  for (const Tensor* weight : {&fweights, &aweights}) {
    if (!weight->defined()) continue;
    bool frequency = weight == &fweights;
    const char* name = frequency ? "fweights" : "aweights";
    FACULA_CHECK(weight->dim() <= 1, ErrorKind::Runtime, "cov: ", name, " has at most one dimension, got shape ",
                 weight->sizes());
    FACULA_CHECK(frequency ? is_integral(weight->dtype()) : weight->is_floating(), ErrorKind::Runtime, "cov: ", name,
                 " holds ", frequency ? "integers" : "floating-point numbers", ", got ", weight->dtype());
    FACULA_CHECK(weight->numel() == observations, ErrorKind::Runtime, "cov: ", name, " has one entry per observation (",
                 observations, "), got ", weight->numel());
    check_values(all_examples(*weight),
                 {Holds::NotNegative, ErrorKind::Runtime, "cov",
                  frequency ? "fweights must not be negative" : "aweights must not be negative"});
    w = w.defined() ? w * *weight : *weight;
  }
  int64_t last = 1;
  OptDims along(IntList(&last, 1));
  Tensor total, average;
  if (w.defined()) {
    total = sum(w, std::optional<DType>());
    check_values(all_examples(total), {Holds::NotZero, ErrorKind::Runtime, "cov", "weights must not sum to zero"});
    average = sum(in * w, along, true, std::optional<DType>()) / total;
  } else {
    average = sum(in, along, true, std::optional<DType>()) / static_cast<double>(observations);
  }
  Tensor centered = in - average;
  Tensor weighted = w.defined() ? centered * w : centered;
  Tensor covariance = matmul(weighted, conj(transpose(centered, 0, 1)));
  if (w.defined()) {
    Tensor less = fweights.defined() && !aweights.defined()
                      ? Tensor(to_dtype(total, in.dtype()) - static_cast<double>(correction))
                  : aweights.defined()
                      ? total - (sum(w * aweights, std::optional<DType>()) / total) * static_cast<double>(correction)
                      : total - static_cast<double>(correction);
    covariance = covariance / clamp(real(less), std::optional<Scalar>(Scalar(0)), std::nullopt);
  } else {
    if (observations <= correction && host.warn)
      host.warn("cov: degrees of freedom are <= 0: correction should be less than the number of observations");
    covariance = covariance / std::max(0.0, static_cast<double>(observations) - static_cast<double>(correction));
  }
  return covariance.numel() == 1 ? reshape(covariance, {}) : covariance;
}

Tensor corrcoef(const Tensor& self) {
  FACULA_CHECK(self.dim() <= 2, ErrorKind::Runtime, "corrcoef: expected at most two dimensions, got shape ",
               self.sizes());
  Tensor c = cov(self, 1, Tensor(), Tensor());
  if (c.dim() == 0) return c / c;
  Tensor variances = as_strided(contiguous(c, MemoryFormat::Contiguous), {c.size(0)}, {c.size(0) + 1}, std::nullopt);
  Tensor deviations = sqrt(real(variances));
  Tensor r = c / unsqueeze(deviations, 1) / unsqueeze(deviations, 0);
  auto clip = [](const Tensor& t) {
    return clamp(t, std::optional<Scalar>(Scalar(-1.0)), std::optional<Scalar>(Scalar(1.0)));
  };
  return r.is_complex() ? complex(clip(real(r)), clip(imag(r))) : clip(r);
}

}  // namespace facula

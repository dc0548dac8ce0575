// Rules of histograms and of the distinct elements of tensors.
#include "ops/histogram.h"

#include "ops/contiguous.h"
#include "ops/sort.h"
#include "raw_ops.h"

namespace facula::ops {
namespace {

Tensor as_matrix(const Tensor& contiguous, int64_t rows, int64_t columns) {
  return make_view(contiguous, {rows, columns}, {columns, 1}, 0, false);
}

Tensor beginning_of(const Tensor& t, int64_t n) {
  return n == t.numel() ? t : contiguous_copy(make_view(t, {n}, {1}, 0, false));
}

void require_values(const Tensor& self, const char* op) {
  FACULA_CHECK(!self.is_meta(), ErrorKind::NotImplemented, op,
               ": the shape of the result depends on values, got a meta tensor");
}

}  // namespace

Tensor bincount(const Tensor& self, const Tensor& weights, int64_t minlength) {
  require_values(self, "bincount");
  FACULA_CHECK(minlength >= 0, ErrorKind::Runtime, "bincount: minlength must not be negative, got ", minlength);
  FACULA_CHECK(is_integral(self.dtype()), ErrorKind::NotImplemented, "bincount: integers that are not negative, got ",
               self.dtype());
  FACULA_CHECK(self.dim() == 1, ErrorKind::Runtime,
               "bincount: a 1-d tensor of integers that are not negative, got shape ", self.sizes());
  FACULA_CHECK(!weights.defined() || weights.sizes() == self.sizes(), ErrorKind::Runtime,
               "bincount: weights must have the shape ", self.sizes(), ", got ",
               weights.defined() ? weights.sizes() : IntList());
  Tensor values = as_contiguous(self, DType::Int64);
  constexpr int64_t kFew = 4096;  // kinds, whose counts stay in the cache
  if (!weights.defined() && values.numel() >= kFew) {
    Tensor counts = zeros({std::max(minlength, kFew)}, DType::Int64, self.device());
    const int64_t length = count_few_kernel(self.device(), counts, values);
    if (length >= 0) return beginning_of(counts, std::max(length, minlength));
  }
  int64_t length = minlength;
  if (values.numel()) {
    const int64_t least = amin(values, {}, false).item().to_int(), most = amax(values, {}, false).item().to_int();
    FACULA_CHECK(least >= 0, ErrorKind::Runtime, "bincount: a 1-d tensor of integers that are not negative, got ",
                 least);
    FACULA_CHECK(most < INT64_MAX, ErrorKind::Runtime, "bincount: expected elements below ", INT64_MAX, ", got ", most);
    length = std::max(length, most + 1);
  }
  DType dtype = !weights.defined() ? DType::Int64 : weights.dtype() == DType::Float32 ? DType::Float32 : DType::Float64;
  Tensor result = zeros({length}, dtype, self.device());
  bincount_kernel(self.device(), result, values, weights.defined() ? as_contiguous(weights, dtype) : Tensor());
  return result;
}

Tensor histc(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max, const Out& out) {
  FACULA_CHECK(is_floating(self.dtype()) || is_integral(self.dtype()), ErrorKind::NotImplemented,
               "histc: not implemented for dtype ", self.dtype());
  FACULA_CHECK(bins > 0, ErrorKind::Runtime, "histc: bins must be positive, got ", bins);
  double low = min.to_double(), high = max.to_double();
  FACULA_CHECK(std::isfinite(low) && std::isfinite(high), ErrorKind::Runtime, "histc: expected finite limits, got ",
               low, " and ", high);
  FACULA_CHECK(low <= high, ErrorKind::Runtime, "histc: max must not be less than min, got min ", low, " and max ",
               high);
  Tensor result = zeros({bins}, self.dtype(), self.device());
  if (self.is_meta()) return result;
  if (low == high && self.numel() > 0) {
    low = amin(self, {}, false).item().to_double();
    high = amax(self, {}, false).item().to_double();
    FACULA_CHECK(std::isfinite(low) && std::isfinite(high), ErrorKind::Runtime,
                 "histc: expected finite elements when min equals max, got the range ", low, " to ", high);
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  DType compute = self.dtype() == DType::Float32 ? DType::Float32 : DType::Float64;
  Tensor counts = compute == self.dtype() ? result : zeros({bins}, compute, self.device());
  histc_kernel(self.device(), counts, as_contiguous(self, compute), low, high);
  if (out.given() && compute == self.dtype()) return counts;
  return compute == self.dtype() ? counts : to_dtype(counts, self.dtype());
}

Tensor _histogramdd(const Tensor& self, TensorList bins, const Tensor& weight, bool density) {
  constexpr const char* op = "histogramdd";
  FACULA_CHECK(self.dtype() == DType::Float32 || self.dtype() == DType::Float64, ErrorKind::NotImplemented, op,
               ": not implemented for dtype ", self.dtype());
  int64_t coordinates = static_cast<int64_t>(bins.size());
  FACULA_CHECK(self.dim() >= 2 && self.size(-1) == coordinates, ErrorKind::Runtime, op,
               ": one set of edges per coordinate, got ", bins.size(), " for shape ", self.sizes());
  const int64_t points = count_elements(self.sizes().slice(0, self.sizes().size() - 1), op);
  FACULA_CHECK(weight.numel() == points, ErrorKind::Runtime, op, ": expected one weight per point, got shape ",
               weight.sizes(), " for shape ", self.sizes());
  std::vector<Tensor> edges;
  Dims shape;
  for (const Tensor& b : bins) {
    FACULA_CHECK(b.dim() == 1 && b.numel() > 0, ErrorKind::Runtime, op,
                 ": edges must be vectors that are not empty, got shape ", b.sizes());
    FACULA_CHECK(b.dtype() == self.dtype(), ErrorKind::Runtime, op, ": edges must have the dtype ", self.dtype(),
                 ", got ", b.dtype());
    edges.push_back(as_contiguous(b, self.dtype()));
    shape.push_back(b.numel() - 1);
  }
  Tensor result = zeros(shape, self.dtype(), self.device());
  if (self.is_meta()) return result;
  histogramdd_kernel(self.device(), result, as_matrix(as_contiguous(self, self.dtype()), points, coordinates), edges,
                     as_contiguous(weight, self.dtype()));
  if (!density) return result;
  result = div(result, sum(result, std::nullopt));
  for (int64_t d = 0; d < coordinates; ++d) {
    const Tensor& e = edges[static_cast<size_t>(d)];
    Dims sizes(static_cast<size_t>(coordinates), 1);
    sizes[static_cast<size_t>(d)] = shape[static_cast<size_t>(d)];
    Tensor low = make_view(e, {shape[d]}, {1}, 0, false), high = make_view(e, {shape[d]}, {1}, shape[d] ? 1 : 0, false);
    Tensor width = sub(high, low, Scalar(1));
    result = div(result, make_view(width, sizes, contiguous_strides(sizes), 0, false));
  }
  return result;
}

namespace {

/// Where the groups of equal slices begin, and how many slices each has.
struct Groups {
  Tensor first, counts;
  Groups(int64_t slices, Device device)
      : first(facula::empty({slices}, DType::Int64, device)), counts(facula::empty({slices}, DType::Int64, device)) {}
  void find(const Tensor& slices, bool runs, const Tensor& inverse) {
    const int64_t found = distinct_kernel(slices.device(), slices, runs, inverse, first, counts);
    first = beginning_of(first, found);
    counts = beginning_of(counts, found);
  }
};

std::tuple<Tensor, Tensor, Tensor> distinct(const Tensor& self, bool runs, bool with_inverse, bool with_counts) {
  require_values(self, "unique");
  FACULA_CHECK(!self.is_complex(), ErrorKind::NotImplemented, "unique: not implemented for dtype ", self.dtype());
  const int64_t n = self.numel();
  const Tensor none = facula::empty({0}, DType::Int64, self.device());
  Tensor values = as_contiguous(self, self.dtype());
  Tensor line = make_view(values, {n}, {1}, 0, false);
  if (!with_inverse && !with_counts) {
    if (n == 0) return {contiguous_copy(line), none, none};
    Tensor values = runs ? facula::empty({n}, self.dtype(), self.device()) : contiguous_copy(line);
    if (!runs) sort_kernel(self.device(), as_matrix(values, 1, n), Tensor(), false);
    const int64_t found = distinct_values_kernel(self.device(), values, runs ? line : values);
    const bool most = found > n / 2;  // then what is left over stays allocated rather than the rest copied
    return {most ? make_view(values, {found}, {1}, 0, false) : beginning_of(values, found), none, none};
  }
  Tensor inverse = with_inverse ? facula::empty(self.sizes(), DType::Int64, self.device()) : Tensor();
  Groups groups(n, self.device());
  groups.find(as_matrix(values, n, 1), runs, inverse);
  return {index(line, std::vector<Tensor>{groups.first}), with_inverse ? inverse : none,
          with_counts ? groups.counts : none};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> _unique(const Tensor& self, bool return_inverse, bool return_counts) {
  return distinct(self, false, return_inverse, return_counts);
}
std::tuple<Tensor, Tensor, Tensor> _unique_consecutive(const Tensor& self, bool return_inverse, bool return_counts) {
  return distinct(self, true, return_inverse, return_counts);
}

std::tuple<Tensor, Tensor, Tensor> _unique_rows(const Tensor& self, int64_t dim, bool consecutive) {
  require_values(self, "unique");
  FACULA_CHECK(!self.is_complex(), ErrorKind::NotImplemented, "unique: not implemented for dtype ", self.dtype());
  int64_t d = wrap_dim(dim, self.dim(), "unique"), slices = self.dim() ? self.size(d) : 1;
  FACULA_CHECK(slices == 0 || self.numel() > 0, ErrorKind::Runtime,
               "unique: slices along dim must have elements, got shape ", self.sizes());
  Tensor inverse = facula::empty({slices}, DType::Int64, self.device());
  Groups groups(slices, self.device());
  Dims order{d};  // slices are in the order of their elements, the last dimension fastest
  for (int64_t i = 0; i < self.dim(); ++i)
    if (i != d) order.push_back(i);
  Tensor front = as_contiguous(self.dim() ? permute(self, order) : self, self.dtype());
  if (slices > 0) groups.find(as_matrix(front, slices, front.numel() / slices), consecutive, inverse);
  return {groups.first, inverse, groups.counts};
}

Tensor isin(const Tensor& elements, const Tensor& test_elements, bool, bool invert, const Out& out) {
  ResultType common;
  common.add(elements);
  common.add(test_elements);
  FACULA_CHECK(elements.is_meta() || (!is_complex(common.get()) && common.get() != DType::Bool), ErrorKind::Runtime,
               "isin: not implemented for dtype ", common.get());
  Tensor result = out.make(elements.sizes(), DType::Bool, elements.device());
  if (elements.is_meta()) return result;
  isin_kernel(elements.device(), result, as_contiguous(elements, common.get()),
              as_contiguous(test_elements, common.get()), invert);
  return result;
}

}  // namespace facula::ops

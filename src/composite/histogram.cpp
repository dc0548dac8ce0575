// Histograms, and membership of numbers.
#include <cmath>

#include "autograd/batching.h"
#include "core/checked.h"
#include "functions.h"

namespace facula {
namespace {

std::tuple<Tensor, Tensor> histogram_of(const Tensor& self, const Tensor& edges, const Tensor& weight, bool density) {
  FACULA_CHECK(!weight.defined() || weight.sizes() == self.sizes(), ErrorKind::Runtime,
               "histogram: weight must have the shape ", self.sizes(), ", got ",
               weight.defined() ? weight.sizes() : IntList());
  FACULA_CHECK(!weight.defined() || weight.dtype() == self.dtype(), ErrorKind::Runtime,
               "histogram: expected weight of the input's dtype ", self.dtype(), ", got ",
               weight.defined() ? weight.dtype() : self.dtype());
  Tensor points = reshape(self, {-1, 1});
  Tensor weights = weight.defined() ? reshape(weight, {-1}) : ones({self.numel()}, self.dtype(), self.device());
  return {_histogramdd(points, std::vector<Tensor>{edges}, weights, density), edges};
}

}  // namespace

std::tuple<Tensor, Tensor> histogram(const Tensor& self, const Tensor& bins, const Tensor& weight, bool density) {
  return histogram_of(self, clone(bins), weight, density);
}

std::tuple<Tensor, Tensor> histogram(const Tensor& self, int64_t bins, std::optional<FloatList> range,
                                     const Tensor& weight, bool density) {
  FACULA_CHECK(self.dtype() == DType::Float32 || self.dtype() == DType::Float64, ErrorKind::NotImplemented,
               "histogram: not implemented for dtype ", self.dtype());
  if (!range && is_batched(self)) {  // a range of each example's own
    Batch batch("histogram", self, weight);
    return batch.loop([&](const Batch::Example& e) { return histogram(e(self), bins, range, e(weight), density); });
  }
  FACULA_CHECK(bins > 0, ErrorKind::Runtime, "histogram: bins must be positive, got ", bins);
  FACULA_CHECK(!range || range->size() == 2, ErrorKind::Runtime, "histogram: range is two numbers, got ",
               range ? range->size() : 0);
  double low = 0, high = 1;
  if (range) {
    low = (*range)[0];
    high = (*range)[1];
  } else if (self.numel() > 0) {
    low = min(self).item().to_double();
    high = max(self).item().to_double();
  }
  FACULA_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high, ErrorKind::Runtime,
               "histogram: expected a finite range of elements, got ", low, " to ", high);
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  // From both ends, so that the outer edges are exact.
  Tensor i = cumsum(ones({(Checked(bins) + 1).get("histogram", "the number of edges", bins, " bins")}, self.dtype(),
                         self.device()),
                    0, std::nullopt) -
             1.0;
  double step = (high - low) / static_cast<double>(bins);
  Tensor edges =
      where(lt(i, static_cast<double>((bins + 1) / 2)), i * step + low, (i - static_cast<double>(bins)) * step + high);
  return histogram_of(self, edges, weight, density);
}

Tensor isin(const Tensor& elements, const Scalar& test_element, bool, bool invert) {
  return invert ? ne(elements, test_element) : eq(elements, test_element);
}

Tensor isin(const Scalar& element, const Tensor& test_elements, bool assume_unique, bool invert) {
  return isin(full({}, element, element.dtype(), test_elements.device()), test_elements, assume_unique, invert);
}

}  // namespace facula

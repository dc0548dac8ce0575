// Indexing written with ops.
#include <algorithm>

#include "autograd/batching.h"
#include "functions.h"

namespace facula {

Tensor argwhere(const Tensor& self) { return nonzero(self); }

Tensor take_along_dim(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim) {
  FACULA_CHECK(indices.dtype() == DType::Int64, ErrorKind::Runtime, "take_along_dim: indices must be int64, got ",
               indices.dtype());
  Tensor index = indices;
  if (!dim) return take_along_dim(reshape(self, {-1}), reshape(index, {-1}), 0);
  FACULA_CHECK(self.dim() == indices.dim(), ErrorKind::Runtime,
               "take_along_dim: indices have the number of dimensions of self, got shapes ", self.sizes(), " and ",
               indices.sizes());
  FACULA_CHECK(self.dim() > 0, ErrorKind::Index,
               "take_along_dim: dimension out of range, for a tensor without dimensions, got ", *dim);
  int64_t d = wrap_dim(*dim, self.dim(), "take_along_dim");
  Dims self_shape(self.sizes()), index_shape(indices.sizes());
  int64_t size = self.size(d);
  self_shape[d] = index_shape[d];
  Dims shape = broadcast(self_shape, index_shape, "take_along_dim");
  index = expand(index, shape);
  shape[d] = size;
  // only the gather of expanded tensors needs indices without a sign
  index = where(index < 0, index + size, index);
  return gather(expand(self, shape), d, index);
}

namespace {

/// The smallest and the largest of class numbers, of which there are some. A few are read where they lie, unless
/// somebody sees ops.
std::pair<int64_t, int64_t> extremes(const Tensor& values) {
  constexpr int64_t kFew = 1024;
  const bool plain = values.is_cpu() && values.is_contiguous() && !(values.flags() & kSlowFlags) && !are_ops_seen();
  if (!plain || values.numel() > kFew) return {min(values).item().to_int(), max(values).item().to_int()};
  const auto [least, largest] = std::minmax_element(values.data<int64_t>(), values.data<int64_t>() + values.numel());
  return {*least, *largest};
}

}  // namespace

Tensor one_hot(const Tensor& self, int64_t num_classes) {
  FACULA_CHECK(self.dtype() == DType::Int64, ErrorKind::Runtime, "one_hot: the input must be int64, got ",
               self.dtype());
  if (self.is_meta())
    FACULA_CHECK(num_classes >= 0, ErrorKind::NotImplemented, "one_hot: num_classes is needed for a meta tensor, got ",
                 num_classes);
  FACULA_CHECK(self.numel() || num_classes > 0, ErrorKind::Runtime, "one_hot: an empty input needs num_classes, got ",
               num_classes);
  int64_t largest = -1;
  FACULA_CHECK(!is_batched(self) || num_classes > 0, ErrorKind::Runtime,
               "one_hot: num_classes is needed inside vmap, got ", num_classes);
  // where the number of classes is known, a device checks the values when it scatters
  if (self.is_cpu() || (num_classes == -1 && !self.is_meta())) {
    Tensor values = all_examples(self);
    if (values.numel()) {
      const auto [least, most] = extremes(values);
      FACULA_CHECK(least >= 0, ErrorKind::Runtime, "one_hot: class values must not be negative, got ", least);
      largest = most;
      FACULA_CHECK(largest < INT64_MAX, ErrorKind::Runtime, "one_hot: class values below ", INT64_MAX, ", got ",
                   largest);
    }
  }
  FACULA_CHECK(num_classes != 0 && num_classes >= -1, ErrorKind::Runtime,
               "one_hot: num_classes must be positive or -1, got ", num_classes);
  FACULA_CHECK(num_classes == -1 || largest < num_classes, ErrorKind::Runtime,
               "one_hot: expected classes below num_classes ", num_classes, ", got ", largest);
  Dims shape(self.sizes());
  shape.push_back(num_classes == -1 ? largest + 1 : num_classes);
  Tensor result = zeros(shape, DType::Int64, self.device());
  if (is_batched(self)) return scatter(result, -1, unsqueeze(self, -1), Scalar(1));
  scatter_(result, -1, unsqueeze(self, -1), Scalar(1));
  return result;
}

std::vector<Tensor> unravel_index(const Tensor& indices, IntList shape) {
  FACULA_CHECK(is_integral(indices.dtype()), ErrorKind::Type, "unravel_index: expected 'indices' to be integer, got ",
               indices.dtype());
  for (int64_t s : shape)
    FACULA_CHECK(s >= 0, ErrorKind::Value, "unravel_index: shape must not have negative sizes, got ", shape);
  std::vector<Tensor> found(shape.size());
  Tensor rest = to_dtype(indices, DType::Int64);
  for (size_t d = shape.size(); d-- > 0;) {
    found[d] = remainder(rest, Scalar(shape[d]));
    rest = floor_divide(rest, Scalar(shape[d]));
  }
  return found;
}

}  // namespace facula

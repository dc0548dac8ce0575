// Distances and angles between vectors.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "autograd/function_support.h"
#include "core/near_name.h"
#include "functions.h"

namespace facula {
namespace {

using Axis = std::optional<IntList>;

/// Squared Euclidean distances through one product, for many rows: |x|^2 - 2 x.y + |y|^2.
Tensor euclidean_by_product(const Tensor& x1, const Tensor& x2) {
  Tensor a = sum(mul(x1, x1), Axis({-1}), true, std::nullopt), b = sum(mul(x2, x2), Axis({-1}), true, std::nullopt);
  Tensor left = cat({mul(x1, -2.0), a, ones_like(a)}, -1), right = cat({x2, ones_like(b), b}, -1);
  return _distance_root(matmul(left, transpose(right, -2, -1)));
}

/// The p-norm of differences. That of degree 0 counts what is not zero, and NaN is no number to be counted.
Tensor length_of(const Tensor& difference, double p) {
  if (difference.size(-1) == 0) return sum(difference, Axis({-1}), false, std::nullopt);
  const Tensor length = linalg_vector_norm(difference, p, Axis({-1}), false, std::nullopt);
  if (p != 0) return length;
  return where(any(isnan(difference), -1, false), std::numeric_limits<double>::quiet_NaN(), length);
}

/// Distances of all pairs of rows. Differences of some rows at a time stay in the caches, also on the way back.
Tensor lengths_of_pairs(const Tensor& x1, const Tensor& x2, double p) {
  constexpr int64_t kDifferences = 1 << 18;
  const Tensor others = unsqueeze(x2, -3);
  const auto lengths = [&](const Tensor& rows) { return length_of(sub(unsqueeze(rows, -2), others), p); };
  const int64_t rows = x1.size(-2), of_row = x2.size(-2) * x2.size(-1);
  const int64_t together = std::max<int64_t>(1, kDifferences / std::max<int64_t>(of_row, 1));
  if (rows * of_row < 8 * kDifferences) return lengths(x1);
  std::vector<Tensor> parts;
  for (int64_t row = 0; row < rows; row += together)
    parts.push_back(lengths(slice(x1, -2, row, std::min(rows, row + together), 1)));
  return cat(parts, -2);
}

}  // namespace

Tensor cdist_uncast(const Tensor& x1, const Tensor& x2, double p, std::optional<std::string_view> compute_mode) {
  FACULA_CHECK(x1.dim() >= 2 && x2.dim() >= 2 && x1.size(-1) == x2.size(-1), ErrorKind::Runtime,
               "cdist: two tensors of at least 2 dimensions with rows of one length, got shapes ", x1.sizes(), " and ",
               x2.sizes());
  FACULA_CHECK(x1.is_floating() && x2.is_floating(), ErrorKind::Runtime, "cdist: expected floating point tensors, got ",
               x1.dtype(), " and ", x2.dtype());
  FACULA_CHECK(p >= 0, ErrorKind::Runtime, "cdist: p is not negative, got ", p);
  std::string_view mode = compute_mode.value_or("use_mm_for_euclid_dist_if_necessary");
  bool always = mode == "use_mm_for_euclid_dist", large = x1.size(-2) > 25 || x2.size(-2) > 25;
  FACULA_CHECK(
      always || mode == "use_mm_for_euclid_dist_if_necessary" || mode == "donot_use_mm_for_euclid_dist",
      ErrorKind::Value, "cdist: compute_mode must be ",
      one_of({"use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist", "use_mm_for_euclid_dist_if_necessary"}, mode));
  if (p == 2 && x1.numel() && x2.numel() && (always || (large && mode == "use_mm_for_euclid_dist_if_necessary")))
    return euclidean_by_product(x1, x2);
  return lengths_of_pairs(x1, x2, p);
}

Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim) {
  Tensor difference = add(sub(x1, x2), eps);
  return linalg_vector_norm(difference, p, Axis({-1}), keepdim, std::nullopt);
}

Tensor pdist_uncast(const Tensor& self, double p) {
  FACULA_CHECK(self.dim() == 2, ErrorKind::Runtime, "pdist: expected a matrix, got shape ", self.sizes());
  FACULA_CHECK(self.is_floating(), ErrorKind::Runtime, "pdist: expected a floating point tensor, got ", self.dtype());
  FACULA_CHECK(p >= 0, ErrorKind::Runtime, "pdist: p is not negative, got ", p);
  int64_t n = self.size(0);
  Tensor pairs = triu_indices(n, n, 1, DType::Int64, self.device());
  Tensor difference = sub(index_select(self, 0, select(pairs, 0, 0)), index_select(self, 0, select(pairs, 0, 1)));
  return length_of(difference, p);
}

Tensor cosine_similarity_uncast(const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
  check_one_device("cosine_similarity", x1, x2);
  FACULA_CHECK(!(eps < 0), ErrorKind::Runtime, "cosine_similarity: eps must be non-negative, got ", eps);
  DType dtype = promote(x1.dtype(), x2.dtype());
  FACULA_CHECK(is_floating(dtype), ErrorKind::Runtime, "cosine_similarity: expected floating point tensors, got ",
               x1.dtype(), " and ", x2.dtype());
  Dims sizes = broadcast(x1.sizes(), x2.sizes(), "cosine_similarity");
  Tensor a = expand(to_dtype(x1, dtype), sizes), b = expand(to_dtype(x2, dtype), sizes);
  auto direction = [&](const Tensor& x) {
    Tensor length = linalg_vector_norm(x, 2, Axis({dim}), true, std::nullopt);
    // below eps the length is a constant: its gradient does not flow
    return div(x, where(lt(length, eps), eps, length));
  };
  return sum(mul(direction(a), direction(b)), Axis({dim}), false, std::nullopt);
}

}  // namespace facula

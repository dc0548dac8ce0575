// The public pooling functions of one, two and three dimensions.
#include <algorithm>

#include "functions.h"
#include "ops/conv.h"

namespace facula {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

/// Windows of everything are a mean, which complex numbers have, too.
Tensor adaptive_mean(const Tensor& self, const Dims& output_size) {
  auto n = static_cast<int64_t>(output_size.size());
  bool whole = n > 1 && self.dim() > n && std::count(output_size.begin(), output_size.end(), 1) == n;
  if (!whole || !self.is_complex()) return adaptive_avg_pool(self, output_size);
  Dims dims;
  for (int64_t d = 1; d <= n; ++d) dims.push_back(-d);
  return mean(self, std::optional<IntList>(dims), true, std::nullopt);
}

}  // namespace

// A list of windows tells the private ops how many dimensions there are. `form` is _uncast where autocast casts.
#define FACULA_POOLS(n, form)                                                                                 \
  Pair max_pool##n##d_with_indices(const Tensor& self, IntList kernel_size, IntList stride, IntList padding,  \
                                   IntList dilation, bool ceil_mode) {                                        \
    Dims kernel = per_dimension(kernel_size, n, "max_pool" #n "d", "kernel_size");                            \
    return max_pool(self, kernel, stride, padding, dilation, ceil_mode);                                      \
  }                                                                                                           \
  Tensor max_pool##n##d##form(const Tensor& self, IntList kernel_size, IntList stride, IntList padding,       \
                              IntList dilation, bool ceil_mode) {                                             \
    return std::get<0>(max_pool##n##d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)); \
  }                                                                                                           \
  Tensor adaptive_avg_pool##n##d##form(const Tensor& self, IntList output_size) {                             \
    return adaptive_mean(self, per_dimension(output_size, n, "adaptive_avg_pool" #n "d", "output_size"));     \
  }                                                                                                           \
  Pair adaptive_max_pool##n##d##form(const Tensor& self, IntList output_size) {                               \
    return adaptive_max_pool(self, per_dimension(output_size, n, "adaptive_max_pool" #n "d", "output_size")); \
  }

FACULA_POOLS(1, )
FACULA_POOLS(2, )
FACULA_POOLS(3, _uncast)
#undef FACULA_POOLS

Tensor avg_pool1d(const Tensor& self, IntList kernel_size, IntList stride, IntList padding, bool ceil_mode,
                  bool count_include_pad) {
  Dims kernel = per_dimension(kernel_size, 1, "avg_pool1d", "kernel_size");
  return avg_pool(self, kernel, stride, padding, ceil_mode, count_include_pad, std::nullopt);
}

Tensor avg_pool2d(const Tensor& self, IntList kernel_size, IntList stride, IntList padding, bool ceil_mode,
                  bool count_include_pad, std::optional<int64_t> divisor_override) {
  Dims kernel = per_dimension(kernel_size, 2, "avg_pool2d", "kernel_size");
  return avg_pool(self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override);
}

Tensor avg_pool3d_uncast(const Tensor& self, IntList kernel_size, IntList stride, IntList padding, bool ceil_mode,
                         bool count_include_pad, std::optional<int64_t> divisor_override) {
  Dims kernel = per_dimension(kernel_size, 3, "avg_pool3d", "kernel_size");
  return avg_pool(self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override);
}

Pair fractional_max_pool2d_uncast(const Tensor& self, IntList kernel_size, IntList output_size,
                                  const Tensor& random_samples) {
  Dims kernel = per_dimension(kernel_size, 2, "fractional_max_pool2d", "kernel_size");
  return fractional_max_pool(self, kernel, per_dimension(output_size, 2, "fractional_max_pool2d", "output_size"),
                             random_samples);
}

Pair fractional_max_pool3d_uncast(const Tensor& self, IntList kernel_size, IntList output_size,
                                  const Tensor& random_samples) {
  Dims kernel = per_dimension(kernel_size, 3, "fractional_max_pool3d", "kernel_size");
  return fractional_max_pool(self, kernel, per_dimension(output_size, 3, "fractional_max_pool3d", "output_size"),
                             random_samples);
}

}  // namespace facula

// The public pooling functions of one, two and three dimensions.
#include <algorithm>

#include "autograd/function_support.h"
#include "functions.h"
#include "ops/conv.h"

namespace facula {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

/// Windows of everything are a mean, which complex numbers have, too.
Tensor adaptive_mean(const Tensor& self, const Dims& output_size) {
  auto n = static_cast<int64_t>(output_size.size());
  const bool whole = n > 1 && std::count(output_size.begin(), output_size.end(), 1) == n;
  const bool lone = n == 3 && self.dim() == n;  // of a volume without channels PyTorch gives the mean, and nothing else
  if (!whole || !(lone || (self.is_complex() && self.dim() > n))) return adaptive_avg_pool(self, output_size);
  Dims dims;
  for (int64_t d = 1; d <= n; ++d) dims.push_back(-d);
  return mean(self, std::optional<IntList>(dims), true, std::nullopt);
}

// A list of windows gives the private ops the number of dimensions; what takes one number takes it for all of
// them.
Pair max_windows(const char* op, int64_t n, const Tensor& self, IntList kernel_size, IntList stride, IntList padding,
                 IntList dilation, bool ceil_mode) {
  return max_pool(self, per_dimension(kernel_size, n, op, "kernel_size"), stride, padding, dilation, ceil_mode);
}

Tensor max_values(const char* op, int64_t n, const Tensor& self, IntList kernel_size, IntList stride, IntList padding,
                  IntList dilation, bool ceil_mode) {
  if (recorded_flags_of(all_examples(self)))
    return std::get<0>(max_windows(op, n, self, kernel_size, stride, padding, dilation, ceil_mode));
  return max_pool_values(self, per_dimension(kernel_size, n, op, "kernel_size"), stride, padding, dilation, ceil_mode);
}

Tensor adaptive_mean(const char* op, int64_t n, const Tensor& self, IntList output_size) {
  return adaptive_mean(self, per_dimension(output_size, n, op, "output_size"));
}

Pair adaptive_max(const char* op, int64_t n, const Tensor& self, IntList output_size) {
  return adaptive_max_pool(self, per_dimension(output_size, n, op, "output_size"));
}

}  // namespace

Pair max_pool1d_with_indices(const Tensor& self, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
                             bool ceil_mode) {
  return max_windows("max_pool1d", 1, self, kernel_size, stride, padding, dilation, ceil_mode);
}

Tensor max_pool1d(const Tensor& self, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
                  bool ceil_mode) {
  return max_values("max_pool1d", 1, self, kernel_size, stride, padding, dilation, ceil_mode);
}

Tensor adaptive_avg_pool1d(const Tensor& self, IntList output_size) {
  return adaptive_mean("adaptive_avg_pool1d", 1, self, output_size);
}

Pair adaptive_max_pool1d(const Tensor& self, IntList output_size) {
  return adaptive_max("adaptive_max_pool1d", 1, self, output_size);
}

Pair max_pool2d_with_indices(const Tensor& self, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
                             bool ceil_mode) {
  return max_windows("max_pool2d", 2, self, kernel_size, stride, padding, dilation, ceil_mode);
}

Tensor max_pool2d(const Tensor& self, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
                  bool ceil_mode) {
  return max_values("max_pool2d", 2, self, kernel_size, stride, padding, dilation, ceil_mode);
}

Tensor adaptive_avg_pool2d(const Tensor& self, IntList output_size) {
  return adaptive_mean("adaptive_avg_pool2d", 2, self, output_size);
}

Pair adaptive_max_pool2d(const Tensor& self, IntList output_size) {
  return adaptive_max("adaptive_max_pool2d", 2, self, output_size);
}

Pair max_pool3d_with_indices(const Tensor& self, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
                             bool ceil_mode) {
  return max_windows("max_pool3d", 3, self, kernel_size, stride, padding, dilation, ceil_mode);
}

Tensor max_pool3d_uncast(const Tensor& self, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
                         bool ceil_mode) {
  return max_values("max_pool3d", 3, self, kernel_size, stride, padding, dilation, ceil_mode);
}

Tensor adaptive_avg_pool3d_uncast(const Tensor& self, IntList output_size) {
  return adaptive_mean("adaptive_avg_pool3d", 3, self, output_size);
}

Pair adaptive_max_pool3d_uncast(const Tensor& self, IntList output_size) {
  return adaptive_max("adaptive_max_pool3d", 3, self, output_size);
}

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

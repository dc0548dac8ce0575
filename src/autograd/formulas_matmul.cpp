#include "autograd/formulas_matmul.h"

#include "autograd/engine.h"
#include "functions.h"
#include "observe/everything.h"
#include "observe/observer.h"
#include "ops/matmul.h"

namespace facula {
namespace {

/// Returns true if kernels may read the elements where they lie, one after the other, once they are there.
bool can_be_read(const Tensor& t) {
  constexpr uint32_t kOtherwise = kSlowFlags & ~(kRequiresGrad | kWatchBase | kDeferred);
  return t.is_contiguous() && !(t.flags() & kOtherwise) && t.device().is_cpu() && is_floating(t.dtype());
}
/// Returns true if, moreover, no mode or observer asks for the calls that this saves.
bool directly(const Tensor& a, const Tensor& b) {
  return !GradMode::enabled() && !are_ops_seen() && can_be_read(a) && can_be_read(b) && a.dtype() == b.dtype();
}

}  // namespace

Tensor linear_backward_input(const Tensor& grad, const Tensor& weight) {
  if (weight.dim() != 2) return mul(unsqueeze(grad, -1), conj(weight));
  if (does_everything_wait() || !directly(grad, weight)) return matmul(grad, conj(weight));
  materialize_bytes(grad);
  materialize_bytes(weight);
  Dims sizes(grad.sizes());
  sizes.back() = weight.size(1);
  Tensor result = facula::empty(sizes, grad.dtype());
  ops::linear_input_gradient(result, grad, weight);
  return result;
}

Tensor linear_backward_weight(const Tensor& grad, const Tensor& input, IntList weight_sizes, size_t edge) {
  if (directly(grad, input)) {
    const Tensor sum = take_partial_sum(edge, weight_sizes, grad.dtype());
    if (sum.defined() || !does_everything_wait()) {
      for (const Tensor& t : {sum, grad, input}) materialize_bytes(t);
      const Tensor result = sum.defined() ? sum : facula::empty(weight_sizes, grad.dtype());
      ops::linear_weight_gradient(result, grad, input, sum.defined());
      return result;
    }
  }
  int64_t inner = weight_sizes.back(), columns = weight_sizes.size() == 2 ? weight_sizes[0] : 1;
  int64_t rows = inner ? input.numel() / inner : columns ? grad.numel() / columns : 0;
  Tensor g = reshape(grad, {rows, columns});
  Tensor x = reshape(input, {rows, inner});
  return reshape(mm(transpose(g, 0, 1), conj(x)), weight_sizes);
}

}  // namespace facula

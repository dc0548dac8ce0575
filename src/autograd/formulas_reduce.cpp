// Derivatives of reductions.
#include "autograd/formulas.h"
#include "functions.h"

namespace facula {

Tensor sum_backward(const Tensor& grad, IntList sizes, std::optional<IntList> dim, bool keepdim) {
  Tensor g = grad;
  if (!keepdim && dim && !dim->empty() && !sizes.empty()) {
    Dims order;
    for (int64_t d : *dim) order.push_back(d < 0 ? d + static_cast<int64_t>(sizes.size()) : d);
    std::sort(order.begin(), order.end());
    for (int64_t d : order) g = unsqueeze(g, d);
  }
  return expand(g, sizes);
}

}  // namespace facula

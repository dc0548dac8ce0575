#include "functions.h"

namespace facula {

Tensor any(const Tensor& self) { return gt(sum(ne(self, 0), std::optional<DType>()), 0); }

}  // namespace facula

// Matrix products written with mm.
#include "functions.h"

namespace facula {

Tensor matmul(const Tensor& self, const Tensor& other) { return mm(self, other); }

}  // namespace facula

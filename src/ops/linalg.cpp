// Shape rules of matrix products.
#include "ops/linalg.h"

#include "raw_ops.h"

namespace facula::ops {

Tensor mm(const Tensor& self, const Tensor& mat2, const Out& out) {
  FACULA_CHECK(self.dim() == 2 && mat2.dim() == 2, ErrorKind::Runtime, "mm: two matrices, got shapes ", self.sizes(), " and ", mat2.sizes());
  FACULA_CHECK(self.size(1) == mat2.size(0), ErrorKind::Runtime, "mm: inner sizes differ: mat1 and mat2 shapes cannot be multiplied, got ",
               self.sizes(), " and ", mat2.sizes());
  FACULA_CHECK(self.dtype() == mat2.dtype(), ErrorKind::Runtime, "mm: both matrices must have one dtype, got ", self.dtype(), " and ", mat2.dtype());
  Tensor result = out.make({self.size(0), mat2.size(1)}, self.dtype(), self.device());
  if (!result.is_meta()) mm_kernel(self.device(), result, self, mat2);
  return result;
}

}  // namespace facula::ops

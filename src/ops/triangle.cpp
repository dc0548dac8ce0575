// Triangles and diagonals of matrices.
#include "ops/triangle.h"

#include "core/checked.h"
#include "core/number.h"
#include "raw_create.h"
#include "raw_shape.h"

namespace facula::ops {
namespace {

Tensor triangle(const char* op, const Tensor& self, int64_t diagonal, bool upper, const Out& out) {
  FACULA_CHECK(self.dim() >= 2, ErrorKind::Runtime, op, ": expected a tensor of at least two dimensions, got shape ",
               self.sizes());
  Tensor result = out.make(self.sizes(), self.dtype(), self.device());
  if (result.is_meta() || result.numel() == 0) return result;
  copy_elements(result, self);
  // further out nothing changes
  diagonal = std::clamp(diagonal, -self.size(-2) - 1, self.size(-1) + 1);
  clear_triangle_kernel(self.device(), result, diagonal, upper);
  return result;
}

}  // namespace

Tensor tril(const Tensor& self, int64_t diagonal, const Out& out) {
  return triangle("tril", self, diagonal, false, out);
}
Tensor triu(const Tensor& self, int64_t diagonal, const Out& out) {
  return triangle("triu", self, diagonal, true, out);
}

Tensor diag_embed(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Runtime,
               "diag_embed: expected a tensor of at least one dimension, got a 0-d one");
  int64_t n = self.dim() + 1, a = wrap_dim(dim1, n, "diag_embed"), b = wrap_dim(dim2, n, "diag_embed");
  FACULA_CHECK(a != b, ErrorKind::Runtime, "diag_embed: expected two different dimensions, got ", dim1, " and ", dim2);
  const Checked far = offset < 0 ? -Checked(offset) : Checked(offset);
  const int64_t side = (far + self.size(-1)).get("diag_embed", "the sides of the result", "offset ", offset);
  Dims sizes;
  for (int64_t i = 0, from = 0; i < n; ++i) sizes.push_back(i == a || i == b ? side : self.size(from++));
  Tensor result = zeros(sizes, self.dtype(), self.device());
  if (self.numel() > 0) copy_elements(diagonal(result, offset, a, b), self);
  return result;
}

Tensor fill_diagonal_(const Tensor& self, const Scalar& value, bool wrap) {
  FACULA_CHECK(self.dim() >= 2, ErrorKind::Runtime,
               "fill_diagonal_: expected a tensor of at least two dimensions, got shape ", self.sizes());
  int64_t count = self.size(0), step = 0;
  for (int64_t i = 0; i < self.dim(); ++i) {
    FACULA_CHECK(self.dim() == 2 || self.size(i) == self.size(0), ErrorKind::Runtime,
                 "fill_diagonal_: all sizes must be equal in more than two dimensions, got shape ", self.sizes());
    count = std::min(count, self.size(i));
    step = wrapping_add(step, self.stride(i));
  }
  if (self.is_meta() || count == 0) return self;
  require_value(value, self.dtype(), "fill_diagonal_");
  fill_kernel(self.device(), make_view(self, {count}, {step}, 0, false), value);
  // The diagonal of a tall matrix starts again one row below the square it filled.
  int64_t rows = self.size(0), columns = self.size(1);
  for (int64_t first = columns + 1; wrap && self.dim() == 2 && first < rows; first += columns + 1) {
    fill_kernel(self.device(),
                make_view(self, {std::min(columns, rows - first)}, {step}, first * self.stride(0), false), value);
  }
  return self;
}

}  // namespace facula::ops

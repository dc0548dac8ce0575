#include "ops/linalg_support.h"

#include <cmath>

#include "ops/contiguous.h"
#include "ops/triangle.h"
#include "raw_ops.h"

namespace facula::ops {

void check_matrix(const char* op, const Tensor& a) {
  FACULA_CHECK(a.dim() >= 2, ErrorKind::Runtime, op, ": the input must have at least 2 dimensions, got shape ",
               a.sizes());
  bool known = a.dtype() == DType::Float32 || a.dtype() == DType::Float64 || a.dtype() == DType::Complex64 ||
               a.dtype() == DType::Complex128;
  FACULA_CHECK(known, ErrorKind::NotImplemented, op,
               ": expected a floating point or complex tensor, of single or double precision, got ", a.dtype());
}

void check_square(const char* op, const Tensor& a) {
  check_matrix(op, a);
  FACULA_CHECK(a.size(-1) == a.size(-2), ErrorKind::Runtime, op, ": A must be batches of square matrices, got shape ",
               a.sizes());
}

void check_pair(const char* op, const Tensor& a, const Tensor& b) {
  FACULA_CHECK(a.dtype() == b.dtype(), ErrorKind::Runtime, op, ": expected both tensors to have the same dtype, got ",
               a.dtype(), " and ", b.dtype());
  FACULA_CHECK(a.device() == b.device(), ErrorKind::Runtime, op, ": both tensors must be on the same device, got ",
               a.device(), " and ", b.device());
  FACULA_CHECK(b.dim() >= 1, ErrorKind::Runtime, op, ": expected a right side with dimensions, got a 0-d tensor");
}

void check_reflectors(const char* op, const Tensor& a, const Tensor& tau, bool tall) {
  FACULA_CHECK(a.dtype() == tau.dtype() && tau.dim() == a.dim() - 1 && (!tall || a.size(-2) >= a.size(-1)) &&
                   tau.size(-1) <= std::min(a.size(-1), a.size(-2)) &&
                   tau.sizes().slice(0, tau.dim() - 1) == a.sizes().slice(0, a.dim() - 2),
               ErrorKind::Runtime, op, ": expected ", tall ? "tall " : "",
               "matrices and at most one factor per column, got shapes ", a.sizes(), " and ", tau.sizes(), " of ",
               a.dtype(), " and ", tau.dtype());
}

void check_reflected(const char* op, const Tensor& a, const Tensor& tau, const Tensor& other, bool left) {
  check_matrix(op, a);
  check_matrix(op, other);
  check_pair(op, a, other);
  check_reflectors(op, a, tau, false);
  FACULA_CHECK(other.size(left ? -2 : -1) == a.size(-2) &&
                   a.sizes().slice(0, a.dim() - 2) == other.sizes().slice(0, other.dim() - 2),
               ErrorKind::Runtime, op, ": the shapes do not fit, got ", a.sizes(), " and ", other.sizes());
}

void check_pivots(const char* op, const Tensor& pivots, int64_t rows, bool blocks) {
  if (pivots.is_meta()) return;
  const Tensor values = on_host(as_contiguous(pivots));
  bool open = false;  // a block whose second row is still to come
  for (int64_t i = 0; i < values.numel(); ++i) {
    const int64_t pivot = values.data<int32_t>()[i];
    open = (pivot < 0) != open && (pivot < 0 || open);
    const bool last = (i + 1) % pivots.size(-1) == 0;
    const bool fits = pivot >= (blocks ? -rows : 1) && pivot <= rows && pivot != 0;
    FACULA_CHECK(fits && !(open && (last || pivot > 0)), ErrorKind::Runtime, op,
                 ": pivots count from one up to the number of rows ", rows,
                 blocks ? "; negative ones stand in pairs" : "", ", got ", pivot);
  }
}

void check_info(const char* op, const Tensor& given, const char* meaning) {
  const Tensor info = on_host(given);
  for (int64_t i = 0; i < info.numel(); ++i) {
    int32_t value = info.data<int32_t>()[i];
    if (value == 0) continue;
    FACULA_CHECK(value > 0, ErrorKind::LinAlg, op, ": finite elements (LAPACK refused its argument ", -value,
                 "), got an infinity or NaN");
    if (info.dim() > 0) throw_error(ErrorKind::LinAlg, op, ": (batch element ", i, ") ", meaning, " ", value);
    throw_error(ErrorKind::LinAlg, op, ": ", meaning, " ", value);
  }
}

bool is_vector_right_side(IntList a, IntList b) {
  return b.size() == 1 || (a.size() == b.size() + 1 && b == a.slice(0, a.size() - 1));
}

Dims vector_sizes(const Tensor& a, int64_t length) {
  Dims sizes(a.sizes().slice(0, a.dim() - 2));
  sizes.push_back(length);
  return sizes;
}

Tensor info_like(const Tensor& a) {
  Tensor info = facula::empty(a.sizes().slice(0, a.dim() - 2), DType::Int32, a.device());
  fill_zero(info);
  return info;
}

Tensor empty_column_major(const Tensor& like, int64_t rows, int64_t columns, DType dtype) {
  Dims sizes = vector_sizes(like, columns);
  sizes.push_back(rows);
  Tensor flipped = facula::empty(sizes, dtype, like.device());
  Dims strides(flipped.strides());
  std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
  std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  return make_view(flipped, sizes, strides, 0, false);
}

Tensor column_major(const Tensor& a) {
  Tensor copy = empty_column_major(a, a.size(-2), a.size(-1));
  copy_elements(copy, a);
  return copy;
}

Tensor expand_batch(const Tensor& a, const Dims& batch) {
  Dims sizes(batch);
  sizes.push_back(a.size(-2));
  sizes.push_back(a.size(-1));
  return expand(a, sizes, false);
}

void copy_corner(const Tensor& to, const Tensor& from) {
  int64_t rows = std::min(to.size(-2), from.size(-2)), columns = std::min(to.size(-1), from.size(-1));
  auto corner = [&](const Tensor& t) {
    Dims sizes(t.sizes());
    sizes[sizes.size() - 2] = rows;
    sizes[sizes.size() - 1] = columns;
    return make_view(t, sizes, t.strides(), 0, false);
  };
  copy_elements(corner(to), corner(from));
}

void fill_zero(const Tensor& a) {
  if (!a.is_meta()) fill_kernel(a.device(), a, Scalar(0));
}

void set_identity(const Tensor& a) {
  if (a.is_meta() || a.numel() == 0) return;
  fill_zero(a);
  fill_kernel(a.device(), diagonal(a, 0, -2, -1), Scalar(1));
}

void zero_triangle(const Tensor& a, bool below) {
  // in the order of memory, the matrices are the transposed ones
  if (!a.is_meta() && a.numel()) clear_triangle_kernel(a.device(), transpose(a, -2, -1), 0, !below);
}

bool residuals_known(const Tensor& rank, int64_t columns) {
  return rank.numel() == 0 || all(eq(rank, Operand(columns)), std::optional<IntList>(), false).item().to_bool();
}

}  // namespace facula::ops

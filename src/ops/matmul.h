// Declares what a backend provides for matrix products.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// A matrix, or a batch of them, in memory; strides in elements.
struct MatrixOperand {
  const char* data = nullptr;
  int64_t batch = 0, row = 0, column = 1;
};

/// out[i] = alpha a[i] b[i] + beta out[i] for i < batch; a is rows x inner, b is inner x columns, rows of `out` are
/// contiguous. Where beta is zero `out` is not read. In each of a and b the rows or the columns have stride one (see
/// lies_evenly), strides are not negative, and batch strides may be zero.
struct MatrixProduct {
  DType dtype = DType::Float32;
  int64_t batch = 1, rows = 0, columns = 0, inner = 0;
  MatrixOperand a, b;
  char* out = nullptr;
  int64_t out_batch = 0, out_row = 0;
  Scalar alpha = 1, beta = 0;
  const char* bias = nullptr;  // a row that is added to each row of the product; then beta is zero
  Storage* weights = nullptr;  // b's, where b may come again unchanged: the host's, to know it by

  template <class See>
  void memory(See see) const {
    for (const char* p : {a.data, b.data, static_cast<const char*>(out)}) see(static_cast<const void*>(p));
    if (bias) see(static_cast<const void*>(bias));
  }
};

inline Kernel<void(const MatrixProduct&)> matrix_product_kernel{"matmul"};

/// The cross products along the middle dimension of (n, 3, inner), all of them contiguous and of one of the dtypes that
/// are computed with.
inline Kernel<void(const Tensor& out, const Tensor& a, const Tensor& b, int64_t inner)> cross_kernel{"linalg.cross"};

/// Whether a `rows` x `columns` matrix can be read row after row, with rows of stride `row`.
inline bool rows_contiguous(int64_t rows, int64_t columns, int64_t row, int64_t column) {
  return (column == 1 || columns == 1) && (row >= std::max<int64_t>(columns, 1) || rows == 1);
}
/// Whether a matrix product can read it without a copy.
inline bool lies_evenly(int64_t rows, int64_t columns, int64_t row, int64_t column) {
  return rows_contiguous(rows, columns, row, column) || rows_contiguous(columns, rows, column, row);
}

namespace ops {
/// out = a b, of matrices of one dtype; `out` is new, or a part of what is being made.
void product_into(const Tensor& out, const Tensor& a, const Tensor& b);
/// out = grad^T input, added to what is there where `add`: the gradient of the weight of linear(). All are contiguous,
/// and grad (..., n) and input (..., k) are read as matrices, in place.
void linear_weight_gradient(const Tensor& out, const Tensor& grad, const Tensor& input, bool add);
/// out = grad weight, for grad (..., n) and a weight (n, k), all contiguous: the gradient of the input of linear().
void linear_input_gradient(const Tensor& out, const Tensor& grad, const Tensor& weight);
}  // namespace ops

}  // namespace facula

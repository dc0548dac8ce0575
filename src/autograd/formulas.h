// Derivative formulas too long for a line of YAML, and constants that formulas use.
#pragma once

#include <cmath>

#include "autograd/function_types.h"
#include "autograd/formulas_matmul.h"
#include "autograd/saved.h"

namespace facula {

constexpr double pi = 3.14159265358979323846;
constexpr double sqrt_pi = 1.77245385090551602730;
constexpr double ln_2 = 0.69314718055994530942;
constexpr double ln_10 = 2.30258509299404568402;

// shape
Tensor permute_backward(const Tensor& grad, IntList dims);
Tensor as_strided_backward(const Tensor& grad, const TensorInfo& self, IntList size, IntList stride, std::optional<int64_t> offset);
Tensor select_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t index);
Tensor slice_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t start, int64_t end, int64_t step);
Tensor negative_slice_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t start, int64_t count, int64_t step);

// reduce
Tensor sum_backward(const Tensor& grad, IntList sizes, std::optional<IntList> dim, bool keepdim);

}  // namespace facula

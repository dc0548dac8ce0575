// Derivative formulas too long for a line of YAML, and constants that formulas use.
#pragma once

#include <cmath>

#include "autograd/function_types.h"
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

// index
Tensor scatter_src_backward(const Tensor& grad, int64_t dim, const Tensor& index, IntList src_sizes);
Tensor scatter_reduce_backward(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const std::string& reduce,
                               bool include_self, const Tensor& result, bool of_self);
Tensor index_reduce_backward(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const std::string& reduce,
                             bool include_self, const Tensor& result, bool of_self);
Tensor masked_select_backward(const Tensor& grad, IntList sizes, const Tensor& mask);
Tensor masked_scatter_backward(const Tensor& grad, const Tensor& mask, IntList source_sizes);
Tensor embedding_double_backward(const Tensor& grad, const Tensor& indices, int64_t padding_idx, bool scale_grad_by_freq);

// sort; gradients may be undefined
Tensor selected_backward(const Tensor& grad, IntList sizes, int64_t dim, const Tensor& indices);
Tensor unsqueeze_if(const Tensor& grad, int64_t dim);

// reduce
Tensor sum_backward(const Tensor& grad, IntList sizes, std::optional<IntList> dim, bool keepdim);

}  // namespace facula

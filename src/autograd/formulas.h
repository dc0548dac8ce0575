// Declares derivative formulas that are too long for a line of YAML, and constants that formulas use.
#pragma once

#include <array>
#include <cmath>
#include <limits>

#include "autograd/formulas_fft.h"
#include "autograd/formulas_linalg.h"
#include "autograd/formulas_matmul.h"
#include "autograd/function_types.h"
#include "autograd/saved.h"

namespace facula {

constexpr double pi = 3.14159265358979323846;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double sqrt_pi = 1.77245385090551602730;
constexpr double ln_2 = 0.69314718055994530942;
constexpr double ln_10 = 2.30258509299404568402;

// random
Tensor no_derivative(const char* op);
Tensor dirichlet_backward(const Tensor& grad, const Tensor& sample, const Tensor& concentration);

// shape
Tensor permute_backward(const Tensor& grad, IntList dims);
Tensor as_strided_backward(const Tensor& grad, const TensorInfo& self, IntList size, IntList stride,
                           std::optional<int64_t> offset);
/// The same values with the strides of `like`, whose elements fill their memory.
Tensor laid_out(const Tensor& grad, const TensorInfo& like);
Tensor select_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t index);
Tensor slice_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t start, int64_t end, int64_t step);
Tensor negative_slice_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t start, int64_t count,
                               int64_t step);
Tensor diagonal_backward(const Tensor& grad, IntList sizes, int64_t offset, int64_t dim1, int64_t dim2);
Tensor unfold_backward(const Tensor& grad, IntList sizes, int64_t dimension, int64_t size, int64_t step);
std::vector<Tensor> cat_backward(const Tensor& grad, const std::vector<TensorInfo>& tensors, int64_t dim);
Tensor roll_backward(const Tensor& grad, IntList shifts, IntList dims);
Tensor repeat_backward(const Tensor& grad, IntList sizes, IntList repeats);
Tensor constant_pad_backward(const Tensor& grad, IntList pad);

// sparse
Tensor in_layout(const Tensor& t, std::optional<Layout> layout, IntList block = {});
Tensor to_dense_backward(const Tensor& grad, const Tensor& self, bool masked_grad);
/// Of a product of two matrices, for the one on the left or on the right; of a sparse one at the places it has.
Tensor sparse_product_gradient(const Tensor& grad, const Tensor& target, const Tensor& other, bool left);
Tensor sparse_sum_backward(const Tensor& grad, const Tensor& self, std::optional<IntList> dim, bool keepdim);
/// The gradient of a table; a sparse one is a COO tensor with an entry for each index.
Tensor embedding_backward(const Tensor& grad, const Tensor& indices, int64_t rows, int64_t padding_idx,
                          bool scale_grad_by_freq, bool sparse);
/// scattered(), as a COO tensor with an entry for each element of `values`.
Tensor sparse_scattered(const Tensor& values, IntList sizes, int64_t dim, const Tensor& index);

// index
Tensor scatter_src_backward(const Tensor& grad, int64_t dim, const Tensor& index, IntList src_sizes);
Tensor scatter_reduce_backward(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index,
                               const Tensor& src, const std::string& reduce, bool include_self, const Tensor& result,
                               bool of_self);
/// Zeros of `sizes` with `values` added at the places that indices name, as the op of that name does.
Tensor scattered(const Tensor& values, IntList sizes, int64_t dim, const Tensor& index);
Tensor index_added(const Tensor& values, IntList sizes, int64_t dim, const Tensor& index);
Tensor index_put_added(const Tensor& values, IntList sizes, TensorList indices);
/// scatter's name of a reduction as scatter_reduce's.
inline std::string reduction_of(std::string_view reduce) { return reduce == "add" ? "sum" : "prod"; }
Tensor index_reduce_backward(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index,
                             const Tensor& source, const std::string& reduce, bool include_self, const Tensor& result,
                             bool of_self);
Tensor index_fill_value_backward(const Tensor& grad, int64_t dim, const Tensor& index);
Tensor masked_select_backward(const Tensor& grad, IntList sizes, const Tensor& mask);
Tensor masked_scatter_backward(const Tensor& grad, const Tensor& mask, IntList source_sizes);
/// The gradient of every row that bags are made of, and of what the rows are multiplied by.
Tensor bag_rows(const Tensor& grad, const Tensor& bag_of, const Tensor& factors);
Tensor bag_weights_backward(const Tensor& grad, const Tensor& weight, const Tensor& indices, const Tensor& bag_of,
                            int64_t padding);
Tensor embedding_double_backward(const Tensor& grad, const Tensor& indices, int64_t padding_idx,
                                 bool scale_grad_by_freq);

// sort; gradients may be undefined
Tensor selected_backward(const Tensor& grad, IntList sizes, int64_t dim, const Tensor& indices);
Tensor unsqueeze_if(const Tensor& grad, int64_t dim);

// reduce
Tensor sum_backward(const Tensor& grad, IntList sizes, std::optional<IntList> dim, bool keepdim);
Tensor mean_backward(const Tensor& grad, IntList sizes, std::optional<IntList> dim, bool keepdim);
/// Asks the values, where that needs no waiting: on the CPU, and not inside vmap.
bool known_without_zeros(const Tensor& t);
Tensor prod_backward(const Tensor& grad, const Tensor& self, const Tensor& result);
Tensor prod_dim_backward(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim, bool keepdim);
Tensor prod_others_backward(const Tensor& grad, const Tensor& self, int64_t dim);
Tensor extremum_backward(const Tensor& grad, const Tensor& self, const Tensor& result, IntList dim, bool keepdim);
Tensor chosen_backward(const Tensor& grad, IntList sizes, int64_t dim, const Tensor& indices, bool keepdim);
Tensor var_backward(const Tensor& grad, const Tensor& self, std::optional<IntList> dim, double correction,
                    bool keepdim);
Tensor std_backward(const Tensor& grad, const Tensor& self, const Tensor& result, std::optional<IntList> dim,
                    double correction, bool keepdim);
Tensor vector_norm_backward(const Tensor& grad, const Tensor& self, const Scalar& ord, std::optional<IntList> dim,
                            bool keepdim, const Tensor& result);
Tensor logsumexp_backward(const Tensor& grad, const Tensor& self, const Tensor& result, IntList dim, bool keepdim);

// special functions
Tensor polygamma_backward(const Tensor& grad, const Operand& n, const Tensor& self);

// scan
/// The sum over one dimension, which stays with size one.
Tensor sum_along(const Tensor& self, int64_t dim);
Tensor cumsum_backward(const Tensor& grad, int64_t dim);
Tensor cumprod_backward(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim);
Tensor logcumsumexp_backward(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim);
Tensor softmax_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& output, int64_t dim);

// convolution, pooling, resampling
Tensor convolution_input_gradient(const Tensor& grad, const Tensor& weight, IntList input_size, IntList stride,
                                  IntList padding, IntList dilation, bool transposed, int64_t groups);
/// A convolution whose result is cut to `size`: a transposed one with output_padding has inputs that no output came
/// from.
Tensor convolution_of_size(const Tensor& input, const Tensor& weight, IntList size, IntList stride, IntList padding,
                           IntList dilation, int64_t groups);
Tensor convolution_weight_gradient(const Tensor& grad, const Tensor& input, IntList weight_size, IntList stride,
                                   IntList padding, IntList dilation, bool transposed, int64_t groups);
Tensor sum_but_channels(const Tensor& grad);
/// The last `spatial` sizes.
Dims spatial_sizes(IntList sizes, int64_t spatial);

Tensor grid_sampler_input_backward(const Tensor& grad, const Tensor& grid, IntList input_size, int64_t interpolation,
                                   int64_t padding, bool align_corners);
Tensor grid_sampler_grid_backward(const Tensor& grad, const Tensor& input, const Tensor& grid, int64_t interpolation,
                                  int64_t padding, bool align_corners);

// norm
std::tuple<Tensor, Tensor, Tensor> row_norm_backward(const Tensor& grad, const Tensor& self, const Tensor& weight,
                                                     IntList bias_sizes, const Tensor& mean, const Tensor& rstd,
                                                     int64_t groups, int64_t channels, double eps, bool center,
                                                     bool of_self, bool of_weight, bool of_bias);
std::tuple<Tensor, Tensor, Tensor> channel_norm_backward(const Tensor& grad, const Tensor& self, const Tensor& weight,
                                                         const Tensor& mean, const Tensor& rstd, bool training,
                                                         double eps, bool of_self, bool of_weight, bool of_bias);

// loss
Tensor nll_backward(const Tensor& grad, IntList sizes, const Tensor& target, const Tensor& weight,
                    const Tensor& total_weight, int64_t reduction, int64_t ignore_index);
Tensor cross_entropy_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                              const Tensor& total_weight, const Tensor& log_sum, int64_t reduction,
                              int64_t ignore_index, double label_smoothing);
Tensor bce_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& self, const Tensor& target);

// vision
/// The elements of images at the places of maxima.
Tensor roi_pool_chosen(const Tensor& grad, const Tensor& rois, const Tensor& argmax);
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> deform_conv2d_gradients(const Tensor& grad, const Tensor& input,
                                                                           const Tensor& weight, const Tensor& offset,
                                                                           const Tensor& mask, IntList geometry,
                                                                           int64_t groups, int64_t offset_groups,
                                                                           bool use_mask, std::array<bool, 5> wanted);

}  // namespace facula

// Declares the vmap rules that take more than a line (ops/ names them in `batch:`), and the helpers of rules that take
// one. The mechanism is in batching.h.
#pragma once

#include "autograd/batching.h"

namespace facula {

/// The dimensions of size one.
Dims unit_dims(const Tensor& t);
std::vector<Tensor> unsqueeze_each(TensorList tensors, int64_t dim);
/// A position in the flattened tensor; with keepdim as a tensor of as many dimensions.
Tensor flat_position(const Tensor& position, int64_t dim, bool keepdim);
/// A list of positions along `dim` as an index for gather and scatter: for every element beside of `t`.
Tensor index_along(const Tensor& index, int64_t dim, const Tensor& t);
/// The same for every element of `source`, which has as many positions.
Tensor index_of_source(const Tensor& index, int64_t dim, const Tensor& source);
/// Dimensions of (C, spatial...).
inline int64_t rank_of_planes(IntList spatial) { return static_cast<int64_t>(spatial.size()) + 1; }
/// (B, N, C, ...) -> (N, B * C, ...) and back: examples become groups of channels.
Tensor into_channels(const Tensor& t);
Tensor out_of_channels(const Tensor& t, int64_t size);
/// The first dimension as `size` examples and the rest of it, and back.
Tensor split_front(const Tensor& t, int64_t size);
Tensor join_front(const Tensor& t);

// conv, linear
Tensor batched_linear(const Tensor& self, const Tensor& weight, const Tensor& bias);
Tensor batched_convolution(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                           IntList padding, IntList dilation, bool transposed, IntList output_padding, int64_t groups);
Tensor batched_convolution_weight(const Tensor& output, const Tensor& input, IntList weight_size, IntList stride,
                                  IntList padding, IntList dilation, int64_t groups);

// index
Tensor batched_as_strided_scatter(const Tensor& self, const Tensor& src, IntList size, IntList stride,
                                  std::optional<int64_t> offset);
Tensor batched_index(const Tensor& self, TensorList indices);
Tensor batched_index_put(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate);
Tensor batched_embedding(const Tensor& weight, const Tensor& indices, int64_t padding_idx, bool scale_grad_by_freq,
                         bool sparse);
Tensor batched_embedding_backward(const Tensor& grad_output, const Tensor& indices, int64_t num_weights,
                                  int64_t padding_idx, bool scale_grad_by_freq);

// norm
std::tuple<Tensor, Tensor, Tensor> batched_row_norm(const Tensor& self, const Tensor& weight, const Tensor& bias,
                                                    int64_t rows, int64_t groups, int64_t channels, double eps,
                                                    bool center);
std::tuple<Tensor, Tensor, Tensor> batched_row_norm_backward(const Tensor& grad, const Tensor& self,
                                                             const Tensor& weight, const Tensor& mean,
                                                             const Tensor& rstd, int64_t groups, int64_t channels,
                                                             bool center, bool of_self, bool of_weight, bool of_bias);
std::tuple<Tensor, Tensor, Tensor> batched_channel_norm(const Tensor& self, const Tensor& weight, const Tensor& bias,
                                                        const Tensor& running_mean, const Tensor& running_var,
                                                        bool training, double momentum, double eps);
std::tuple<Tensor, Tensor, Tensor> batched_channel_norm_backward(const Tensor& grad, const Tensor& self,
                                                                 const Tensor& weight, const Tensor& mean,
                                                                 const Tensor& rstd, bool training, bool of_self,
                                                                 bool of_weight, bool of_bias);

// loss
std::tuple<Tensor, Tensor, Tensor> batched_cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight,
                                                         int64_t reduction, int64_t ignore_index,
                                                         double label_smoothing);
Tensor batched_cross_entropy_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                                      const Tensor& weight, const Tensor& total_weight, const Tensor& log_sum,
                                      int64_t reduction, int64_t ignore_index, double label_smoothing);
std::tuple<Tensor, Tensor> batched_nll(const Tensor& self, const Tensor& target, const Tensor& weight,
                                       int64_t reduction, int64_t ignore_index);
Tensor batched_nll_backward(const Tensor& grad, IntList sizes, const Tensor& target, const Tensor& weight,
                            const Tensor& total_weight, int64_t reduction, int64_t ignore_index);

}  // namespace facula

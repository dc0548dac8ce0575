// Backward operators of PyTorch's, of which the files of training steps are full. Some are private ops here; the others
// are the derivative of their forward op, which autograd gives: that runs once more.
#include "autograd/engine.h"
#include "autograd/node.h"
#include "core/checked.h"
#include "functions.h"
#include "program/boxing.h"
#include "program/program.h"

namespace facula {
namespace {

using OptTensor = const Tensor&;
using Mask = const std::vector<bool>&;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

/// The gradients of what `forward` makes of the tensors, for those that are wanted.
template <class Forward>
std::vector<Tensor> gradients(const Tensor& grad, std::vector<Tensor> inputs, const std::vector<bool>& wanted,
                              Forward&& forward) {
  FACULA_CHECK(wanted.size() >= inputs.size(), ErrorKind::Value, "backward: the output mask has ", inputs.size(),
               " entries, got ", wanted.size());
  const GradMode on(true);
  std::vector<Edge> edges;
  std::vector<size_t> places;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    inputs[i] = alias(inputs[i]);
    if (!wanted[i] || !(inputs[i].is_floating() || inputs[i].is_complex())) continue;
    set_requires_grad(inputs[i], true);
    edges.push_back(gradient_edge(inputs[i].impl()));
    places.push_back(i);
  }
  std::vector<Tensor> results(inputs.size());
  if (edges.empty()) return results;
  const Tensor made = forward(inputs);
  const Tensor seed = alias(grad.sizes() == made.sizes() ? grad : expand(grad, made.sizes()));
  const std::vector<Tensor> found = run_backward({gradient_edge(made.impl())}, {seed}, edges, {.accumulate = false});
  for (size_t k = 0; k < places.size(); ++k) results[places[k]] = found[k];
  return results;
}
template <class Forward>
Tensor gradient(const Tensor& grad, const Tensor& self, Forward&& forward) {
  return gradients(grad, {self}, {true}, [&](const std::vector<Tensor>& in) { return forward(in[0]); })[0];
}
Three three(std::vector<Tensor> found) { return {found[0], found[1], found[2]}; }

Three convolution_backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                           std::optional<IntList> bias_sizes, IntList stride, IntList padding, IntList dilation,
                           bool transposed, IntList output_padding, int64_t groups, Mask mask) {
  FACULA_CHECK(grad.dim() >= 2, ErrorKind::Runtime, "convolution_backward: a gradient of images is expected, got ",
               grad.sizes());
  const Tensor bias =
      bias_sizes && mask.size() > 2 && mask[2] ? zeros({grad.size(1)}, grad.dtype(), grad.device()) : Tensor();
  return three(gradients(grad, {input, weight, bias}, mask, [&](const std::vector<Tensor>& in) {
    return convolution(in[0], in[1], in[2], stride, padding, dilation, transposed, output_padding, groups);
  }));
}

// ---- norms, from what their forward op has saved

/// Statistics of rows or channels, as the private ops take them.
Tensor statistics(const char* op, const Tensor& saved, int64_t count) {
  FACULA_CHECK(saved.defined() && saved.numel() == count, ErrorKind::Runtime, op, ": ", count,
               " statistics are expected, got ", saved.defined() ? TensorMeta::of(saved).text() : "None");
  return contiguous(reshape(saved, {count}), MemoryFormat::Contiguous);
}
void check_norm(const char* op, const Tensor& grad, const Tensor& input, OptTensor weight, int64_t channels,
                Mask mask) {
  FACULA_CHECK(grad.sizes() == input.sizes() && grad.dtype() == input.dtype() && mask.size() == 3 && channels > 0,
               ErrorKind::Runtime, op, ": a gradient ", TensorMeta::of(input).text(), " is expected, got ",
               TensorMeta::of(grad).text());
  FACULA_CHECK(!weight.defined() || (weight.numel() == channels && weight.dtype() == input.dtype()), ErrorKind::Runtime,
               op, ": a weight for ", channels, " channels is expected, got ",
               weight.defined() ? TensorMeta::of(weight).text() : "None");
}
Three rows_backward(const char* op, const Tensor& grad, const Tensor& input, const Tensor& mean, const Tensor& rstd,
                    OptTensor weight, int64_t rows, int64_t groups, int64_t channels, Mask mask) {
  check_norm(op, grad, input, weight, groups * channels, mask);
  const Tensor flat = weight.defined() ? reshape(weight, {groups * channels}) : Tensor();
  auto [of_self, of_weight, of_bias] =
      _row_norm_backward(grad, input, flat, statistics(op, mean, rows), statistics(op, rstd, rows), groups, channels,
                         true, mask[0], mask[1], mask[2]);
  return {of_self, of_weight, of_bias};
}
Three layer_norm_backward(const Tensor& grad, const Tensor& input, IntList shape, const Tensor& mean,
                          const Tensor& rstd, OptTensor weight, OptTensor, Mask mask) {
  constexpr const char* kOp = "native_layer_norm_backward";
  const int64_t each = product_of(shape).get(kOp, "the number of elements", shape);
  FACULA_CHECK(each > 0 && input.numel() % each == 0, ErrorKind::Runtime, kOp, ": rows of ", shape,
               " are expected, got ", input.sizes());
  auto [of_self, of_weight, of_bias] =
      rows_backward(kOp, grad, input, mean, rstd, weight, input.numel() / each, 1, each, mask);
  const auto shaped = [&](const Tensor& t) { return t.defined() ? reshape(t, shape) : t; };
  return {of_self, shaped(of_weight), shaped(of_bias)};
}
Three group_norm_backward(const Tensor& grad, const Tensor& input, const Tensor& mean, const Tensor& rstd,
                          OptTensor weight, int64_t, int64_t channels, int64_t, int64_t groups, Mask mask) {
  constexpr const char* kOp = "native_group_norm_backward";
  FACULA_CHECK(input.dim() >= 2 && input.size(1) == channels && groups > 0 && channels % groups == 0,
               ErrorKind::Runtime, kOp, ": an input of ", channels, " channels in ", groups,
               " groups is expected, got ", input.sizes());
  return rows_backward(kOp, grad, input, mean, rstd, weight, input.size(0) * groups, groups, channels / groups, mask);
}
Three batch_norm_backward(const Tensor& grad, const Tensor& input, OptTensor weight, OptTensor mean, OptTensor var,
                          OptTensor save_mean, OptTensor save_rstd, bool train, double eps, Mask mask) {
  constexpr const char* kOp = "native_batch_norm_backward";
  FACULA_CHECK(input.dim() >= 2, ErrorKind::Runtime, kOp, ": expected an input with channels, got ", input.sizes());
  const int64_t channels = input.size(1);
  check_norm(kOp, grad, input, weight, channels, mask);
  const Tensor center = statistics(kOp, train ? save_mean : mean, channels);
  const Tensor scale = statistics(kOp, train ? save_rstd : var, channels);
  auto [of_self, of_weight, of_bias] = _channel_norm_backward(
      grad, input, weight, center, train ? scale : rsqrt(scale + eps), train, mask[0], mask[1], mask[2]);
  return {of_self, of_weight, of_bias};
}

// ---- soft-max, activations

template <Tensor (*op)(const Tensor&, const Tensor&, int64_t)>
Tensor along(const Tensor& grad, const Tensor& output, int64_t dim, DType dtype) {
  const Tensor made = op(grad, output, dim);
  return made.dtype() == dtype ? made : to_dtype(made, dtype);
}
Tensor gelu_backward(const Tensor& grad, const Tensor& self, std::string_view approximate) {
  return gradient(grad, self, [&](const Tensor& x) { return gelu(x, approximate); });
}
Tensor sigmoid_backward(const Tensor& grad, const Tensor& output) { return grad * output * (1.0 - output); }
Tensor tanh_backward(const Tensor& grad, const Tensor& output) { return grad * (1.0 - output * output); }
Tensor threshold_backward(const Tensor& grad, const Tensor& self, const Scalar& threshold) {
  return where(le(self, threshold), Scalar(0), grad);
}
Tensor elu_backward(const Tensor& grad, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
                    bool is_result, const Tensor& self) {
  if (!is_result) return gradient(grad, self, [&](const Tensor& x) { return elu(x, alpha, scale, input_scale); });
  const double a = alpha.to_double(), s = scale.to_double(), i = input_scale.to_double();
  return where(le(self, Scalar(0)), grad * i * (self + a * s), grad * s);
}
Tensor leaky_relu_backward(const Tensor& grad, const Tensor& self, const Scalar& slope, bool) {
  return where(gt(self, Scalar(0)), grad, grad * slope.to_double());
}
Tensor hardtanh_backward(const Tensor& grad, const Tensor& self, const Scalar& least, const Scalar& most) {
  return gradient(grad, self, [&](const Tensor& x) { return hardtanh(x, least, most); });
}
Tensor softplus_backward(const Tensor& grad, const Tensor& self, const Scalar& beta, const Scalar& threshold) {
  return gradient(grad, self, [&](const Tensor& x) { return softplus(x, beta, threshold); });
}
Tensor glu_backward(const Tensor& grad, const Tensor& self, int64_t dim) {
  return gradient(grad, self, [&](const Tensor& x) { return glu(x, dim); });
}
Tensor log_sigmoid_backward(const Tensor& grad, const Tensor& self, const Tensor&) {
  return gradient(grad, self, [](const Tensor& x) { return logsigmoid(x); });
}
template <Tensor (*op)(const Tensor&)>
Tensor plain_backward(const Tensor& grad, const Tensor& self) {
  return gradient(grad, self, [](const Tensor& x) { return op(x); });
}
Tensor native_dropout_backward(const Tensor& grad, const Tensor& mask, double scale) {
  return grad * to_dtype(mask, grad.dtype()) * scale;
}

// ---- pools and images

Tensor avg_pool2d_backward(const Tensor& grad, const Tensor& self, IntList kernel, IntList stride, IntList padding,
                           bool ceil, bool count_pad, std::optional<int64_t> divisor) {
  return gradient(grad, self,
                  [&](const Tensor& x) { return avg_pool2d(x, kernel, stride, padding, ceil, count_pad, divisor); });
}
Tensor avg_pool3d_backward(const Tensor& grad, const Tensor& self, IntList kernel, IntList stride, IntList padding,
                           bool ceil, bool count_pad, std::optional<int64_t> divisor) {
  return gradient(grad, self,
                  [&](const Tensor& x) { return avg_pool3d(x, kernel, stride, padding, ceil, count_pad, divisor); });
}
template <Two (*op)(const Tensor&, IntList, IntList, IntList, IntList, bool)>
Tensor max_pool_backward(const Tensor& grad, const Tensor& self, IntList kernel, IntList stride, IntList padding,
                         IntList dilation, bool ceil, const Tensor&) {
  return gradient(grad, self,
                  [&](const Tensor& x) { return std::get<0>(op(x, kernel, stride, padding, dilation, ceil)); });
}
template <Tensor (*op)(const Tensor&, IntList), int64_t spatial>
Tensor adaptive_backward(const Tensor& grad, const Tensor& self) {
  FACULA_CHECK(grad.dim() >= spatial, ErrorKind::Runtime, "adaptive_avg_pool_backward: a gradient of images, got ",
               grad.sizes());
  const IntList sizes = grad.sizes();
  return gradient(grad, self, [&](const Tensor& x) { return op(x, {sizes.end() - spatial, spatial}); });
}
Tensor padded_backward(const Tensor& grad, const Tensor& self, IntList padding, const char* mode) {
  return gradient(grad, self, [&](const Tensor& x) { return pad(x, padding, mode); });
}
Tensor reflection_backward(const Tensor& grad, const Tensor& self, IntList padding) {
  return padded_backward(grad, self, padding, "reflect");
}
Tensor replication_backward(const Tensor& grad, const Tensor& self, IntList padding) {
  return padded_backward(grad, self, padding, "replicate");
}

// ---- losses

Tensor nll_backward(const Tensor& grad, const Tensor& self, const Tensor& target, OptTensor weight, int64_t reduction,
                    int64_t ignored, const Tensor&) {
  return gradient(grad, self, [&](const Tensor& x) { return nll_loss_nd(x, target, weight, reduction, ignored); });
}
Two nll_forward(const Tensor& self, const Tensor& target, OptTensor weight, int64_t reduction, int64_t ignored) {
  const Tensor counted = ne(target, Scalar(ignored));
  const Tensor each = weight.defined() ? take(weight, where(counted, target, Scalar(0))) : ones_like(target);
  const Tensor total = sum(to_dtype(each, self.dtype()) * to_dtype(counted, self.dtype()));
  return {nll_loss_nd(self, target, weight, reduction, ignored), reduction == 0 ? zeros_like(total) : total};
}
Tensor mse_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction) {
  return gradient(grad, self, [&](const Tensor& x) { return mse_loss(x, target, reduction); });
}
Tensor smooth_l1_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                          double beta) {
  return gradient(grad, self, [&](const Tensor& x) { return smooth_l1_loss(x, target, reduction, beta); });
}
Tensor huber_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction, double delta) {
  return gradient(grad, self, [&](const Tensor& x) { return huber_loss(x, target, reduction, delta); });
}
Tensor bce_backward(const Tensor& grad, const Tensor& self, const Tensor& target, OptTensor weight, int64_t reduction) {
  return gradient(grad, self, [&](const Tensor& x) { return binary_cross_entropy(x, target, weight, reduction); });
}

// ---- attention, views

Three attention_backward(const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor&,
                         const Tensor&, double dropout, bool causal, OptTensor mask, std::optional<double> scale) {
  FACULA_CHECK(dropout == 0, ErrorKind::NotImplemented,
               "_scaled_dot_product_flash_attention_for_cpu_backward: what dropout let through is not known, got ",
               dropout);
  return three(gradients(grad, {query, key, value}, {true, true, true}, [&](const std::vector<Tensor>& in) {
    return scaled_dot_product_attention(in[0], in[1], in[2], mask, 0, causal, scale);
  }));
}
Tensor slice_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t start, int64_t end, int64_t step) {
  return slice_scatter(new_zeros(grad, sizes), grad, dim, start, end, step);
}
Tensor select_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t index) {
  return select_scatter(new_zeros(grad, sizes), grad, dim, index);
}

using boxing::box;
constexpr const char* kGradients = "Tensor grad_input, Tensor grad_weight, Tensor grad_bias";
constexpr const char* kSelf = "Tensor grad_output, Tensor self";
constexpr const char* kOutput = "Tensor grad_output, Tensor output";
constexpr const char* kAlong = "Tensor grad_output, Tensor output, int dim, dtype input_dtype";
constexpr const char* kAverage =
    "Tensor grad_output, Tensor self, int[] kernel_size, int[] stride, int[] padding, bool ceil_mode, "
    "bool count_include_pad, int? divisor_override";
constexpr const char* kLargest =
    "Tensor grad_output, Tensor self, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode, "
    "Tensor indices";
constexpr const char* kPadded = "Tensor grad_output, Tensor self, int[] padding";
constexpr const char* kNll =
    "Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index, "
    "Tensor total_weight";
using Plain = Tensor(const Tensor&, const Tensor&);
using Along = Tensor(const Tensor&, const Tensor&, int64_t, DType);
using Average = Tensor(const Tensor&, const Tensor&, IntList, IntList, IntList, bool, bool, std::optional<int64_t>);
using Largest = Tensor(const Tensor&, const Tensor&, IntList, IntList, IntList, IntList, bool, const Tensor&);
using Padded = Tensor(const Tensor&, const Tensor&, IntList);
using Scaled = Tensor(const Tensor&, const Tensor&, const Scalar&, const Scalar&);

const BuiltinRow kBackwardRows[] = {
    {"convolution_backward", "",
     "Tensor grad_output, Tensor input, Tensor weight, int[]? bias_sizes, int[] stride, int[] padding, "
     "int[] dilation, bool transposed, int[] output_padding, int groups, bool[] output_mask",
     kGradients, "convolution_backward.default",
     box<Three(const Tensor&, const Tensor&, const Tensor&, std::optional<IntList>, IntList, IntList, IntList, bool,
               IntList, int64_t, Mask)>(convolution_backward)},
    {"native_layer_norm_backward", "",
     "Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, "
     "bool[] output_mask",
     kGradients, "native_layer_norm_backward.default",
     box<Three(const Tensor&, const Tensor&, IntList, const Tensor&, const Tensor&, OptTensor, OptTensor, Mask)>(
         layer_norm_backward)},
    {"native_group_norm_backward", "",
     "Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, int N, int C, int HxW, int group, "
     "bool[] output_mask",
     kGradients, "native_group_norm_backward.default",
     box<Three(const Tensor&, const Tensor&, const Tensor&, const Tensor&, OptTensor, int64_t, int64_t, int64_t,
               int64_t, Mask)>(group_norm_backward)},
    {"native_batch_norm_backward", "",
     "Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, "
     "Tensor? save_invstd, bool train, float eps, bool[] output_mask",
     kGradients, "native_batch_norm_backward.default",
     box<Three(const Tensor&, const Tensor&, OptTensor, OptTensor, OptTensor, OptTensor, OptTensor, bool, double,
               Mask)>(batch_norm_backward)},
    {"_softmax_backward_data", "", kAlong, "Tensor", "_softmax_backward_data.default",
     box<Along>(along<_softmax_backward>)},
    {"_log_softmax_backward_data", "", kAlong, "Tensor", "_log_softmax_backward_data.default",
     box<Along>(along<_log_softmax_backward>)},
    {"gelu_backward", "", "Tensor grad_output, Tensor self, *, str approximate='none'", "Tensor",
     "gelu_backward.default", box<Tensor(const Tensor&, const Tensor&, std::string_view)>(gelu_backward)},
    {"sigmoid_backward", "", kOutput, "Tensor", "sigmoid_backward.default", box<Plain>(sigmoid_backward)},
    {"tanh_backward", "", kOutput, "Tensor", "tanh_backward.default", box<Plain>(tanh_backward)},
    {"threshold_backward", "", "Tensor grad_output, Tensor self, Scalar threshold", "Tensor",
     "threshold_backward.default", box<Tensor(const Tensor&, const Tensor&, const Scalar&)>(threshold_backward)},
    {"elu_backward", "",
     "Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self_or_result",
     "Tensor", "elu_backward.default",
     box<Tensor(const Tensor&, const Scalar&, const Scalar&, const Scalar&, bool, const Tensor&)>(elu_backward)},
    {"leaky_relu_backward", "", "Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result", "Tensor",
     "leaky_relu_backward.default",
     box<Tensor(const Tensor&, const Tensor&, const Scalar&, bool)>(leaky_relu_backward)},
    {"hardtanh_backward", "", "Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val", "Tensor",
     "hardtanh_backward.default", box<Scaled>(hardtanh_backward)},
    {"softplus_backward", "", "Tensor grad_output, Tensor self, Scalar beta, Scalar threshold", "Tensor",
     "softplus_backward.default", box<Scaled>(softplus_backward)},
    {"glu_backward", "", "Tensor grad_output, Tensor self, int dim", "Tensor", "glu_backward.default",
     box<Tensor(const Tensor&, const Tensor&, int64_t)>(glu_backward)},
    {"log_sigmoid_backward", "", "Tensor grad_output, Tensor self, Tensor buffer", "Tensor",
     "log_sigmoid_backward.default", box<Tensor(const Tensor&, const Tensor&, const Tensor&)>(log_sigmoid_backward)},
    {"silu_backward", "", kSelf, "Tensor", "silu_backward.default", box<Plain>(plain_backward<silu>)},
    {"mish_backward", "", kSelf, "Tensor", "mish_backward.default", box<Plain>(plain_backward<mish>)},
    {"hardswish_backward", "", kSelf, "Tensor", "hardswish_backward.default", box<Plain>(plain_backward<hardswish>)},
    {"hardsigmoid_backward", "", kSelf, "Tensor", "hardsigmoid_backward.default",
     box<Plain>(plain_backward<hardsigmoid>)},
    {"native_dropout_backward", "", "Tensor grad_output, Tensor mask, float scale", "Tensor",
     "native_dropout_backward.default", box<Tensor(const Tensor&, const Tensor&, double)>(native_dropout_backward)},
    {"avg_pool2d_backward", "", kAverage, "Tensor", "avg_pool2d_backward.default", box<Average>(avg_pool2d_backward)},
    {"avg_pool3d_backward", "", kAverage, "Tensor", "avg_pool3d_backward.default", box<Average>(avg_pool3d_backward)},
    {"max_pool2d_with_indices_backward", "", kLargest, "Tensor", "max_pool2d_with_indices_backward.default",
     box<Largest>(max_pool_backward<max_pool2d_with_indices>)},
    {"max_pool3d_with_indices_backward", "", kLargest, "Tensor", "max_pool3d_with_indices_backward.default",
     box<Largest>(max_pool_backward<max_pool3d_with_indices>)},
    {"_adaptive_avg_pool2d_backward", "", kSelf, "Tensor", "_adaptive_avg_pool2d_backward.default",
     box<Plain>(adaptive_backward<adaptive_avg_pool2d, 2>)},
    {"_adaptive_avg_pool3d_backward", "", kSelf, "Tensor", "_adaptive_avg_pool3d_backward.default",
     box<Plain>(adaptive_backward<adaptive_avg_pool3d, 3>)},
    {"_reflection_pad_backward", "", kPadded, "Tensor",
     "reflection_pad1d_backward.default reflection_pad2d_backward.default reflection_pad3d_backward.default",
     box<Padded>(reflection_backward)},
    {"_replication_pad_backward", "", kPadded, "Tensor",
     "replication_pad1d_backward.default replication_pad2d_backward.default replication_pad3d_backward.default",
     box<Padded>(replication_backward)},
    {"nll_loss_forward", "", "Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index",
     "Tensor output, Tensor total_weight", "nll_loss_forward.default nll_loss2d_forward.default",
     box<Two(const Tensor&, const Tensor&, OptTensor, int64_t, int64_t)>(nll_forward)},
    {"nll_loss_backward", "", kNll, "Tensor", "nll_loss_backward.default nll_loss2d_backward.default",
     box<Tensor(const Tensor&, const Tensor&, const Tensor&, OptTensor, int64_t, int64_t, const Tensor&)>(
         nll_backward)},
    {"mse_loss_backward", "", "Tensor grad_output, Tensor self, Tensor target, int reduction", "Tensor",
     "mse_loss_backward.default", box<Tensor(const Tensor&, const Tensor&, const Tensor&, int64_t)>(mse_backward)},
    {"smooth_l1_loss_backward", "", "Tensor grad_output, Tensor self, Tensor target, int reduction, float beta",
     "Tensor", "smooth_l1_loss_backward.default",
     box<Tensor(const Tensor&, const Tensor&, const Tensor&, int64_t, double)>(smooth_l1_backward)},
    {"huber_loss_backward", "", "Tensor grad_output, Tensor self, Tensor target, int reduction, float delta", "Tensor",
     "huber_loss_backward.default",
     box<Tensor(const Tensor&, const Tensor&, const Tensor&, int64_t, double)>(huber_backward)},
    {"binary_cross_entropy_backward", "",
     "Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, int reduction=1", "Tensor",
     "binary_cross_entropy_backward.default",
     box<Tensor(const Tensor&, const Tensor&, const Tensor&, OptTensor, int64_t)>(bce_backward)},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", "",
     "Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, float dropout_p, "
     "bool is_causal, *, Tensor? attn_mask=None, float? scale=None",
     "Tensor grad_query, Tensor grad_key, Tensor grad_value",
     "_scaled_dot_product_flash_attention_for_cpu_backward.default",
     box<Three(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, double, bool,
               OptTensor, std::optional<double>)>(attention_backward)},
    {"slice_backward", "", "Tensor grad_output, int[] input_sizes, int dim, int start, int end, int step", "Tensor",
     "slice_backward.default", box<Tensor(const Tensor&, IntList, int64_t, int64_t, int64_t, int64_t)>(slice_backward)},
    {"select_backward", "", "Tensor grad_output, int[] input_sizes, int dim, int index", "Tensor",
     "select_backward.default", box<Tensor(const Tensor&, IntList, int64_t, int64_t)>(select_backward)},
};

}  // namespace

std::span<const BuiltinRow> backward_rows() { return kBackwardRows; }

}  // namespace facula

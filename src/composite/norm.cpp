// The public normalizations: argument checks, and the arrangement of the input as rows or channels.
#include "autograd/function_support.h"
#include "core/checked.h"
#include "core/error.h"
#include "core/mode.h"
#include "functions.h"

namespace facula {
namespace {

/// Weights, biases and statistics have the input's dtype, or all float32 where the input is of half precision.
void check_dtypes(const char* op, const Tensor& input, std::initializer_list<const Tensor*> parameters) {
  const Tensor* first = nullptr;
  for (const Tensor* t : parameters) {
    if (!t->defined()) continue;
    if (!first) first = t;
    DType dtype = t->dtype();
    bool fits = dtype == input.dtype() || (is_half(input.dtype()) && dtype == DType::Float32);
    FACULA_CHECK(fits && dtype == first->dtype(), ErrorKind::Runtime, op,
                 ": expected weights and statistics of one dtype, ", input.dtype(),
                 is_half(input.dtype()) ? " as the input's or float32" : " as the input's", ", got ", dtype);
  }
}

/// Of the blocks that the last dimensions form; checks that they are `normalized_shape`.
int64_t count_rows(const char* op, const Tensor& input, IntList normalized_shape, const Tensor& weight,
                   const Tensor& bias) {
  FACULA_CHECK(!normalized_shape.empty(), ErrorKind::Runtime, op,
               ": normalized_shape needs at least one dimension, got ", normalized_shape);
  for (const Tensor* t : {&weight, &bias}) {
    FACULA_CHECK(!t->defined() || t->sizes() == normalized_shape, ErrorKind::Runtime, op, ": expected ",
                 t == &weight ? "weight" : "bias", " of shape normalized_shape = ", normalized_shape, ", got ",
                 t->sizes());
  }
  size_t leading = static_cast<size_t>(input.dim()) - normalized_shape.size();
  bool fits = static_cast<size_t>(input.dim()) >= normalized_shape.size() &&
              input.sizes().slice(leading, normalized_shape.size()) == normalized_shape;
  FACULA_CHECK(fits, ErrorKind::Runtime, op,
               ": expected an input whose last sizes are normalized_shape = ", normalized_shape, ", got shape ",
               input.sizes());
  return count_elements(input.sizes().slice(0, leading), op);
}

std::tuple<Tensor, Tensor, Tensor> last_dims_norm(const char* op, const Tensor& input, IntList normalized_shape,
                                                  const Tensor& weight, const Tensor& bias, double eps, bool center) {
  int64_t rows = count_rows(op, input, normalized_shape, weight, bias);
  if (center) check_dtypes(op, input, {&weight, &bias});
  return _row_norm(input, weight, bias, rows, 1, count_elements(normalized_shape, op), eps, center);
}

void check_channels(const char* op, const char* what, const Tensor& parameter, int64_t channels) {
  FACULA_CHECK(!parameter.defined() || (parameter.dim() == 1 && parameter.numel() == channels), ErrorKind::Runtime, op,
               ": ", what, " must have one element for each of the ", channels, " channels of the input, got shape ",
               parameter.sizes());
}

/// The epsilon of the dtype that a norm computes in.
double epsilon(DType dtype) { return dtype == DType::Float64 ? 0x1p-52 : 0x1p-23; }

struct BatchNormArgs {
  const Tensor &input, &weight, &bias, &running_mean, &running_var;
};

/// Mean and 1 / deviation of each of `rows` equal runs, recorded for derivatives.
std::tuple<Tensor, Tensor> row_statistics(const Tensor& self, int64_t rows, double eps) {
  const Dims last(1, 1);  // one dimension, the second
  Tensor x = reshape(self, {rows, rows ? self.numel() / rows : 0});
  Tensor center = mean(x, std::optional<IntList>(last), true, std::optional<DType>());
  Tensor variance = mean(_square(x - center), std::optional<IntList>(last), true, std::optional<DType>());
  return {center, rsqrt(variance + eps)};
}

void check_batch_norm(const char* op, const BatchNormArgs& a, bool use_input) {
  FACULA_CHECK(a.input.dim() >= 2, ErrorKind::Runtime, op, ": expected an input of shape (N, C, ...), got ",
               a.input.sizes());
  int64_t channels = a.input.size(1);
  check_channels(op, "running_mean", a.running_mean, channels);
  check_channels(op, "running_var", a.running_var, channels);
  check_channels(op, "weight", a.weight, channels);
  check_channels(op, "bias", a.bias, channels);
  if (a.input.numel() > 0) check_dtypes(op, a.input, {&a.weight, &a.bias, &a.running_mean, &a.running_var});
  for (const Tensor* t : {&a.running_mean, &a.running_var})
    FACULA_CHECK(!t->defined() || !(t->flags() & kDual) || !(a.input.flags() & kDual), ErrorKind::Runtime, op,
                 ": there is no derivative by running_mean and running_var, so they cannot be dual where the input is");
  FACULA_CHECK(use_input || (a.running_mean.defined() && a.running_var.defined()), ErrorKind::Runtime, op,
               ": expected running_mean and running_var when not training, got None");
}

/// (C) parameters for every sample: (N * C).
Tensor repeat_samples(const Tensor& t, int64_t samples) {
  return t.defined() ? reshape(expand(t, {samples, t.numel()}), {samples * t.numel()}) : t;
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> native_layer_norm_uncast(const Tensor& input, IntList normalized_shape,
                                                            const Tensor& weight, const Tensor& bias, double eps) {
  auto [result, mean, rstd] = last_dims_norm("native_layer_norm", input, normalized_shape, weight, bias, eps, true);
  Dims shape(input.sizes());
  for (size_t d = shape.size() - normalized_shape.size(); d < shape.size(); ++d) shape[d] = 1;
  DType dtype = weight.defined() ? weight.dtype() : input.dtype();
  return {result, to_dtype(reshape(mean, shape), dtype), to_dtype(reshape(rstd, shape), dtype)};
}

Tensor layer_norm_uncast(const Tensor& input, IntList normalized_shape, const Tensor& weight, const Tensor& bias,
                         double eps, bool) {
  return std::get<0>(last_dims_norm("layer_norm", input, normalized_shape, weight, bias, eps, true));
}

Tensor rms_norm_uncast(const Tensor& input, IntList normalized_shape, const Tensor& weight, std::optional<double> eps) {
  double under_root = eps.value_or(epsilon(real_dtype(input.dtype())));
  if (is_complex(input.dtype())) {
    count_rows("rms_norm", input, normalized_shape, weight, Tensor());
    Dims dims;
    for (size_t d = 1; d <= normalized_shape.size(); ++d) dims.push_back(-static_cast<int64_t>(d));
    Tensor scaled =
        input * rsqrt(mean(_square(input), std::optional<IntList>(dims), true, std::optional<DType>()) + under_root);
    return weight.defined() ? scaled * weight : scaled;
  }
  return std::get<0>(last_dims_norm("rms_norm", input, normalized_shape, weight, Tensor(), under_root, false));
}

std::tuple<Tensor, Tensor, Tensor> native_group_norm(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                                     int64_t N, int64_t C, int64_t HxW, int64_t group, double eps) {
  const char* op = "native_group_norm";
  FACULA_CHECK(group > 0 && C % group == 0, ErrorKind::Runtime, op, ": expected a number of groups that divides ", C,
               " channels, got ", group);
  const bool counts = N >= 0 && C >= 0 && HxW >= 0;
  FACULA_CHECK(counts && product_of({N, C, HxW}).value_or(-1) == input.numel(), ErrorKind::Runtime, op,
               ": expected an input of ", N, " * ", C, " * ", HxW, " elements, got shape ", input.sizes());
  check_channels(op, "weight", weight, C);
  check_channels(op, "bias", bias, C);
  check_dtypes(op, input, {&weight, &bias});
  const int64_t rows = (Checked(N) * group).get(op, "the number of rows", N, " * ", group);
  auto [result, mean, rstd] = _row_norm(input, weight, bias, rows, group, C / group, eps, true);
  if (recorded_flags_of(all_examples(input))) std::tie(mean, rstd) = row_statistics(input, rows, eps);
  return {result, to_dtype(reshape(mean, {N, group}), input.dtype()),
          to_dtype(reshape(rstd, {N, group}), input.dtype())};
}

Tensor group_norm_uncast(const Tensor& input, int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps,
                         bool) {
  FACULA_CHECK(input.dim() >= 2, ErrorKind::Runtime, "group_norm: expected an input of shape (N, C, ...), got ",
               input.sizes());
  int64_t samples = input.size(0), channels = input.size(1);
  FACULA_CHECK(num_groups > 0, ErrorKind::Runtime, "group_norm: expected a positive number of groups, got ",
               num_groups);
  FACULA_CHECK(channels % num_groups == 0, ErrorKind::Runtime,
               "group_norm: expected a number of channels divisible by num_groups = ", num_groups, ", got input shape ",
               input.sizes());
  check_channels("group_norm", "weight", weight, channels);
  check_channels("group_norm", "bias", bias, channels);
  check_dtypes("group_norm", input, {&weight, &bias});
  Tensor result =
      std::get<0>(_row_norm(input, weight, bias, samples * num_groups, num_groups, channels / num_groups, eps, true));
  return input.flags() & kPrivateLayout ? result : contiguous(result, input.suggest_memory_format());
}

std::tuple<Tensor, Tensor, Tensor> native_batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                                     const Tensor& running_mean, const Tensor& running_var,
                                                     bool training, double momentum, double eps) {
  check_batch_norm("native_batch_norm", {input, weight, bias, running_mean, running_var}, training);
  auto [result, mean, rstd] = _channel_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
  DType dtype = (weight.defined() ? weight : input).dtype();
  if (training) return {result, to_dtype(mean, dtype), to_dtype(rstd, dtype)};
  Tensor none = empty(IntList{0}, std::optional<MemoryFormat>(), dtype, mean.device());
  return {result, none, none};
}

Tensor batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, bool training, double momentum, double eps, bool) {
  if (input.numel() == 0 && input.dim() < 2) return clone(input, std::nullopt);
  check_batch_norm("batch_norm", {input, weight, bias, running_mean, running_var}, training);
  return std::get<0>(_channel_norm(input, weight, bias, running_mean, running_var, training, momentum, eps));
}

Tensor instance_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                     const Tensor& running_var, bool use_input_stats, double momentum, double eps, bool) {
  check_batch_norm("instance_norm", {input, weight, bias, running_mean, running_var}, use_input_stats);
  int64_t samples = input.size(0), channels = input.size(1);
  if (use_input_stats && !running_mean.defined() && !running_var.defined())
    return std::get<0>(_row_norm(input, weight, bias, samples * channels, channels, 1, eps, true));
  // One sample with N * C channels; its running statistics are averaged over the samples afterwards.
  Dims shape(input.sizes());
  shape[0] = 1;
  shape[1] = samples * channels;
  const auto own_copies = [&](const Tensor& running) {  // of one channel the samples would share their element
    return running.defined() ? clone(repeat_samples(running, samples), MemoryFormat::Contiguous) : running;
  };
  Tensor means = own_copies(running_mean), variances = own_copies(running_var);
  Tensor out =
      std::get<0>(_channel_norm(reshape(input, shape), repeat_samples(weight, samples), repeat_samples(bias, samples),
                                means, variances, use_input_stats, momentum, eps));
  if (use_input_stats) {
    GradMode no_grad(false);
    auto average = [&](const Tensor& running, const Tensor& repeated) {
      if (!running.defined()) return;
      Tensor total = sum(reshape(repeated, {samples, channels}), std::optional<IntList>(IntList{0}), false,
                         std::optional<DType>());
      copy_(running, total * (1.0 / static_cast<double>(samples)));
    };
    average(running_mean, means);
    average(running_var, variances);
  }
  return reshape(out, input.sizes());
}

}  // namespace facula

// torch::nn::functional, init and utils.
#include <cmath>

#include "cxx/reduction.h"
#include "torch/nn/functional.h"

namespace torch::nn {

using facula::ErrorKind;

int64_t reduction_of(Word word) {
  constexpr std::pair<Word, int64_t> kWords[] = {
      {kNone, Reduction::None}, {kMean, Reduction::Mean}, {kSum, Reduction::Sum}};
  for (const auto& [name, number] : kWords)
    if (name == word) return number;
  facula::throw_error(ErrorKind::Value, "reduction: kNone, kMean or kSum is expected, got ", word.name);
}

namespace {

optional<Tensor> given(const Tensor& t) { return t.defined() ? optional<Tensor>(t) : nullopt; }
void check_probability(double p) {
  FACULA_CHECK(p >= 0 && p <= 1, ErrorKind::Runtime, "dropout: expected a probability from 0 to 1, got ", p);
}

}  // namespace

namespace functional {

Tensor mse_loss(const Tensor& input, const Tensor& target, const MSELossOptions& o) {
  const auto both = torch::broadcast_tensors({input, target});
  return torch::mse_loss(both[0], both[1], reduction_of(o.reduction()));
}
Tensor l1_loss(const Tensor& input, const Tensor& target, const L1LossOptions& o) {
  const auto both = torch::broadcast_tensors({input, target});
  return torch::l1_loss(both[0], both[1], reduction_of(o.reduction()));
}
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossOptions& o) {
  const auto both = torch::broadcast_tensors({input, target});
  return torch::smooth_l1_loss(both[0], both[1], reduction_of(o.reduction()), o.beta().value_or(1.0));
}
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BCELossOptions& o) {
  return torch::binary_cross_entropy(input, target, given(o.weight()), reduction_of(o.reduction()));
}
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target, const BCEWithLogitsLossOptions& o) {
  return torch::binary_cross_entropy_with_logits(input, target, given(o.weight()), given(o.pos_weight()),
                                                 reduction_of(o.reduction()));
}
Tensor nll_loss(const Tensor& input, const Tensor& target, const NLLLossOptions& o) {
  return torch::nll_loss(input, target, given(o.weight()), reduction_of(o.reduction()), o.ignore_index());
}
Tensor cross_entropy(const Tensor& input, const Tensor& target, const CrossEntropyLossOptions& o) {
  return torch::cross_entropy_loss(input, target, given(o.weight()), reduction_of(o.reduction()), o.ignore_index(),
                                   o.label_smoothing());
}
Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivLossOptions& o) {
  const bool by_batch = o.reduction() == kBatchMean;
  const Tensor loss =
      torch::kl_div(input, target, by_batch ? int64_t{Reduction::Sum} : reduction_of(o.reduction()), o.log_target());
  return by_batch && input.dim() ? loss / input.size(0) : loss;
}

Tensor relu(Tensor input, const ReLUOptions& o) { return o.inplace() ? input.relu_() : input.relu(); }
Tensor relu6(Tensor input, const ReLU6Options& o) { return o.inplace() ? input.clamp_(0, 6) : input.clamp(0, 6); }
Tensor selu(Tensor input, const SELUOptions& o) { return o.inplace() ? torch::selu_(input) : torch::selu(input); }
Tensor leaky_relu(Tensor input, const LeakyReLUOptions& o) {
  return o.inplace() ? torch::leaky_relu_(input, o.negative_slope()) : torch::leaky_relu(input, o.negative_slope());
}
Tensor elu(Tensor input, const ELUOptions& o) {
  return o.inplace() ? torch::elu_(input, o.alpha()) : torch::elu(input, o.alpha());
}
Tensor gelu(const Tensor& input, const GELUOptions& o) { return torch::gelu(input, o.approximate()); }
Tensor softplus(const Tensor& input, const SoftplusOptions& o) {
  return torch::softplus(input, o.beta(), o.threshold());
}
Tensor softmax(const Tensor& input, const SoftmaxOptions& o) { return input.softmax(o.dim(), o.dtype()); }
Tensor log_softmax(const Tensor& input, const LogSoftmaxOptions& o) { return input.log_softmax(o.dim(), o.dtype()); }

Tensor dropout(Tensor input, const DropoutFuncOptions& o) {
  check_probability(o.p());
  return o.inplace() ? torch::dropout_(input, o.p(), o.training()) : torch::dropout(input, o.p(), o.training());
}
Tensor dropout2d(Tensor input, const DropoutFuncOptions& o) {
  check_probability(o.p());
  return o.inplace() ? torch::feature_dropout_(input, o.p(), o.training())
                     : torch::feature_dropout(input, o.p(), o.training());
}
Tensor dropout3d(Tensor input, const DropoutFuncOptions& o) { return dropout2d(std::move(input), o); }
Tensor alpha_dropout(Tensor input, const DropoutFuncOptions& o) {
  check_probability(o.p());
  return o.inplace() ? torch::alpha_dropout_(input, o.p(), o.training())
                     : torch::alpha_dropout(input, o.p(), o.training());
}
Tensor feature_alpha_dropout(Tensor input, const DropoutFuncOptions& o) {
  check_probability(o.p());
  return o.inplace() ? torch::feature_alpha_dropout_(input, o.p(), o.training())
                     : torch::feature_alpha_dropout(input, o.p(), o.training());
}
Tensor pad(const Tensor& input, const PadOptions& o) {
  return torch::pad(input, o.pad(), o.mode().name, o.mode() == kConstant ? optional<double>(o.value()) : nullopt);
}

#define TORCH_POOLS(D)                                                                                          \
  Tensor max_pool##D##d(const Tensor& input, const MaxPool##D##dOptions& o) {                                   \
    return torch::max_pool##D##d(input, o.kernel_size(), o.stride(), o.padding(), o.dilation(), o.ceil_mode()); \
  }                                                                                                             \
  Tensor adaptive_avg_pool##D##d(const Tensor& input, const AdaptiveAvgPool##D##dOptions& o) {                  \
    return torch::adaptive_avg_pool##D##d(input, o.output_size());                                              \
  }
TORCH_POOLS(1)
TORCH_POOLS(2)
TORCH_POOLS(3)
#undef TORCH_POOLS
Tensor avg_pool1d(const Tensor& input, const AvgPool1dOptions& o) {
  return torch::avg_pool1d(input, o.kernel_size(), o.stride(), o.padding(), o.ceil_mode(), o.count_include_pad());
}
Tensor avg_pool2d(const Tensor& input, const AvgPool2dOptions& o) {
  return torch::avg_pool2d(input, o.kernel_size(), o.stride(), o.padding(), o.ceil_mode(), o.count_include_pad(),
                           o.divisor_override());
}
Tensor avg_pool3d(const Tensor& input, const AvgPool3dOptions& o) {
  return torch::avg_pool3d(input, o.kernel_size(), o.stride(), o.padding(), o.ceil_mode(), o.count_include_pad(),
                           o.divisor_override());
}

}  // namespace functional

namespace init {
namespace {

struct Fans {
  double in, out;
};
Fans fans_of(const Tensor& t) {
  FACULA_CHECK(t.dim() >= 2, ErrorKind::Runtime, "nn::init: fans need at least 2 dimensions, got ", t.dim());
  double field = 1;
  for (const int64_t size : t.sizes().slice(2)) field *= static_cast<double>(size);
  return {static_cast<double>(t.size(1)) * field, static_cast<double>(t.size(0)) * field};
}
double kaiming_std(const Tensor& t, double a, Word mode, Word nonlinearity) {
  const Fans fans = fans_of(t);
  return calculate_gain(nonlinearity, a) / std::sqrt(mode == kFanIn ? fans.in : fans.out);
}
double xavier_std(const Tensor& t, double gain) {
  const Fans fans = fans_of(t);
  return gain * std::sqrt(2.0 / (fans.in + fans.out));
}

}  // namespace

double calculate_gain(Word nonlinearity, double param) {
  if (nonlinearity == kTanh) return 5.0 / 3.0;
  if (nonlinearity == kReLU) return std::sqrt(2.0);
  if (nonlinearity == kLeakyReLU) return std::sqrt(2.0 / (1 + param * param));
  return 1.0;
}
Tensor constant_(Tensor tensor, Scalar value) {
  NoGradGuard off;
  return tensor.fill_(value);
}
Tensor ones_(Tensor tensor) { return constant_(std::move(tensor), 1); }
Tensor zeros_(Tensor tensor) { return constant_(std::move(tensor), 0); }
Tensor eye_(Tensor matrix) {
  NoGradGuard off;
  return matrix.copy_(torch::eye(matrix.size(0), matrix.size(1), matrix.options()));
}
Tensor normal_(Tensor tensor, double mean, double std) {
  NoGradGuard off;
  return tensor.normal_(mean, std);
}
Tensor uniform_(Tensor tensor, double low, double high) {
  NoGradGuard off;
  return tensor.uniform_(low, high);
}
Tensor dirac_(Tensor tensor) {
  FACULA_CHECK(tensor.dim() >= 3 && tensor.dim() <= 5, ErrorKind::Runtime,
               "dirac_: 3, 4 or 5 dimensions are expected, got ", tensor.dim());
  NoGradGuard off;
  tensor.zero_();
  for (int64_t channel = 0; channel < std::min(tensor.size(0), tensor.size(1)); ++channel) {
    Tensor kernel = tensor[channel][channel];
    while (kernel.dim() > 0) kernel = kernel[kernel.size(0) / 2];
    kernel.fill_(1);
  }
  return tensor;
}
Tensor orthogonal_(Tensor tensor, double gain) {
  FACULA_CHECK(tensor.dim() >= 2, ErrorKind::Runtime, "orthogonal_: 2 dimensions or more are expected, got ",
               tensor.dim());
  NoGradGuard off;
  if (tensor.numel() == 0) return tensor;
  const int64_t rows = tensor.size(0), columns = tensor.numel() / rows;
  Tensor flat = torch::randn({rows, columns});
  if (rows < columns) flat = flat.t();
  auto [q, r] = torch::linalg_qr(flat);
  q = q * torch::diag(r, 0).sign();
  if (rows < columns) q = q.t();
  tensor.view_as(q).copy_(q);
  return tensor.mul_(gain);
}
Tensor sparse_(Tensor tensor, double sparsity, double std) {
  FACULA_CHECK(tensor.dim() == 2, ErrorKind::Runtime, "sparse_: 2 dimensions are expected, got ", tensor.dim());
  FACULA_CHECK(sparsity >= 0 && sparsity <= 1, ErrorKind::Value, "sparse_: a part of the column is expected, got ",
               sparsity);
  NoGradGuard off;
  const int64_t rows = tensor.size(0), zeros = static_cast<int64_t>(std::ceil(sparsity * static_cast<double>(rows)));
  tensor.normal_(0, std);
  for (int64_t column = 0; column < tensor.size(1); ++column)
    tensor.select(1, column).index_fill_(0, torch::randperm(rows).slice(0, 0, zeros), 0);
  return tensor;
}
Tensor xavier_normal_(Tensor tensor, double gain) { return normal_(tensor, 0, xavier_std(tensor, gain)); }
Tensor xavier_uniform_(Tensor tensor, double gain) {
  const double bound = std::sqrt(3.0) * xavier_std(tensor, gain);
  return uniform_(tensor, -bound, bound);
}
Tensor kaiming_normal_(Tensor tensor, double a, Word mode, Word nonlinearity) {
  return normal_(tensor, 0, kaiming_std(tensor, a, mode, nonlinearity));
}
Tensor kaiming_uniform_(Tensor tensor, double a, Word mode, Word nonlinearity) {
  const double bound = std::sqrt(3.0) * kaiming_std(tensor, a, mode, nonlinearity);
  return uniform_(tensor, -bound, bound);
}

}  // namespace init

namespace utils {

double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  NoGradGuard off;
  std::vector<Tensor> norms, grads;
  for (const Tensor& p : parameters)
    if (const Tensor grad = p.grad(); grad.defined()) {
      grads.push_back(grad);
      norms.push_back(grad.norm(norm_type));
    }
  if (grads.empty()) return 0.0;
  const double total = torch::stack(norms).norm(norm_type).item<double>();
  FACULA_CHECK(!error_if_nonfinite || std::isfinite(total), ErrorKind::Runtime,
               "clip_grad_norm_: the gradients' norm of order ", norm_type, " is not finite, got ", total);
  constexpr double kTiny = 1e-6;
  const double factor = std::min(1.0, max_norm / (total + kTiny));
  for (const Tensor& grad : grads) grad.mul_(factor);
  return total;
}
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  NoGradGuard off;
  for (const Tensor& p : parameters)
    if (const Tensor grad = p.grad(); grad.defined()) grad.clamp_(-clip_value, clip_value);
}
Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> parts;
  for (const Tensor& p : parameters) parts.push_back(p.reshape({-1}));
  return torch::cat(parts);
}
void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters) {
  int64_t at = 0;
  for (const Tensor& p : parameters) {
    p.set_data(vector.slice(0, at, at + p.numel()).reshape(p.sizes()).detach());
    at += p.numel();
  }
}

}  // namespace utils

}  // namespace torch::nn

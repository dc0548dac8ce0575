// Further activations and distances.
#include <cmath>

#include "functions.h"
#include "torch/nn/activations.h"

namespace torch::nn {

using facula::ErrorKind;

namespace {

optional<Tensor> maybe(const Tensor& t) { return t.defined() ? optional<Tensor>(t) : nullopt; }
const char* ending(bool inplace) { return inplace ? ", inplace=true)" : ")"; }

}  // namespace

namespace functional {

Tensor hardtanh(Tensor input, const HardtanhOptions& o) {
  return o.inplace() ? torch::hardtanh_(input, o.min_val(), o.max_val())
                     : torch::hardtanh(input, o.min_val(), o.max_val());
}
Tensor rrelu(Tensor input, const RReLUFuncOptions& o) {
  const Tensor result = torch::rrelu(input, o.lower(), o.upper(), o.training());
  return o.inplace() ? input.copy_(result) : result;
}
Tensor celu(Tensor input, const CELUOptions& o) {
  return o.inplace() ? torch::celu_(input, o.alpha()) : torch::celu(input, o.alpha());
}
Tensor threshold(Tensor input, const ThresholdOptions& o) {
  const Tensor result =
      Tensor(facula::_threshold(torch::detail::in(input), facula::Scalar(o.threshold()), facula::Scalar(o.value())));
  return o.inplace() ? input.copy_(result) : result;
}
Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxFuncOptions& o) {
  const Tensor noise = -torch::empty_like(logits).exponential_().log();
  const Tensor soft = ((logits + noise) / o.tau()).softmax(o.dim());
  if (!o.hard()) return soft;
  const Tensor largest = std::get<1>(soft.max(o.dim(), true));
  const Tensor hard = torch::zeros_like(logits).scatter_(o.dim(), largest, 1.0);
  return hard - soft.detach() + soft;
}
Tensor normalize(const Tensor& input, const NormalizeFuncOptions& o) {
  return input / input.norm(Scalar(o.p()), o.dim(), true).clamp_min(o.eps()).expand_as(input);
}
Tensor layer_norm(const Tensor& input, const LayerNormFuncOptions& o) {
  return torch::layer_norm(input, o.normalized_shape(), maybe(o.weight()), maybe(o.bias()), o.eps());
}
Tensor group_norm(const Tensor& input, const GroupNormFuncOptions& o) {
  return torch::group_norm(input, o.num_groups(), maybe(o.weight()), maybe(o.bias()), o.eps());
}
Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormFuncOptions& o) {
  return torch::batch_norm(input, maybe(o.weight()), maybe(o.bias()), maybe(running_mean), maybe(running_var),
                           o.training(), o.momentum().value_or(0.0), o.eps(), true);
}

}  // namespace functional

Tensor HardtanhImpl::forward(Tensor input) { return functional::hardtanh(std::move(input), options); }
void HardtanhImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Hardtanh(min_val=" << options.min_val() << ", max_val=" << options.max_val()
         << ending(options.inplace());
}
Tensor RReLUImpl::forward(Tensor input) {
  return functional::rrelu(std::move(input), functional::RReLUFuncOptions()
                                                 .lower(options.lower())
                                                 .upper(options.upper())
                                                 .training(is_training())
                                                 .inplace(options.inplace()));
}
void RReLUImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::RReLU(lower=" << options.lower() << ", upper=" << options.upper() << ending(options.inplace());
}
Tensor CELUImpl::forward(Tensor input) { return functional::celu(std::move(input), options); }
void CELUImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::CELU(alpha=" << options.alpha() << ending(options.inplace());
}
Tensor GLUImpl::forward(const Tensor& input) { return functional::glu(input, options); }
void GLUImpl::pretty_print(std::ostream& stream) const { stream << "torch::nn::GLU(dim=" << options.dim() << ")"; }
Tensor HardshrinkImpl::forward(const Tensor& input) { return functional::hardshrink(input, options); }
void HardshrinkImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Hardshrink(" << options.lambda() << ")";
}
Tensor SoftshrinkImpl::forward(const Tensor& input) { return functional::softshrink(input, options); }
void SoftshrinkImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Softshrink(" << options.lambda() << ")";
}
Tensor ThresholdImpl::forward(Tensor input) { return functional::threshold(std::move(input), options); }
void ThresholdImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Threshold(threshold=" << options.threshold() << ", value=" << options.value()
         << ending(options.inplace());
}
Tensor SoftminImpl::forward(const Tensor& input) { return functional::softmin(input, options); }
void SoftminImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Softmin(dim=" << options.dim() << ")";
}
Tensor CosineSimilarityImpl::forward(const Tensor& x1, const Tensor& x2) {
  return functional::cosine_similarity(x1, x2, options);
}
void CosineSimilarityImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::CosineSimilarity(dim=" << options.dim() << ", eps=" << options.eps() << ")";
}
Tensor PairwiseDistanceImpl::forward(const Tensor& x1, const Tensor& x2) {
  return functional::pairwise_distance(x1, x2, options);
}
void PairwiseDistanceImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::PairwiseDistance(p=" << options.p() << ", eps=" << options.eps()
         << ", keepdim=" << (options.keepdim() ? "true" : "false") << ")";
}
Tensor UnflattenImpl::forward(const Tensor& input) { return input.unflatten(options.dim(), options.sizes()); }
void UnflattenImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Unflatten(dim=" << options.dim() << ", unflattened_size={";
  for (size_t i = 0; i < options.sizes().size(); ++i) stream << (i ? ", " : "") << options.sizes()[i];
  stream << "})";
}
Tensor Softmax2dImpl::forward(const Tensor& input) {
  FACULA_CHECK(input.dim() == 3 || input.dim() == 4, ErrorKind::Runtime,
               "Softmax2d: an input of 3 or 4 dimensions is expected, got ", input.dim());
  return input.softmax(-3);
}

PReLUImpl::PReLUImpl(const PReLUOptions& o) : options(o) { PReLUImpl::reset(); }
void PReLUImpl::reset() {
  weight = register_parameter("weight", torch::full({options.num_parameters()}, options.init()));
}
void PReLUImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::PReLU(num_parameters=" << options.num_parameters() << ")";
}

BilinearImpl::BilinearImpl(const BilinearOptions& o) : options(o) { BilinearImpl::reset(); }
void BilinearImpl::reset() {
  weight = register_parameter("weight",
                              torch::empty({options.out_features(), options.in1_features(), options.in2_features()}));
  bias = options.bias() ? register_parameter("bias", torch::empty(options.out_features()))
                        : register_parameter("bias", {}, false);
  reset_parameters();
}
void BilinearImpl::reset_parameters() {
  const double bound = 1.0 / std::sqrt(static_cast<double>(weight.size(1)));
  init::uniform_(weight, -bound, bound);
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}
Tensor BilinearImpl::forward(const Tensor& input1, const Tensor& input2) {
  return torch::bilinear(input1, input2, weight, maybe(bias));
}
void BilinearImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Bilinear(in1_features=" << options.in1_features() << ", in2_features=" << options.in2_features()
         << ", out_features=" << options.out_features() << ", bias=" << (options.bias() ? "true" : "false") << ")";
}

}  // namespace torch::nn

// Further activations and distances.
#pragma once

#include <torch/nn/containers.h>
#include <torch/nn/functional.h>

namespace torch::nn {

struct HardtanhOptions {
  TORCH_ARG(double, min_val) = -1.0;
  TORCH_ARG(double, max_val) = 1.0;
  TORCH_ARG(bool, inplace) = false;
};
struct PReLUOptions {
  TORCH_ARG(int64_t, num_parameters) = 1;
  TORCH_ARG(double, init) = 0.25;
};
struct RReLUOptions {
  TORCH_ARG(double, lower) = 1.0 / 8.0;
  TORCH_ARG(double, upper) = 1.0 / 3.0;
  TORCH_ARG(bool, inplace) = false;
};
struct CELUOptions {
  TORCH_ARG(double, alpha) = 1.0;
  TORCH_ARG(bool, inplace) = false;
};
struct GLUOptions {
  GLUOptions(int64_t dim = -1) : dim_(dim) {}
  TORCH_ARG(int64_t, dim);
};
struct ShrinkOptions {
  ShrinkOptions(double lambda = 0.5) : lambda_(lambda) {}
  TORCH_ARG(double, lambda);
};
using HardshrinkOptions = ShrinkOptions;
using SoftshrinkOptions = ShrinkOptions;
struct ThresholdOptions {
  ThresholdOptions(double threshold, double value) : threshold_(threshold), value_(value) {}
  TORCH_ARG(double, threshold);
  TORCH_ARG(double, value);
  TORCH_ARG(bool, inplace) = false;
};
using SoftminOptions = DimOptions;
struct CosineSimilarityOptions {
  TORCH_ARG(int64_t, dim) = 1;
  TORCH_ARG(double, eps) = 1e-8;
};
struct PairwiseDistanceOptions {
  TORCH_ARG(double, p) = 2.0;
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(bool, keepdim) = false;
};
struct BilinearOptions {
  BilinearOptions(int64_t in1, int64_t in2, int64_t out) : in1_features_(in1), in2_features_(in2), out_features_(out) {}
  TORCH_ARG(int64_t, in1_features);
  TORCH_ARG(int64_t, in2_features);
  TORCH_ARG(int64_t, out_features);
  TORCH_ARG(bool, bias) = true;
};
struct UnflattenOptions {
  UnflattenOptions(int64_t dim, std::vector<int64_t> sizes) : dim_(dim), sizes_(std::move(sizes)) {}
  TORCH_ARG(int64_t, dim);
  TORCH_ARG(std::vector<int64_t>, sizes);
};

namespace functional {

using HardtanhFuncOptions = HardtanhOptions;
using CELUFuncOptions = CELUOptions;
using GLUFuncOptions = GLUOptions;
using HardshrinkFuncOptions = HardshrinkOptions;
using SoftshrinkFuncOptions = SoftshrinkOptions;
using ThresholdFuncOptions = ThresholdOptions;
using SoftminFuncOptions = SoftminOptions;
using CosineSimilarityFuncOptions = CosineSimilarityOptions;
using PairwiseDistanceFuncOptions = PairwiseDistanceOptions;
struct RReLUFuncOptions {
  TORCH_ARG(double, lower) = 1.0 / 8.0;
  TORCH_ARG(double, upper) = 1.0 / 3.0;
  TORCH_ARG(bool, training) = false;
  TORCH_ARG(bool, inplace) = false;
};
struct GumbelSoftmaxFuncOptions {
  TORCH_ARG(double, tau) = 1.0;
  TORCH_ARG(bool, hard) = false;
  TORCH_ARG(int, dim) = -1;
};
struct NormalizeFuncOptions {
  TORCH_ARG(double, p) = 2.0;
  TORCH_ARG(int64_t, dim) = 1;
  TORCH_ARG(double, eps) = 1e-12;
};
struct LayerNormFuncOptions {
  LayerNormFuncOptions(std::vector<int64_t> shape) : normalized_shape_(std::move(shape)) {}
  TORCH_ARG(std::vector<int64_t>, normalized_shape);
  TORCH_ARG(Tensor, weight);
  TORCH_ARG(Tensor, bias);
  TORCH_ARG(double, eps) = 1e-5;
};
struct GroupNormFuncOptions {
  GroupNormFuncOptions(int64_t groups) : num_groups_(groups) {}
  TORCH_ARG(int64_t, num_groups);
  TORCH_ARG(Tensor, weight);
  TORCH_ARG(Tensor, bias);
  TORCH_ARG(double, eps) = 1e-5;
};
struct BatchNormFuncOptions {
  TORCH_ARG(Tensor, weight);
  TORCH_ARG(Tensor, bias);
  TORCH_ARG(bool, training) = false;
  TORCH_ARG(optional<double>, momentum) = 0.1;
  TORCH_ARG(double, eps) = 1e-5;
};

Tensor hardtanh(Tensor input, const HardtanhOptions& options = {});
Tensor rrelu(Tensor input, const RReLUFuncOptions& options = {});
Tensor celu(Tensor input, const CELUOptions& options = {});
Tensor threshold(Tensor input, const ThresholdOptions& options);
Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxFuncOptions& options = {});
Tensor normalize(const Tensor& input, const NormalizeFuncOptions& options = {});
Tensor layer_norm(const Tensor& input, const LayerNormFuncOptions& options);
Tensor group_norm(const Tensor& input, const GroupNormFuncOptions& options);
Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormFuncOptions& options = {});
inline Tensor pdist(const Tensor& input, double p = 2.0) { return torch::pdist(input, p); }
inline Tensor prelu(const Tensor& input, const Tensor& weight) { return torch::prelu(input, weight); }
inline Tensor glu(const Tensor& input, const GLUOptions& o = {}) { return torch::glu(input, o.dim()); }
inline Tensor hardshrink(const Tensor& input, const ShrinkOptions& o = {}) {
  return torch::hardshrink(input, o.lambda());
}
inline Tensor softshrink(const Tensor& input, const ShrinkOptions& o = {}) {
  return torch::softshrink(input, o.lambda());
}
inline Tensor softmin(const Tensor& input, const DimOptions& o) {
  return (-input).softmax(o.dim(), o.dtype());
}
inline Tensor tanhshrink(const Tensor& input) { return input - input.tanh(); }
inline Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, const CosineSimilarityOptions& o = {}) {
  return torch::cosine_similarity(x1, x2, o.dim(), o.eps());
}
inline Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, const PairwiseDistanceOptions& o = {}) {
  return torch::pairwise_distance(x1, x2, o.p(), o.eps(), o.keepdim());
}
inline Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight, const Tensor& bias = {}) {
  return torch::bilinear(input1, input2, weight, bias.defined() ? optional<Tensor>(bias) : nullopt);
}

}  // namespace functional

TORCH_PLAIN_MODULE(Hardtanh, (Tensor input), HardtanhImpl() = default;);
TORCH_PLAIN_MODULE(RReLU, (Tensor input), RReLUImpl() = default;);
TORCH_PLAIN_MODULE(CELU, (Tensor input), CELUImpl() = default;);
TORCH_PLAIN_MODULE(GLU, (const Tensor& input), explicit GLUImpl(int64_t dim = -1) : options(dim){});
TORCH_PLAIN_MODULE(Hardshrink, (const Tensor& input), explicit HardshrinkImpl(double l = 0.5) : options(l){});
TORCH_PLAIN_MODULE(Softshrink, (const Tensor& input), explicit SoftshrinkImpl(double l = 0.5) : options(l){});
TORCH_PLAIN_MODULE(Threshold, (Tensor input),
                   ThresholdImpl(double threshold, double value) : options(threshold, value){});
TORCH_PLAIN_MODULE(Softmin, (const Tensor& input), explicit SoftminImpl(int64_t dim) : options(dim){});
TORCH_PLAIN_MODULE(CosineSimilarity, (const Tensor& x1, const Tensor& x2), CosineSimilarityImpl() = default;);
TORCH_PLAIN_MODULE(PairwiseDistance, (const Tensor& x1, const Tensor& x2), PairwiseDistanceImpl() = default;);
TORCH_PLAIN_MODULE(Unflatten, (const Tensor& input),
                   UnflattenImpl(int64_t dim, std::vector<int64_t> sizes) : options(dim, std::move(sizes)){});

/// Of every pixel, over the channels.
class Softmax2dImpl : public Cloneable<Softmax2dImpl> {
 public:
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::Softmax2d()"; }
  Tensor forward(const Tensor& input);
};
TORCH_MODULE(Softmax2d);

class PReLUImpl : public Cloneable<PReLUImpl> {
 public:
  explicit PReLUImpl(const PReLUOptions& o = {});
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return torch::prelu(input, weight); }
  PReLUOptions options;
  Tensor weight;
};
TORCH_MODULE(PReLU);

class BilinearImpl : public Cloneable<BilinearImpl> {
 public:
  BilinearImpl(int64_t in1, int64_t in2, int64_t out) : BilinearImpl(BilinearOptions(in1, in2, out)) {}
  explicit BilinearImpl(const BilinearOptions& o);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input1, const Tensor& input2);
  BilinearOptions options;
  Tensor weight, bias;
};
TORCH_MODULE(Bilinear);

}  // namespace torch::nn

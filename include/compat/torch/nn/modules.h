// The modules.
#pragma once

#include <torch/nn/activations.h>
#include <torch/nn/containers.h>
#include <torch/nn/functional.h>
#include <torch/nn/images.h>
#include <torch/nn/losses.h>
#include <torch/nn/recurrent.h>

namespace torch::nn {

class IdentityImpl : public Cloneable<IdentityImpl> {
 public:
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::Identity()"; }
  Tensor forward(const Tensor& input) { return input; }
};
TORCH_MODULE(Identity);

class LinearImpl : public Cloneable<LinearImpl> {
 public:
  LinearImpl(int64_t in, int64_t out) : LinearImpl(LinearOptions(in, out)) {}
  explicit LinearImpl(const LinearOptions& o);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return torch::linear(input, weight, bias); }
  LinearOptions options;
  Tensor weight, bias;
};
TORCH_MODULE(Linear);

class FlattenImpl : public Cloneable<FlattenImpl> {
 public:
  explicit FlattenImpl(const FlattenOptions& o = {}) : options(o) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return input.flatten(options.start_dim(), options.end_dim()); }
  FlattenOptions options;
};
TORCH_MODULE(Flatten);

/// Convolutions of D dimensions; compiled in the library.
template <size_t D>
class ConvImpl : public Cloneable<ConvImpl<D>> {
 public:
  ConvImpl(int64_t in, int64_t out, ExpandingArray<D> kernel) : ConvImpl(ConvOptions<D>(in, out, kernel)) {}
  explicit ConvImpl(ConvOptions<D> o);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  ConvOptions<D> options;
  Tensor weight, bias;
};
template <size_t D>
class ConvTransposeImpl : public Cloneable<ConvTransposeImpl<D>> {
 public:
  ConvTransposeImpl(int64_t in, int64_t out, ExpandingArray<D> kernel)
      : ConvTransposeImpl(ConvTransposeOptions<D>(in, out, kernel)) {}
  explicit ConvTransposeImpl(ConvTransposeOptions<D> o);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  ConvTransposeOptions<D> options;
  Tensor weight, bias;
};
template <size_t D>
class BatchNormImplBase : public Cloneable<BatchNormImplBase<D>> {
 public:
  explicit BatchNormImplBase(const BatchNormOptions& o);
  void reset() override;
  void reset_parameters();
  void reset_running_stats();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  BatchNormOptions options;
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;
};
#define TORCH_POOL(Name, Options, function)                                       \
  template <size_t D>                                                             \
  class Name##Impl : public Cloneable<Name##Impl<D>> {                            \
   public:                                                                        \
    Name##Impl(ExpandingArray<D> size) : Name##Impl(Options<D>(size)) {}          \
    explicit Name##Impl(const Options<D>& o) : options(o) {}                      \
    void reset() override {}                                                      \
    void pretty_print(std::ostream& stream) const override;                       \
    Tensor forward(const Tensor& input) {                                         \
      if constexpr (D == 1) return functional::function##1d(input, options);      \
      else if constexpr (D == 2) return functional::function##2d(input, options); \
      else return functional::function##3d(input, options);                       \
    }                                                                             \
    Options<D> options;                                                           \
  }
TORCH_POOL(MaxPool, MaxPoolOptions, max_pool);
TORCH_POOL(AvgPool, AvgPoolOptions, avg_pool);
TORCH_POOL(AdaptiveAvgPool, AdaptivePoolOptions, adaptive_avg_pool);
#undef TORCH_POOL

TORCH_MODULES_OF_DIMENSIONS(Conv, ConvImpl);
TORCH_MODULES_OF_DIMENSIONS(ConvTranspose, ConvTransposeImpl);
TORCH_MODULES_OF_DIMENSIONS(BatchNorm, BatchNormImplBase);
TORCH_MODULES_OF_DIMENSIONS(MaxPool, MaxPoolImpl);
TORCH_MODULES_OF_DIMENSIONS(AvgPool, AvgPoolImpl);
TORCH_MODULES_OF_DIMENSIONS(AdaptiveAvgPool, AdaptiveAvgPoolImpl);

class LayerNormImpl : public Cloneable<LayerNormImpl> {
 public:
  LayerNormImpl(std::vector<int64_t> shape) : LayerNormImpl(LayerNormOptions(std::move(shape))) {}
  explicit LayerNormImpl(LayerNormOptions o);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  LayerNormOptions options;
  Tensor weight, bias;
};
TORCH_MODULE(LayerNorm);

class GroupNormImpl : public Cloneable<GroupNormImpl> {
 public:
  GroupNormImpl(int64_t groups, int64_t channels) : GroupNormImpl(GroupNormOptions(groups, channels)) {}
  explicit GroupNormImpl(const GroupNormOptions& o);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  GroupNormOptions options;
  Tensor weight, bias;
};
TORCH_MODULE(GroupNorm);

#define TORCH_DROPOUT(Name, function)                                                                           \
  class Name##Impl : public Cloneable<Name##Impl> {                                                             \
   public:                                                                                                      \
    explicit Name##Impl(double p) : Name##Impl(DropoutOptions(p)) {}                                            \
    explicit Name##Impl(const DropoutOptions& o = {}) : options(o) {}                                           \
    void reset() override {}                                                                                    \
    void pretty_print(std::ostream& stream) const override {                                                    \
      stream << "torch::nn::" #Name "(p=" << options.p() << ", inplace=" << std::boolalpha << options.inplace() \
             << ")";                                                                                            \
    }                                                                                                           \
    Tensor forward(Tensor input) { return torch::function(input, options.p(), this->is_training()); }           \
    DropoutOptions options;                                                                                     \
  };                                                                                                            \
  TORCH_MODULE(Name)
TORCH_DROPOUT(Dropout, dropout);
TORCH_DROPOUT(Dropout2d, feature_dropout);
TORCH_DROPOUT(Dropout3d, feature_dropout);
TORCH_DROPOUT(AlphaDropout, alpha_dropout);
TORCH_DROPOUT(FeatureAlphaDropout, feature_alpha_dropout);
#undef TORCH_DROPOUT

// Activations without options, and with.
#define TORCH_ACTIVATION(Name, expression)                                                         \
  class Name##Impl : public Cloneable<Name##Impl> {                                                \
   public:                                                                                         \
    void reset() override {}                                                                       \
    void pretty_print(std::ostream& stream) const override { stream << "torch::nn::" #Name "()"; } \
    Tensor forward(const Tensor& input) { return expression; }                                     \
  };                                                                                               \
  TORCH_MODULE(Name)
TORCH_ACTIVATION(Sigmoid, input.sigmoid());
TORCH_ACTIVATION(Tanh, input.tanh());
TORCH_ACTIVATION(LogSigmoid, torch::logsigmoid(input));
TORCH_ACTIVATION(Softsign, functional::softsign(input));
TORCH_ACTIVATION(Tanhshrink, input - input.tanh());
TORCH_ACTIVATION(SiLU, torch::silu(input));
TORCH_ACTIVATION(Mish, torch::mish(input));
#undef TORCH_ACTIVATION
#define TORCH_ACTIVATION(Name, function, Argument)                                \
  class Name##Impl : public Cloneable<Name##Impl> {                               \
   public:                                                                        \
    Argument explicit Name##Impl(const Name##Options& o) : options(o) {}          \
    void reset() override {}                                                      \
    void pretty_print(std::ostream& stream) const override;                       \
    Tensor forward(Tensor input) { return functional::function(input, options); } \
    Name##Options options;                                                        \
  };                                                                              \
  TORCH_MODULE(Name)
TORCH_ACTIVATION(ReLU, relu, explicit ReLUImpl(bool inplace = false) : options(inplace){});
TORCH_ACTIVATION(ReLU6, relu6, explicit ReLU6Impl(bool inplace = false) : options(inplace){});
TORCH_ACTIVATION(SELU, selu, explicit SELUImpl(bool inplace = false) : options(inplace){});
TORCH_ACTIVATION(LeakyReLU, leaky_relu, explicit LeakyReLUImpl(double slope = 0.01) : options(slope){});
TORCH_ACTIVATION(ELU, elu, ELUImpl() = default;);
TORCH_ACTIVATION(GELU, gelu, GELUImpl() = default;);
TORCH_ACTIVATION(Softplus, softplus, SoftplusImpl() = default;);
TORCH_ACTIVATION(Softmax, softmax, explicit SoftmaxImpl(int64_t dim) : options(dim){});
TORCH_ACTIVATION(LogSoftmax, log_softmax, explicit LogSoftmaxImpl(int64_t dim) : options(dim){});
#undef TORCH_ACTIVATION

#define TORCH_LOSS(Name, function)                                                                                     \
  class Name##Impl : public Cloneable<Name##Impl> {                                                                    \
   public:                                                                                                             \
    explicit Name##Impl(const Name##Options& o = {}) : options(o) {}                                                   \
    void reset() override {}                                                                                           \
    void pretty_print(std::ostream& stream) const override { stream << "torch::nn::" #Name "()"; }                     \
    Tensor forward(const Tensor& input, const Tensor& target) { return functional::function(input, target, options); } \
    Name##Options options;                                                                                             \
  };                                                                                                                   \
  TORCH_MODULE(Name)
TORCH_LOSS(MSELoss, mse_loss);
TORCH_LOSS(L1Loss, l1_loss);
TORCH_LOSS(SmoothL1Loss, smooth_l1_loss);
TORCH_LOSS(BCELoss, binary_cross_entropy);
TORCH_LOSS(BCEWithLogitsLoss, binary_cross_entropy_with_logits);
TORCH_LOSS(NLLLoss, nll_loss);
TORCH_LOSS(CrossEntropyLoss, cross_entropy);
TORCH_LOSS(KLDivLoss, kl_div);
#undef TORCH_LOSS

}  // namespace torch::nn

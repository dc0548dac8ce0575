// Options of modules and functions, and torch::nn::functional.
#pragma once

#include <torch/nn/module.h>

namespace torch {

/// A word among those that an option may be: torch::kMean, torch::kSame.
struct Word {
  const char* name;
  constexpr bool operator==(const Word& other) const { return std::string_view(name) == other.name; }
};
constexpr Word kNone{"none"}, kMean{"mean"}, kSum{"sum"}, kBatchMean{"batchmean"};
constexpr Word kValid{"valid"}, kSame{"same"};
constexpr Word kZeros{"zeros"}, kConstant{"constant"}, kReflect{"reflect"}, kReplicate{"replicate"},
    kCircular{"circular"};
constexpr Word kNearest{"nearest"}, kBilinear{"bilinear"}, kBicubic{"bicubic"}, kTrilinear{"trilinear"}, kMax{"max"};
constexpr Word kLinear{"linear"}, kConv1D{"conv1d"}, kConv2D{"conv2d"}, kConv3D{"conv3d"}, kSigmoid{"sigmoid"},
    kTanh{"tanh"}, kReLU{"relu"}, kLeakyReLU{"leaky_relu"}, kGELU{"gelu"}, kSELU{"selu"};
constexpr Word kFanIn{"fan_in"}, kFanOut{"fan_out"};

/// D numbers; one number stands for D of them.
template <size_t D>
class ExpandingArray {
 public:
  ExpandingArray(int64_t one) { values_.fill(one); }
  ExpandingArray(IntArrayRef values) {
    FACULA_CHECK(values.size() == D, facula::ErrorKind::Runtime, "ExpandingArray: expected ", D, " values, got ",
                 values.size());
    std::copy(values.begin(), values.end(), values_.begin());
  }
  ExpandingArray(std::initializer_list<int64_t> values) : ExpandingArray(IntArrayRef(values)) {}
  ExpandingArray(const std::vector<int64_t>& values) : ExpandingArray(IntArrayRef(values)) {}
  ExpandingArray(const std::array<int64_t, D>& values) : values_(values) {}
  std::array<int64_t, D>& operator*() { return values_; }
  const std::array<int64_t, D>& operator*() const { return values_; }
  const std::array<int64_t, D>* operator->() const { return &values_; }
  operator IntArrayRef() const { return {values_.data(), D}; }
  int64_t operator[](size_t i) const { return values_[i]; }
  bool all(int64_t value) const {
    for (const int64_t v : values_)
      if (v != value) return false;
    return true;
  }

 private:
  std::array<int64_t, D> values_;
};
template <size_t D>
std::ostream& operator<<(std::ostream& out, const ExpandingArray<D>& a) {
  if (D == 1) return out << a[0];
  return out << IntArrayRef(a);
}

namespace nn {

struct LinearOptions {
  LinearOptions(int64_t in, int64_t out) : in_features_(in), out_features_(out) {}
  TORCH_ARG(int64_t, in_features);
  TORCH_ARG(int64_t, out_features);
  TORCH_ARG(bool, bias) = true;
};
struct FlattenOptions {
  TORCH_ARG(int64_t, start_dim) = 1;
  TORCH_ARG(int64_t, end_dim) = -1;
};

/// Zeros around an image: numbers, or a word.
template <size_t D>
struct Padding {
  Padding(int64_t one) : numbers(one) {}
  Padding(std::initializer_list<int64_t> values) : numbers(values) {}
  Padding(ExpandingArray<D> values) : numbers(values) {}
  Padding(const std::vector<int64_t>& values) : numbers(values) {}
  Padding(Word w) : numbers(0), word(w) {}
  ExpandingArray<D> numbers;
  optional<Word> word;
};

template <size_t D>
struct ConvOptions {
  ConvOptions(int64_t in, int64_t out, ExpandingArray<D> kernel)
      : in_channels_(in), out_channels_(out), kernel_size_(kernel) {}
  TORCH_ARG(int64_t, in_channels);
  TORCH_ARG(int64_t, out_channels);
  TORCH_ARG(ExpandingArray<D>, kernel_size);
  TORCH_ARG(ExpandingArray<D>, stride) = 1;
  TORCH_ARG(Padding<D>, padding) = 0;
  TORCH_ARG(ExpandingArray<D>, dilation) = 1;
  TORCH_ARG(int64_t, groups) = 1;
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(Word, padding_mode) = kZeros;
};
template <size_t D>
struct ConvTransposeOptions {
  ConvTransposeOptions(int64_t in, int64_t out, ExpandingArray<D> kernel)
      : in_channels_(in), out_channels_(out), kernel_size_(kernel) {}
  TORCH_ARG(int64_t, in_channels);
  TORCH_ARG(int64_t, out_channels);
  TORCH_ARG(ExpandingArray<D>, kernel_size);
  TORCH_ARG(ExpandingArray<D>, stride) = 1;
  TORCH_ARG(ExpandingArray<D>, padding) = 0;
  TORCH_ARG(ExpandingArray<D>, output_padding) = 0;
  TORCH_ARG(int64_t, groups) = 1;
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(ExpandingArray<D>, dilation) = 1;
  TORCH_ARG(Word, padding_mode) = kZeros;
};
template <size_t D>
struct MaxPoolOptions {
  MaxPoolOptions(ExpandingArray<D> kernel) : kernel_size_(kernel), stride_(kernel) {}
  TORCH_ARG(ExpandingArray<D>, kernel_size);
  TORCH_ARG(ExpandingArray<D>, stride);
  TORCH_ARG(ExpandingArray<D>, padding) = 0;
  TORCH_ARG(ExpandingArray<D>, dilation) = 1;
  TORCH_ARG(bool, ceil_mode) = false;
};
template <size_t D>
struct AvgPoolOptions {
  AvgPoolOptions(ExpandingArray<D> kernel) : kernel_size_(kernel), stride_(kernel) {}
  TORCH_ARG(ExpandingArray<D>, kernel_size);
  TORCH_ARG(ExpandingArray<D>, stride);
  TORCH_ARG(ExpandingArray<D>, padding) = 0;
  TORCH_ARG(bool, ceil_mode) = false;
  TORCH_ARG(bool, count_include_pad) = true;
  TORCH_ARG(optional<int64_t>, divisor_override) = nullopt;
};
template <size_t D>
struct AdaptivePoolOptions {
  AdaptivePoolOptions(ExpandingArray<D> size) : output_size_(size) {}
  TORCH_ARG(ExpandingArray<D>, output_size);
};
TORCH_OPTIONS_OF_DIMENSIONS(Conv, ConvOptions);
TORCH_OPTIONS_OF_DIMENSIONS(ConvTranspose, ConvTransposeOptions);
TORCH_OPTIONS_OF_DIMENSIONS(MaxPool, MaxPoolOptions);
TORCH_OPTIONS_OF_DIMENSIONS(AvgPool, AvgPoolOptions);
TORCH_OPTIONS_OF_DIMENSIONS(AdaptiveAvgPool, AdaptivePoolOptions);

struct BatchNormOptions {
  BatchNormOptions(int64_t features) : num_features_(features) {}
  TORCH_ARG(int64_t, num_features);
  TORCH_ARG(double, eps) = 1e-5;
  TORCH_ARG(optional<double>, momentum) = 0.1;
  TORCH_ARG(bool, affine) = true;
  TORCH_ARG(bool, track_running_stats) = true;
};
using BatchNorm1dOptions = BatchNormOptions;
using BatchNorm2dOptions = BatchNormOptions;
using BatchNorm3dOptions = BatchNormOptions;
struct LayerNormOptions {
  LayerNormOptions(std::vector<int64_t> shape) : normalized_shape_(std::move(shape)) {}
  TORCH_ARG(std::vector<int64_t>, normalized_shape);
  TORCH_ARG(double, eps) = 1e-5;
  TORCH_ARG(bool, elementwise_affine) = true;
};
struct GroupNormOptions {
  GroupNormOptions(int64_t groups, int64_t channels) : num_groups_(groups), num_channels_(channels) {}
  TORCH_ARG(int64_t, num_groups);
  TORCH_ARG(int64_t, num_channels);
  TORCH_ARG(double, eps) = 1e-5;
  TORCH_ARG(bool, affine) = true;
};
struct DropoutOptions {
  DropoutOptions(double p = 0.5) : p_(p) {}
  TORCH_ARG(double, p);
  TORCH_ARG(bool, inplace) = false;
};
using Dropout2dOptions = DropoutOptions;
using Dropout3dOptions = DropoutOptions;
using AlphaDropoutOptions = DropoutOptions;
using FeatureAlphaDropoutOptions = DropoutOptions;

struct InplaceOptions {
  InplaceOptions(bool inplace = false) : inplace_(inplace) {}
  TORCH_ARG(bool, inplace);
};
using ReLUOptions = InplaceOptions;
using ReLU6Options = InplaceOptions;
using SELUOptions = InplaceOptions;
struct LeakyReLUOptions {
  LeakyReLUOptions(double negative_slope = 0.01) : negative_slope_(negative_slope) {}
  TORCH_ARG(double, negative_slope);
  TORCH_ARG(bool, inplace) = false;
};
struct ELUOptions {
  TORCH_ARG(double, alpha) = 1.0;
  TORCH_ARG(bool, inplace) = false;
};
struct GELUOptions {
  TORCH_ARG(std::string, approximate) = "none";
};
struct SoftplusOptions {
  TORCH_ARG(double, beta) = 1.0;
  TORCH_ARG(double, threshold) = 20.0;
};
struct DimOptions {
  DimOptions(int64_t dim) : dim_(dim) {}
  TORCH_ARG(int64_t, dim);
  TORCH_ARG(optional<Dtype>, dtype) = nullopt;  // to which the input is converted first
};
using SoftmaxOptions = DimOptions;
using LogSoftmaxOptions = DimOptions;

struct ReductionOptions {
  ReductionOptions(Word reduction = kMean) : reduction_(reduction) {}
  TORCH_ARG(Word, reduction);
};
using MSELossOptions = ReductionOptions;
using L1LossOptions = ReductionOptions;
struct WeightedOptions {
  TORCH_ARG(Tensor, weight) = Tensor();
  TORCH_ARG(Word, reduction) = kMean;
};
using BCELossOptions = WeightedOptions;
struct BCEWithLogitsLossOptions {
  TORCH_ARG(Tensor, weight) = Tensor();
  TORCH_ARG(Word, reduction) = kMean;
  TORCH_ARG(Tensor, pos_weight) = Tensor();
};
struct NLLLossOptions {
  TORCH_ARG(Tensor, weight) = Tensor();
  TORCH_ARG(int64_t, ignore_index) = -100;
  TORCH_ARG(Word, reduction) = kMean;
};
struct CrossEntropyLossOptions {
  TORCH_ARG(Tensor, weight) = Tensor();
  TORCH_ARG(int64_t, ignore_index) = -100;
  TORCH_ARG(Word, reduction) = kMean;
  TORCH_ARG(double, label_smoothing) = 0.0;
};
struct SmoothL1LossOptions {
  SmoothL1LossOptions(Word reduction = kMean) : reduction_(reduction) {}
  TORCH_ARG(Word, reduction);
  TORCH_ARG(optional<double>, beta) = nullopt;
};
struct KLDivLossOptions {
  KLDivLossOptions(Word reduction = kMean) : reduction_(reduction) {}
  TORCH_ARG(Word, reduction);
  TORCH_ARG(bool, log_target) = false;
};
struct PadOptions {
  PadOptions(std::vector<int64_t> pad) : pad_(std::move(pad)) {}
  TORCH_ARG(std::vector<int64_t>, pad);
  TORCH_ARG(Word, mode) = kConstant;
  TORCH_ARG(double, value) = 0;
};

namespace functional {

using MSELossFuncOptions = MSELossOptions;
using L1LossFuncOptions = L1LossOptions;
using BinaryCrossEntropyFuncOptions = BCELossOptions;
using BinaryCrossEntropyWithLogitsFuncOptions = BCEWithLogitsLossOptions;
using NLLLossFuncOptions = NLLLossOptions;
using CrossEntropyFuncOptions = CrossEntropyLossOptions;
using SmoothL1LossFuncOptions = SmoothL1LossOptions;
using KLDivFuncOptions = KLDivLossOptions;
using ReLUFuncOptions = ReLUOptions;
using ReLU6FuncOptions = ReLU6Options;
using SELUFuncOptions = SELUOptions;
using LeakyReLUFuncOptions = LeakyReLUOptions;
using ELUFuncOptions = ELUOptions;
using GELUFuncOptions = GELUOptions;
using SoftmaxFuncOptions = SoftmaxOptions;
using LogSoftmaxFuncOptions = LogSoftmaxOptions;
using SoftplusFuncOptions = SoftplusOptions;
using PadFuncOptions = PadOptions;
using MaxPool1dFuncOptions = MaxPool1dOptions;
using MaxPool2dFuncOptions = MaxPool2dOptions;
using MaxPool3dFuncOptions = MaxPool3dOptions;
using AvgPool1dFuncOptions = AvgPool1dOptions;
using AvgPool2dFuncOptions = AvgPool2dOptions;
using AvgPool3dFuncOptions = AvgPool3dOptions;
using AdaptiveAvgPool1dFuncOptions = AdaptiveAvgPool1dOptions;
using AdaptiveAvgPool2dFuncOptions = AdaptiveAvgPool2dOptions;
using AdaptiveAvgPool3dFuncOptions = AdaptiveAvgPool3dOptions;
struct DropoutFuncOptions {
  TORCH_ARG(double, p) = 0.5;
  TORCH_ARG(bool, training) = false;
  TORCH_ARG(bool, inplace) = false;
};
using Dropout2dFuncOptions = DropoutFuncOptions;
using Dropout3dFuncOptions = DropoutFuncOptions;
using AlphaDropoutFuncOptions = DropoutFuncOptions;
using FeatureAlphaDropoutFuncOptions = DropoutFuncOptions;

Tensor mse_loss(const Tensor& input, const Tensor& target, const MSELossOptions& options = {});
Tensor l1_loss(const Tensor& input, const Tensor& target, const L1LossOptions& options = {});
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossOptions& options = {});
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BCELossOptions& options = {});
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BCEWithLogitsLossOptions& options = {});
Tensor nll_loss(const Tensor& input, const Tensor& target, const NLLLossOptions& options = {});
Tensor cross_entropy(const Tensor& input, const Tensor& target, const CrossEntropyLossOptions& options = {});
Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivLossOptions& options = {});
Tensor relu(Tensor input, const ReLUOptions& options = {});
Tensor relu6(Tensor input, const ReLU6Options& options = {});
Tensor selu(Tensor input, const SELUOptions& options = {});
Tensor leaky_relu(Tensor input, const LeakyReLUOptions& options = {});
Tensor elu(Tensor input, const ELUOptions& options = {});
Tensor gelu(const Tensor& input, const GELUOptions& options = {});
Tensor softplus(const Tensor& input, const SoftplusOptions& options = {});
Tensor softmax(const Tensor& input, const SoftmaxOptions& options);
Tensor log_softmax(const Tensor& input, const LogSoftmaxOptions& options);
Tensor dropout(Tensor input, const DropoutFuncOptions& options = {});
Tensor dropout2d(Tensor input, const DropoutFuncOptions& options = {});
Tensor dropout3d(Tensor input, const DropoutFuncOptions& options = {});
Tensor alpha_dropout(Tensor input, const DropoutFuncOptions& options = {});
Tensor feature_alpha_dropout(Tensor input, const DropoutFuncOptions& options = {});
Tensor pad(const Tensor& input, const PadOptions& options);
Tensor max_pool1d(const Tensor& input, const MaxPool1dOptions& options);
Tensor max_pool2d(const Tensor& input, const MaxPool2dOptions& options);
Tensor max_pool3d(const Tensor& input, const MaxPool3dOptions& options);
Tensor avg_pool1d(const Tensor& input, const AvgPool1dOptions& options);
Tensor avg_pool2d(const Tensor& input, const AvgPool2dOptions& options);
Tensor avg_pool3d(const Tensor& input, const AvgPool3dOptions& options);
Tensor adaptive_avg_pool1d(const Tensor& input, const AdaptiveAvgPool1dOptions& options);
Tensor adaptive_avg_pool2d(const Tensor& input, const AdaptiveAvgPool2dOptions& options);
Tensor adaptive_avg_pool3d(const Tensor& input, const AdaptiveAvgPool3dOptions& options);
inline Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {}) {
  return torch::linear(input, weight, bias);
}
inline Tensor one_hot(const Tensor& tensor, int64_t num_classes = -1) { return torch::one_hot(tensor, num_classes); }
inline Tensor softsign(const Tensor& input) { return input / (input.abs() + 1); }
inline Tensor logsigmoid(const Tensor& input) { return torch::logsigmoid(input); }
inline Tensor silu(const Tensor& input) { return torch::silu(input); }
inline Tensor mish(const Tensor& input) { return torch::mish(input); }

}  // namespace functional

namespace init {
using NonlinearityType = Word;
using FanModeType = Word;
double calculate_gain(Word nonlinearity, double param = 0.01);
Tensor constant_(Tensor tensor, Scalar value);
Tensor ones_(Tensor tensor);
Tensor zeros_(Tensor tensor);
Tensor eye_(Tensor matrix);
Tensor normal_(Tensor tensor, double mean = 0, double std = 1);
Tensor uniform_(Tensor tensor, double low = 0, double high = 1);
/// A weight of 3 to 5 dimensions that keeps as many channels as it can.
Tensor dirac_(Tensor tensor);
/// Orthonormal rows or columns, all but the first dimension flattened.
Tensor orthogonal_(Tensor tensor, double gain = 1.0);
/// Normal numbers; this part of every column of a matrix is zero.
Tensor sparse_(Tensor tensor, double sparsity, double std = 0.01);
Tensor xavier_normal_(Tensor tensor, double gain = 1.0);
Tensor xavier_uniform_(Tensor tensor, double gain = 1.0);
Tensor kaiming_normal_(Tensor tensor, double a = 0, Word mode = kFanIn, Word nonlinearity = kLeakyReLU);
Tensor kaiming_uniform_(Tensor tensor, double a = 0, Word mode = kFanIn, Word nonlinearity = kLeakyReLU);
}  // namespace init

namespace utils {
double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2.0,
                       bool error_if_nonfinite = false);
inline double clip_grad_norm_(const Tensor& parameter, double max_norm, double norm_type = 2.0) {
  return clip_grad_norm_(std::vector<Tensor>{parameter}, max_norm, norm_type);
}
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);
Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters);
}  // namespace utils

}  // namespace nn
}  // namespace torch

// Modules and functions of images: padding, other pools, other sizes, instance norm, blocks as columns.
#pragma once

#include <torch/nn/containers.h>
#include <torch/nn/functional.h>

namespace torch {
constexpr Word kArea{"area"}, kNearestExact{"nearest-exact"}, kBorder{"border"}, kReflection{"reflection"};

namespace nn {

// ---- options

template <size_t Ends>
struct PaddingOptions {
  PaddingOptions(ExpandingArray<Ends> padding) : padding_(padding) {}
  TORCH_ARG(ExpandingArray<Ends>, padding);
};
template <size_t Ends>
struct ConstantPadOptions {
  ConstantPadOptions(ExpandingArray<Ends> padding, double value) : padding_(padding), value_(value) {}
  TORCH_ARG(ExpandingArray<Ends>, padding);
  TORCH_ARG(double, value);
};
#define TORCH_PADS(Kind, Options)     \
  using Kind##1dOptions = Options<2>; \
  using Kind##2dOptions = Options<4>; \
  using Kind##3dOptions = Options<6>
TORCH_PADS(ReflectionPad, PaddingOptions);
TORCH_PADS(ReplicationPad, PaddingOptions);
TORCH_PADS(ZeroPad, PaddingOptions);
TORCH_PADS(ConstantPad, ConstantPadOptions);
#undef TORCH_PADS

struct InstanceNormOptions {
  InstanceNormOptions(int64_t features) : num_features_(features) {}
  TORCH_ARG(int64_t, num_features);
  TORCH_ARG(double, eps) = 1e-5;
  TORCH_ARG(double, momentum) = 0.1;
  TORCH_ARG(bool, affine) = false;
  TORCH_ARG(bool, track_running_stats) = false;
};
using InstanceNorm1dOptions = InstanceNormOptions;
using InstanceNorm2dOptions = InstanceNormOptions;
using InstanceNorm3dOptions = InstanceNormOptions;
struct LocalResponseNormOptions {
  LocalResponseNormOptions(int64_t size) : size_(size) {}
  TORCH_ARG(int64_t, size);
  TORCH_ARG(double, alpha) = 1e-4;
  TORCH_ARG(double, beta) = 0.75;
  TORCH_ARG(double, k) = 1.0;
};
/// D numbers that are parts of a whole; one stands for D of them.
template <size_t D>
class ExpandingRatio {
 public:
  ExpandingRatio(double one) { values_.fill(one); }
  ExpandingRatio(const std::vector<double>& values) {
    FACULA_CHECK(values.size() == D, facula::ErrorKind::Runtime, "ExpandingArray: expected ", D, " values, got ",
                 values.size());
    std::copy(values.begin(), values.end(), values_.begin());
  }
  ExpandingRatio(std::initializer_list<double> values) : ExpandingRatio(std::vector<double>(values)) {}
  double operator[](size_t i) const { return values_[i]; }

 private:
  std::array<double, D> values_;
};
template <size_t D>
struct MaxUnpoolOptions {
  MaxUnpoolOptions(ExpandingArray<D> kernel) : kernel_size_(kernel), stride_(kernel) {}
  TORCH_ARG(ExpandingArray<D>, kernel_size);
  TORCH_ARG(ExpandingArray<D>, stride);
  TORCH_ARG(ExpandingArray<D>, padding) = 0;
};
template <size_t D>
struct LPPoolOptions {
  LPPoolOptions(double norm, ExpandingArray<D> kernel) : norm_type_(norm), kernel_size_(kernel), stride_(kernel) {}
  TORCH_ARG(double, norm_type);
  TORCH_ARG(ExpandingArray<D>, kernel_size);
  TORCH_ARG(ExpandingArray<D>, stride);
  TORCH_ARG(bool, ceil_mode) = false;
};
/// Either how large the results are, or which part of the input's sizes.
template <size_t D>
struct FractionalMaxPoolOptions {
  FractionalMaxPoolOptions(ExpandingArray<D> kernel) : kernel_size_(kernel) {}
  TORCH_ARG(ExpandingArray<D>, kernel_size);
  TORCH_ARG(optional<ExpandingArray<D>>, output_size) = nullopt;
  using Ratio = ExpandingRatio<D>;
  TORCH_ARG(optional<Ratio>, output_ratio) = nullopt;
  TORCH_ARG(Tensor, _random_samples) = Tensor();
};
using FractionalMaxPool2dOptions = FractionalMaxPoolOptions<2>;
using FractionalMaxPool3dOptions = FractionalMaxPoolOptions<3>;
TORCH_OPTIONS_OF_DIMENSIONS(MaxUnpool, MaxUnpoolOptions);
TORCH_OPTIONS_OF_DIMENSIONS(LPPool, LPPoolOptions);
TORCH_OPTIONS_OF_DIMENSIONS(AdaptiveMaxPool, AdaptivePoolOptions);
struct UpsampleOptions {
  TORCH_ARG(optional<std::vector<int64_t>>, size);
  TORCH_ARG(optional<std::vector<double>>, scale_factor);
  TORCH_ARG(Word, mode) = kNearest;
  TORCH_ARG(optional<bool>, align_corners);
};
struct CrossMapLRN2dOptions {
  CrossMapLRN2dOptions(int64_t size) : size_(size) {}
  TORCH_ARG(int64_t, size);
  TORCH_ARG(double, alpha) = 1e-4;
  TORCH_ARG(double, beta) = 0.75;
  TORCH_ARG(int64_t, k) = 1;
};
struct PixelShuffleOptions {
  PixelShuffleOptions(int64_t factor) : upscale_factor_(factor) {}
  TORCH_ARG(int64_t, upscale_factor);
};
struct PixelUnshuffleOptions {
  PixelUnshuffleOptions(int64_t factor) : downscale_factor_(factor) {}
  TORCH_ARG(int64_t, downscale_factor);
};
struct FoldOptions {
  FoldOptions(ExpandingArray<2> output, ExpandingArray<2> kernel) : output_size_(output), kernel_size_(kernel) {}
  TORCH_ARG(ExpandingArray<2>, output_size);
  TORCH_ARG(ExpandingArray<2>, kernel_size);
  TORCH_ARG(ExpandingArray<2>, dilation) = 1;
  TORCH_ARG(ExpandingArray<2>, padding) = 0;
  TORCH_ARG(ExpandingArray<2>, stride) = 1;
};
struct UnfoldOptions {
  UnfoldOptions(ExpandingArray<2> kernel) : kernel_size_(kernel) {}
  TORCH_ARG(ExpandingArray<2>, kernel_size);
  TORCH_ARG(ExpandingArray<2>, dilation) = 1;
  TORCH_ARG(ExpandingArray<2>, padding) = 0;
  TORCH_ARG(ExpandingArray<2>, stride) = 1;
};

// ---- functions

namespace functional {

struct InterpolateFuncOptions {
  TORCH_ARG(optional<std::vector<int64_t>>, size);
  TORCH_ARG(optional<std::vector<double>>, scale_factor);
  TORCH_ARG(Word, mode) = kNearest;
  TORCH_ARG(optional<bool>, align_corners);
  TORCH_ARG(optional<bool>, recompute_scale_factor);
  TORCH_ARG(bool, antialias) = false;
};
struct GridSampleFuncOptions {
  TORCH_ARG(Word, mode) = kBilinear;
  TORCH_ARG(Word, padding_mode) = kZeros;
  TORCH_ARG(optional<bool>, align_corners);
};
struct InstanceNormFuncOptions {
  TORCH_ARG(Tensor, running_mean);
  TORCH_ARG(Tensor, running_var);
  TORCH_ARG(Tensor, weight);
  TORCH_ARG(Tensor, bias);
  TORCH_ARG(bool, use_input_stats) = true;
  TORCH_ARG(double, momentum) = 0.1;
  TORCH_ARG(double, eps) = 1e-5;
};
template <size_t D>
struct ConvFuncOptions {
  TORCH_ARG(Tensor, bias);
  TORCH_ARG(ExpandingArray<D>, stride) = 1;
  TORCH_ARG(Padding<D>, padding) = 0;
  TORCH_ARG(ExpandingArray<D>, dilation) = 1;
  TORCH_ARG(int64_t, groups) = 1;
};
template <size_t D>
struct ConvTransposeFuncOptions {
  TORCH_ARG(Tensor, bias);
  TORCH_ARG(ExpandingArray<D>, stride) = 1;
  TORCH_ARG(ExpandingArray<D>, padding) = 0;
  TORCH_ARG(ExpandingArray<D>, output_padding) = 0;
  TORCH_ARG(int64_t, groups) = 1;
  TORCH_ARG(ExpandingArray<D>, dilation) = 1;
};
using LocalResponseNormFuncOptions = LocalResponseNormOptions;
using PixelShuffleFuncOptions = PixelShuffleOptions;
using PixelUnshuffleFuncOptions = PixelUnshuffleOptions;
using FractionalMaxPool2dFuncOptions = FractionalMaxPool2dOptions;
using FractionalMaxPool3dFuncOptions = FractionalMaxPool3dOptions;
using FoldFuncOptions = FoldOptions;
using UnfoldFuncOptions = UnfoldOptions;

/// Maxima, and their places, over windows that lie where random numbers say.
std::tuple<Tensor, Tensor> fractional_max_pool2d_with_indices(const Tensor& input,
                                                              const FractionalMaxPool2dOptions& options);
std::tuple<Tensor, Tensor> fractional_max_pool3d_with_indices(const Tensor& input,
                                                              const FractionalMaxPool3dOptions& options);
Tensor fractional_max_pool2d(const Tensor& input, const FractionalMaxPool2dOptions& options);
Tensor fractional_max_pool3d(const Tensor& input, const FractionalMaxPool3dOptions& options);
/// The grid, for grid_sample, of affine maps (N, 2, 3) for images of size (N, C, H, W), or of one dimension more.
Tensor affine_grid(const Tensor& theta, IntArrayRef size, bool align_corners = false);
Tensor interpolate(const Tensor& input, const InterpolateFuncOptions& options = {});
Tensor grid_sample(const Tensor& input, const Tensor& grid, const GridSampleFuncOptions& options = {});
Tensor instance_norm(const Tensor& input, const InstanceNormFuncOptions& options = {});
Tensor local_response_norm(const Tensor& input, const LocalResponseNormOptions& options);
Tensor pixel_shuffle(const Tensor& input, const PixelShuffleOptions& options);
Tensor pixel_unshuffle(const Tensor& input, const PixelUnshuffleOptions& options);
Tensor fold(const Tensor& input, const FoldOptions& options);
Tensor unfold(const Tensor& input, const UnfoldOptions& options);
#define TORCH_IMAGE_FUNCTIONS(D)                                                                                 \
  using Conv##D##dFuncOptions = ConvFuncOptions<D>;                                                              \
  using ConvTranspose##D##dFuncOptions = ConvTransposeFuncOptions<D>;                                            \
  using MaxUnpool##D##dFuncOptions = MaxUnpoolOptions<D>;                                                        \
  using LPPool##D##dFuncOptions = LPPoolOptions<D>;                                                              \
  using AdaptiveMaxPool##D##dFuncOptions = AdaptivePoolOptions<D>;                                               \
  Tensor conv##D##d(const Tensor& input, const Tensor& weight, const ConvFuncOptions<D>& options = {});          \
  Tensor conv_transpose##D##d(const Tensor& input, const Tensor& weight,                                         \
                              const ConvTransposeFuncOptions<D>& options = {});                                  \
  std::tuple<Tensor, Tensor> max_pool##D##d_with_indices(const Tensor& input, const MaxPoolOptions<D>& options); \
  Tensor adaptive_max_pool##D##d(const Tensor& input, const AdaptivePoolOptions<D>& options);                    \
  std::tuple<Tensor, Tensor> adaptive_max_pool##D##d_with_indices(const Tensor& input,                           \
                                                                  const AdaptivePoolOptions<D>& options);        \
  Tensor lp_pool##D##d(const Tensor& input, const LPPoolOptions<D>& options);                                    \
  Tensor max_unpool##D##d(const Tensor& input, const Tensor& indices, const MaxUnpoolOptions<D>& options,        \
                          const optional<std::vector<int64_t>>& output_size = nullopt)
TORCH_IMAGE_FUNCTIONS(1);
TORCH_IMAGE_FUNCTIONS(2);
TORCH_IMAGE_FUNCTIONS(3);
#undef TORCH_IMAGE_FUNCTIONS

}  // namespace functional

// ---- modules

#define TORCH_PAD(Name, Options, D, ...)                             \
  class Name##D##dImpl : public Cloneable<Name##D##dImpl> {          \
   public:                                                           \
    explicit Name##D##dImpl(const Options<2 * D>& o) : options(o) {} \
    __VA_ARGS__                                                      \
    void reset() override {}                                         \
    void pretty_print(std::ostream& stream) const override;          \
    Tensor forward(const Tensor& input);                             \
    Options<2 * D> options;                                          \
  };                                                                 \
  TORCH_MODULE(Name##D##d)
#define TORCH_PLAIN_PAD(Name, D) \
  TORCH_PAD(Name, PaddingOptions, D, Name##D##dImpl(ExpandingArray<2 * D> padding) : options(padding){})
#define TORCH_THREE(Name)   \
  TORCH_PLAIN_PAD(Name, 1); \
  TORCH_PLAIN_PAD(Name, 2); \
  TORCH_PLAIN_PAD(Name, 3)
TORCH_THREE(ReflectionPad);
TORCH_THREE(ReplicationPad);
TORCH_THREE(ZeroPad);
#undef TORCH_THREE
#undef TORCH_PLAIN_PAD
#define TORCH_VALUE_PAD(D)                      \
  TORCH_PAD(ConstantPad, ConstantPadOptions, D, \
            ConstantPad##D##dImpl(ExpandingArray<2 * D> padding, double value) : options(padding, value){})
TORCH_VALUE_PAD(1);
TORCH_VALUE_PAD(2);
TORCH_VALUE_PAD(3);
#undef TORCH_VALUE_PAD
#undef TORCH_PAD

template <size_t D>
class InstanceNormImpl : public Cloneable<InstanceNormImpl<D>> {
 public:
  explicit InstanceNormImpl(const InstanceNormOptions& o);
  void reset() override;
  void reset_parameters();
  void reset_running_stats();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  InstanceNormOptions options;
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;
};
#define TORCH_POOL(Name, Options, ...)                       \
  template <size_t D>                                        \
  class Name##Impl : public Cloneable<Name##Impl<D>> {       \
   public:                                                   \
    explicit Name##Impl(const Options<D>& o) : options(o) {} \
    void reset() override {}                                 \
    void pretty_print(std::ostream& stream) const override;  \
    __VA_ARGS__                                              \
    Options<D> options;                                      \
  }
TORCH_POOL(
    AdaptiveMaxPool, AdaptivePoolOptions,
    AdaptiveMaxPoolImpl(ExpandingArray<D> size) : options(size) {} Tensor forward(const Tensor& input);
    std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input););
TORCH_POOL(
    LPPool, LPPoolOptions,
    LPPoolImpl(double norm, ExpandingArray<D> kernel) : options(norm, kernel) {} Tensor forward(const Tensor& input););
TORCH_POOL(
    MaxUnpool, MaxUnpoolOptions,
    MaxUnpoolImpl(ExpandingArray<D> kernel) : options(kernel) {} Tensor forward(
        const Tensor& input, const Tensor& indices, const optional<std::vector<int64_t>>& output_size = nullopt););
#undef TORCH_POOL

TORCH_MODULES_OF_DIMENSIONS(InstanceNorm, InstanceNormImpl);
TORCH_MODULES_OF_DIMENSIONS(AdaptiveMaxPool, AdaptiveMaxPoolImpl);
TORCH_MODULES_OF_DIMENSIONS(LPPool, LPPoolImpl);
TORCH_MODULES_OF_DIMENSIONS(MaxUnpool, MaxUnpoolImpl);

TORCH_PLAIN_MODULE(LocalResponseNorm, (const Tensor& input), LocalResponseNormImpl(int64_t size) : options(size){});
TORCH_PLAIN_MODULE(CrossMapLRN2d, (const Tensor& input), CrossMapLRN2dImpl(int64_t size) : options(size){});
#define TORCH_FRACTIONAL(D)                                                                         \
  TORCH_PLAIN_MODULE(FractionalMaxPool##D##d, (const Tensor& input),                                \
                     FractionalMaxPool##D##dImpl(ExpandingArray<D> kernel) : options(kernel){}      \
                     std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input););
TORCH_FRACTIONAL(2)
TORCH_FRACTIONAL(3)
#undef TORCH_FRACTIONAL
TORCH_PLAIN_MODULE(Upsample, (const Tensor& input), UpsampleImpl() = default;);
TORCH_PLAIN_MODULE(PixelShuffle, (const Tensor& input), PixelShuffleImpl(int64_t factor) : options(factor){});
TORCH_PLAIN_MODULE(PixelUnshuffle, (const Tensor& input), PixelUnshuffleImpl(int64_t factor) : options(factor){});
TORCH_PLAIN_MODULE(Fold, (const Tensor& input),
                   FoldImpl(ExpandingArray<2> output, ExpandingArray<2> kernel) : options(output, kernel){});
TORCH_PLAIN_MODULE(Unfold, (const Tensor& input), UnfoldImpl(ExpandingArray<2> kernel) : options(kernel){});

}  // namespace nn
}  // namespace torch

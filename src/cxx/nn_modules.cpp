// The modules of torch::nn: their parameters, drawn as libtorch draws them, and what they compute.
#include <cmath>

#include "torch/nn/modules.h"

namespace torch::nn {

using facula::ErrorKind;

namespace {

/// Uniform in +-1/sqrt(fan in), for the bias beside such a weight.
void draw_with_bias(const Tensor& weight, const Tensor& bias) {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias.defined()) return;
  double fan_in = static_cast<double>(weight.size(1));
  for (const int64_t size : weight.sizes().slice(2)) fan_in *= static_cast<double>(size);
  const double bound = fan_in > 0 ? 1 / std::sqrt(fan_in) : 0;
  init::uniform_(bias, -bound, bound);
}
const char* word(bool yes) { return yes ? "true" : "false"; }
optional<Tensor> maybe(const Tensor& t) { return t.defined() ? optional<Tensor>(t) : nullopt; }

}  // namespace

// ---- linear maps

LinearImpl::LinearImpl(const LinearOptions& o) : options(o) { LinearImpl::reset(); }
void LinearImpl::reset() {
  weight = register_parameter("weight", torch::empty({options.out_features(), options.in_features()}));
  bias = options.bias() ? register_parameter("bias", torch::empty(options.out_features()))
                        : register_parameter("bias", {}, false);
  reset_parameters();
}
void LinearImpl::reset_parameters() { draw_with_bias(weight, bias); }
void LinearImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Linear(in_features=" << options.in_features() << ", out_features=" << options.out_features()
         << ", bias=" << word(options.bias()) << ")";
}
void FlattenImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Flatten(start_dim=" << options.start_dim() << ", end_dim=" << options.end_dim() << ")";
}

// ---- convolutions

namespace {
/// The weight, (first, second, kernel...), and the bias of a convolution.
template <class Impl>
void make_parameters(Impl& conv, int64_t first, int64_t second) {
  const auto& options = conv.options;
  std::vector<int64_t> sizes{first, second};
  sizes.insert(sizes.end(), options.kernel_size()->begin(), options.kernel_size()->end());
  conv.weight = conv.register_parameter("weight", torch::empty(sizes));
  conv.bias = options.bias() ? conv.register_parameter("bias", torch::empty(options.out_channels()))
                             : conv.register_parameter("bias", {}, false);
  conv.reset_parameters();
}
}  // namespace

template <size_t D>
ConvImpl<D>::ConvImpl(ConvOptions<D> o) : options(std::move(o)) {
  ConvImpl::reset();
}
template <size_t D>
void ConvImpl<D>::reset() {
  FACULA_CHECK(options.groups() > 0 && options.in_channels() % options.groups() == 0, ErrorKind::Runtime, "Conv", D,
               "d: in_channels must be divisible by groups, got ", options.in_channels(), " and ", options.groups());
  FACULA_CHECK(options.out_channels() % options.groups() == 0, ErrorKind::Runtime, "Conv", D,
               "d: out_channels must be divisible by groups, got ", options.out_channels(), " and ", options.groups());
  make_parameters(*this, options.out_channels(), options.in_channels() / options.groups());
}
template <size_t D>
void ConvImpl<D>::reset_parameters() {
  draw_with_bias(weight, bias);
}
template <size_t D>
Tensor ConvImpl<D>::forward(const Tensor& given_input) {
  Tensor input = given_input;
  Padding<D> padding = options.padding();
  if (!(options.padding_mode() == kZeros)) {
    FACULA_CHECK(!padding.word, ErrorKind::NotImplemented, "Conv: a word as padding goes with kZeros, got ",
                 options.padding_mode().name);
    std::vector<int64_t> around;  // last dimension first, both sides
    for (size_t d = D; d-- > 0;) around.insert(around.end(), 2, padding.numbers[d]);
    input = torch::pad(input, around, options.padding_mode().name);
    padding = 0;
  }
  const auto call = [&](const auto& pad) {
    const IntArrayRef stride = options.stride(), dilation = options.dilation();
    if constexpr (D == 1) return torch::conv1d(input, weight, maybe(bias), stride, pad, dilation, options.groups());
    else if constexpr (D == 2)
      return torch::conv2d(input, weight, maybe(bias), stride, pad, dilation, options.groups());
    else return torch::conv3d(input, weight, maybe(bias), stride, pad, dilation, options.groups());
  };
  return padding.word ? call(std::string_view(padding.word->name)) : call(IntArrayRef(padding.numbers));
}
template <size_t D>
void ConvImpl<D>::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Conv" << D << "d(" << options.in_channels() << ", " << options.out_channels()
         << ", kernel_size=" << options.kernel_size() << ", stride=" << options.stride();
  if (options.padding().word) stream << ", padding='" << options.padding().word->name << "'";
  else if (!options.padding().numbers.all(0)) stream << ", padding=" << options.padding().numbers;
  if (!options.dilation().all(1)) stream << ", dilation=" << options.dilation();
  if (options.groups() != 1) stream << ", groups=" << options.groups();
  if (!options.bias()) stream << ", bias=false";
  if (!(options.padding_mode() == kZeros)) stream << ", padding_mode=k" << options.padding_mode().name;
  stream << ")";
}

template <size_t D>
ConvTransposeImpl<D>::ConvTransposeImpl(ConvTransposeOptions<D> o) : options(std::move(o)) {
  ConvTransposeImpl::reset();
}
template <size_t D>
void ConvTransposeImpl<D>::reset() {
  FACULA_CHECK(options.groups() > 0 && options.in_channels() % options.groups() == 0 &&
                   options.out_channels() % options.groups() == 0,
               ErrorKind::Runtime, "ConvTranspose", D, "d: channels must be divisible by groups, got ",
               options.in_channels(), ", ", options.out_channels(), " and ", options.groups());
  FACULA_CHECK(options.padding_mode() == kZeros, ErrorKind::Runtime, "ConvTranspose: padding_mode must be kZeros, got ",
               options.padding_mode().name);
  make_parameters(*this, options.in_channels(), options.out_channels() / options.groups());
}
template <size_t D>
void ConvTransposeImpl<D>::reset_parameters() {
  draw_with_bias(weight, bias);
}
template <size_t D>
Tensor ConvTransposeImpl<D>::forward(const Tensor& input) {
  const IntArrayRef stride = options.stride(), padding = options.padding(), dilation = options.dilation(),
                    more = options.output_padding();
  if constexpr (D == 1)
    return torch::conv_transpose1d(input, weight, maybe(bias), stride, padding, more, options.groups(), dilation);
  else if constexpr (D == 2)
    return torch::conv_transpose2d(input, weight, maybe(bias), stride, padding, more, options.groups(), dilation);
  else return torch::conv_transpose3d(input, weight, maybe(bias), stride, padding, more, options.groups(), dilation);
}
template <size_t D>
void ConvTransposeImpl<D>::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::ConvTranspose" << D << "d(" << options.in_channels() << ", " << options.out_channels()
         << ", kernel_size=" << options.kernel_size() << ", stride=" << options.stride();
  if (!options.padding().all(0)) stream << ", padding=" << options.padding();
  if (!options.dilation().all(1)) stream << ", dilation=" << options.dilation();
  if (!options.output_padding().all(0)) stream << ", output_padding=" << options.output_padding();
  if (options.groups() != 1) stream << ", groups=" << options.groups();
  if (!options.bias()) stream << ", bias=false";
  stream << ")";
}

// ---- norms

template <size_t D>
BatchNormImplBase<D>::BatchNormImplBase(const BatchNormOptions& o) : options(o) {
  BatchNormImplBase::reset();
}
template <size_t D>
void BatchNormImplBase<D>::reset() {
  const int64_t n = options.num_features();
  weight = options.affine() ? this->register_parameter("weight", torch::empty(n))
                            : this->register_parameter("weight", {}, false);
  bias = options.affine() ? this->register_parameter("bias", torch::empty(n))
                          : this->register_parameter("bias", {}, false);
  const bool track = options.track_running_stats();
  running_mean = this->register_buffer("running_mean", track ? torch::zeros(n) : Tensor());
  running_var = this->register_buffer("running_var", track ? torch::ones(n) : Tensor());
  num_batches_tracked = this->register_buffer("num_batches_tracked", track ? torch::tensor(0, kLong) : Tensor());
  reset_parameters();
}
template <size_t D>
void BatchNormImplBase<D>::reset_running_stats() {
  if (!options.track_running_stats()) return;
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}
template <size_t D>
void BatchNormImplBase<D>::reset_parameters() {
  reset_running_stats();
  if (!options.affine()) return;
  init::ones_(weight);
  init::zeros_(bias);
}
template <size_t D>
Tensor BatchNormImplBase<D>::forward(const Tensor& input) {
  const int64_t dims = input.dim();
  FACULA_CHECK(dims == static_cast<int64_t>(D) + 2 || (D == 1 && dims == 2), ErrorKind::Runtime, "BatchNorm", D,
               "d: expected an input of ",
               D == 1   ? "2 or 3"
               : D == 2 ? "4"
                        : "5",
               " dimensions, got ", dims);
  double momentum = options.momentum().value_or(0.0);
  if (this->is_training() && num_batches_tracked.defined()) {
    num_batches_tracked.add_(1);
    if (!options.momentum()) momentum = 1.0 / num_batches_tracked.template item<double>();
  }
  const bool by_batch = this->is_training() || !running_mean.defined();
  return torch::batch_norm(input, maybe(weight), maybe(bias), maybe(running_mean), maybe(running_var), by_batch,
                           momentum, options.eps(), true);
}
template <size_t D>
void BatchNormImplBase<D>::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::BatchNorm" << D << "d(" << options.num_features() << ", eps=" << options.eps() << ", momentum=";
  if (options.momentum()) stream << *options.momentum();
  else stream << "None";
  stream << ", affine=" << word(options.affine()) << ", track_running_stats=" << word(options.track_running_stats())
         << ")";
}

LayerNormImpl::LayerNormImpl(LayerNormOptions o) : options(std::move(o)) { LayerNormImpl::reset(); }
void LayerNormImpl::reset() {
  const bool affine = options.elementwise_affine();
  const IntArrayRef shape = options.normalized_shape();
  weight = register_parameter("weight", affine ? torch::ones(shape) : Tensor(), affine);
  bias = register_parameter("bias", affine ? torch::zeros(shape) : Tensor(), affine);
}
void LayerNormImpl::reset_parameters() {
  if (weight.defined()) init::ones_(weight), init::zeros_(bias);
}
Tensor LayerNormImpl::forward(const Tensor& input) {
  return torch::layer_norm(input, options.normalized_shape(), maybe(weight), maybe(bias), options.eps());
}
void LayerNormImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::LayerNorm(" << IntArrayRef(options.normalized_shape()) << ", eps=" << options.eps()
         << ", elementwise_affine=" << word(options.elementwise_affine()) << ")";
}

GroupNormImpl::GroupNormImpl(const GroupNormOptions& o) : options(o) { GroupNormImpl::reset(); }
void GroupNormImpl::reset() {
  const bool affine = options.affine();
  weight = register_parameter("weight", affine ? torch::ones(options.num_channels()) : Tensor(), affine);
  bias = register_parameter("bias", affine ? torch::zeros(options.num_channels()) : Tensor(), affine);
}
void GroupNormImpl::reset_parameters() {
  if (weight.defined()) init::ones_(weight), init::zeros_(bias);
}
Tensor GroupNormImpl::forward(const Tensor& input) {
  return torch::group_norm(input, options.num_groups(), maybe(weight), maybe(bias), options.eps());
}
void GroupNormImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::GroupNorm(" << options.num_groups() << ", " << options.num_channels()
         << ", eps=" << options.eps() << ", affine=" << word(options.affine()) << ")";
}

// ---- pools

template <size_t D>
void MaxPoolImpl<D>::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::MaxPool" << D << "d(kernel_size=" << options.kernel_size() << ", stride=" << options.stride()
         << ", padding=" << options.padding() << ", dilation=" << options.dilation()
         << ", ceil_mode=" << word(options.ceil_mode()) << ")";
}
template <size_t D>
void AvgPoolImpl<D>::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::AvgPool" << D << "d(kernel_size=" << options.kernel_size() << ", stride=" << options.stride()
         << ", padding=" << options.padding() << ")";
}
template <size_t D>
void AdaptiveAvgPoolImpl<D>::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::AdaptiveAvgPool" << D << "d(output_size=" << options.output_size() << ")";
}
#define TORCH_INSTANCES(Impl) \
  template class Impl<1>;     \
  template class Impl<2>;     \
  template class Impl<3>
TORCH_INSTANCES(ConvImpl);
TORCH_INSTANCES(ConvTransposeImpl);
TORCH_INSTANCES(BatchNormImplBase);
TORCH_INSTANCES(MaxPoolImpl);
TORCH_INSTANCES(AvgPoolImpl);
TORCH_INSTANCES(AdaptiveAvgPoolImpl);
#undef TORCH_INSTANCES

// ---- activations

#define TORCH_INPLACE_TEXT(Name)                                                           \
  void Name##Impl::pretty_print(std::ostream& stream) const {                              \
    stream << "torch::nn::" #Name "(" << (options.inplace() ? "inplace=true" : "") << ")"; \
  }
TORCH_INPLACE_TEXT(ReLU)
TORCH_INPLACE_TEXT(ReLU6)
TORCH_INPLACE_TEXT(SELU)
#undef TORCH_INPLACE_TEXT
void LeakyReLUImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::LeakyReLU(negative_slope=" << options.negative_slope()
         << (options.inplace() ? ", inplace=true)" : ")");
}
void ELUImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::ELU(alpha=" << options.alpha() << (options.inplace() ? ", inplace=true)" : ")");
}
void GELUImpl::pretty_print(std::ostream& stream) const { stream << "torch::nn::GELU()"; }
void SoftplusImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Softplus(beta=" << options.beta() << ", threshold=" << options.threshold() << ")";
}
void SoftmaxImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Softmax(dim=" << options.dim() << ")";
}
void LogSoftmaxImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::LogSoftmax(dim=" << options.dim() << ")";
}

}  // namespace torch::nn

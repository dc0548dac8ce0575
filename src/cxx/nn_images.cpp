// Modules and functions of images.
#include <cmath>

#include "functions.h"
#include "torch/nn/images.h"

namespace torch::nn {

using facula::ErrorKind;

namespace {

const char* word(bool yes) { return yes ? "true" : "false"; }
optional<Tensor> maybe(const Tensor& t) { return t.defined() ? optional<Tensor>(t) : nullopt; }

}  // namespace

namespace functional {
namespace {

/// A way to other sizes: its name, the dimensions of its images, and the op.
struct Resampling {
  Word mode;
  int64_t dims;
  Tensor (*run)(const Tensor& input, OptionalIntArrayRef size, bool align_corners, optional<ArrayRef<double>> scales);
};
#define TORCH_NEAREST(name)                                                                        \
  [](const Tensor& input, OptionalIntArrayRef size, bool, optional<ArrayRef<double>> scales) {     \
    return Tensor(facula::name(input.core(), torch::detail::in(size), torch::detail::in(scales))); \
  }
#define TORCH_ALIGNED(name)                                                                               \
  [](const Tensor& input, OptionalIntArrayRef size, bool align, optional<ArrayRef<double>> scales) {      \
    return Tensor(facula::name(input.core(), torch::detail::in(size), align, torch::detail::in(scales))); \
  }
const Resampling kResamplings[] = {
    {kNearest, 3, TORCH_NEAREST(upsample_nearest1d)},
    {kNearest, 4, TORCH_NEAREST(upsample_nearest2d)},
    {kNearest, 5, TORCH_NEAREST(upsample_nearest3d)},
    {kNearestExact, 3, TORCH_NEAREST(_upsample_nearest_exact1d)},
    {kNearestExact, 4, TORCH_NEAREST(_upsample_nearest_exact2d)},
    {kNearestExact, 5, TORCH_NEAREST(_upsample_nearest_exact3d)},
    {kLinear, 3, TORCH_ALIGNED(upsample_linear1d)},
    {kBilinear, 4, TORCH_ALIGNED(upsample_bilinear2d)},
    {kBicubic, 4, TORCH_ALIGNED(upsample_bicubic2d)},
    {kTrilinear, 5, TORCH_ALIGNED(upsample_trilinear3d)},
};
#undef TORCH_NEAREST
#undef TORCH_ALIGNED

/// Sizes from factors, or as they were given; one number is for every dimension.
std::vector<int64_t> sizes_of(const Tensor& input, const InterpolateFuncOptions& o) {
  const auto dims = static_cast<size_t>(input.dim() - 2);
  std::vector<int64_t> sizes;
  for (size_t d = 0; d < dims; ++d) {
    if (o.size()) sizes.push_back(o.size()->size() == 1 ? (*o.size())[0] : o.size()->at(d));
    else
      sizes.push_back(static_cast<int64_t>(
          std::floor(static_cast<double>(input.size(static_cast<int64_t>(d) + 2)) *
                     (o.scale_factor()->size() == 1 ? (*o.scale_factor())[0] : o.scale_factor()->at(d)))));
  }
  return sizes;
}

void check_resampling(const Tensor& input, const InterpolateFuncOptions& o) {
  FACULA_CHECK(input.dim() >= 3 && input.dim() <= 5, ErrorKind::NotImplemented,
               "interpolate: an input of 3, 4 or 5 dimensions is expected, got ", input.dim());
  FACULA_CHECK(o.size().has_value() != o.scale_factor().has_value(), ErrorKind::Value,
               "interpolate: either size or scale_factor is expected, got both or neither");
  const auto dims = static_cast<size_t>(input.dim() - 2);
  const size_t given = o.size() ? o.size()->size() : o.scale_factor()->size();
  FACULA_CHECK(given == dims || given == 1, ErrorKind::Value, "interpolate: ", dims, " numbers are expected, got ",
               given);
  const bool aligns = o.mode() == kLinear || o.mode() == kBilinear || o.mode() == kBicubic || o.mode() == kTrilinear;
  FACULA_CHECK(aligns || !o.align_corners(), ErrorKind::Value,
               "interpolate: align_corners is for the modes linear, bilinear, bicubic and trilinear");
}

}  // namespace

Tensor interpolate(const Tensor& input, const InterpolateFuncOptions& o) {
  check_resampling(input, o);
  const std::vector<int64_t> sizes = sizes_of(input, o);
  if (o.mode() == kArea) {
    if (input.dim() == 3) return torch::adaptive_avg_pool1d(input, sizes);
    return input.dim() == 4 ? torch::adaptive_avg_pool2d(input, sizes) : torch::adaptive_avg_pool3d(input, sizes);
  }
  const bool align = o.align_corners().value_or(false), by_size = o.size() || o.recompute_scale_factor() == true;
  const auto dims = static_cast<size_t>(input.dim() - 2);
  std::vector<double> scales;
  if (!by_size)
    scales = o.scale_factor()->size() == 1 ? std::vector<double>(dims, (*o.scale_factor())[0]) : *o.scale_factor();
  const auto size = by_size ? OptionalIntArrayRef(sizes) : OptionalIntArrayRef();
  const auto factors = by_size ? nullopt : optional<ArrayRef<double>>(scales);
  if (o.antialias()) {
    FACULA_CHECK(input.dim() == 4 && (o.mode() == kBilinear || o.mode() == kBicubic), ErrorKind::Value,
                 "interpolate: antialias is for bilinear and bicubic images");
    const auto run = o.mode() == kBilinear ? facula::_upsample_bilinear2d_aa : facula::_upsample_bicubic2d_aa;
    return Tensor(run(torch::detail::in(input), torch::detail::in(size), align, torch::detail::in(factors)));
  }
  for (const Resampling& each : kResamplings)
    if (each.mode == o.mode() && each.dims == input.dim()) return each.run(input, size, align, factors);
  facula::throw_error(ErrorKind::NotImplemented, "interpolate: mode ", o.mode().name, " does not go with ", input.dim(),
                      " dimensions");
}

Tensor grid_sample(const Tensor& input, const Tensor& grid, const GridSampleFuncOptions& o) {
  const auto place = [](const char* what, Word word, std::initializer_list<Word> words) {
    int64_t at = 0;
    for (const Word each : words) {
      if (each == word) return at;
      ++at;
    }
    facula::throw_error(ErrorKind::Value, "grid_sample: ", what, " ", word.name, " is not known");
  };
  const int64_t mode = place("mode", o.mode(), {kBilinear, kNearest, kBicubic});
  const int64_t padding = place("padding_mode", o.padding_mode(), {kZeros, kBorder, kReflection});
  return torch::grid_sampler(input, grid, mode, padding, o.align_corners().value_or(false));
}
Tensor instance_norm(const Tensor& input, const InstanceNormFuncOptions& o) {
  return torch::instance_norm(input, maybe(o.weight()), maybe(o.bias()), maybe(o.running_mean()),
                              maybe(o.running_var()), o.use_input_stats(), o.momentum(), o.eps(), true);
}
Tensor local_response_norm(const Tensor& input, const LocalResponseNormOptions& o) {
  FACULA_CHECK(input.dim() >= 3, ErrorKind::Runtime, "local_response_norm: 3 dimensions or more are expected, got ",
               input.dim());
  if (input.numel() == 0) return input;
  const int64_t size = o.size();
  // a window of `size` channels around each one, with zeros beyond the ends
  Tensor squares = input.mul(input).reshape({input.size(0), 1, input.size(1), -1});
  squares = torch::pad(squares, {0, 0, size / 2, (size - 1) / 2});
  const Tensor means = torch::avg_pool2d(squares, {size, 1}, {1, 1}).reshape(input.sizes());
  return input / means.mul(o.alpha()).add(o.k()).pow(o.beta());
}
Tensor pixel_shuffle(const Tensor& input, const PixelShuffleOptions& o) {
  return torch::pixel_shuffle(input, o.upscale_factor());
}
Tensor pixel_unshuffle(const Tensor& input, const PixelUnshuffleOptions& o) {
  return torch::pixel_unshuffle(input, o.downscale_factor());
}
Tensor fold(const Tensor& input, const FoldOptions& o) {
  return torch::col2im(input, o.output_size(), o.kernel_size(), o.dilation(), o.padding(), o.stride());
}
Tensor unfold(const Tensor& input, const UnfoldOptions& o) {
  return torch::im2col(input, o.kernel_size(), o.dilation(), o.padding(), o.stride());
}

namespace {

template <size_t D>
std::vector<int64_t> unpooled_size(const Tensor& input, const MaxUnpoolOptions<D>& o,
                                   const optional<std::vector<int64_t>>& given) {
  if (given) {
    FACULA_CHECK(given->size() >= D, ErrorKind::Value, "max_unpool: an output_size of ", D,
                 " numbers is expected, got ", given->size());
    return {given->end() - D, given->end()};
  }
  std::vector<int64_t> sizes;
  for (size_t d = 0; d < D; ++d)
    sizes.push_back((input.size(static_cast<int64_t>(d) - static_cast<int64_t>(D)) - 1) * o.stride()[d] +
                    o.kernel_size()[d] - 2 * o.padding()[d]);
  return sizes;
}
template <size_t D>
Tensor power_average(const Tensor& average, const LPPoolOptions<D>& o) {
  double window = 1;
  for (const int64_t size : *o.kernel_size()) window *= static_cast<double>(size);
  return (average.sign() * average.abs().relu()).mul(window).pow(1.0 / o.norm_type());
}

}  // namespace

#define TORCH_IMAGE_FUNCTIONS(D)                                                                                    \
  Tensor conv##D##d(const Tensor& input, const Tensor& weight, const ConvFuncOptions<D>& o) {                       \
    const auto run = [&](auto padding) {                                                                            \
      return torch::conv##D##d(input, weight, maybe(o.bias()), IntArrayRef(o.stride()), padding,                    \
                               IntArrayRef(o.dilation()), o.groups());                                              \
    };                                                                                                              \
    const auto& padding = o.padding();                                                                              \
    return padding.word ? run(std::string_view(padding.word->name)) : run(IntArrayRef(padding.numbers));            \
  }                                                                                                                 \
  Tensor conv_transpose##D##d(const Tensor& input, const Tensor& weight, const ConvTransposeFuncOptions<D>& o) {    \
    return torch::conv_transpose##D##d(input, weight, maybe(o.bias()), o.stride(), o.padding(), o.output_padding(), \
                                       o.groups(), o.dilation());                                                   \
  }                                                                                                                 \
  std::tuple<Tensor, Tensor> max_pool##D##d_with_indices(const Tensor& input, const MaxPoolOptions<D>& o) {         \
    return torch::max_pool##D##d_with_indices(input, o.kernel_size(), o.stride(), o.padding(), o.dilation(),        \
                                              o.ceil_mode());                                                       \
  }                                                                                                                 \
  std::tuple<Tensor, Tensor> adaptive_max_pool##D##d_with_indices(const Tensor& input,                              \
                                                                  const AdaptivePoolOptions<D>& o) {                \
    return torch::adaptive_max_pool##D##d(input, o.output_size());                                                  \
  }                                                                                                                 \
  Tensor adaptive_max_pool##D##d(const Tensor& input, const AdaptivePoolOptions<D>& o) {                            \
    return std::get<0>(adaptive_max_pool##D##d_with_indices(input, o));                                             \
  }                                                                                                                 \
  Tensor lp_pool##D##d(const Tensor& input, const LPPoolOptions<D>& o) {                                            \
    return power_average<D>(                                                                                        \
        torch::avg_pool##D##d(input.pow(o.norm_type()), o.kernel_size(), o.stride(), 0, o.ceil_mode()), o);         \
  }
TORCH_IMAGE_FUNCTIONS(1)
TORCH_IMAGE_FUNCTIONS(2)
TORCH_IMAGE_FUNCTIONS(3)
#undef TORCH_IMAGE_FUNCTIONS
Tensor max_unpool1d(const Tensor& input, const Tensor& indices, const MaxUnpoolOptions<1>& o,
                    const optional<std::vector<int64_t>>& output_size) {
  auto size = unpooled_size(input, o, output_size);
  size.push_back(1);
  return torch::max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), size).squeeze(-1);
}
Tensor max_unpool2d(const Tensor& input, const Tensor& indices, const MaxUnpoolOptions<2>& o,
                    const optional<std::vector<int64_t>>& output_size) {
  return torch::max_unpool2d(input, indices, unpooled_size(input, o, output_size));
}
Tensor max_unpool3d(const Tensor& input, const Tensor& indices, const MaxUnpoolOptions<3>& o,
                    const optional<std::vector<int64_t>>& output_size) {
  return torch::max_unpool3d(input, indices, unpooled_size(input, o, output_size), o.stride(), o.padding());
}

}  // namespace functional

// ---- modules

#define TORCH_PAD(Name, D, mode, value, value_text)                                       \
  Tensor Name##D##dImpl::forward(const Tensor& input) {                                   \
    return torch::pad(input, IntArrayRef(options.padding()), mode, value);                \
  }                                                                                       \
  void Name##D##dImpl::pretty_print(std::ostream& stream) const {                         \
    stream << "torch::nn::" #Name #D "d(padding=" << options.padding() value_text << ")"; \
  }
#define TORCH_THREE(Name, mode, value, value_text) \
  TORCH_PAD(Name, 1, mode, value, value_text)      \
  TORCH_PAD(Name, 2, mode, value, value_text)      \
  TORCH_PAD(Name, 3, mode, value, value_text)
TORCH_THREE(ReflectionPad, "reflect", nullopt, )
TORCH_THREE(ReplicationPad, "replicate", nullopt, )
TORCH_THREE(ZeroPad, "constant", 0.0, )
TORCH_THREE(ConstantPad, "constant", options.value(), << ", value=" << options.value())
#undef TORCH_THREE
#undef TORCH_PAD

template <size_t D>
InstanceNormImpl<D>::InstanceNormImpl(const InstanceNormOptions& o) : options(o) {
  InstanceNormImpl::reset();
}
template <size_t D>
void InstanceNormImpl<D>::reset() {
  const int64_t count = options.num_features();
  const auto parameter = [&](const char* name) {
    return options.affine() ? this->register_parameter(name, torch::empty(count))
                            : this->register_parameter(name, {}, false);
  };
  weight = parameter("weight");
  bias = parameter("bias");
  const bool tracks = options.track_running_stats();
  running_mean = this->register_buffer("running_mean", tracks ? torch::zeros(count) : Tensor());
  running_var = this->register_buffer("running_var", tracks ? torch::ones(count) : Tensor());
  num_batches_tracked = this->register_buffer("num_batches_tracked", tracks ? torch::tensor(int64_t{0}) : Tensor());
  reset_parameters();
}
template <size_t D>
void InstanceNormImpl<D>::reset_running_stats() {
  if (!options.track_running_stats()) return;
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}
template <size_t D>
void InstanceNormImpl<D>::reset_parameters() {
  reset_running_stats();
  if (!options.affine()) return;
  init::ones_(weight);
  init::zeros_(bias);
}
template <size_t D>
Tensor InstanceNormImpl<D>::forward(const Tensor& input) {
  constexpr auto kLeast = static_cast<int64_t>(D) + 1;
  FACULA_CHECK(input.dim() == kLeast || input.dim() == kLeast + 1, ErrorKind::Runtime,
               "instance_norm: expected an input of ", kLeast, " or ", kLeast + 1, " dimensions, got ", input.dim());
  const Tensor batch = input.dim() == kLeast ? input.unsqueeze(0) : input;
  const bool by_input = this->is_training() || !options.track_running_stats();
  const Tensor result = torch::instance_norm(batch, maybe(weight), maybe(bias), maybe(running_mean), maybe(running_var),
                                             by_input, options.momentum(), options.eps(), true);
  return input.dim() == kLeast ? result.squeeze(0) : result;
}
template <size_t D>
void InstanceNormImpl<D>::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::InstanceNorm" << D << "d(" << options.num_features() << ", eps=" << options.eps()
         << ", momentum=" << options.momentum() << ", affine=" << word(options.affine())
         << ", track_running_stats=" << word(options.track_running_stats()) << ")";
}

#define TORCH_BY_DIMENSION(function, ...)                                  \
  if constexpr (D == 1) return functional::function##1d##__VA_ARGS__;      \
  else if constexpr (D == 2) return functional::function##2d##__VA_ARGS__; \
  else return functional::function##3d##__VA_ARGS__
template <size_t D>
Tensor AdaptiveMaxPoolImpl<D>::forward(const Tensor& input) {
  return std::get<0>(forward_with_indices(input));
}
template <size_t D>
std::tuple<Tensor, Tensor> AdaptiveMaxPoolImpl<D>::forward_with_indices(const Tensor& input) {
  TORCH_BY_DIMENSION(adaptive_max_pool, _with_indices(input, options));
}
template <size_t D>
void AdaptiveMaxPoolImpl<D>::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::AdaptiveMaxPool" << D << "d(output_size=" << options.output_size() << ")";
}
#undef TORCH_BY_DIMENSION
template <size_t D>
Tensor LPPoolImpl<D>::forward(const Tensor& input) {
  if constexpr (D == 1) return functional::lp_pool1d(input, options);
  else if constexpr (D == 2) return functional::lp_pool2d(input, options);
  else return functional::lp_pool3d(input, options);
}
template <size_t D>
void LPPoolImpl<D>::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::LPPool" << D << "d(norm_type=" << options.norm_type()
         << ", kernel_size=" << options.kernel_size() << ", stride=" << options.stride()
         << ", ceil_mode=" << word(options.ceil_mode()) << ")";
}
template <size_t D>
Tensor MaxUnpoolImpl<D>::forward(const Tensor& input, const Tensor& indices,
                                 const optional<std::vector<int64_t>>& output_size) {
  if constexpr (D == 1) return functional::max_unpool1d(input, indices, options, output_size);
  else if constexpr (D == 2) return functional::max_unpool2d(input, indices, options, output_size);
  else return functional::max_unpool3d(input, indices, options, output_size);
}
template <size_t D>
void MaxUnpoolImpl<D>::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::MaxUnpool" << D << "d(kernel_size=" << options.kernel_size() << ", stride=" << options.stride()
         << ", padding=" << options.padding() << ")";
}
#define TORCH_INSTANCES(Impl) \
  template class Impl<1>;     \
  template class Impl<2>;     \
  template class Impl<3>
TORCH_INSTANCES(InstanceNormImpl);
TORCH_INSTANCES(AdaptiveMaxPoolImpl);
TORCH_INSTANCES(LPPoolImpl);
TORCH_INSTANCES(MaxUnpoolImpl);
#undef TORCH_INSTANCES

Tensor LocalResponseNormImpl::forward(const Tensor& input) { return functional::local_response_norm(input, options); }
void LocalResponseNormImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::LocalResponseNorm(" << options.size() << ", alpha=" << options.alpha()
         << ", beta=" << options.beta() << ", k=" << options.k() << ")";
}
Tensor UpsampleImpl::forward(const Tensor& input) {
  return functional::interpolate(input, functional::InterpolateFuncOptions()
                                            .size(options.size())
                                            .scale_factor(options.scale_factor())
                                            .mode(options.mode())
                                            .align_corners(options.align_corners()));
}
void UpsampleImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Upsample(";
  if (options.scale_factor()) stream << "scale_factor=" << ArrayRef<double>(*options.scale_factor());
  else if (options.size()) stream << "size=" << IntArrayRef(*options.size());
  std::string mode = options.mode().name;
  mode[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(mode[0])));
  stream << ", mode=k" << mode << ")";
}
Tensor PixelShuffleImpl::forward(const Tensor& input) { return functional::pixel_shuffle(input, options); }
void PixelShuffleImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::PixelShuffle(upscale_factor=" << options.upscale_factor() << ")";
}
Tensor PixelUnshuffleImpl::forward(const Tensor& input) { return functional::pixel_unshuffle(input, options); }
void PixelUnshuffleImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::PixelUnshuffle(downscale_factor=" << options.downscale_factor() << ")";
}
Tensor FoldImpl::forward(const Tensor& input) { return functional::fold(input, options); }
void FoldImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Fold(output_size=" << options.output_size() << ", kernel_size=" << options.kernel_size()
         << ", dilation=" << options.dilation() << ", padding=" << options.padding() << ", stride=" << options.stride()
         << ")";
}
Tensor UnfoldImpl::forward(const Tensor& input) { return functional::unfold(input, options); }
void UnfoldImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Unfold(kernel_size=" << options.kernel_size() << ", dilation=" << options.dilation()
         << ", padding=" << options.padding() << ", stride=" << options.stride() << ")";
}

}  // namespace torch::nn

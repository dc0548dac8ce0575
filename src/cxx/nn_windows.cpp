// Pools over windows at random places, responses normalized across maps, grids of affine maps.
#include <cmath>

#include "torch/nn/images.h"

namespace torch::nn {

using facula::ErrorKind;

namespace functional {
namespace {

template <size_t D>
std::tuple<Tensor, Tensor> fractional_pool(const Tensor& input, const FractionalMaxPoolOptions<D>& o) {
  constexpr auto kDims = static_cast<int64_t>(D);
  FACULA_CHECK(o.output_size() || o.output_ratio(), ErrorKind::Value, "fractional_max_pool", D,
               "d: expected output_size or output_ratio, got neither");
  FACULA_CHECK(input.dim() == kDims + 1 || input.dim() == kDims + 2, ErrorKind::Value, "fractional_max_pool", D,
               "d: an input of ", D + 1, " or ", D + 2, " dimensions is expected, got ", input.dim());
  std::vector<int64_t> sizes;
  for (size_t d = 0; d < D; ++d) {
    const int64_t whole = input.size(static_cast<int64_t>(d) - kDims);
    sizes.push_back(o.output_size() ? (*o.output_size())[d]
                                    : static_cast<int64_t>(static_cast<double>(whole) * (*o.output_ratio())[d]));
  }
  const int64_t batch = input.dim() == kDims + 1 ? 1 : input.size(0);
  const Tensor& given = o._random_samples();
  const Tensor places = given.defined() ? given : torch::rand({batch, input.size(-kDims - 1), kDims}, input.options());
  if constexpr (D == 2) return torch::fractional_max_pool2d(input, o.kernel_size(), sizes, places);
  else return torch::fractional_max_pool3d(input, o.kernel_size(), sizes, places);
}

/// The middles of so many pixels in [-1, 1].
Tensor middles(const Tensor& like, int64_t count, bool align_corners) {
  if (count <= 1) return torch::zeros({count}, like.options());
  const Tensor ends = torch::linspace(Scalar(-1), Scalar(1), count, like.options());
  return align_corners ? ends : ends * (count - 1) / count;
}

}  // namespace

#define TORCH_FRACTIONAL(D)                                                                                    \
  std::tuple<Tensor, Tensor> fractional_max_pool##D##d_with_indices(const Tensor& input,                       \
                                                                    const FractionalMaxPool##D##dOptions& o) { \
    return fractional_pool<D>(input, o);                                                                       \
  }                                                                                                            \
  Tensor fractional_max_pool##D##d(const Tensor& input, const FractionalMaxPool##D##dOptions& o) {             \
    return std::get<0>(fractional_pool<D>(input, o));                                                          \
  }
TORCH_FRACTIONAL(2)
TORCH_FRACTIONAL(3)
#undef TORCH_FRACTIONAL

Tensor affine_grid(const Tensor& theta, IntArrayRef size, bool align_corners) {
  const auto dims = static_cast<int64_t>(size.size()) - 2;
  FACULA_CHECK(theta.is_floating_point(), ErrorKind::Value, "affine_grid: theta must be floating-point, got ",
               theta.scalar_type());
  FACULA_CHECK(dims == 2 || dims == 3, ErrorKind::NotImplemented,
               "affine_grid: a size of 4 or 5 numbers is expected, got ", size);
  for (const int64_t each : size)
    FACULA_CHECK(each > 0, ErrorKind::Value, "affine_grid: expected non-zero, positive output size, got ", size);
  FACULA_CHECK(theta.sizes() == IntArrayRef({size[0], dims, dims + 1}), ErrorKind::Value, "affine_grid: theta must be ",
               IntArrayRef({size[0], dims, dims + 1}), " for size ", size, ", got ", theta.sizes());
  std::vector<Tensor> axes, columns;
  for (const int64_t steps : size.slice(2)) axes.push_back(middles(theta, steps, align_corners));
  const std::vector<Tensor> mesh = torch::meshgrid(axes, "ij");
  columns.assign(mesh.rbegin(), mesh.rend());  // x, y and z: x is along the last dimension
  columns.push_back(torch::ones_like(mesh[0]));
  const Tensor base = torch::stack(columns, -1).reshape({1, -1, dims + 1}).expand({size[0], -1, -1});
  std::vector<int64_t> sizes{size[0]};
  sizes.insert(sizes.end(), size.begin() + 2, size.end());
  sizes.push_back(dims);
  return base.bmm(theta.transpose(1, 2)).reshape(sizes);
}

}  // namespace functional

#define TORCH_FRACTIONAL(D)                                                                           \
  Tensor FractionalMaxPool##D##dImpl::forward(const Tensor& input) {                                  \
    return functional::fractional_max_pool##D##d(input, options);                                     \
  }                                                                                                   \
  std::tuple<Tensor, Tensor> FractionalMaxPool##D##dImpl::forward_with_indices(const Tensor& input) { \
    return functional::fractional_max_pool##D##d_with_indices(input, options);                        \
  }                                                                                                   \
  void FractionalMaxPool##D##dImpl::pretty_print(std::ostream& stream) const {                        \
    stream << "torch::nn::FractionalMaxPool" #D "d()";                                                \
  }
TORCH_FRACTIONAL(2)
TORCH_FRACTIONAL(3)
#undef TORCH_FRACTIONAL

Tensor CrossMapLRN2dImpl::forward(const Tensor& input) {
  FACULA_CHECK(input.dim() == 4 && options.size() > 0, ErrorKind::Value,
               "CrossMapLRN2d: a positive size and an input of 4 dimensions are expected, got ", options.size(),
               " and ", input.dim());
  const int64_t reach = (options.size() - 1) / 2, window = 2 * reach + 1;
  const Tensor squares = input.pow(2);
  const Tensor padded = torch::pad(squares.unsqueeze(1), {0, 0, 0, 0, reach, reach});
  Tensor sums = torch::avg_pool3d(padded, {window, 1, 1}, IntArrayRef(1)).squeeze(1) * window;
  // PyTorch's running sum never lets go of map 0.
  const Tensor late = (torch::arange(input.size(1), input.options().dtype(kLong)) > reach).to(input.scalar_type());
  sums = sums + squares.slice(1, 0, 1) * late.reshape({1, -1, 1, 1});
  return input * (options.k() + options.alpha() / static_cast<double>(options.size()) * sums).pow(-options.beta());
}
void CrossMapLRN2dImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::CrossMapLRN2d(" << options.size() << ", alpha=" << options.alpha()
         << ", beta=" << options.beta() << ", k=" << options.k() << ")";
}

}  // namespace torch::nn

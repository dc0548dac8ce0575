// Normalizations of channels.
#include "cuda/kernels/channel_norm_args.h"
#include "cuda/lines.h"
#include "cuda/tickets.h"
#include "ops/norm.h"

namespace facula::cuda {
namespace {

constexpr DeviceKernel kFactors{"channel_norm.cuh", "channel_factors"};

struct ChannelFold {
  DeviceKernel fold, merge;
};
constexpr ChannelFold kChannelGradients{{"channel_norm.cuh", "channel_fold<facula::cuda::ChannelGradientSums"},
                                        {"channel_norm.cuh", "channel_merge<facula::cuda::ChannelGradientSums"}};
constexpr ChannelFold kMoments{{"channel_norm.cuh", "channel_fold<facula::cuda::ChannelMoments"},
                               {"channel_norm.cuh", "channel_merge<facula::cuda::ChannelMoments"}};

/// A group of threads for each result or, where results lie side by side, threads for parts of them.
void run_fold(const ChannelFold& kernels, const Tensor& self, DType compute, ChannelArgs p) {
  constexpr int64_t kMostParts = 1024, kStateBytes = 24;
  if (p.results == 0) return;
  const int device = self.device().index, warps = p.inner < 32 ? 0 : p.count <= 1024 ? 1 : 8;
  p.parts = line_parts(device, {p.results, p.count, 1}, warps, kMostParts);
  p.part = std::max<int64_t>(1, (p.count + p.parts - 1) / p.parts);
  p.parts = std::max<int64_t>(1, (p.count + p.part - 1) / p.part);
  Tensor states;
  if (p.parts > 1) {
    states = facula::empty({p.results * p.parts * kStateBytes}, DType::UInt8, self.device());
    p.states = states.data();
  }
  kernels.fold(device, {self.dtype(), compute, warps}, line_grid(device, p.results * p.parts, warps), p);
  if (p.parts > 1) kernels.merge(device, {compute}, grid_for(device, p.results), p);
}

ChannelArgs channel_args(const Tensor& self, const ChannelLayout& layout, const Tensor& first, const Tensor& second) {
  ChannelArgs p{};
  p.results = layout.samples * layout.channels;
  p.count = layout.count();
  p.channels = layout.channels;
  p.inner = layout.inner;
  p.outer_step = layout.channels * layout.inner;
  p.sample_step = layout.outer * p.outer_step;
  p.self = self.data();
  p.first = first.data();
  p.second = second.data();
  return p;
}

constexpr DeviceKernel kPlaneFolds{"channel_norm_vectors.cuh", "plane_folds"};
constexpr DeviceKernel kColumnFolds{"channel_norm_vectors.cuh", "column_folds"};
constexpr DeviceKernel kPlaneFactors{"channel_norm_vectors.cuh", "plane_factors"};
constexpr DeviceKernel kColumnFactors{"channel_norm_vectors.cuh", "column_factors"};

/// Elements of a vector, by what 32 bits can count; 0 where the kernels by vectors do not fit.
int channel_vector(const ChannelLayout& layout, int64_t item, std::initializer_list<const void*> data,
                   std::initializer_list<const void*> factors) {
  constexpr int64_t kShortestPlane = 8, kMost = INT32_MAX / 2;
  const int64_t row = layout.channels * layout.inner;
  if (layout.outer * layout.inner == 0 || layout.channels == 0 || layout.samples == 0) return 0;
  if (layout.inner > 1 && (layout.samples > 1 || layout.inner < kShortestPlane)) return 0;
  if (layout.outer * layout.inner > kMost || row * item > UINT32_MAX || layout.samples > 65535) return 0;
  const int64_t wide = 16 / item;
  bool fits = (layout.inner == 1 ? layout.channels : layout.inner) % wide == 0;
  for (const void* at : data) fits = fits && reinterpret_cast<uintptr_t>(at) % 16 == 0;
  if (layout.inner == 1)
    for (const void* at : factors) fits = fits && reinterpret_cast<uintptr_t>(at) % 16 == 0;
  return static_cast<int>(fits ? wide : 1);
}

/// What is common to planes and columns.
ChannelPartArgs part_args(const ChannelLayout& layout, int64_t item, int vector) {
  ChannelPartArgs p{};
  const int64_t line = layout.inner == 1 ? layout.channels : layout.inner, vectors = line / vector;
  p.vectors = fast_division(static_cast<unsigned>(vectors));
  p.count = static_cast<unsigned>(layout.inner == 1 ? layout.outer : layout.outer * vectors);
  p.image_bytes = p.row_bytes = static_cast<unsigned>(layout.channels * layout.inner * item);
  p.lanes = 1;
  while (p.lanes < 32 && p.lanes < p.vectors.by) p.lanes *= 2;
  p.strips = (p.vectors.by + p.lanes - 1) / p.lanes;
  return p;
}

/// Blocks for so many pieces of each channel, or of each strip of each sample.
Grid part_grid(ChannelPartArgs& p, const ChannelLayout& layout, int64_t pieces) {
  p.pieces = fast_division(static_cast<unsigned>(pieces));
  if (layout.inner > 1) return {256, layout.channels * pieces};
  return {256, p.strips * pieces, layout.samples};
}

/// Whether the sums of grad, or the moments, were queued: by one kernel, whose last block of each result brings the
/// others' parts together.
bool fold_by_vectors(bool gradient, const Tensor& first, const Tensor& second, const Tensor& grad, const Tensor& self,
                     const Tensor& mean, const ChannelLayout& layout) {
  constexpr int64_t kTurns = 4, kStateBytes = 24;
  const void *grad_data = gradient ? grad.data() : nullptr, *mean_data = gradient ? mean.data() : nullptr;
  const int vector = channel_vector(layout, self.item_size(), {self.data(), grad_data}, {mean_data});
  if (!vector) return false;
  const int device = self.device().index;
  ChannelPartArgs p = part_args(layout, self.item_size(), vector);
  const bool columns = layout.inner == 1;
  const int64_t turn = (columns ? 256 / p.lanes : 256) * (gradient ? 2 : 4),
                results = columns ? p.strips * layout.samples : layout.channels,
                most = std::min<int64_t>(2 * properties(device).multiprocessors / results, p.count / (turn * kTurns)),
                parts = results > kTickets ? 1 : std::max<int64_t>(1, most);
  p.part = static_cast<unsigned>((p.count + parts - 1) / parts);
  p.parts = (p.count + p.part - 1) / p.part;
  p.self = self.data(), p.grad = grad_data, p.mean = mean_data;
  p.first = first.data(), p.second = second.data();
  Tensor states;
  if (p.parts > 1) {
    states = facula::empty({layout.samples * layout.channels * p.parts * kStateBytes}, DType::UInt8, self.device());
    p.states = states.data();
    p.tickets = fold_ticket(device);
  }
  const Grid grid = part_grid(p, layout, p.parts);
  (columns ? kColumnFolds : kPlaneFolds)(device, {gradient, self.dtype(), first.dtype(), vector}, grid, p);
  return true;
}

void channel_moments_cuda(const Tensor& mean, const Tensor& variance, const Tensor& self, const ChannelLayout& layout) {
  if (fold_by_vectors(false, mean, variance, Tensor(), self, Tensor(), layout)) return;
  run_fold(kMoments, self, mean.dtype(), channel_args(self, layout, mean, variance));
}

void channel_sums_cuda(const Tensor& total, const Tensor& centered, const Tensor& grad, const Tensor& self,
                       const Tensor& mean, const ChannelLayout& layout) {
  if (fold_by_vectors(true, total, centered, grad, self, mean, layout)) return;
  ChannelArgs p = channel_args(self, layout, total, centered);
  p.grad = grad.data();
  p.mean = mean.data();
  run_fold(kChannelGradients, self, mean.dtype(), p);
}

void channel_factors_cuda(const Tensor& rstd, const Tensor& scale, const Tensor& shift, const Tensor& mean,
                          const Tensor& variance, const Tensor& weight, const Tensor& bias, double eps) {
  static const DeviceKernel kernel{"channel_norm.cuh", "channel_scales"};
  const int device = rstd.device().index;
  const auto data = [](const Tensor& t) { return static_cast<const void*>(t.defined() ? t.data() : nullptr); };
  if (rstd.numel() == 0) return;
  kernel(device, {rstd.dtype()}, grid_for(device, rstd.numel()), rstd.data(), scale.data(), shift.data(), data(mean),
         data(variance), data(weight), data(bias), eps, static_cast<long long>(rstd.numel()));
}

/// Whether what is element by element was queued.
bool factors_by_vectors(bool gradient, const FactorArgs& f, const Tensor& self, DType compute,
                        const ChannelLayout& layout) {
  const int vector = channel_vector(layout, self.item_size(), {f.self, f.grad, f.out}, {f.a, f.b, f.c});
  if (!vector) return false;
  const int device = self.device().index;
  ChannelPartArgs p = part_args(layout, self.item_size(), vector);
  p.self = f.self, p.grad = f.grad, p.out = f.out, p.a = f.a, p.b = f.b, p.c = f.c;
  if (layout.inner == 1) {
    const int64_t rows = 256 / p.lanes * 4;
    const Grid grid = part_grid(p, layout, (p.count + rows - 1) / rows);
    kColumnFactors(device, {gradient, self.dtype(), compute, vector}, grid, p);
    return true;
  }
  const int many = p.count > 512 ? 4 : 1;  // vectors of a thread
  const int64_t pieces = (p.count + int64_t{256} * many - 1) / (int64_t{256} * many);
  if (layout.channels * pieces > INT32_MAX) return false;
  const Grid grid = part_grid(p, layout, pieces);
  kPlaneFactors(device, {gradient, self.dtype(), compute, vector, many}, grid, p);
  return true;
}

void run_factors(bool gradient, const FactorArgs& p, const Tensor& self, DType compute, const ChannelLayout& layout) {
  const int device = self.device().index;
  if (p.numel == 0 || factors_by_vectors(gradient, p, self, compute, layout)) return;
  kFactors(device, {gradient, self.dtype(), compute}, grid_for(device, p.numel), p);
}

void channel_affine_cuda(const Tensor& out, const Tensor& self, const Tensor& scale, const Tensor& shift,
                         const ChannelLayout& layout) {
  run_factors(false,
              {self.numel(), layout.outer, layout.channels, layout.inner, layout.samples, self.data(), nullptr,
               scale.data(), shift.data(), nullptr, out.data()},
              self, scale.dtype(), layout);
}

void channel_combine_cuda(const Tensor& out, const Tensor& grad, const Tensor& self, const Tensor& a, const Tensor& b,
                          const Tensor& c, const ChannelLayout& layout) {
  run_factors(true,
              {self.numel(), layout.outer, layout.channels, layout.inner, layout.samples, self.data(), grad.data(),
               a.data(), b.data(), c.data(), out.data()},
              self, a.dtype(), layout);
}

}  // namespace

void register_channel_norm() {
  constexpr auto cuda = DeviceType::CUDA;
  channel_moments_kernel.set(cuda, channel_moments_cuda);
  channel_factors_kernel.set(cuda, channel_factors_cuda);
  channel_affine_kernel.set(cuda, channel_affine_cuda);
  channel_sums_kernel.set(cuda, channel_sums_cuda);
  channel_combine_kernel.set(cuda, channel_combine_cuda);
}

}  // namespace facula::cuda

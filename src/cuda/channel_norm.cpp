// Normalisations of channels.
#include "cuda/kernels/channel_norm_args.h"
#include "cuda/lines.h"
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

void channel_moments_cuda(const Tensor& mean, const Tensor& variance, const Tensor& self, const ChannelLayout& layout) {
  run_fold(kMoments, self, mean.dtype(), channel_args(self, layout, mean, variance));
}

void channel_sums_cuda(const Tensor& total, const Tensor& centered, const Tensor& grad, const Tensor& self,
                       const Tensor& mean, const ChannelLayout& layout) {
  ChannelArgs p = channel_args(self, layout, total, centered);
  p.grad = grad.data();
  p.mean = mean.data();
  run_fold(kChannelGradients, self, mean.dtype(), p);
}

void run_factors(bool gradient, const FactorArgs& p, const Tensor& self, DType compute) {
  const int device = self.device().index;
  if (p.numel) kFactors(device, {gradient, self.dtype(), compute}, grid_for(device, p.numel), p);
}

void channel_affine_cuda(const Tensor& out, const Tensor& self, const Tensor& scale, const Tensor& shift,
                         const ChannelLayout& layout) {
  run_factors(false,
              {self.numel(), layout.outer, layout.channels, layout.inner, layout.samples, self.data(), nullptr,
               scale.data(), shift.data(), nullptr, out.data()},
              self, scale.dtype());
}

void channel_combine_cuda(const Tensor& out, const Tensor& grad, const Tensor& self, const Tensor& a, const Tensor& b,
                          const Tensor& c, const ChannelLayout& layout) {
  run_factors(true,
              {self.numel(), layout.outer, layout.channels, layout.inner, layout.samples, self.data(), grad.data(),
               a.data(), b.data(), c.data(), out.data()},
              self, a.dtype());
}

}  // namespace

void register_channel_norm() {
  constexpr auto cuda = DeviceType::CUDA;
  channel_moments_kernel.set(cuda, channel_moments_cuda);
  channel_affine_kernel.set(cuda, channel_affine_cuda);
  channel_sums_kernel.set(cuda, channel_sums_cuda);
  channel_combine_kernel.set(cuda, channel_combine_cuda);
}

}  // namespace facula::cuda

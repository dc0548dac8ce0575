// Convolutions as graphs of one operation. What the library chose for a convolution (sizes, layout, dtype, flags) is
// cached.
// Images of one spatial dimension get a second one of size one, as PyTorch's do: the library knows two and three.
#include "cuda/dnn_conv.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <optional>
#include <string>

#include "core/host.h"
#include "cuda/device.h"
#include "cuda/dnn_graph.h"
#include "cuda/flags.h"
#include "cuda/graph.h"
#include "cuda/plan_cache.h"
#include "ops/contiguous.h"

namespace facula::cuda {
namespace {

using dnn::Descriptor;

constexpr size_t kMostConvDims = 5;

/// A tensor in the layout of the convolution; dimensions that are not there have size one.
struct Shape {
  int64_t sizes[kMostConvDims], alignment;
};

/// What a plan depends on; compared byte by byte, so nothing lies between the members.
struct ConvKey {
  int64_t map, device, dtype, dims, channels_last, full_precision, deterministic, timed;
  Shape x, w, y;
  int64_t stride[3], padding[3], dilation[3];
};
static_assert(sizeof(ConvKey) == (8 + 3 * 6 + 9) * sizeof(int64_t));

int64_t alignment_of(const Tensor& t) {
  constexpr int kMost = 4;  // 16 bytes
  return int64_t{1} << std::min(std::countr_zero(reinterpret_cast<uintptr_t>(t.data()) | (uintptr_t{1} << kMost)),
                                kMost);
}

Shape shape_of(const Tensor& t, size_t missing) {
  Shape s{};
  std::fill(std::begin(s.sizes), std::end(s.sizes), 1);
  for (size_t d = 0; d < static_cast<size_t>(t.dim()); ++d) s.sizes[d < 2 ? d : d + missing] = t.sizes()[d];
  s.alignment = alignment_of(t);
  return s;
}

bool is_channels_last(const Tensor& t) { return !t.is_contiguous(); }  // dense, and in one of two layouts

bool wants_full_precision(DType dtype) { return dtype == DType::Float32 && !flags()[Flag::ConvTf32]; }

ConvKey key_of(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const ConvGeometry& g,
               bool channels_last) {
  ConvKey p{};
  const size_t spatial = g.stride.size(), missing = spatial == 1 ? 1 : 0;
  p.map = static_cast<int64_t>(map);
  p.device = x.device().index;
  p.dtype = static_cast<int64_t>(x.dtype());
  p.dims = static_cast<int64_t>(2 + spatial + missing);
  p.channels_last = channels_last;
  p.full_precision = wants_full_precision(x.dtype());
  p.deterministic = flags()[Flag::Deterministic] || flags()[Flag::DeterministicAlgorithms];
  p.timed = flags()[Flag::Benchmark] ? 1 + flags()[Flag::BenchmarkLimit] : 0;
  p.x = shape_of(x, missing);
  p.w = shape_of(w, missing);
  p.y = shape_of(y, missing);
  for (size_t d = 0; d < 3; ++d) p.stride[d] = p.dilation[d] = 1;
  for (size_t d = 0; d < spatial; ++d) {
    p.stride[d + missing] = g.stride[d];
    p.padding[d + missing] = g.padding[d];
    p.dilation[d + missing] = g.dilation[d];
  }
  return p;
}

enum TensorId : int64_t { kX = 'x', kW = 'w', kY = 'y' };

Descriptor tensor(const ConvKey& p, const Shape& shape, TensorId id) {
  const auto dims = static_cast<size_t>(p.dims);
  std::array<int64_t, kMostConvDims> strides{};
  int64_t step = 1;
  const auto put = [&](size_t d) { strides[d] = std::exchange(step, step * shape.sizes[d]); };
  if (p.channels_last) put(1);
  for (size_t d = dims; d-- > 2;) put(d);
  if (!p.channels_last) put(1);
  put(0);
  Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, dnn::type_of(static_cast<DType>(p.dtype)));
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span(shape.sizes, dims));
  t.set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(strides.data(), dims));
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, shape.alignment);
  t.finish();
  return t;
}

struct Names {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, x, w, y;
};
constexpr Names names[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
};

Descriptor geometry_of(const ConvKey& p, cudnnDataType_t computed) {
  const auto spatial = static_cast<size_t>(p.dims - 2);
  constexpr cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  Descriptor c(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  c.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, p.dims - 2);
  c.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, computed);
  c.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, &mode);
  c.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::span(p.stride, spatial));
  c.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::span(p.dilation, spatial));
  c.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::span(p.padding, spatial));
  c.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::span(p.padding, spatial));
  c.finish();
  return c;
}

std::optional<dnn::EnginePlans> plans_of(const ConvKey& p) {
  const bool wide = static_cast<DType>(p.dtype) == DType::Float64;
  const Names& n = names[p.map];
  const Descriptor x = tensor(p, p.x, kX), w = tensor(p, p.w, kW), y = tensor(p, p.y, kY),
                   geometry = geometry_of(p, wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
  Descriptor operation(n.type);
  operation.set(n.convolution, geometry).set(n.x, x).set(n.w, w).set(n.y, y);
  constexpr double one = 1, zero = 0;
  constexpr float narrow_one = 1, narrow_zero = 0;
  const cudnnBackendAttributeType_t type = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  operation.set(n.alpha, type, wide ? static_cast<const void*>(&one) : &narrow_one);
  operation.set(n.beta, type, wide ? static_cast<const void*>(&zero) : &narrow_zero);
  if (!operation.try_finish()) return {};
  const cudnnBackendDescriptor_t all[] = {operation.get()};
  return dnn::EnginePlans(all, static_cast<int>(p.device), {p.full_precision != 0, p.deterministic != 0});
}

constexpr int64_t ids[] = {kX, kW, kY};

/// Says once that the library fails where it should have a way.
void note_failure(const std::string& why) {
  static std::atomic<bool> noted{false};
  if (why.empty() || noted.exchange(true) || !host.warn) return;
  host.warn(("convolution: cuDNN has no plan, and Facula's own kernels compute it: " + why).c_str());
}

/// False where no plan runs.
bool run(ConvKey p, std::span<void* const> addresses) {
  static auto& known = *new PlanCache<ConvKey, std::optional<dnn::EnginePlans>>;
  const Stream stream = current_stream(static_cast<int>(p.device));
  if (p.timed && is_captured(stream)) p.timed = 0;  // who captures cannot wait for a clock
  const auto make = [&] {
    std::optional<dnn::EnginePlans> plans = plans_of(p);
    if (plans && p.timed) plans->time(static_cast<size_t>(p.timed - 1), stream, ids, addresses);
    if (plans && !plans->any()) note_failure(plans->why_none());
    return plans;
  };
  return known.with(p, make, [&](auto& plans) { return plans && plans->run(stream, ids, addresses); });
}

bool is_taken(const Tensor& y, const Tensor& x, const Tensor& w) {
  const DType dtype = x.dtype();
  const bool known =
      dtype == DType::Float16 || dtype == DType::BFloat16 || dtype == DType::Float32 || dtype == DType::Float64;
  const bool depthwise = w.dim() > 2 && w.size(1) == 1 && w.size(0) == x.size(1) && x.size(1) > 1;
  if (depthwise && flags()[Flag::NativeDepthwise]) return false;
  return known && flags()[Flag::Cudnn] && x.numel() && y.numel() && w.numel() && x.dim() <= 5 && dnn::is_there();
}

/// The weights in the layout of the images, or room for them.
Tensor in_layout(const Tensor& w, bool channels_last, bool is_result) {
  Dims order, back;
  order.push_back(0);
  for (int64_t d = 2; d < w.dim(); ++d) order.push_back(d);
  order.push_back(1);
  Dims sizes;
  for (const int64_t d : order) sizes.push_back(w.size(d));
  Tensor fresh;
  if (channels_last) {
    Dims strides(w.sizes());
    const Tensor memory = facula::empty(sizes, w.dtype(), w.device());
    for (size_t i = 0; i < order.size(); ++i) strides[static_cast<size_t>(order[i])] = memory.strides()[i];
    fresh = make_view(memory, w.sizes(), strides, 0, false);
  } else {
    fresh = facula::empty(w.sizes(), w.dtype(), w.device());
  }
  if (!is_result) copy_elements(fresh, w);
  return fresh;
}

}  // namespace

bool convolution_by_library(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const ConvGeometry& g) {
  if (!is_taken(y, x, w)) return false;
  const bool channels_last = is_channels_last(x) || is_channels_last(y);
  const bool lies_so = channels_last ? w.stride(1) == 1 && (is_channels_last(w) || w.size(1) == 1) : w.is_contiguous();
  const Tensor weights = lies_so ? w : in_layout(w, channels_last, map == ConvMap::Weight);
  const ConvKey key = key_of(map, y, x, weights, g, channels_last);
  void* const addresses[] = {x.data(), weights.data(), y.data()};
  if (!run(key, addresses)) return false;
  if (!weights.is_same(w) && map == ConvMap::Weight) copy_elements(w, weights);
  return true;
}

}  // namespace facula::cuda

// Derivatives of sampling at the positions of a grid: one kernel, or (when the gradient itself must be differentiable)
// the same sums in differentiable ops.
#include <array>

#include "autograd/batching.h"
#include "autograd/formulas.h"
#include "functions.h"

namespace facula {
namespace {

struct GridMode {
  int64_t interpolation, padding;
  bool align_corners;
};

// What the coordinates along one axis read, all of shape (N, points): `index` (0 where outside), `weight` (0 there),
// and `slope`, the derivative of weight by the coordinate.
struct Tap {
  Tensor index, weight, slope;
};

class Axis {
 public:
  Axis(int64_t size, const GridMode& mode)
      : size_(size), mode_(mode), span_(static_cast<double>(mode.align_corners ? size - 1 : size)) {}

  std::vector<Tap> taps(const Tensor& coordinate) const {
    double half = span_ / 2;  // the derivative of the position by the coordinate
    Tensor x = coordinate * half + (mode_.align_corners ? half : half - 0.5);
    if (mode_.interpolation == 2) return cubic(x, half);
    auto [place, rate] = padded(alias(x));
    Tensor moved = place + rate * (x - alias(x));
    if (mode_.interpolation == 1) return {tap(round(place), ones_like(place), zeros_like(place))};
    Tensor low = floor(place);
    return {tap(low, low + 1.0 - moved, rate * -half), tap(low + 1.0, moved - low, rate * half)};
  }

 private:
  // The position brought into the input as the padding mode says, and its derivative, which is constant between bends.
  std::pair<Tensor, Tensor> padded(Tensor x) const {
    Tensor rate = ones_like(x);
    if (mode_.padding == 2) std::tie(x, rate) = reflected(x);
    if (mode_.padding == 0) return {x, rate};
    double last = static_cast<double>(size_ - 1);
    rate = where(logical_or(le(x, 0.0), ge(x, last)), 0.0, rate);
    return {clamp(x, Scalar(0.0), Scalar(last)), rate};
  }
  std::pair<Tensor, Tensor> reflected(const Tensor& x) const {
    if (span_ == 0) return {zeros_like(x), zeros_like(x)};
    double low = mode_.align_corners ? 0.0 : -0.5;
    Tensor from = x - low, distance = abs(from);
    Tensor extra = fmod(distance, Scalar(span_));
    Tensor odd = ne(fmod(floor(distance / span_), Scalar(2.0)), 0.0);
    Tensor rate = where(logical_xor(odd, lt(from, 0.0)), -1.0, ones_like(x));
    return {where(odd, span_ - extra, extra) + low, rate};
  }

  std::vector<Tap> cubic(const Tensor& x, double half) const {
    constexpr double a = -0.75;
    Tensor low = floor(alias(x)), u = x - low;
    std::vector<Tap> made;
    for (int k = 0; k < 4; ++k) {
      double offset = k - 1;
      double sign = offset > 0 ? -1.0 : 1.0;  // u lies in [0, 1)
      Tensor d = (u - offset) * sign;
      bool inner = k == 1 || k == 2;
      Tensor weight = inner ? ((a + 2) * d - (a + 3)) * d * d + 1.0 : (((d - 5.0) * d + 8.0) * d - 4.0) * a;
      Tensor derivative = inner ? (3 * (a + 2) * d - 2 * (a + 3)) * d : ((3.0 * d - 10.0) * d + 8.0) * a;
      made.push_back(tap(round(padded(low + offset).first), weight, derivative * (sign * half)));
    }
    return made;
  }

  Tap tap(const Tensor& place, const Tensor& weight, const Tensor& slope) const {
    Tensor inside = logical_and(ge(place, 0.0), lt(place, static_cast<double>(size_)));
    return {to_dtype(where(inside, place, 0.0), DType::Int64), where(inside, weight, 0.0), where(inside, slope, 0.0)};
  }

  int64_t size_;
  GridMode mode_;
  double span_;
};

// Calls `visit(index into the flattened planes, taps by axis)` for every element that a position reads; x comes first.
template <class Visit>
void each_neighbor(const Tensor& grid, IntList input_size, const GridMode& mode, Visit&& visit) {
  int64_t dims = grid.size(-1);
  Tensor positions = reshape(grid, {grid.size(0), -1, dims});
  std::vector<std::vector<Tap>> axes;
  for (int64_t d = 0; d < dims; ++d)
    axes.push_back(
        Axis(input_size[input_size.size() - 1 - static_cast<size_t>(d)], mode).taps(select(positions, 2, d)));
  std::array<size_t, 3> at{};
  size_t outer = dims == 3 ? axes[2].size() : 1;
  for (at[2] = 0; at[2] < outer; ++at[2]) {
    for (at[1] = 0; at[1] < axes[1].size(); ++at[1]) {
      for (at[0] = 0; at[0] < axes[0].size(); ++at[0]) {
        std::vector<const Tap*> taps;
        Tensor index;
        int64_t stride = 1;
        for (size_t d = 0; d < axes.size(); ++d) {
          taps.push_back(&axes[d][at[d]]);
          Tensor part = taps[d]->index * Scalar(stride);
          index = index.defined() ? index + part : part;
          stride *= input_size[input_size.size() - 1 - d];
        }
        visit(index, taps);
      }
    }
  }
}

bool fused(const Tensor& grad, const Tensor& input, const Tensor& grid) {
  return !GradMode::enabled() && !is_batched(grad) && !is_batched(input) && !is_batched(grid);
}

}  // namespace

Tensor grid_sampler_input_backward(const Tensor& grad, const Tensor& grid, IntList input_size, int64_t interpolation,
                                   int64_t padding, bool align_corners) {
  if (fused(grad, Tensor(), grid))
    return grid_sampler_input_gradient(grad, grid, input_size, interpolation, padding, align_corners);
  int64_t planes = 1;
  for (size_t d = 2; d < input_size.size(); ++d) planes *= input_size[d];
  Tensor g = reshape(grad, {input_size[0], input_size[1], -1});
  Tensor result = new_zeros(g, {input_size[0], input_size[1], planes});
  each_neighbor(grid, input_size, {interpolation, padding, align_corners},
                [&](const Tensor& index, const std::vector<const Tap*>& taps) {
                  Tensor weight = taps[0]->weight;
                  for (size_t d = 1; d < taps.size(); ++d) weight = weight * taps[d]->weight;
                  result = scatter_add(result, 2, expand(unsqueeze(index, 1), g.sizes()), g * unsqueeze(weight, 1));
                });
  return reshape(result, input_size);
}

Tensor grid_sampler_grid_backward(const Tensor& grad, const Tensor& input, const Tensor& grid, int64_t interpolation,
                                  int64_t padding, bool align_corners) {
  if (fused(grad, input, grid))
    return grid_sampler_grid_gradient(grad, input, grid, interpolation, padding, align_corners);
  Tensor planes = reshape(input, {input.size(0), input.size(1), -1}),
         g = reshape(grad, {input.size(0), input.size(1), -1});
  std::vector<Tensor> sums(static_cast<size_t>(grid.size(-1)));
  each_neighbor(grid, input.sizes(), {interpolation, padding, align_corners},
                [&](const Tensor& index, const std::vector<const Tap*>& taps) {
                  Tensor value = sum(g * gather(planes, 2, expand(unsqueeze(index, 1), g.sizes())),
                                     std::optional<IntList>(IntList{1}), false, std::nullopt);
                  for (size_t d = 0; d < sums.size(); ++d) {
                    Tensor part = value;
                    for (size_t e = 0; e < sums.size(); ++e) part = part * (e == d ? taps[e]->slope : taps[e]->weight);
                    sums[d] = sums[d].defined() ? sums[d] + part : part;
                  }
                });
  return reshape(stack(sums, -1), grid.sizes());
}

}  // namespace facula

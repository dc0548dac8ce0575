#include "emulator/cudnn_conv.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace facula::emulator {

bool lies(const GraphTensor& t, bool channels_last) {
  int64_t step = 1;
  const auto next = [&](size_t d) {
    const bool as_expected = t.sizes[d] == 1 || t.strides[d] == step;
    step *= t.sizes[d];
    return as_expected;
  };
  if (channels_last && !next(1)) return false;
  for (size_t d = t.sizes.size(); d-- > 2;)
    if (!next(d)) return false;
  return (channels_last || next(1)) && next(0);
}

std::string check_sizes(const Convolution& p) {
  const size_t dims = p.x.sizes.size();
  if (p.w.sizes.size() != dims || p.y.sizes.size() != dims || p.stride.size() != dims - 2)
    return "tensors of several numbers of dimensions";
  if (p.x.type != p.w.type || p.x.type != p.y.type) return "tensors of several types";
  if (p.x.sizes[0] != p.y.sizes[0] || p.w.sizes[0] != p.y.sizes[1] || p.x.sizes[1] % p.w.sizes[1])
    return "channels that do not fit";
  if (p.y.sizes[1] % (p.x.sizes[1] / p.w.sizes[1])) return "groups that do not fit";
  for (size_t d = 2; d < dims; ++d) {
    const int64_t window = p.dilation[d - 2] * (p.w.sizes[d] - 1) + 1;
    if ((p.x.sizes[d] + 2 * p.padding[d - 2] - window) / p.stride[d - 2] + 1 != p.y.sizes[d])
      return "sizes of images that do not fit";
  }
  return {};
}

bool in_one_layout(const Convolution& p) {
  return !p.channels_last || (lies(p.x, true) && lies(p.w, true) && lies(p.y, true));
}

int64_t extent(const GraphTensor& t) {
  int64_t last = 0;
  for (size_t d = 0; d < t.sizes.size(); ++d) last += (t.sizes[d] - 1) * t.strides[d];
  return last + 1;
}

namespace {

std::array<int64_t, 3> spatial(const std::vector<int64_t>& list, size_t from, int64_t missing) {
  std::array<int64_t, 3> three{missing, missing, missing};
  const size_t count = list.size() - from;
  for (size_t i = 0; i < count; ++i) three[3 - count + i] = list[from + i];
  return three;
}

template <class Memory, class T>
void convolve(const Convolution& p, const Addresses& at) {
  const GraphTensor& result = p.map == Map::Output ? p.y : p.map == Map::Input ? p.x : p.w;
  const auto load = [](const void* data, const GraphTensor& t) {
    std::vector<T> all(static_cast<size_t>(extent(t)));
    for (size_t i = 0; i < all.size(); ++i) all[i] = Memory::template load<T>(data, static_cast<int64_t>(i));
    return all;
  };
  std::vector<T> x = load(at.x, p.x), w = load(at.w, p.w), y = load(at.y, p.y);
  std::vector<T>& sums = p.map == Map::Output ? y : p.map == Map::Input ? x : w;
  std::vector<T> before = p.beta != 0 ? sums : std::vector<T>{};
  std::fill(sums.begin(), sums.end(), T(0));
  const auto in = spatial(p.x.sizes, 2, 1), out = spatial(p.y.sizes, 2, 1), taps = spatial(p.w.sizes, 2, 1),
             xs = spatial(p.x.strides, 2, 0), ws = spatial(p.w.strides, 2, 0), ys = spatial(p.y.strides, 2, 0),
             step = spatial(p.stride, 0, 1), pad = spatial(p.padding, 0, 0), apart = spatial(p.dilation, 0, 1);
  const int64_t groups = p.x.sizes[1] / p.w.sizes[1], outputs = p.y.sizes[1] / groups;
  // every product of an input, a weight and an output, each of which may be the sum
  const auto visit = [&](int64_t n, int64_t k, const std::array<int64_t, 3>& o, const std::array<int64_t, 3>& t) {
    int64_t xi = n * p.x.strides[0] + k / outputs * p.w.sizes[1] * p.x.strides[1];
    int64_t wi = k * p.w.strides[0], yi = n * p.y.strides[0] + k * p.y.strides[1];
    for (size_t d = 0; d < 3; ++d) {
      const int64_t place = o[d] * step[d] - pad[d] + t[d] * apart[d];
      if (place < 0 || place >= in[d]) return;
      xi += place * xs[d], wi += t[d] * ws[d], yi += o[d] * ys[d];
    }
    for (int64_t c = 0; c < p.w.sizes[1]; ++c) {
      T& xv = x[static_cast<size_t>(xi + c * p.x.strides[1])];
      T& wv = w[static_cast<size_t>(wi + c * p.w.strides[1])];
      T& yv = y[static_cast<size_t>(yi)];
      if (p.map == Map::Output) yv += xv * wv;
      if (p.map == Map::Input) xv += yv * wv;
      if (p.map == Map::Weight) wv += xv * yv;
    }
  };
  std::array<int64_t, 3> o{}, t{};
  for (int64_t n = 0; n < p.x.sizes[0]; ++n)
    for (int64_t k = 0; k < p.y.sizes[1]; ++k)
      for (o[0] = 0; o[0] < out[0]; ++o[0])
        for (o[1] = 0; o[1] < out[1]; ++o[1])
          for (o[2] = 0; o[2] < out[2]; ++o[2])
            for (t[0] = 0; t[0] < taps[0]; ++t[0])
              for (t[1] = 0; t[1] < taps[1]; ++t[1])
                for (t[2] = 0; t[2] < taps[2]; ++t[2]) visit(n, k, o, t);
  const void* to = p.map == Map::Output ? at.y : p.map == Map::Input ? at.x : at.w;
  for (int64_t i = 0; i < extent(result); ++i) {
    const auto at_i = static_cast<size_t>(i);
    const T scaled = before.empty() ? T(0) : static_cast<T>(p.beta) * before[at_i];
    Memory::template store<T>(const_cast<void*>(to), i, static_cast<T>(p.alpha) * sums[at_i] + scaled);
  }
}

}  // namespace

void run(const Convolution& p, const Addresses& at) {
  if (at.workspace) std::memset(at.workspace, 0xab, kWorkspace);
  switch (p.x.type) {
    case CUDNN_DATA_DOUBLE: return convolve<Plain, double>(p, at);
    case CUDNN_DATA_HALF: return convolve<Half, float>(p, at);
    case CUDNN_DATA_BFLOAT16: return convolve<Brain, float>(p, at);
    default: return convolve<Plain, float>(p, at);
  }
}

}  // namespace facula::emulator

// Column matrices of windows, and the small loops around them.
#include "ops/conv.h"

#include <cstring>

#include "core/parallel.h"
#include "cpu/conv_products.h"
#include "cpu/isa.h"
#include "cpu/isa/by_size.h"
#include "cpu/isa/lanes.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
void add_to(T& target, const T& value) {
  if constexpr (std::is_same_v<T, bool>) target = target || value;
  else if constexpr (requires { value.re; }) {
    target.re = Half(static_cast<float>(target.re) + static_cast<float>(value.re));
    target.im = Half(static_cast<float>(target.im) + static_cast<float>(value.im));
  } else target = T(target + value);
}

// Calls f(row of columns, first output position of the run, image offset of it or -1 outside, output
// positions in the run) for every run along the last output dimension of the rows [from, to).
template <class F>
void for_each_run(const Windows& w, int64_t from, int64_t to, F&& f) {
  int64_t taps = w.kernel[0] * w.kernel[1] * w.kernel[2];
  for (int64_t row = from; row < to; ++row) {
    int64_t channel = row / taps, tap = row % taps;
    int64_t k2 = tap % w.kernel[2], k1 = tap / w.kernel[2] % w.kernel[1], k0 = tap / w.kernel[2] / w.kernel[1];
    for (int64_t o0 = 0; o0 < w.out[0]; ++o0) {
      int64_t i0 = o0 * w.stride[0] - w.padding[0] + k0 * w.dilation[0];
      for (int64_t o1 = 0; o1 < w.out[1]; ++o1) {
        int64_t i1 = o1 * w.stride[1] - w.padding[1] + k1 * w.dilation[1];
        bool inside = i0 >= 0 && i0 < w.in[0] && i1 >= 0 && i1 < w.in[1];
        int64_t base = channel * w.channel_stride + i0 * w.in_strides[0] + i1 * w.in_strides[1];
        f(row, (o0 * w.out[1] + o1) * w.out[2], inside, base, k2 * w.dilation[2] - w.padding[2]);
      }
    }
  }
}

// The outputs [first, last) of a run whose inputs shift + o * stride lie inside [0, size).
void inside_run(const Windows& w, int64_t shift, int64_t& first, int64_t& last) {
  int64_t stride = w.stride[2];
  first = shift >= 0 ? 0 : std::min(w.out[2], (-shift + stride - 1) / stride);
  int64_t room = w.in[2] - shift;
  last = room <= 0 ? first : std::max(first, std::min(w.out[2], (room + stride - 1) / stride));
}

void im2col_cpu(DType dtype, void* columns, const void* image, const Windows& w) {
  const LockRelease release(w.rows() * w.columns() > kGrain);
  visit_size(item_size(dtype), [&]<class T>(TypeTag<T>) {
    T* out = static_cast<T*>(columns);
    const T* in = static_cast<const T*>(image);
    int64_t width = w.columns(), grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(width, 1));
    parallel_for(0, w.rows(), grain, [&](int64_t from, int64_t to) {
      for_each_run(w, from, to, [&](int64_t row, int64_t at, bool inside, int64_t base, int64_t shift) {
        T* run = out + row * width + at;
        int64_t first = w.out[2], last = w.out[2];
        if (inside) inside_run(w, shift, first, last);
        std::memset(static_cast<void*>(run), 0, static_cast<size_t>(first) * sizeof(T));
        int64_t step = w.stride[2] * w.in_strides[2];
        const T* source = in + base + shift * w.in_strides[2];
        if (step == 1)
          std::memcpy(static_cast<void*>(run + first), source + first, static_cast<size_t>(last - first) * sizeof(T));
        else
          for (int64_t o = first; o < last; ++o) run[o] = source[o * step];
        std::memset(static_cast<void*>(run + last), 0, static_cast<size_t>(w.out[2] - last) * sizeof(T));
      });
    });
  });
}

void col2im_cpu(DType dtype, void* image, const void* columns, const Windows& w) {
  const LockRelease release(w.rows() * w.columns() > kGrain);
  visit_dtype(dtype, [&]<class T>(TypeTag<T>) {
    T* out = static_cast<T*>(image);
    const T* in = static_cast<const T*>(columns);
    int64_t width = w.columns(), taps = w.kernel[0] * w.kernel[1] * w.kernel[2];
    int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(width * taps, 1));
    parallel_for(0, w.channels, grain, [&](int64_t from, int64_t to) {  // windows of different channels do not meet
      for_each_run(w, from * taps, to * taps, [&](int64_t row, int64_t at, bool inside, int64_t base, int64_t shift) {
        if (!inside) return;
        const T* run = in + row * width + at;
        int64_t first, last, step = w.stride[2] * w.in_strides[2];
        inside_run(w, shift, first, last);
        T* target = out + base + shift * w.in_strides[2];
        for (int64_t o = first; o < last; ++o) add_to(target[o * step], run[o]);
      });
    });
  });
}

void add_channels_cpu(const Tensor& t, const Tensor& bias) {
  visit_dtype(t.dtype(), [&]<class T>(TypeTag<T>) {
    T* data = t.data<T>();
    const T* b = bias.data<T>();
    int64_t channels = t.size(1), rest = t.numel() / (t.size(0) * channels);
    bool last = !t.is_contiguous();  // channels-last
    int64_t planes = last ? t.size(0) * rest : t.size(0) * channels, length = last ? channels : rest;
    parallel_for(0, planes, std::max<int64_t>(1, kGrain / length), [&](int64_t from, int64_t to) {
      for (int64_t p = from; p < to; ++p) {
        T* row = data + p * length;
        if (last) {
          for (int64_t c = 0; c < length; ++c) add_to(row[c], b[c]);
        } else {
          T value = b[p % channels];
          for (int64_t i = 0; i < length; ++i) add_to(row[i], value);
        }
      }
    });
  });
}

void accumulate_cpu(const Tensor& t, const Tensor& other) {
  visit_dtype(t.dtype(), [&]<class T>(TypeTag<T>) {
    T* to = t.data<T>();
    const T* from = other.data<T>();
    for (int64_t i = 0; i < t.numel(); ++i) add_to(to[i], from[i]);
  });
}

// Small images. With zeros around it an image is one line, in which an element of the window is a distance: the results
// at all positions are sums of the line moved by these distances, times weights. Positions that a window of the next
// row begins at are computed with the others and left out.

using V = VectorOf<float>::type;
constexpr int64_t kLanes = VectorOf<float>::lanes;
constexpr int kVectors = kVectorBytes == 64 ? 3 : 2, kOutputs = 4;  // what is summed at a time
constexpr int64_t kStep = kVectors * kLanes;

struct SmallMap {
  int64_t inputs, outputs;  // channels of a group
  int64_t height, width, out_height, out_width, kernel_height, kernel_width, top, left;
  const float* weights;  // of the first tap
  int64_t output_step, input_step, row_step, tap_step;

  int64_t line_width() const { return width + 2 * left; }
  int64_t line_height() const { return height + 2 * top; }
  int64_t plane() const { return line_height() * line_width(); }
  int64_t positions() const { return (out_height - 1) * line_width() + out_width; }
};

/// Copies a row of `width` elements; what follows in `to`, before its end, may be overwritten.
[[gnu::always_inline]] inline void copy_row(float* to, const float* to_end, const float* from, const float* from_end,
                                            int64_t width) {
  for (int64_t i = 0; i < width; i += kLanes) {
    if (to + i + kLanes <= to_end && from + i + kLanes <= from_end) {
      const V v = load_vector(from + i);
      std::memcpy(to + i, &v, sizeof v);
    } else {
      std::memcpy(to + i, from + i, static_cast<size_t>(std::min(width - i, kLanes)) * sizeof(float));
    }
  }
}

/// The channels of a group with zeros around them, one line each.
void write_lines(const SmallMap& m, const float* image, const float* image_end, float* lines, const float* end) {
  const int64_t width = m.line_width(), between = width - m.width;
  std::fill_n(lines, m.top * width + m.left, 0.0f);
  float* to = lines + m.top * width + m.left;
  for (int64_t c = 0; c < m.inputs; ++c) {
    for (int64_t y = 0; y < m.height; ++y, to += width, image += m.width) {
      copy_row(to, end, image, image_end, m.width);
      for (int64_t i = 0; i < between; ++i) to[m.width + i] = 0;
    }
    const int64_t rows = m.line_height() - m.height;
    std::fill_n(to, rows * width, 0.0f);
    to += rows * width;
  }
}

/// Sums of `outputs` channels at kStep positions.
template <int outputs>
void sum_small(const SmallMap& m, const float* lines, const float* weights, const float* bias, float* sums,
               int64_t sums_step) {
  V sum[outputs][kVectors];
  for (int o = 0; o < outputs; ++o)
    for (int v = 0; v < kVectors; ++v) sum[o][v] = V{} + (bias ? bias[o] : 0.0f);
  const int64_t width = m.line_width(), plane = m.plane();
  for (int64_t c = 0; c < m.inputs; ++c) {
    for (int64_t r = 0; r < m.kernel_height; ++r) {
      const float* line = lines + c * plane + r * width;
      const float* weight = weights + c * m.input_step + r * m.row_step;
      for (int64_t s = 0; s < m.kernel_width; ++s, ++line, weight += m.tap_step) {
        for (int v = 0; v < kVectors; ++v) {
          const V x = load_vector(line + v * kLanes);
          for (int o = 0; o < outputs; ++o) sum[o][v] += weight[o * m.output_step] * x;
        }
      }
    }
  }
  for (int o = 0; o < outputs; ++o)
    for (int v = 0; v < kVectors; ++v) std::memcpy(sums + o * sums_step + v * kLanes, &sum[o][v], sizeof(V));
}

using SumSmall = void (*)(const SmallMap&, const float*, const float*, const float*, float*, int64_t);
constexpr SumSmall sum_small_of[] = {sum_small<1>, sum_small<2>, sum_small<3>, sum_small<4>};

constexpr int64_t kSmallLines = 1 << 13, kSmallSums = 1 << 12;  // elements, on the stack

/// One group of one image.
void convolve_group(const SmallMap& m, const float* image, const float* image_end, const float* bias, float* out,
                    const float* out_end, float* lines, float* sums) {
  const int64_t steps = (m.positions() + kStep - 1) / kStep * kStep, results = m.out_height * m.out_width;
  write_lines(m, image, image_end, lines, lines + kSmallLines);
  for (int64_t o = 0; o < m.outputs; o += kOutputs) {
    const int64_t count = std::min<int64_t>(kOutputs, m.outputs - o);
    for (int64_t at = 0; at < steps; at += kStep)
      sum_small_of[count - 1](m, lines + at, m.weights + o * m.output_step, bias ? bias + o : nullptr, sums + at,
                              steps);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t y = 0; y < m.out_height; ++y)
        copy_row(out + (o + i) * results + y * m.out_width, out_end, sums + i * steps + y * m.line_width(),
                 sums + kSmallSums, m.out_width);
    }
  }
}

/// What is computed from what: the forward map, or images from results, whose windows are turned around.
SmallMap small_map(ConvMap map, const Tensor& in, const Tensor& out, const Tensor& w, const ConvGeometry& g) {
  const bool back = map == ConvMap::Input, line = in.dim() == 3;
  auto size = [line](const Tensor& t, int64_t d) { return line && d == 2 ? 1 : t.size(line ? 2 : d); };
  const int64_t kh = size(w, 2), kw = size(w, 3), taps = kh * kw, per_group = w.size(1);
  const int64_t top = line ? 0 : g.padding[0], left = g.padding[line ? 0 : 1];
  SmallMap m{.inputs = in.size(1) / g.groups,
             .outputs = out.size(1) / g.groups,
             .height = size(in, 2),
             .width = size(in, 3),
             .out_height = size(out, 2),
             .out_width = size(out, 3),
             .kernel_height = kh,
             .kernel_width = kw,
             .top = back ? kh - 1 - top : top,
             .left = back ? kw - 1 - left : left,
             .weights = w.data<float>() + (back ? taps - 1 : 0),
             .output_step = per_group * taps,
             .input_step = taps,
             .row_step = back ? -kw : kw,
             .tap_step = back ? -1 : 1};
  if (back) std::swap(m.output_step, m.input_step);
  return m;
}

bool all_ones(IntList list) {
  return std::all_of(list.begin(), list.end(), [](int64_t v) { return v == 1; });
}

bool convolve_small_isa(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                        const ConvGeometry& g) {
  constexpr int64_t kSmallWork = 1 << 17;  // multiplications
  if (map == ConvMap::Weight || x.dtype() != DType::Float32 || x.dim() > 4 || x.dim() < 3 || y.numel() > kSmallWork ||
      y.numel() * (w.numel() / w.size(0)) > kSmallWork || !x.is_contiguous() || !y.is_contiguous() ||
      !w.is_contiguous() || !all_ones(g.stride) || !all_ones(g.dilation))
    return false;
  const Tensor &in = map == ConvMap::Input ? y : x, &out = map == ConvMap::Input ? x : y;
  SmallMap m = small_map(map, in, out, w, g);
  if (m.top < 0 || m.left < 0) return false;
  const int64_t furthest = (m.kernel_height - 1) * m.line_width() + m.kernel_width - 1;
  const int64_t read = (m.inputs - 1) * m.plane() + furthest + m.positions() + kStep;
  const int64_t written = m.inputs * m.plane() + m.top * m.line_width() + m.left;
  if (std::max(read, written) > kSmallLines || kOutputs * (m.positions() + kStep) + kLanes > kSmallSums) return false;
  alignas(64) float lines[kSmallLines];
  alignas(64) float sums[kSmallSums];
  std::fill_n(lines + written, std::max<int64_t>(read - written, 0), 0.0f);
  const float *from = in.data<float>(), *from_end = from + in.numel();
  float *to = out.data<float>(), *to_end = to + out.numel();
  const float* weights = m.weights;
  const int64_t group_weights = w.numel() / g.groups, plane = m.height * m.width, results = m.out_height * m.out_width;
  for (int64_t n = 0; n < in.size(0); ++n) {
    for (int64_t group = 0; group < g.groups; ++group, from += m.inputs * plane, to += m.outputs * results) {
      m.weights = weights + group * group_weights;
      const float* offsets = bias.defined() ? bias.data<float>() + group * m.outputs : nullptr;
      convolve_group(m, from, from_end, offsets, to, to_end, lines, sums);
    }
  }
  return true;
}

}  // namespace

void register_conv() {
  convolve_small = convolve_small_isa;
  im2col_kernel.set(DeviceType::CPU, im2col_cpu);
  col2im_kernel.set(DeviceType::CPU, col2im_cpu);
  add_channels_kernel.set(DeviceType::CPU, add_channels_cpu);
  accumulate_kernel.set(DeviceType::CPU, accumulate_cpu);
}

}  // namespace facula::cpu::FACULA_ISA

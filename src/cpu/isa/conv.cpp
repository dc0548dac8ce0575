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

/// A run along the last output dimension: `n` outputs, of which [first, last) read elements of the image, `source` the
/// one that output 0 would read. None is read where the run lies outside.
struct ColumnRun {
  int64_t row, at;  // of the columns
  int64_t first, last, source;
};

/// Calls f(run) for every run of the rows [from, to).
template <class F>
void for_each_run(const Windows& w, int64_t from, int64_t to, F&& f) {
  const int64_t taps = w.kernel[0] * w.kernel[1] * w.kernel[2], n = w.out[2], stride = w.stride[2];
  for (int64_t row = from; row < to; ++row) {
    const int64_t channel = row / taps, tap = row % taps;
    const int64_t k2 = tap % w.kernel[2], k1 = tap / w.kernel[2] % w.kernel[1], k0 = tap / w.kernel[2] / w.kernel[1];
    // the outputs whose inputs shift + o * stride lie inside
    const int64_t shift = k2 * w.dilation[2] - w.padding[2], room = w.in[2] - shift;
    const int64_t first = shift >= 0 ? 0 : std::min(n, (-shift + stride - 1) / stride);
    const int64_t last = room <= 0 ? first : std::max(first, std::min(n, (room + stride - 1) / stride));
    ColumnRun run{row, 0, first, last, 0};
    for (int64_t o0 = 0; o0 < w.out[0]; ++o0) {
      const int64_t i0 = o0 * w.stride[0] - w.padding[0] + k0 * w.dilation[0];
      const bool plane = i0 >= 0 && i0 < w.in[0];
      for (int64_t o1 = 0; o1 < w.out[1]; ++o1, run.at += n) {
        const int64_t i1 = o1 * w.stride[1] - w.padding[1] + k1 * w.dilation[1];
        const bool inside = plane && i1 >= 0 && i1 < w.in[1];
        run.last = inside ? last : first;
        run.source = channel * w.channel_stride + i0 * w.in_strides[0] + i1 * w.in_strides[1] + shift * w.in_strides[2];
        f(run);
      }
    }
  }
}

constexpr int64_t kShortColumns = 16;  // elements that cost less than a call

template <class T>
void clear_columns(T* to, int64_t n) {
  if (n > kShortColumns) {
    std::memset(static_cast<void*>(to), 0, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    to[i] = T();
    asm("" : "+r"(i));
  }
}

/// Writes the n outputs of a run.
template <class T>
void write_columns(T* to, const T* from, const ColumnRun& run, int64_t n, int64_t step) {
#ifdef __AVX512F__
  if constexpr (sizeof(T) == 4) {
    if (n <= kShortColumns && step == 1) {
      const auto all = static_cast<__mmask16>((1u << n) - 1);
      const auto read = static_cast<__mmask16>(((1u << run.last) - 1) & ~((1u << run.first) - 1));
      _mm512_mask_storeu_epi32(to, all, _mm512_maskz_loadu_epi32(read, from));
      return;
    }
  }
#endif
  const int64_t length = run.last - run.first;
  clear_columns(to, run.first);
  T* out = to + run.first;
  const T* in = from + run.first * step;
  if (step == 1 && length > kShortColumns) {
    std::memcpy(static_cast<void*>(out), in, static_cast<size_t>(length) * sizeof(T));
  } else {
    for (int64_t i = 0; i < length; ++i) {
      out[i] = in[i * step];
      asm("" : "+r"(i));
    }
  }
  clear_columns(to + run.last, n - run.last);
}

void im2col_cpu(DType dtype, void* columns, const void* image, const Windows& w) {
  const LockRelease release(w.rows() * w.columns() > kGrain);
  visit_size(item_size(dtype), [&]<class T>(TypeTag<T>) {
    T* out = static_cast<T*>(columns);
    const T* in = static_cast<const T*>(image);
    const int64_t width = w.columns(), grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(width, 1));
    const int64_t step = w.stride[2] * w.in_strides[2], n = w.out[2];
    parallel_for(0, w.rows(), grain, [&](int64_t from, int64_t to) {
      for_each_run(w, from, to, [&](const ColumnRun& run) {
        write_columns(out + run.row * width + run.at, in + run.source, run, n, step);
      });
    });
  });
}

void col2im_cpu(DType dtype, void* image, const void* columns, const Windows& w) {
  const LockRelease release(w.rows() * w.columns() > kGrain);
  visit_dtype(dtype, [&]<class T>(TypeTag<T>) {
    T* out = static_cast<T*>(image);
    const T* in = static_cast<const T*>(columns);
    const int64_t width = w.columns(), taps = w.kernel[0] * w.kernel[1] * w.kernel[2];
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(width * taps, 1));
    const int64_t step = w.stride[2] * w.in_strides[2];
    parallel_for(0, w.channels, grain, [&](int64_t from, int64_t to) {  // windows of different channels do not meet
      for_each_run(w, from * taps, to * taps, [&](const ColumnRun& run) {
        const T* values = in + run.row * width + run.at;
        T* target = out + run.source;
#ifdef __AVX512F__
        if constexpr (std::is_same_v<T, float>) {
          if (run.last <= kShortColumns && step == 1) {
            const auto read = static_cast<__mmask16>(((1u << run.last) - 1) & ~((1u << run.first) - 1));
            const __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(read, target), _mm512_maskz_loadu_ps(read, values));
            _mm512_mask_storeu_ps(target, read, sum);
            return;
          }
        }
#endif
        for (int64_t o = run.first; o < run.last; ++o) add_to(target[o * step], values[o]);
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

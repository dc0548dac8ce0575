// Column matrices of windows, and the small loops around them.
#include "ops/conv.h"

#include <cstring>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/by_size.h"

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

}  // namespace

void register_conv() {
  im2col_kernel.set(DeviceType::CPU, im2col_cpu);
  col2im_kernel.set(DeviceType::CPU, col2im_cpu);
  add_channels_kernel.set(DeviceType::CPU, add_channels_cpu);
  accumulate_kernel.set(DeviceType::CPU, accumulate_cpu);
}

}  // namespace facula::cpu::FACULA_ISA

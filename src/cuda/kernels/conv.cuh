// Convolution as products whose elements lie in the windows of images, and column matrices of windows. Sums over
// windows that overlap are gathered by the element that they go to.
#pragma once

#include "address.cuh"
#include "conv_args.h"
#include "product.cuh"

namespace facula::cuda {

/// A position in up to three dimensions.
template <class I>
struct Place {
  I at[3];
};

/// Splits a number into positions, of which the last runs fastest, and what is left over.
template <class I>
FACULA_FN Place<I> split(I n, const Int64 (&size)[3], I& rest) {
  Place<I> p;
#pragma unroll
  for (int d = 2; d >= 0; --d) {
    const I next = n / I(size[d]);
    p.at[d] = n - next * I(size[d]);
    n = next;
  }
  rest = n;
  return p;
}

template <class I>
FACULA_FN Int64 offset_at(const Place<I>& p, const Int64 (&strides)[3]) {
  return p.at[0] * strides[0] + p.at[1] * strides[1] + p.at[2] * strides[2];
}

FACULA_FN Int64 product_of(const Int64 (&size)[3]) { return size[0] * size[1] * size[2]; }

/// The element of an image that tap `tap` of the window at `window` shows: false outside the image.
template <class I>
FACULA_FN bool shown_at(const ConvArgs& p, const Place<I>& window, const Place<I>& tap, Int64& offset) {
  offset = 0;
  bool inside = true;
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    const Int64 at = window.at[d] * p.stride[d] - p.padding[d] + tap.at[d] * p.dilation[d];
    inside = inside && at >= 0 && at < p.in[d];
    offset += at * p.x_strides[d];
  }
  return inside;
}

/// An element of a window's: its channel and its tap.
template <class I>
FACULA_FN Place<I> split_inner(I k, Int64 channels, bool channels_inner, const Int64 (&taps)[3], I& channel) {
  if (!channels_inner) return split(k, taps, channel);
  const I tap = k / I(channels);
  channel = k - tap * I(channels);
  I none;
  return split(tap, taps, none);
}

/// y of a group: its channels by windows.
template <class T, class A, class I>
class OutputMap {
 public:
  using Args = ConvArgs;

  struct WeightLine {
    const T* row;
    const Args* p;
    FACULA_FN A at(I k) const {
      if (!p->channels_inner) return convert<A>(row[k]);
      const I tap = k / I(p->channels), channel = k - tap * I(p->channels);
      return convert<A>(row[channel * product_of(p->kernel) + tap]);
    }
  };
  struct Weights {
    const T* data;
    const Args* p;
    FACULA_FN bool along() const { return true; }
    FACULA_FN WeightLine line(Int64 n) const { return {data + n * p->channels * product_of(p->kernel), p}; }
  };
  struct WindowLine {
    const T* image;
    Place<I> window;
    const Args* p;
    FACULA_FN A at(I k) const {
      I channel;
      const Place<I> tap = split_inner(k, p->channels, p->channels_inner, p->kernel, channel);
      Int64 offset;
      return shown_at(*p, window, tap, offset) ? convert<A>(image[channel * p->x_channel + offset]) : A{};
    }
  };
  struct Windows {
    const T* data;
    const Args* p;
    FACULA_FN bool along() const { return p->channels_inner; }
    FACULA_FN WindowLine line(Int64 n) const {
      I image;
      const Place<I> window = split(I(n), p->out, image);
      return {data + image * p->x_image, window, p};
    }
  };

  FACULA_FN OutputMap(const Args& args, Int64 batch) : p(args), group(batch) {}
  FACULA_FN Int64 rows() const { return p.outputs; }
  FACULA_FN Int64 columns() const { return p.tiles.columns; }
  FACULA_FN Int64 inner() const { return p.tiles.inner; }
  FACULA_FN Weights left() const {
    return {static_cast<const T*>(p.w) + group * p.outputs * p.channels * product_of(p.kernel), &p};
  }
  FACULA_FN Windows right() const { return {static_cast<const T*>(p.x) + group * p.channels * p.x_channel, &p}; }
  FACULA_FN void store(Int64 row, Int64 column, A sum) const {
    I image;
    const Place<I> window = split(I(column), p.out, image);
    const Int64 channel = group * p.outputs + row;
    if (p.bias) sum = sum + convert<A>(static_cast<const T*>(p.bias)[channel]);
    static_cast<T*>(p.y)[image * p.y_image + channel * p.y_channel + offset_at(window, p.y_strides)] = convert<T>(sum);
  }

 private:
  const Args& p;
  Int64 group;
};

/// x of a group, from y: its channels by the positions of one residue class of the stride. Only positions that lie a
/// multiple of the stride apart are reached by the same taps, so each class is a dense product of its own.
///
/// With stride 2, three taps, a dilation of 1 and no padding, window w shows positions 2w, 2w + 1 and 2w + 2:
///
///     position      0   1   2   3   4 ...     class 0: positions 0 2 4 ..., taps 0 and 2
///     window 0     t0  t1  t2                 class 1: positions 1 3 5 ..., tap 1
///     window 1             t0  t1  t2
///
/// Along a dimension, position first + n * stride of a class is shown by
///     tap                 of window n + near,
///     tap + tap_step      of window n + near - back,
///     tap + 2 * tap_step  of window n + near - 2 * back, ...
template <class T, class A, class I>
class InputMap {
 public:
  using Args = ConvArgs;

  struct ResidueClass {
    Int64 first[3];      // position, which is the residue
    Int64 positions[3];  // how many there are
    Int64 tap[3];        // the first that reaches them
    Int64 taps[3];       // how many do
    Int64 near[3];       // the window of the first tap, from n
    Int64 back[3];       // windows from a tap to the next one
  };
  struct WeightLine {
    const T* data;  // of the channel
    const Args* p;
    const ResidueClass* c;
    FACULA_FN A at(I k) const {
      I output;
      const Place<I> t = split_inner(k, p->outputs, p->channels_inner, c->taps, output);
      Int64 tap = 0;
#pragma unroll
      for (int d = 0; d < 3; ++d) tap = tap * p->kernel[d] + c->tap[d] + t.at[d] * p->tap_step[d];
      return convert<A>(data[output * p->channels * product_of(p->kernel) + tap]);
    }
  };
  struct Weights {
    const T* data;
    const Args* p;
    const ResidueClass* c;
    FACULA_FN bool along() const { return !p->channels_inner; }
    FACULA_FN WeightLine line(Int64 n) const { return {data + n * product_of(p->kernel), p, c}; }
  };
  struct PositionLine {
    const T* image;
    Place<I> position;
    const Args* p;
    const ResidueClass* c;
    FACULA_FN A at(I k) const {
      I output;
      const Place<I> t = split_inner(k, p->outputs, p->channels_inner, c->taps, output);
      Int64 offset = output * p->y_channel;
      bool inside = true;
#pragma unroll
      for (int d = 0; d < 3; ++d) {
        const Int64 window = position.at[d] + c->near[d] - t.at[d] * c->back[d];
        inside = inside && window >= 0 && window < p->out[d];
        offset += window * p->y_strides[d];
      }
      return inside ? convert<A>(image[offset]) : A{};
    }
  };
  struct Positions {
    const T* data;
    const Args* p;
    const ResidueClass* c;
    FACULA_FN bool along() const { return p->channels_inner; }
    FACULA_FN PositionLine line(Int64 n) const {
      I image;
      const Place<I> position = split(I(n), c->positions, image);
      return {data + image * p->y_image, position, p, c};
    }
  };

  FACULA_FN InputMap(const Args& args, Int64 batch) : p(args) {
    for (int d = 2; d >= 0; --d) {
      const Int64 s = p.stride[d], first = batch % p.classes[d];
      batch /= p.classes[d];
      c.first[d] = first;
      c.positions[d] = p.in[d] > first ? (p.in[d] - first + s - 1) / s : 0;
      Int64 tap = 0;
      const Int64 most = p.tap_step[d] < p.kernel[d] ? p.tap_step[d] : p.kernel[d];
      while (tap < most && (first + p.padding[d] - tap * p.dilation[d]) % s != 0) ++tap;
      c.tap[d] = tap;
      c.taps[d] = tap < most ? (p.kernel[d] - tap + p.tap_step[d] - 1) / p.tap_step[d] : 0;
      c.near[d] = (first + p.padding[d] - tap * p.dilation[d]) / s;
      c.back[d] = p.tap_step[d] * p.dilation[d] / s;
    }
    group = batch;
  }
  FACULA_FN Int64 rows() const { return p.channels; }
  FACULA_FN Int64 columns() const { return p.images * product_of(c.positions); }
  FACULA_FN Int64 inner() const { return p.outputs * product_of(c.taps); }
  FACULA_FN Weights left() const {
    return {static_cast<const T*>(p.w) + group * p.outputs * p.channels * product_of(p.kernel), &p, &c};
  }
  FACULA_FN Positions right() const { return {static_cast<const T*>(p.y) + group * p.outputs * p.y_channel, &p, &c}; }
  FACULA_FN void store(Int64 row, Int64 column, A sum) const {
    I image;
    const Place<I> position = split(I(column), c.positions, image);
    const Int64 channel = group * p.channels + row;
    Int64 offset = image * p.x_image + channel * p.x_channel;
#pragma unroll
    for (int d = 0; d < 3; ++d) offset += (c.first[d] + position.at[d] * p.stride[d]) * p.x_strides[d];
    if (p.bias) sum = sum + convert<A>(static_cast<const T*>(p.bias)[channel]);
    static_cast<T*>(p.x)[offset] = convert<T>(sum);
  }

 private:
  const Args& p;
  Int64 group;
  ResidueClass c;
};

/// w of a group: its channels of y by the elements of a window.
template <class T, class A, class I>
class WeightMap {
 public:
  using Args = ConvArgs;

  struct GradientLine {
    const T* channel;
    const Args* p;
    FACULA_FN A at(I k) const {
      I image;
      const Place<I> window = split(k, p->out, image);
      return convert<A>(channel[image * p->y_image + offset_at(window, p->y_strides)]);
    }
  };
  struct GradientLines {
    const T* data;
    const Args* p;
    FACULA_FN bool along() const { return !p->channels_inner; }
    FACULA_FN GradientLine line(Int64 n) const { return {data + n * p->y_channel, p}; }
  };
  struct TapLine {
    const T* channel;
    Place<I> tap;
    const Args* p;
    FACULA_FN A at(I k) const {
      I image;
      const Place<I> window = split(k, p->out, image);
      Int64 offset;
      return shown_at(*p, window, tap, offset) ? convert<A>(channel[image * p->x_image + offset]) : A{};
    }
  };
  struct TapLines {
    const T* data;
    const Args* p;
    FACULA_FN bool along() const { return !p->channels_inner; }
    FACULA_FN TapLine line(Int64 n) const {
      I channel;
      const Place<I> tap = split_inner(I(n), p->channels, p->channels_inner, p->kernel, channel);
      return {data + channel * p->x_channel, tap, p};
    }
  };

  FACULA_FN WeightMap(const Args& args, Int64 batch) : p(args), group(batch) {}
  FACULA_FN Int64 rows() const { return p.outputs; }
  FACULA_FN Int64 columns() const { return p.tiles.columns; }
  FACULA_FN Int64 inner() const { return p.tiles.inner; }
  FACULA_FN GradientLines left() const { return {static_cast<const T*>(p.y) + group * p.outputs * p.y_channel, &p}; }
  FACULA_FN TapLines right() const { return {static_cast<const T*>(p.x) + group * p.channels * p.x_channel, &p}; }
  FACULA_FN void store(Int64 row, Int64 column, A sum) const {
    if (p.channels_inner) {
      const Int64 tap = column / p.channels;
      column = (column - tap * p.channels) * product_of(p.kernel) + tap;
    }
    static_cast<T*>(p.w)[(group * p.outputs + row) * p.tiles.columns + column] = convert<T>(sum);
  }

 private:
  const Args& p;
  Int64 group;
};

// ---- columns of one image

/// T has the size of the elements.
template <class T>
__global__ __launch_bounds__(256) void im2col(WindowArgs w, const T* image, T* columns) {
  const Int64 windows = product_of(w.out), all = w.channels * product_of(w.kernel) * windows;
  for (Int64 i = thread_number(); i < all; i += thread_count()) {
    Int64 row, channel;
    const Place<Int64> window = split(i, w.out, row), tap = split(row, w.kernel, channel);
    Int64 offset = channel * w.channel_stride;
    bool inside = true;
    for (int d = 0; d < 3; ++d) {
      const Int64 at = window.at[d] * w.stride[d] - w.padding[d] + tap.at[d] * w.dilation[d];
      inside = inside && at >= 0 && at < w.in[d];
      offset += at * w.in_strides[d];
    }
    columns[i] = inside ? image[offset] : T{};
  }
}

/// The window, and where its columns begin, that shows a position with tap `tap`; -1 for none.
FACULA_FN Int64 window_showing(const WindowArgs& w, int d, Int64 position, Int64 tap) {
  const Int64 at = position + w.padding[d] - tap * w.dilation[d];
  return at < 0 || at % w.stride[d] != 0 || at / w.stride[d] >= w.out[d] ? -1 : at / w.stride[d];
}

template <class T>
__global__ __launch_bounds__(256) void col2im(WindowArgs w, T* image, const T* columns) {
  const Int64 windows = product_of(w.out), taps = product_of(w.kernel), all = w.channels * product_of(w.in);
  for (Int64 i = thread_number(); i < all; i += thread_count()) {
    Int64 channel;
    const Place<Int64> p = split(i, w.in, channel);
    T* to = image + channel * w.channel_stride + offset_at(p, w.in_strides);
    Compute<T> sum = convert<Compute<T>>(*to);
    const T* mine = columns + channel * taps * windows;
    for (Int64 a = 0; a < w.kernel[0]; ++a) {
      const Int64 wa = window_showing(w, 0, p.at[0], a);
      if (wa < 0) continue;
      for (Int64 b = 0; b < w.kernel[1]; ++b) {
        const Int64 wb = window_showing(w, 1, p.at[1], b);
        if (wb < 0) continue;
        for (Int64 c = 0; c < w.kernel[2]; ++c) {
          const Int64 wc = window_showing(w, 2, p.at[2], c);
          if (wc < 0) continue;
          const Int64 tap = (a * w.kernel[1] + b) * w.kernel[2] + c;
          sum = sum + convert<Compute<T>>(mine[tap * windows + (wa * w.out[1] + wb) * w.out[2] + wc]);
        }
      }
    }
    *to = convert<T>(sum);
  }
}

/// Splits a number into positions, of which the last runs fastest; what is left over is below the first size.
FACULA_FN Place<UInt32> split_fast(UInt32 n, const FastDivision (&size)[3]) {
  Place<UInt32> p;
  UInt32 rest = size[2].divide(n);
  p.at[2] = n;
  p.at[0] = size[1].divide(rest);
  p.at[1] = rest;
  return p;
}

template <class T>
__global__ __launch_bounds__(256) void im2col_channels(ColumnArgs w) {
  UInt32 window = blockIdx.x * 256 + threadIdx.x;
  if (window >= w.threads) return;
  UInt32 tap = w.windows.divide(window);
  const UInt32 channel = w.taps.divide(tap) * kColumnChannels;
  const Place<UInt32> at = split_fast(window, w.out), inside = split_fast(tap, w.kernel);
  Int64 offset = channel * w.channel_stride;
  bool shows = true;
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    const int place = int(at.at[d] * w.stride[d].by) - w.padding[d] + int(inside.at[d]) * w.dilation[d];
    shows = shows && UInt32(place) < w.in[d].by;
    offset += place * w.in_strides[d];
  }
  const T* from = fixed_address(static_cast<const T*>(w.from) + offset);
  T* to = fixed_address(static_cast<T*>(w.to) + channel * w.column_stride + (UInt64(tap) * w.windows.by + window));
  T value[kColumnChannels];
#pragma unroll
  for (int m = 0; m < kColumnChannels; ++m) {
    value[m] = shows && channel + m < w.channels ? *from : T{};
    from = fixed_address(from + w.channel_stride);
  }
#pragma unroll
  for (int m = 0; m < kColumnChannels; ++m) {
    if (channel + m >= w.channels) break;
    *to = value[m];
    to = fixed_address(to + w.column_stride);
  }
}

template <class T>
__global__ __launch_bounds__(256) void col2im_channels(ColumnArgs w) {
  using C = Compute<T>;
  UInt32 position = blockIdx.x * 256 + threadIdx.x;
  if (position >= w.threads) return;
  const UInt32 channel = w.positions.divide(position) * kColumnChannels;
  const Place<UInt32> at = split_fast(position, w.in);
  const T* columns = fixed_address(static_cast<const T*>(w.from) + channel * w.column_stride);
  T* to = static_cast<T*>(w.to) + channel * w.channel_stride;
  C sum[kColumnChannels] = {};
#pragma unroll
  for (int d = 0; d < 3; ++d) to += at.at[d] * w.in_strides[d];
#pragma unroll
  for (int m = 0; m < kColumnChannels; ++m)
    if (channel + m < w.channels) sum[m] = convert<C>(to[m * w.channel_stride]);
  // the window along a dimension that shows the position with a tap; false where there is none
  const auto window_of = [&](int d, UInt32 tap, UInt32& window) {
    const int begin = int(at.at[d]) + w.padding[d] - int(tap) * w.dilation[d];
    UInt32 rest = UInt32(begin);
    window = w.stride[d].divide(rest);
    return begin >= 0 && rest == 0 && window < w.out[d].by;
  };
  UInt32 a, b, c;
  for (UInt32 i = 0; i < w.kernel[0].by; ++i) {
    if (!window_of(0, i, a)) continue;
    for (UInt32 j = 0; j < w.kernel[1].by; ++j) {
      if (!window_of(1, j, b)) continue;
      for (UInt32 k = 0; k < w.kernel[2].by; ++k) {
        if (!window_of(2, k, c)) continue;
        const UInt32 tap = (i * w.kernel[1].by + j) * w.kernel[2].by + k;
        const T* from = columns + UInt64(tap) * w.windows.by + ((a * w.out[1].by + b) * w.out[2].by + c);
#pragma unroll
        for (int m = 0; m < kColumnChannels; ++m) {
          if (channel + m < w.channels) sum[m] = sum[m] + convert<C>(*from);
          from = fixed_address(from + w.column_stride);
        }
      }
    }
  }
#pragma unroll
  for (int m = 0; m < kColumnChannels; ++m)
    if (channel + m < w.channels) to[m * w.channel_stride] = convert<T>(sum[m]);
}

/// to[i] += from[i / run % channels].
template <class T>
__global__ __launch_bounds__(256) void add_repeated(T* to, const T* from, Int64 count, Int64 run, Int64 channels) {
  for (Int64 i = thread_number(); i < count; i += thread_count())
    to[i] = convert<T>(convert<Compute<T>>(to[i]) + convert<Compute<T>>(from[i / run % channels]));
}

}  // namespace facula::cuda

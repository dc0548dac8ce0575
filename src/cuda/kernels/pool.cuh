// Pooling: a thread for every result, which reads its window, or for every element, which reads the windows that show
// it; and values at places in planes.
#pragma once

#include "block.cuh"
#include "pool_args.h"
#include "report.cuh"

namespace facula::cuda {

FACULA_FN Int64 begin_of(const PoolAxisArgs& a, Int64 o) {
  if (a.adaptive) return Int64(UInt64(o) * UInt64(a.in) / UInt64(a.out));
  const Int64 at = o * a.stride - a.padding;
  return at >= 0 ? at : at + (-at + a.step - 1) / a.step * a.step;
}
FACULA_FN Int64 end_of(const PoolAxisArgs& a, Int64 o) {
  if (a.adaptive) return Int64((UInt64(o + 1) * UInt64(a.in) + UInt64(a.out) - 1) / UInt64(a.out));
  const Int64 end = o * a.stride - a.padding + a.step * (a.kernel - 1) + 1, begin = begin_of(a, o),
              inside = end < a.in ? end : a.in;
  return inside > begin ? inside : begin;
}
FACULA_FN double divisor_of(const PoolAxisArgs& a, Int64 o) {
  if (a.adaptive || !a.counts_padding) return double(end_of(a, o) - begin_of(a, o));
  const Int64 at = o * a.stride - a.padding, end = at + a.kernel, most = a.in + a.padding;
  return double((end < most ? end : most) - at);
}

struct PoolWindow {
  Int64 begin[3], end[3];
};

/// A result: its plane, window and place in memory. Results are numbered as they lie in memory.
struct PoolResult {
  Int64 image, channel, at[3];

  FACULA_FN PoolResult(Int64 i, const PlaneArgs& p, Int64 elements, const Int64 (&size)[3], bool channels_inner) {
    if (channels_inner) {
      channel = i % p.channels;
      i /= p.channels;
    }
    Int64 element = i % elements;
    i /= elements;
    if (!channels_inner) {
      channel = i % p.channels;
      i /= p.channels;
    }
    image = i;
    for (int d = 2; d >= 0; --d) {
      at[d] = element % size[d];
      element /= size[d];
    }
  }
};

/// The first of the largest, or the last NaN; place -1 for an empty window.
template <class T, class C>
FACULA_FN void max_of_window(const PoolArgs& p, const PoolWindow& w, const T* plane, C& best, Int64& place) {
  best = lowest<C>();
  place = -1;
  for (Int64 a = w.begin[0]; a < w.end[0]; a += p.axes[0].step)
    for (Int64 b = w.begin[1]; b < w.end[1]; b += p.axes[1].step)
      for (Int64 c = w.begin[2]; c < w.end[2]; c += p.axes[2].step) {
        const Int64 at = (a * p.axes[1].in + b) * p.axes[2].in + c;
        const C x = convert<C>(plane[at * p.planes.in_element]);
        if (place < 0 || x > best || x != x) best = x, place = at;
      }
}

template <class T>
FACULA_FN const T* input_plane(const PoolArgs& p, const PoolResult& r) {
  return static_cast<const T*>(p.in) + r.image * p.planes.in_image + r.channel * p.planes.in_channel;
}
/// Calls act(result, its place in memory) for all results, `size` of them in each plane.
template <class F>
FACULA_FN void for_results(const PlaneArgs& p, const Int64 (&size)[3], F act) {
  const Int64 all = p.images * p.channels * p.out;
  for (Int64 i = thread_number(); i < all; i += thread_count()) {
    const PoolResult r(i, p, p.out, size, p.out_element != 1);
    const Int64 element = (r.at[0] * size[1] + r.at[1]) * size[2] + r.at[2];
    act(r, r.image * p.out_image + r.channel * p.out_channel + element * p.out_element);
  }
}
template <class F>
FACULA_FN void for_windows(const PoolArgs& p, F act) {
  const Int64 size[3] = {p.axes[0].out, p.axes[1].out, p.axes[2].out};
  for_results(p.planes, size, act);
}

template <class T>
__global__ __launch_bounds__(256) void max_pool(PoolArgs p) {
  for_windows(p, [&](const PoolResult& r, Int64 to) {
    PoolWindow w;
    for (int d = 0; d < 3; ++d) w.begin[d] = begin_of(p.axes[d], r.at[d]), w.end[d] = end_of(p.axes[d], r.at[d]);
    Compute<T> best;
    Int64 place;
    max_of_window(p, w, input_plane<T>(p, r), best, place);
    static_cast<T*>(p.out)[to] = convert<T>(best);
    if (p.indices) p.indices[to] = place;
  });
}

/// Where window o begins, for a sample in [0, 1).
template <class C>
FACULA_FN Int64 fractional_begin(const PoolAxisArgs& a, Int64 o, C sample) {
  if (o == a.out - 1) return a.in - a.kernel;
  const C alpha = C(a.in - a.kernel) / C(a.out - 1);
  return Int64((C(o) + sample) * alpha) - Int64(sample * alpha);
}

template <class T>
__global__ __launch_bounds__(256) void fractional_max_pool(PoolArgs p) {
  using C = Compute<T>;
  for_windows(p, [&](const PoolResult& r, Int64 to) {
    const T* samples = static_cast<const T*>(p.samples) + (r.image * p.planes.channels + r.channel) * p.sampled;
    PoolWindow w = {{0, 0, 0}, {1, 1, 1}};
    for (int d = 3 - p.sampled; d < 3; ++d) {
      const int k = d - (3 - p.sampled);
      w.begin[d] = fractional_begin(p.axes[d], r.at[d], convert<C>(samples[p.sampled == 2 ? 1 - k : k]));
      w.end[d] = w.begin[d] + p.axes[d].kernel;
    }
    C best;
    Int64 place;
    max_of_window(p, w, input_plane<T>(p, r), best, place);
    static_cast<T*>(p.out)[to] = convert<T>(best);
    p.indices[to] = place;
  });
}

template <class T>
__global__ __launch_bounds__(256) void avg_pool(PoolArgs p) {
  using C = Compute<T>;
  for_windows(p, [&](const PoolResult& r, Int64 to) {
    PoolWindow w;
    double divisor = 1;
    bool empty = false;
    for (int d = 0; d < 3; ++d) {
      w.begin[d] = begin_of(p.axes[d], r.at[d]), w.end[d] = end_of(p.axes[d], r.at[d]);
      divisor *= divisor_of(p.axes[d], r.at[d]);
      empty = empty || w.begin[d] >= w.end[d];
    }
    if (p.divisor != 0) divisor = p.divisor;
    const T* plane = input_plane<T>(p, r);
    C sum = 0;
    for (Int64 a = w.begin[0]; a < w.end[0]; ++a)
      for (Int64 b = w.begin[1]; b < w.end[1]; ++b)
        for (Int64 c = w.begin[2]; c < w.end[2]; ++c)
          sum += convert<C>(plane[((a * p.axes[1].in + b) * p.axes[2].in + c) * p.planes.in_element]);
    static_cast<T*>(p.out)[to] = convert<T>(empty ? C(0) : C(sum / C(divisor)));
  });
}

/// The windows that may show element i: the first and the one after the last.
FACULA_FN void windows_around(const PoolAxisArgs& a, Int64 i, Int64& first, Int64& last) {
  if (a.adaptive) {
    first = Int64(UInt64(i) * UInt64(a.out) / UInt64(a.in));
    last = Int64((UInt64(i + 1) * UInt64(a.out) + UInt64(a.in) - 1) / UInt64(a.in));
  } else {
    const Int64 reach = a.step * (a.kernel - 1), from = i + a.padding - reach;
    first = from <= 0 ? 0 : (from + a.stride - 1) / a.stride;
    last = (i + a.padding) / a.stride + 1;
  }
  if (last > a.out) last = a.out;
}

/// Gives every element its shares of the windows that show it. Here `out` has the planes that windows look at, and `in`
/// a value for each window.
template <class T>
__global__ __launch_bounds__(256) void avg_pool_transpose(PoolArgs p) {
  const Int64 size[3] = {p.axes[0].in, p.axes[1].in, p.axes[2].in};
  for_results(p.planes, size, [&](const PoolResult& r, Int64 to) {
    Int64 first[3], last[3];
    for (int d = 0; d < 3; ++d) windows_around(p.axes[d], r.at[d], first[d], last[d]);
    const T* plane = input_plane<T>(p, r);
    T sum = 0;
    const auto shows = [&](int d, Int64 o) {
      return begin_of(p.axes[d], o) <= r.at[d] && r.at[d] < end_of(p.axes[d], o);
    };
    for (Int64 a = first[0]; a < last[0]; ++a) {
      if (!shows(0, a)) continue;
      for (Int64 b = first[1]; b < last[1]; ++b) {
        if (!shows(1, b)) continue;
        const double rows = divisor_of(p.axes[0], a) * divisor_of(p.axes[1], b);
        for (Int64 c = first[2]; c < last[2]; ++c) {
          if (!shows(2, c)) continue;
          const double divisor = p.divisor != 0 ? p.divisor : rows * divisor_of(p.axes[2], c);
          sum += plane[((a * p.axes[1].out + b) * p.axes[2].out + c) * p.planes.in_element] / T(divisor);
        }
      }
    }
    static_cast<T*>(p.out)[to] += sum;
  });
}

// ---- places in planes. Here `in` counts the elements of a plane that have places, and `out` those of the planes that
// the places are in.

/// The lanes that have the number that this one has.
FACULA_FN UInt32 lanes_with(Int64 number) {
#if FACULA_ARCH
  return __match_any_sync(kAllLanes, number);
#else
  UInt32 found = 0;
  for (int l = 0; l < 32; ++l) found |= UInt32(__shfl_sync(kAllLanes, number, l) == number) << l;
  return found;
#endif
}

/// out[place] = value, or += value in the order of the values: a warp for every plane whose elements lie next to each
/// other, else a thread.
template <class T, bool kAdd, bool kWarp>
__global__ __launch_bounds__(256) void scatter_planes(T* out, const T* values, const Int64* places, PlaneArgs p,
                                                      Reporter reporter) {
  constexpr int kLanes = kWarp ? 32 : 1;
  const int lane = threadIdx.x % kLanes;
  const Int64 planes = p.images * p.channels, step = thread_count() / kLanes;
  for (Int64 plane = thread_number() / kLanes; plane < planes; plane += step) {
    const Int64 image = plane / p.channels, channel = plane % p.channels;
    T* to = out + image * p.out_image + channel * p.out_channel;
    const Int64 from = image * p.in_image + channel * p.in_channel;
    for (Int64 first = 0; first < p.in; first += kLanes) {
      const Int64 i = first + lane;
      Int64 place = -1;
      T value{};
      if (i < p.in) {
        place = places[from + i * p.in_element];
        value = values[from + i * p.in_element];
        if (!(kAdd && place == -1)) place = checked_index(reporter, place, p.out, false);
      }
      bool mine = place >= 0;
      T* at = to + place * p.out_element;
      if constexpr (kWarp) {
        // of equal places the first lane writes the sum in the order of the lanes, or the last one what it has
        UInt32 others = lanes_with(mine ? place : Int64(-1) - lane);
        mine = mine && lane == (kAdd ? __ffs(others) - 1 : 31 - __clz(others));
        T sum = kAdd && mine ? *at + value : value;
        if constexpr (kAdd) {
          for (others &= others - 1; __any_sync(kAllLanes, others != 0); others &= others - 1) {
            const T more = shuffle_from(value, others ? __ffs(others) - 1 : lane);
            if (others) sum = sum + more;
          }
        }
        if (mine) *at = sum;
        __syncwarp();
      } else if (mine) {
        if constexpr (kAdd) *at = *at + value;
        else *at = value;
      }
    }
  }
}

template <class T>
__global__ __launch_bounds__(256) void gather_planes(T* out, const T* in, const Int64* places, PlaneArgs p,
                                                     Reporter reporter) {
  const Int64 all = p.images * p.channels * p.in;
  for (Int64 i = thread_number(); i < all; i += thread_count()) {
    Int64 n = i, channel = 0;
    if (p.in_element != 1) channel = n % p.channels, n /= p.channels;
    const Int64 element = n % p.in;
    n /= p.in;
    if (p.in_element == 1) channel = n % p.channels, n /= p.channels;
    const Int64 at = n * p.in_image + channel * p.in_channel + element * p.in_element;
    Int64 place = places[at];
    if (place != -1) place = checked_index(reporter, place, p.out, false);
    out[at] = place < 0 ? T{} : in[n * p.out_image + channel * p.out_channel + place * p.out_element];
  }
}

}  // namespace facula::cuda

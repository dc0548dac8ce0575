// Joining, repeating, and padding with elements of the tensor itself and its transpose.
#pragma once

#include "choices.h"
#include "offsets.cuh"
#include "report.cuh"
#include "split_join_args.h"

namespace facula::cuda {

// ---- joining

/// The y-th blocks copy the y-th part.
template <class T, int kMost>
__global__ __launch_bounds__(256) void join(JoinArgs<kMost> p) {
  const JoinPart part = p.parts[blockIdx.y];
  const T* from = static_cast<const T*>(part.from);
  T* to = static_cast<T*>(p.to) + part.at;
  const Int64 count = p.outer * part.row;
  const bool is_narrow = count <= 0x7fffffff;
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    const Int64 round = p.outer == 1 ? 0 : is_narrow ? Int64(UInt32(i) / UInt32(part.row)) : i / part.row;
    to[round * p.row + i - round * part.row] = from[i];
  }
}

// ---- repeating

/// Reports counts that are negative, or of which `most` would be too many.
__global__ __launch_bounds__(256) void check_counts(const Int64* counts, Int64 count, Int64 most, Reporter reporter) {
  for (Int64 i = thread_number(); i < count; i += thread_count())
    if (counts[i] < 0 || counts[i] > most) report_value(reporter, double(counts[i]));
}

/// positions[j] = the last i whose start is not after j.
__global__ __launch_bounds__(256) void repeat_positions(Int64* positions, Int64 total, const Int64* starts, Int64 count,
                                                        Reporter reporter) {
  if (thread_number() == 0 && starts[count] != total) report_value(reporter, double(starts[count]));
  for (Int64 j = thread_number(); j < total; j += thread_count()) {
    Int64 from = 0, to = count;  // the first start after j
    while (from < to) {
      const Int64 middle = from + (to - from) / 2;
      if (starts[middle] > j) to = middle;
      else from = middle + 1;
    }
    positions[j] = from > 0 ? from - 1 : 0;
  }
}

// ---- padding

using kernels::PadMode;

/// Which place of the input a place of the output shows.
FACULA_FN Int64 source_of(const PadAxis& a, Int64 place) {
  const Int64 at = place - a.lead, last = a.length - 1;
  if (at >= 0 && at < a.length) return a.first + at;
  if (PadMode(a.mode) == PadMode::Reflect) return a.first + (at < 0 ? -at : 2 * last - at);
  if (PadMode(a.mode) == PadMode::Circular) return a.first + (at < 0 ? at + a.length : at - a.length);
  return a.first + (at < 0 ? 0 : last);
}

/// T is any type of the elements' size.
template <class T>
__global__ __launch_bounds__(256) void pad_edges(PadArgs g) {
  for (Int64 i = thread_number(); i < g.count; i += thread_count()) {
    Int64 rest = i / g.inner, from = i - rest * g.inner, step = g.inner;
    for (int k = 2; k >= 0; --k) {
      const PadAxis& a = g.axes[k];
      const Int64 next = rest / a.out;
      from += source_of(a, rest - next * a.out) * step;
      step *= a.in;
      rest = next;
    }
    static_cast<T*>(g.to)[i] = static_cast<const T*>(g.from)[from + rest * step];
  }
}

/// The places of the output that show a place of the input: three ranges, some of them empty.
struct Shown {
  Int64 from[3], to[3];

  FACULA_FN Shown(const PadAxis& a, Int64 source) : from{}, to{} {
    const Int64 at = source - a.first, last = a.length - 1;
    if (at < 0 || at > last) return;
    set(0, a, a.lead + at, 1);
    if (PadMode(a.mode) == PadMode::Reflect) {
      if (at > 0) set(1, a, a.lead - at, 1);
      if (at < last) set(2, a, a.lead + 2 * last - at, 1);
    } else if (PadMode(a.mode) == PadMode::Circular) {
      set(1, a, a.lead + at - a.length, 1);
      set(2, a, a.lead + at + a.length, 1);
    } else {
      if (at == 0) set(1, a, 0, a.lead);
      if (at == last) set(2, a, a.lead + a.length, a.out - a.lead - a.length);
    }
  }

 private:
  FACULA_FN void set(int k, const PadAxis& a, Int64 first, Int64 count) {
    from[k] = first < 0 ? 0 : first;
    to[k] = first + count < a.out ? first + count : a.out;
  }
};

template <class T>
__global__ __launch_bounds__(256) void add_edges(PadArgs g) {
  const T* grad = static_cast<const T*>(g.from);
  for (Int64 i = thread_number(); i < g.count; i += thread_count()) {
    const Int64 line = i / g.inner, at2 = line / g.axes[2].in, at1 = at2 / g.axes[1].in, outer = at1 / g.axes[0].in;
    const Shown places[3] = {{g.axes[0], at1 - outer * g.axes[0].in},
                             {g.axes[1], at2 - at1 * g.axes[1].in},
                             {g.axes[2], line - at2 * g.axes[2].in}};
    Compute<T> sum = convert<Compute<T>>(static_cast<T*>(g.to)[i]);
    for (int ranges = 0; ranges < 27; ++ranges) {
      const int r0 = ranges / 9, r1 = ranges / 3 % 3, r2 = ranges % 3;
      for (Int64 o0 = places[0].from[r0]; o0 < places[0].to[r0]; ++o0)
        for (Int64 o1 = places[1].from[r1]; o1 < places[1].to[r1]; ++o1)
          for (Int64 o2 = places[2].from[r2]; o2 < places[2].to[r2]; ++o2)
            sum += convert<Compute<T>>(
                grad[(((outer * g.axes[0].out + o0) * g.axes[1].out + o1) * g.axes[2].out + o2) * g.inner + i -
                     line * g.inner]);
    }
    static_cast<T*>(g.to)[i] = convert<T>(sum);
  }
}

}  // namespace facula::cuda

// Scatters that combine, once their keys are sorted: elements of one place lie in a run of keys. A thread has so many
// keys of a vector of a row, whatever they are, so that the work is the same for a million equal keys and a million
// different ones. It writes what ends inside of its part; a run that reaches into another part leaves its sum to
// `edges`, two for each part, which the next launch brings together in the same way, in order.
#pragma once

#include "address.cuh"
#include "index.cuh"
#include "vector.cuh"

namespace facula::cuda {

/// Where elements come from: rows that keys number evenly, any rows, or what a launch before has left.
enum SegmentSource { kEvenRows, kAnyRows, kEdges };

template <class M, class T, class Key, class Number, int kHow, int kWide, int kSource>
struct Segment {
  static constexpr int kMany = 4;  // keys at once
  using C = Compute<T>;
  using Read = Vector<M, kWide>;
  using Sum = Vector<C, kWide>;

  const SegmentArgs& p;
  UInt32 part, vector;
  Int64 begin, end;
  const Key* places;
  const M* dense;
  T* target;
  Sum sum;
  Key now;         // the place of the run that `sum` is of; nowhere before the first
  bool continues;  // whether that run began in a part before

  FACULA_FN Segment(const SegmentArgs& p, UInt32 part, UInt32 vector) : p(p), part(part), vector(vector) {
    begin = Int64(part) * p.part;
    end = begin + p.part < p.count ? begin + p.part : p.count;
    places = static_cast<const Key*>(p.places);
    const IndexOffsets row = offsets_of(p.rows, (p.first_vector + vector) * kWide);
    target = static_cast<T*>(p.target) + row.target;
    dense = fixed_address(static_cast<const M*>(p.dense) + (kSource == kEdges ? Int64(vector) * kWide : row.dense));
    now = Key(p.nowhere);
    continues = false;
  }
  /// Whether the first run began before: sorted keys say so by the neighbor, edges by a first one.
  FACULA_FN bool continues_first() const {
    if (begin == 0 || places[begin] == Key(p.nowhere)) return false;
    return kSource == kEdges || places[begin - 1] == places[begin];
  }
  FACULA_FN Read value(Int64 i) const {
    if constexpr (kSource == kEdges) return load_vector<kWide>(dense + i * p.keys.dense[0]);
    const Number number = static_cast<const Number*>(p.order)[i];
    if constexpr (kSource == kEvenRows) return load_vector<kWide>(dense + Int64(number) * p.keys.dense[0]);
    else return load_vector<kWide>(dense + offsets_of(p.keys, Int64(number)).dense);
  }
  FACULA_FN void leave(int which) const {
    static_cast<Sum*>(p.edges)[(Int64(part) * 2 + which) * p.vectors.by + vector] = sum;
  }
  /// What becomes of the run so far when it ends here.
  FACULA_FN void finish() const {
    if (now == Key(p.nowhere)) return;
    if (continues) return leave(0);
    T* to = target + Int64(now);
    Sum total = widen_all(load_vector<kWide>(to));
#pragma unroll
    for (int j = 0; j < kWide; ++j) total.at[j] = CombineOf<kHow>::merge(total.at[j], sum.at[j]);
    store_vector(to, narrow_all<T>(total));
  }
  FACULA_FN void take(Key place, const Read& x, bool from_before) {
    if (place == Key(p.nowhere)) return;
    Sum wide;
#pragma unroll
    for (int j = 0; j < kWide; ++j) wide.at[j] = convert<C>(x.at[j]);
    if (place != now) {
      finish();
      now = place, sum = wide, continues = from_before;
      return;
    }
#pragma unroll
    for (int j = 0; j < kWide; ++j) sum.at[j] = CombineOf<kHow>::merge(sum.at[j], wide.at[j]);
  }
  FACULA_FN void run() {
    const bool from_before = continues_first();
#pragma unroll 1
    for (Int64 i = begin; i < end; i += kMany) {
      Key place[kMany];
      Read x[kMany];
#pragma unroll
      for (int m = 0; m < kMany; ++m) {
        place[m] = i + m < end ? places[i + m] : Key(p.nowhere);
        if (i + m < end) x[m] = value(i + m);
      }
#pragma unroll
      for (int m = 0; m < kMany; ++m) take(place[m], x[m], from_before && i == begin && m == 0);
    }
    // two edges: of the run that came from before, and of one that began here and goes on
    const bool goes_on = now != Key(p.nowhere) && !continues && end < p.count && places[end] == now;
    if (goes_on) leave(1);
    else finish();
    if (!p.edge_places || vector) return;
    static_cast<Key*>(p.edge_places)[2 * part] = from_before ? places[begin] : Key(p.nowhere);
    static_cast<Key*>(p.edge_places)[2 * part + 1] = goes_on ? now : Key(p.nowhere);
  }
};

template <class M, class T, class Key, class Number, int kHow, int kWide, int kSource>
__global__ __launch_bounds__(256) void combine_segments(SegmentArgs p) {
  UInt32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.threads) return;
  const UInt32 part = p.vectors.divide(i);
  Segment<M, T, Key, Number, kHow, kWide, kSource>(p, part, i).run();
}

}  // namespace facula::cuda

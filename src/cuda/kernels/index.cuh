// Gathering and scattering through indices. An index outside is reported; its element is zero in what is gathered, and
// stays as it was in what is scattered to.
#pragma once

#include "block.cuh"
#include "choices.h"
#include "index_args.h"
#include "report.cuh"

namespace facula::cuda {

struct Offsets {
  Int64 dense, index, target;
};
template <class Index>
FACULA_FN Offsets offsets_of(const IndexDims& d, Index at) {
  Offsets o{};
  for (int k = 0; k < d.dims; ++k) {
    const Index size = Index(d.shape[k]), next = k + 1 < d.dims ? at / size : 0, here = at - next * size;
    o.dense += here * d.dense[k];
    o.index += here * d.index[k];
    o.target += here * d.target[k];
    at = next;
  }
  return o;
}

/// T is any type of the elements' size.
template <class T, class Index>
__global__ __launch_bounds__(256) void gather(IndexArgs g) {
  for (Int64 i = thread_number(); i < g.count; i += thread_count()) {
    const Offsets o = offsets_of(g.all, Index(i));
    const Int64 k = checked_index(g.reporter, g.index[o.index], g.size, g.wraps);
    static_cast<T*>(g.dense)[o.dense] = k < 0 ? T{} : static_cast<const T*>(g.target)[o.target + k * g.step];
  }
}

template <class T, class Index>
__global__ __launch_bounds__(256) void scatter_assign(IndexArgs g) {
  for (Int64 i = thread_number(); i < g.count; i += thread_count()) {
    const Offsets o = offsets_of(g.all, Index(i));
    const Int64 k = checked_index(g.reporter, g.index[o.index], g.size, g.wraps);
    if (k >= 0) static_cast<T*>(g.target)[o.target + k * g.step] = static_cast<const T*>(g.dense)[o.dense];
  }
}

// ---- scattering that combines

/// The places of all keys, and their numbers.
template <class Key, class Number>
__global__ __launch_bounds__(256) void scatter_keys(IndexArgs g, void* places, void* order, Int64 nowhere) {
  for (Int64 i = thread_number(); i < g.count; i += thread_count()) {
    const Offsets o = offsets_of(g.all, i);
    const Int64 k = checked_index(g.reporter, g.index[o.index], g.size, g.wraps);
    static_cast<Key*>(places)[i] = Key(k < 0 ? nowhere : o.target + k * g.step);
    static_cast<Number*>(order)[i] = Number(i);
  }
}

using kernels::Combine;
template <int how>
struct CombineOf;
template <>
struct CombineOf<int(Combine::Assign)> {
  template <class A>
  FACULA_FN static A merge(A, A b) {
    return b;
  }
};
template <>
struct CombineOf<int(Combine::Add)> : Add {};
template <>
struct CombineOf<int(Combine::Multiply)> : Multiply {};
template <>
struct CombineOf<int(Combine::Max)> : Max {};
template <>
struct CombineOf<int(Combine::Min)> : Min {};

/// The first of the sorted values from `from` on that is larger than `value`.
template <class Key>
FACULA_FN Int64 past_equals(const Key* sorted, Int64 from, Int64 count, Key value) {
  Int64 to = count;
  while (from < to) {
    const Int64 middle = from + (to - from) / 2;
    if (sorted[middle] > value) to = middle;
    else from = middle + 1;
  }
  return from;
}

/// kGroup threads, 1 or 32, for every element of the rows that the first key of a place names.
template <class T, class Key, class Number, int kHow, int kGroup>
__global__ __launch_bounds__(256) void scatter_combine(ScatterArgs g) {
  using C = Compute<T>;
  using Op = CombineOf<kHow>;
  const Key* places = static_cast<const Key*>(g.places);
  const Number* order = static_cast<const Number*>(g.order);
  const Int64 all = g.count * g.row;
  const int member = kGroup == 1 ? 0 : int(threadIdx.x % kGroup);
  for (Int64 at = thread_number() / kGroup; at < all; at += thread_count() / kGroup) {
    const Int64 first = at / g.row;
    const Key place = places[first];
    if (place == Key(g.nowhere) || (first > 0 && places[first - 1] == place)) continue;
    const Int64 past = past_equals(places, first, g.count, place);
    const Offsets row = offsets_of(g.rows, at - first * g.row);
    const auto value = [&](Int64 i) {
      return convert<C>(static_cast<const T*>(g.dense)[row.dense + offsets_of(g.keys, Int64(order[i])).dense]);
    };
    T* to = static_cast<T*>(g.target) + row.target + Int64(place);
    if constexpr (kGroup == 1) {
      C total = convert<C>(*to);
      for (Int64 i = first; i < past; ++i) total = Op::merge(total, value(i));
      *to = convert<T>(total);
    } else {
      C total{};
      if (first + member < past) total = value(first + member);
      for (Int64 i = first + member + kGroup; i < past; i += kGroup) total = Op::merge(total, value(i));
      const Int64 members = past - first < kGroup ? past - first : kGroup;
      for (int by = kGroup / 2; by > 0; by /= 2) {
        const C other = shuffle_down(total, unsigned(by));
        if (member + by < members && member < by) total = Op::merge(total, other);
      }
      if (member == 0) *to = convert<T>(Op::merge(convert<C>(*to), total));
    }
  }
}

// ---- index tensors that stand together

__global__ __launch_bounds__(256) void fold_index(Int64* table, const Int64* index, Int64 count, Int64 size, Int64 step,
                                                  Int64 start, Reporter reporter) {
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    const Int64 k = checked_index(reporter, index[i], size, true);
    table[i] += start + (k < 0 ? 0 : k * step);
  }
}

}  // namespace facula::cuda

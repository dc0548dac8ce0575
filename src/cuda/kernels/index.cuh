// Gathering and scattering through indices. An index outside is reported; its element is zero in what is gathered, and
// stays as it was in what is scattered to.
#pragma once

#include "address.cuh"
#include "block.cuh"
#include "choices.h"
#include "index_args.h"
#include "report.cuh"
#include "vector.cuh"

namespace facula::cuda {

struct IndexOffsets {
  Int64 dense, index, target;
};
template <class Index>
FACULA_FN IndexOffsets offsets_of(const IndexDims& d, Index at) {
  IndexOffsets o{};
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
    const IndexOffsets o = offsets_of(g.all, Index(i));
    const Int64 k = checked_index(g.reporter, g.index[o.index], g.size, g.wraps);
    static_cast<T*>(g.dense)[o.dense] = k < 0 ? T{} : static_cast<const T*>(g.target)[o.target + k * g.step];
  }
}

template <class T, class Index>
__global__ __launch_bounds__(256) void scatter_assign(IndexArgs g) {
  for (Int64 i = thread_number(); i < g.count; i += thread_count()) {
    const IndexOffsets o = offsets_of(g.all, Index(i));
    const Int64 k = checked_index(g.reporter, g.index[o.index], g.size, g.wraps);
    if (k >= 0) static_cast<T*>(g.target)[o.target + k * g.step] = static_cast<const T*>(g.dense)[o.dense];
  }
}

/// What elements are moved as.
template <class T>
struct MovedAs {
  using type = T;
};
template <>
struct MovedAs<Complex128> {
  using type = Vector<UInt64, 2>;  // which is one access
};

/// Gathers, or assigns, kMany neighbors at once, which lie side by side in the dense operand and in the index; in the
/// target too (kBeside), or only the index tells them apart.
template <class Element, int kMany, int kDims, bool kWraps, bool kBeside, bool kGather>
__global__ __launch_bounds__(256) void move_places(PlaceArgs g) {
  using T = typename MovedAs<Element>::type;
  UInt32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= g.threads) return;
  UInt64 dense = 0, index = 0, target = 0;
#pragma unroll
  for (int k = 0; k < kDims; ++k) {
    UInt32 here = i;
    if (k + 1 < kDims) i = g.shape[k].divide(here);
    dense += UInt64(here) * g.dense[k];
    index += UInt64(here) * g.index[k];
    target += UInt64(here) * g.target[k];
  }
  const Int64* places = g.of_index + index;
  T* at = static_cast<T*>(g.of_dense) + dense;
  char* to = fixed_address(reinterpret_cast<char*>(static_cast<T*>(g.of_target) + target));
  const auto move = [&](T& element, UInt32 place) {
    T& there = *reinterpret_cast<T*>(to + UInt64(place) * g.step);
    if constexpr (kBeside) to = fixed_address(to + g.beside);
    if constexpr (kGather) element = there;
    else there = element;
  };

  const Vector<Int64, kMany> read = load_vector<kMany>(places);
  UInt32 place[kMany];
  UInt32 high = 0, most = 0;
#pragma unroll
  for (int m = 0; m < kMany; ++m) {
    UInt64 k = read.at[m];
    if (kWraps && read.at[m] < 0) k += g.size;
    place[m] = UInt32(k);
    high |= UInt32(k >> 32);
    most = place[m] > most ? place[m] : most;
  }
  if (high != 0 || most >= g.size) {
#pragma unroll 1
    for (int m = 0; m < kMany; ++m) {
      const Int64 k = checked_index(g.reporter, places[m], g.size, kWraps);
      if (k < 0 && kGather) at[m] = T{};
      if (k >= 0) move(at[m], UInt32(k));
      else if (kBeside) to += g.beside;
    }
    return;
  }
  Vector<T, kMany> elements;
  if constexpr (!kGather) elements = load_vector<kMany>(at);
#pragma unroll
  for (int m = 0; m < kMany; ++m) move(elements.at[m], place[m]);
  if constexpr (kGather) store_vector(at, elements);
}

// ---- scattering that combines

/// The places of all keys, and their numbers.
template <class Key, class Number>
__global__ __launch_bounds__(256) void scatter_keys(IndexArgs g, void* places, void* order, Int64 nowhere) {
  for (Int64 i = thread_number(); i < g.count; i += thread_count()) {
    const IndexOffsets o = offsets_of(g.all, i);
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

// ---- index tensors that stand together

__global__ __launch_bounds__(256) void fold_index(Int64* table, const Int64* index, Int64 count, Int64 size, Int64 step,
                                                  Int64 start, Reporter reporter) {
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    const Int64 k = checked_index(reporter, index[i], size, true);
    table[i] += start + (k < 0 ? 0 : k * step);
  }
}

}  // namespace facula::cuda

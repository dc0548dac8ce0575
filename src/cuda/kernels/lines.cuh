// What the kernels along lines share: a line is handled by a group of threads, 1, 32 or 256 of them.
#pragma once

#include "block.cuh"
#include "lines_args.h"

namespace facula::cuda {

/// Where line `line` begins; its elements are `inner` apart.
FACULA_FN Int64 line_start(const LineShape& s, Int64 line) { return line / s.inner * s.n * s.inner + line % s.inner; }

/// A value of a multiple of 4 bytes from lane to lane, word by word; `move` is one of CUDA's shuffles.
template <class T, class F>
FACULA_FN T shuffle_words(T value, F move) {
  struct Words {
    UInt32 at[sizeof(T) / 4];
  } words = __builtin_bit_cast(Words, value);
#pragma unroll
  for (unsigned k = 0; k < sizeof(T) / 4; ++k) words.at[k] = move(words.at[k]);
  return __builtin_bit_cast(T, words);
}
template <class T>
FACULA_FN T shuffle_up(T value, unsigned by) {
  return shuffle_words(value, [=](UInt32 word) { return __shfl_up_sync(kAllLanes, word, by); });
}
template <class T>
FACULA_FN T shuffle_from(T value, int lane) {
  return shuffle_words(value, [=](UInt32 word) { return __shfl_sync(kAllLanes, word, lane); });
}
template <class T>
FACULA_FN T shuffle_across(T value, int by) {
  return shuffle_words(value, [=](UInt32 word) { return __shfl_xor_sync(kAllLanes, word, by); });
}

/// All values of a group, for every thread of it; the merge is commutative. All threads of the block come here. `room`
/// holds kMostWarps values.
template <class Op, int kWarps, class A>
FACULA_FN A fold_group(A value, A* room) {
  if constexpr (kWarps > 0) {
#pragma unroll
    for (int by = 16; by > 0; by /= 2) value = Op::merge(value, shuffle_across(value, by));
  }
  if constexpr (kWarps > 1) {
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = value;
    __syncthreads();
    value = room[0];
    for (int w = 1; w < kWarps; ++w) value = Op::merge(value, room[w]);
    __syncthreads();  // before the room is used again
  }
  return value;
}

/// The elements of a line that one thread of the group handles. It keeps those of a line that is not too long in
/// registers, `kHeld` of them; else (0) it reads them again.
template <class M, class C, int kGroup, int kHeld>
struct LinePart {
  const M* in;
  Int64 n, step;
  int member;
  C held[kHeld ? kHeld : 1];

  FACULA_FN C read(Int64 i) const { return convert<C>(in[i * step]); }
  /// Calls f(element, place) for each.
  template <class F>
  FACULA_FN void each(F f) {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int j = 0; j < kHeld; ++j)
        if (const Int64 i = member + Int64(j) * kGroup; i < n) f(held[j], i * step);
    } else {
      for (Int64 i = member; i < n; i += kGroup) {
        C x = read(i);
        f(x, i * step);
      }
    }
  }
  FACULA_FN void load() {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int j = 0; j < kHeld; ++j)
        if (const Int64 i = member + Int64(j) * kGroup; i < n) held[j] = read(i);
    }
  }
};

}  // namespace facula::cuda

// What the threads of a block compute together.
#pragma once

#include "types.cuh"

namespace facula::cuda {

constexpr int kMostWarps = 32;

// ---- values from lane to lane

/// What is moved at once: 8 bytes of what has a multiple of 8, else 4.
template <bool>
struct WordOf {
  using type = UInt32;
};
template <>
struct WordOf<true> {
  using type = UInt64;
};

/// Word by word; `move` is one of CUDA's shuffles.
template <class T, class F>
FACULA_FN T shuffle_words(T value, F move) {
  if constexpr (sizeof(T) < 4) {
    return __builtin_bit_cast(T, Bits<T>(move(UInt32(__builtin_bit_cast(Bits<T>, value)))));
  } else {
    using Word = typename WordOf<sizeof(T) % 8 == 0>::type;
    constexpr unsigned kWords = sizeof(T) / sizeof(Word);
    struct Words {
      Word at[kWords];
    } words = __builtin_bit_cast(Words, value);
#pragma unroll
    for (unsigned k = 0; k < kWords; ++k) words.at[k] = move(words.at[k]);
    return __builtin_bit_cast(T, words);
  }
}
template <class T>
FACULA_FN T shuffle_up(T value, unsigned by) {
  return shuffle_words(value, [=](auto word) { return __shfl_up_sync(kAllLanes, word, by); });
}
template <class T>
FACULA_FN T shuffle_down(T value, unsigned by) {
  return shuffle_words(value, [=](auto word) { return __shfl_down_sync(kAllLanes, word, by); });
}
template <class T>
FACULA_FN T shuffle_from(T value, int lane) {
  return shuffle_words(value, [=](auto word) { return __shfl_sync(kAllLanes, word, lane); });
}
template <class T>
FACULA_FN T shuffle_across(T value, int by) {
  return shuffle_words(value, [=](auto word) { return __shfl_xor_sync(kAllLanes, word, by); });
}

// ---- folds; merges are commutative, and every thread gets the result

/// All values of a warp.
template <class Op, class A>
FACULA_FN A fold_warp(A value) {
#pragma unroll
  for (int by = 16; by > 0; by /= 2) value = Op::merge(value, shuffle_across(value, by));
  return value;
}

/// All values of a block, whose size is a multiple of 32. `room` holds kMostWarps values.
template <class Op, class A>
FACULA_FN A fold_block(A value, A* room) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  value = fold_warp<Op>(value);
  if (lane == 0) room[warp] = value;
  __syncthreads();
  value = room[0];
  for (int w = 1; w < warps; ++w) value = Op::merge(value, room[w]);
  __syncthreads();  // before the room is used again
  return value;
}

// ---- several blocks of a grid

/// Whether this block is the last to come here of `count`, each of which comes once. Then it sees what the others wrote
/// before, and does what is left to do, whichever it is. All threads of a block come. The word `ticket`
/// (cuda/tickets.h) is zero before the first block comes, and after the last.
FACULA_FN bool is_last_block(UInt32* ticket, UInt32 count) {
  __syncthreads();  // all that the block wrote comes before the fence
  bool is_last = false;
  if (threadIdx.x == 0) {
    __threadfence();  // the last block reads it
    is_last = atomicAdd(ticket, 1u) == count - 1;
    if (is_last) {
      *ticket = 0;
      __threadfence();  // what the others wrote comes before what is read from here on
    }
  }
  return __syncthreads_or(is_last);
}

// ---- groups: a block of 256 threads is one of 8 warps, or 8 of one warp, or 256 of one thread

/// The threads of a group of so many warps; one thread for none.
FACULA_FN constexpr int group_threads(int warps) { return warps ? 32 * warps : 1; }

/// Calls act(unit, member) with every thread of the group of each unit. All threads of a block come equally often, so
/// that they can meet at barriers: also with units that there are not, past the last.
template <int kWarps, class F>
FACULA_FN void for_groups(Int64 units, F act) {
  constexpr int kGroup = group_threads(kWarps), kGroups = 256 / kGroup;
  const int group = threadIdx.x / kGroup, member = threadIdx.x % kGroup;
  for (Int64 first = Int64(blockIdx.x) * kGroups; first < units; first += Int64(gridDim.x) * kGroups)
    act(first + group, member);
}

/// All values of a group. All threads of the block come here.
template <class Op, int kWarps, class A>
FACULA_FN A fold_group(A value, A* room) {
  if constexpr (kWarps > 1) return fold_block<Op>(value, room);
  else if constexpr (kWarps == 1) return fold_warp<Op>(value);
  else return value;
}

// ---- what is folded

struct Add {
  template <class A>
  FACULA_FN static A identity() {
    return A{};
  }
  template <class A>
  FACULA_FN static A merge(A a, A b) {
    return a + b;
  }
};
struct Multiply {
  template <class A>
  FACULA_FN static A identity() {
    return convert<A>(1.0f);
  }
  template <class A>
  FACULA_FN static A merge(A a, A b) {
    return a * b;
  }
};
template <class A>
FACULA_FN constexpr A lowest() {
  if constexpr (is_floating_type<A>) return -kernels::Float<A>::infinity;
  else if constexpr (A(-1) < A(0)) return A(UInt64(1) << (8 * sizeof(A) - 1));
  else return A(0);
}
template <class A>
FACULA_FN constexpr A highest() {
  if constexpr (is_floating_type<A>) return kernels::Float<A>::infinity;
  else if constexpr (A(-1) < A(0)) return A((UInt64(1) << (8 * sizeof(A) - 1)) - 1);
  else return A(-1);
}
/// The larger or the smaller of two. NaN wins; 0 is larger than -0, so that the order of a fold does not matter.
template <bool kLarger, class A>
FACULA_FN A extreme_of(A a, A b) {
#if FACULA_ARCH >= 800
  if constexpr (is_same_type<A, float>) {
    float extreme;
    if constexpr (kLarger) asm("max.NaN.f32 %0, %1, %2;" : "=f"(extreme) : "f"(a), "f"(b));
    else asm("min.NaN.f32 %0, %1, %2;" : "=f"(extreme) : "f"(a), "f"(b));
    return extreme;
  }
#endif
  if constexpr (is_floating_type<A>)
    if (a == b) {
      if constexpr (kLarger) return kernels::from_bits(kernels::bits(a) & kernels::bits(b));
      else return kernels::from_bits(kernels::bits(a) | kernels::bits(b));
    }
  return (kLarger ? b > a : b < a) || b != b ? b : a;
}
struct Max {
  template <class A>
  FACULA_FN static A identity() {
    return lowest<A>();
  }
  template <class A>
  FACULA_FN static A merge(A a, A b) {
    return extreme_of<true>(a, b);
  }
};
struct Min {
  template <class A>
  FACULA_FN static A identity() {
    return highest<A>();
  }
  template <class A>
  FACULA_FN static A merge(A a, A b) {
    return extreme_of<false>(a, b);
  }
};
struct Or {
  template <class A>
  FACULA_FN static A identity() {
    return A(false);
  }
  template <class A>
  FACULA_FN static A merge(A a, A b) {
    return a || b;
  }
};
struct And {
  template <class A>
  FACULA_FN static A identity() {
    return A(true);
  }
  template <class A>
  FACULA_FN static A merge(A a, A b) {
    return a && b;
  }
};
struct Xor {
  template <class A>
  FACULA_FN static A identity() {
    return A(0);
  }
  template <class A>
  FACULA_FN static A merge(A a, A b) {
    return a ^ b;
  }
};

}  // namespace facula::cuda

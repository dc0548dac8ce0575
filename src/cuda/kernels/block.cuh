// What the threads of a block compute together.
#pragma once

#include "types.cuh"

namespace facula::cuda {

constexpr int kMostWarps = 32;

/// Values of any size up to 16 bytes from lane to lane.
template <class T>
FACULA_FN T shuffle_down(T value, unsigned by) {
  if constexpr (sizeof(T) == 16) {
    struct Halves {
      UInt64 at[2];
    } halves = __builtin_bit_cast(Halves, value);
    halves.at[0] = __shfl_down_sync(kAllLanes, halves.at[0], by);
    halves.at[1] = __shfl_down_sync(kAllLanes, halves.at[1], by);
    return __builtin_bit_cast(T, halves);
  } else if constexpr (sizeof(T) == 8) {
    return __builtin_bit_cast(T, __shfl_down_sync(kAllLanes, __builtin_bit_cast(UInt64, value), by));
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(T, __shfl_down_sync(kAllLanes, __builtin_bit_cast(UInt32, value), by));
  } else {
    return static_cast<T>(__shfl_down_sync(kAllLanes, static_cast<int>(value), by));
  }
}

/// All values of a warp; of lane 0 only.
template <class Op, class A>
FACULA_FN A fold_warp(A value) {
#pragma unroll
  for (unsigned by = 16; by > 0; by /= 2) value = Op::merge(value, shuffle_down(value, by));
  return value;
}

/// All values of a block, whose size is a multiple of 32; every thread gets the result. `room` holds kMostWarps
/// values.
template <class Op, class A>
FACULA_FN A fold_block(A value, A* room) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  value = fold_warp<Op>(value);
  if (lane == 0) room[warp] = value;
  __syncthreads();
  if (warp == 0) {
    value = lane < warps ? room[lane] : Op::template identity<A>();
    value = fold_warp<Op>(value);
    if (lane == 0) room[0] = value;
  }
  __syncthreads();
  value = room[0];
  __syncthreads();  // before the room is used again
  return value;
}

/// The threads of a group of so many warps; one thread for none.
FACULA_FN constexpr int group_threads(int warps) { return warps ? 32 * warps : 1; }

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
/// NaN wins.
struct Max {
  template <class A>
  FACULA_FN static A identity() {
    return lowest<A>();
  }
  template <class A>
  FACULA_FN static A merge(A a, A b) {
    return b > a || b != b ? (a != a ? a : b) : a;
  }
};
struct Min {
  template <class A>
  FACULA_FN static A identity() {
    return highest<A>();
  }
  template <class A>
  FACULA_FN static A merge(A a, A b) {
    return b < a || b != b ? (a != a ? a : b) : a;
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

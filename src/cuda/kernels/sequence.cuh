// Arithmetic progressions.
#pragma once

#include "types.cuh"

namespace facula::cuda {

template <class T>
__global__ __launch_bounds__(256) void progression(void* out, Int64 count, double base, double step, Int64 first) {
  for (Int64 k = thread_number(); k < count; k += thread_count())
    static_cast<T*>(out)[k] = convert<T>(kernels::fma(step, double(first + k), base));
}

template <class T>
__global__ __launch_bounds__(256) void whole_progression(void* out, Int64 count, Int64 base, Int64 step) {
  for (Int64 k = thread_number(); k < count; k += thread_count())
    static_cast<T*>(out)[k] = convert<T>(Int64(UInt64(base) + UInt64(step) * UInt64(k)));
}

}  // namespace facula::cuda

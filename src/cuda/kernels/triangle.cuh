// tril and triu: the part of every matrix beyond a diagonal becomes zero.
#pragma once

#include "types.cuh"

namespace facula::cuda {

/// T is any type of the elements' size, in which zero is all bits zero.
template <class T, bool upper>
__global__ __launch_bounds__(256) void clear_triangle(void* out, Int64 count, Int64 rows, Int64 columns,
                                                      Int64 diagonal) {
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    const Int64 line = i / columns, beyond = i - line * columns - line % rows - diagonal;
    if (upper ? beyond < 0 : beyond > 0) static_cast<T*>(out)[i] = T{};
  }
}

}  // namespace facula::cuda

// How the kernels along lines are launched.
#pragma once

#include <algorithm>

#include "core/tensor.h"
#include "cuda/device.h"
#include "cuda/kernel.h"
#include "cuda/kernels/lines_args.h"
#include "ops/copies.h"

namespace facula::cuda {

inline LineShape line_shape(const Tensor& t, int64_t dim) {
  LineShape s{1, 1, 1};
  for (int64_t d = 0; d < t.dim(); ++d) (d < dim ? s.outer : d > dim ? s.inner : s.n) *= t.size(d);
  return s;
}
inline int64_t line_count(const LineShape& s) { return s.outer * s.inner; }

/// Warps of the group that handles a line: none (a thread) where lines lie side by side or are very short.
inline int line_warps(const LineShape& s) {
  if (s.n <= 4 || s.inner >= 32) return 0;
  return s.n <= 1024 ? 1 : 8;
}
inline Grid line_grid(int device, int64_t lines, int warps) {
  return grid_for(device, lines * (warps ? 32 * warps : 1));
}

/// Into how many parts lines are divided, so that the device is busy with few of them, but each is long enough.
inline int64_t line_parts(int device, const LineShape& s, int warps, int64_t most) {
  constexpr int64_t kShortest = 32;  // elements of each thread
  const Properties& p = properties(device);
  const int64_t threads = warps ? 32 * warps : 1,
                room = int64_t{p.multiprocessors} * p.threads_per_multiprocessor / threads;
  return std::clamp<int64_t>(std::min<int64_t>(room / std::max<int64_t>(line_count(s), 1), s.n / (kShortest * threads)),
                             1, most);
}

/// The smallest power of two of elements, vectors of them, for each thread of a group that holds a line of n; 0 where
/// that is too many.
inline int held_elements(int64_t n, int warps) {
  constexpr int kMost = 16;
  if (warps == 0) return 0;
  int held = 4;
  while (held <= kMost && int64_t{held} * 32 * warps < n) held *= 2;
  return held <= kMost ? held : 0;
}

}  // namespace facula::cuda

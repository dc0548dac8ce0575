// Launches the kernels along lines.
#pragma once

#include <algorithm>

#include "core/tensor.h"
#include "cuda/device.h"
#include "cuda/kernel.h"
#include "cuda/kernels/lines_args.h"
#include "ops/contiguous.h"

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

/// The smallest power of two of elements for each thread of a group that holds a line of n; 0 where that is too many.
inline int held_elements(int64_t n, int warps) {
  constexpr int kMost = 16;
  if (warps == 0) return 0;
  int held = 1;
  while (held <= kMost && int64_t{held} * 32 * warps < n) held *= 2;
  return held <= kMost ? held : 0;
}

/// How contiguous rows are read (kernels/rows.cuh).
struct RowShare {
  int warps = 0, held = 0;  // of the group of threads that holds a row, and each thread's vectors; 0 if it is too long
  bool whole = false;       // vectors lie at multiples of their size, and nothing is left of a row
  int wide = 1;             // elements of a vector of a long row
};
/// Elements of a vector of a row: 16 bytes, but 8 at most.
inline int64_t row_vector(DType dtype) { return std::min<int64_t>(8, 16 / item_size(dtype)); }
/// Whether elements begin at multiples of the size of a row's vectors.
inline bool begins_vector(const void* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(row_vector(dtype) * item_size(dtype)) == 0;
}

/// `tensors` are those that are read and written together, of one dtype; threads hold their parts of one or two.
inline RowShare row_share(int64_t n, DType dtype, std::initializer_list<const void*> tensors, bool holds_two = false) {
  const int64_t item = item_size(dtype), wide = row_vector(dtype), vectors = (n + wide - 1) / wide,
                of_warp = holds_two ? (item > 4 ? 512 : 1024) : (item <= 2 ? 2048 : 1024);
  const auto step = static_cast<uintptr_t>(wide * item);
  const auto rest = [=](const void* p) { return reinterpret_cast<uintptr_t>(p) % step; };
  const auto all = [&](uintptr_t at) {
    return std::all_of(tensors.begin(), tensors.end(), [&](const void* p) { return rest(p) == at; });
  };
  RowShare s;
  s.warps = n <= std::max<int64_t>(8, 2 * wide) ? 0 : n <= of_warp ? 1 : 8;
  const int64_t threads = s.warps ? 32 * s.warps : 1;
  if (n <= 8 * of_warp) s.held = std::max(1, static_cast<int>((vectors + threads - 1) / threads));
  s.whole = n % wide == 0 && all(0);
  s.wide = all(rest(*tensors.begin())) ? static_cast<int>(wide) : 1;
  return s;
}

}  // namespace facula::cuda

// What the kernels along lines share: a line is handled by a group of threads, 1, 32 or 256 of them.
#pragma once

#include "block.cuh"
#include "lines_args.h"

namespace facula::cuda {

/// Where line `line` begins; its elements are `inner` apart.
FACULA_FN Int64 line_start(const LineShape& s, Int64 line) { return line / s.inner * s.n * s.inner + line % s.inner; }

/// The elements of a line that one thread of the group handles. It keeps those of a line that is not too long in
/// registers, `kHeld` of them, vectors of 16 bytes that lie a group apart; else (0) it reads them again.
template <class M, class C, int kWarps, int kHeld>
struct LinePart {
  static constexpr int kGroup = group_threads(kWarps), kVector = 16 / int(sizeof(C)),
                       kWide = kVector < kHeld ? kVector : kHeld;
  const M* in;
  Int64 n, step;
  int member;
  C held[kHeld ? kHeld : 1];

  FACULA_FN C read(Int64 i) const { return convert<C>(in[i * step]); }
  FACULA_FN Int64 place(int j) const { return (member + Int64(j / kWide) * kGroup) * kWide + j % kWide; }
  /// Calls f(element, place) for each.
  template <class F>
  FACULA_FN void each(F f) {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int j = 0; j < kHeld; ++j)
        if (const Int64 i = place(j); i < n) f(held[j], i * step);
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
        if (const Int64 i = place(j); i < n) held[j] = read(i);
    }
  }
};

}  // namespace facula::cuda

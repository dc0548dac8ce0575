// What norms of channels compute for each element. Whether a compiler joins the product and the sum into one operation
// that rounds once is its own decision, and may differ from place to place: all who need the same bits call these.
#pragma once

#include "cpu/isa.h"
#include "cpu/isa/sums.h"

namespace facula::cpu::FACULA_ISA {

/// to = x * factors + offsets, element by element.
template <class T, class A>
[[gnu::noinline]] void affine_row(int64_t count, T* to, const T* x, const A* factors, const A* offsets) {
  write_by(count, to, [=](auto i) { return i(x) * i(factors) + i(offsets); });
}
/// The same with one factor and one offset.
template <class T, class A>
[[gnu::noinline]] void affine_run(int64_t count, T* to, const T* x, A factor, A offset) {
  write_by(count, to, [=](auto i) { return i(x) * factor + offset; });
}

}  // namespace facula::cpu::FACULA_ISA

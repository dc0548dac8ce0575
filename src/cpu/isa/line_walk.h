// Walks all lines of one dimension of several tensors, and hands each to a function as contiguous values.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>

#include "core/parallel.h"
#include "cpu/isa/cast.h"
#include "cpu/isa/types.h"
#include "ops/line_kernels.h"

namespace facula::cpu::FACULA_ISA {

/// What happens to one line of `n` elements: `in` and `out` are contiguous values.
using LineFunction = void (*)(int64_t n, const void* const* in, void* const* out);

/// Calls `f` once per line of dimension `dim`; lines are shared out among threads. Inputs are converted to `compute`,
/// and outputs of narrow floats from it.
void for_lines(DType compute, int64_t dim, std::span<const Tensor* const> in, std::span<const Tensor* const> out,
               LineFunction f);

// ---- lines that lie side by side: vectors of neighbors in place of lines one by one

constexpr int64_t kSideBySide = 64;  // neighbors that are handled together

/// Returns true where that is the better way: along another dimension than the last of contiguous tensors of the
/// compute dtype.
inline bool lie_side_by_side(DType compute, int64_t dim, const Tensor& in, std::initializer_list<const Tensor*> out) {
  constexpr int64_t kFewest = 8;
  if (dim >= in.dim() - 1 || in.dtype() != compute || in.numel() == 0 || !in.is_contiguous()) return false;
  for (const Tensor* t : out)
    if (!t->is_contiguous()) return false;
  return in.stride(dim) >= kFewest;
}

/// Neighbors: `n` rows of `width` elements, `stride` apart, from `at` on; a result for each of them goes to `to`.
struct SideBySide {
  int64_t n, stride, width, at, to;
};

template <class F>
void for_side_by_side(const Tensor& in, int64_t dim, F&& f) {
  const int64_t n = in.size(dim), inner = in.stride(dim), tiles = (inner + kSideBySide - 1) / kSideBySide;
  LockRelease unlocked(in.numel() > 4 * kGrain);
  parallel_for(0, in.numel() / (n * inner) * tiles, std::max<int64_t>(1, kGrain / (n * kSideBySide)),
               [&](int64_t from, int64_t to) {
                 for (int64_t tile = from; tile < to; ++tile) {
                   const int64_t outer = tile / tiles, first = tile % tiles * kSideBySide;
                   f(SideBySide{n, inner, std::min(kSideBySide, inner - first), outer * n * inner + first,
                                outer * inner + first});
                 }
               });
}

/// Kernels made of a function along lines, a class `Line` with a template `operator()(int64_t n, const T* in..., T*
/// out)`: a LineKernel, a Line2Kernel and a PositionKernel.
template <class Line, class TypeList>
void map_lines(DType compute, int64_t dim, const Tensor& in, const Tensor& out) {
  const Tensor *inputs[] = {&in}, *outputs[] = {&out};
  visit_types(TypeList(), compute, [&]<class T>(TypeTag<T>) {
    for_lines(compute, dim, inputs, outputs, [](int64_t n, const void* const* x, void* const* y) {
      Line()(n, static_cast<const T*>(x[0]), static_cast<T*>(y[0]));
    });
  });
}

template <class Line, class TypeList>
void map_lines2(DType compute, int64_t dim, const Tensor& a, const Tensor& b, const Tensor& out) {
  const Tensor *inputs[] = {&a, &b}, *outputs[] = {&out};
  visit_types(TypeList(), compute, [&]<class T>(TypeTag<T>) {
    for_lines(compute, dim, inputs, outputs, [](int64_t n, const void* const* x, void* const* y) {
      Line()(n, static_cast<const T*>(x[0]), static_cast<const T*>(x[1]), static_cast<T*>(y[0]));
    });
  });
}

template <class Line, class TypeList>
void position_lines(DType compute, int64_t dim, const Tensor& in, const Tensor& values, const Tensor& positions) {
  const Tensor *inputs[] = {&in}, *outputs[] = {&values, &positions};
  visit_types(TypeList(), compute, [&]<class T>(TypeTag<T>) {
    for_lines(compute, dim, inputs, outputs, [](int64_t n, const void* const* x, void* const* y) {
      Line()(n, static_cast<const T*>(x[0]), static_cast<T*>(y[0]), static_cast<int64_t*>(y[1]));
    });
  });
}

}  // namespace facula::cpu::FACULA_ISA

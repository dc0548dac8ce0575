// Walks all lines of one dimension of several tensors, and hands each to a function as contiguous values.
#pragma once

#include <span>

#include "core/parallel.h"
#include "cpu/isa/cast.h"
#include "cpu/isa/types.h"
#include "ops/lines.h"

namespace facula::cpu::FACULA_ISA {

/// What happens to one line of `n` elements: `in` and `out` are contiguous values.
using LineFunction = void (*)(int64_t n, const void* const* in, void* const* out);

/// Calls `f` once per line of dimension `dim`; lines are shared out among threads. Inputs are converted to `compute`,
/// and outputs of narrow floats from it.
void for_lines(DType compute, int64_t dim, std::span<const Tensor* const> in, std::span<const Tensor* const> out,
               LineFunction f);

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

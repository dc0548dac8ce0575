// The loop that every element-wise op is made of: contiguous inputs, contiguous output, one plain scalar function.
#pragma once

#include <complex>

#include "core/dtype.h"
#include "cpu/isa.h"
#include "kernels/complex.h"
#include "ops/iterator.h"

namespace facula::cpu::FACULA_ISA {

/// The type that scalar functions see for an element type of memory.
template <class T>
struct KernelType {
  using type = T;
};
template <class T>
struct KernelType<std::complex<T>> {
  using type = kernels::Complex<T>;
};
template <DType D>
using kernel_t = decltype(visit_dtype(D, []<class T>(TypeTag<T>) { return T{}; }));

template <class T, class R, class F>
void unary_loop(int64_t n, void* out, const void* const* in, F f) {
  R* o = static_cast<R*>(out);
  const T* a = static_cast<const T*>(in[0]);
  FACULA_SIMD
  for (int64_t i = 0; i < n; ++i) o[i] = f(a[i]);
}

template <class T, class R, class F>
void binary_loop(int64_t n, void* out, const void* const* in, F f) {
  R* o = static_cast<R*>(out);
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  FACULA_SIMD
  for (int64_t i = 0; i < n; ++i) o[i] = f(a[i], b[i]);
}

template <class T, class R, class F>
void ternary_loop(int64_t n, void* out, const void* const* in, F f) {
  R* o = static_cast<R*>(out);
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  const T* c = static_cast<const T*>(in[2]);
  FACULA_SIMD
  for (int64_t i = 0; i < n; ++i) o[i] = f(a[i], b[i], c[i]);
}

}  // namespace facula::cpu::FACULA_ISA

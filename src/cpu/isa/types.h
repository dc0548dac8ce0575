// Lists of element types, and the choice of one of them by dtype.
#pragma once

#include <complex>

#include "core/dtype.h"
#include "cpu/isa.h"

namespace facula::cpu::FACULA_ISA {

/// The element types that a kernel is compiled for.
template <class... T>
struct Types {};
using Numbers = Types<float, double, int64_t, std::complex<float>, std::complex<double>>;
using Inexact = Types<float, double, std::complex<float>, std::complex<double>>;
using Reals = Types<float, double, int64_t>;
using Floats = Types<float, double>;

/// Calls f(TypeTag<T>()) for the one of the types that is `dtype`.
template <class... T, class F>
void visit_types(Types<T...>, DType dtype, F&& f) {
  bool found = ((dtype_of<T>() == dtype ? (f(TypeTag<T>()), true) : false) || ...);
  FACULA_CHECK(found, ErrorKind::NotImplemented, "kernel: not implemented for dtype ", dtype);
}

}  // namespace facula::cpu::FACULA_ISA

// The types that kernels compute in.
#pragma once

#include <torch/types.h>

namespace torch {

/// float for the narrow floating-point types, else the type itself.
template <class T>
struct OpMathType {
  using type = T;
};
template <>
struct OpMathType<Half> {
  using type = float;
};
template <>
struct OpMathType<BFloat16> {
  using type = float;
};
template <class T>
using opmath_type = typename OpMathType<T>::type;

/// What sums are kept in: of floats double on the CPU, of integers int64.
template <class T, bool is_cuda>
using acc_type = std::conditional_t<
    std::is_same_v<T, bool>, bool,
    std::conditional_t<std::is_integral_v<T>, int64_t,
                       std::conditional_t<is_cuda, opmath_type<T>,
                                          std::conditional_t<std::is_same_v<opmath_type<T>, float>, double, T>>>>;

}  // namespace torch

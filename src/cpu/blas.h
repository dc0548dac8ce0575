// Opens OpenBLAS, for BLAS and LAPACK, when the first product needs it, so that importing stays cheap.
#pragma once

#include <complex>
#include <cstddef>
#include <string>
#include <type_traits>

namespace facula::cpu::blas {

using Int = int;  // the library's integers have 32 bits

/// The address of `scipy_<name>`; loads the library at the first call. Throws a RuntimeError naming what is missing.
void* symbol(const std::string& name);
/// How many threads the library uses from now on; costs nothing when that is so already.
void set_threads(int count);

template <class T>
constexpr bool is_complex_v = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
template <class T>
struct RealType {
  using type = T;
};
template <class T>
struct RealType<std::complex<T>> {
  using type = T;
};
template <class T>
using real_t = typename RealType<T>::type;

/// The letter that names a routine's element type.
template <class T>
constexpr char letter() {
  if constexpr (std::is_same_v<T, float>) return 's';
  else if constexpr (std::is_same_v<T, double>) return 'd';
  else if constexpr (std::is_same_v<T, std::complex<float>>) return 'c';
  else return 'z';
}

/// A Fortran routine of LAPACK or BLAS: `lapack<void(char*, Int*, T*, ...), T>("potrf")`.
template <class Function, class T>
Function* lapack(const char* name) {
  return reinterpret_cast<Function*>(symbol(std::string(1, letter<T>()) + name + "_"));
}

enum : int { kRowMajor = 101, kNoTrans = 111, kTrans = 112 };

// cblas passes complex numbers by address, real ones by value.
template <class T>
using ScalarArgument = std::conditional_t<is_complex_v<T>, const void*, T>;
template <class T>
ScalarArgument<T> scalar_argument(const T& value) {
  if constexpr (is_complex_v<T>) return &value;
  else return value;
}

/// c = alpha op(a) op(b) + beta c, row-major.
template <class T>
void gemm(bool trans_a, bool trans_b, Int m, Int n, Int k, T alpha, const T* a, Int lda, const T* b, Int ldb, T beta,
          T* c, Int ldc) {
  using S = ScalarArgument<T>;
  static auto* const f =
      reinterpret_cast<void (*)(int, int, int, Int, Int, Int, S, const T*, Int, const T*, Int, S, T*, Int)>(
          symbol(std::string("cblas_") + letter<T>() + "gemm"));
  f(kRowMajor, trans_a ? kTrans : kNoTrans, trans_b ? kTrans : kNoTrans, m, n, k, scalar_argument(alpha), a, lda, b,
    ldb, scalar_argument(beta), c, ldc);
}

/// y = alpha op(a) x + beta y for a row-major `a` stored as m rows of n.
template <class T>
void gemv(bool trans, Int m, Int n, T alpha, const T* a, Int lda, const T* x, Int incx, T beta, T* y, Int incy) {
  using S = ScalarArgument<T>;
  static auto* const f = reinterpret_cast<void (*)(int, int, Int, Int, S, const T*, Int, const T*, Int, S, T*, Int)>(
      symbol(std::string("cblas_") + letter<T>() + "gemv"));
  f(kRowMajor, trans ? kTrans : kNoTrans, m, n, scalar_argument(alpha), a, lda, x, incx, scalar_argument(beta), y,
    incy);
}

/// The sum of products of n elements of `x` and `y`, for real T.
template <class T>
T dot(Int n, const T* x, Int incx, const T* y, Int incy) {
  static auto* const f =
      reinterpret_cast<T (*)(Int, const T*, Int, const T*, Int)>(symbol(std::string("cblas_") + letter<T>() + "dot"));
  return f(n, x, incx, y, incy);
}

}  // namespace facula::cpu::blas

// Eigenvalues and singular values.
#include <bit>

#include "cpu/lapack.h"
#include "cpu/own_svd.h"
#include "cpu/symmetric.h"
#include "ops/linalg.h"

namespace facula::cpu {
namespace {

using blas::Int;
using blas::is_complex_v;
using blas::real_t;

template <class T>
bool is_finite(const T* x, int64_t count) {
  return std::all_of(x, x + count, [](T e) { return std::isfinite(std::real(e)) && std::isfinite(std::imag(e)); });
}

void svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& info) {
  Int m = extent(a, -2), n = extent(a, -1), k = std::min(m, n);
  bool vectors = u.defined(), full = vectors && (u.size(-1) != k || vh.size(-2) != k);
  char job = !vectors ? 'N' : full ? 'A' : 'S';
  Int lda = std::max<Int>(m, 1), ldu = lda, ldv = std::max<Int>(vectors ? extent(vh, -2) : 1, 1);
  visit_lapack(a.dtype(), "linalg.svd", [&]<class T>(TypeTag<T>) {
    using R = real_t<T>;
    const double work = 8.0 * m * n * k;
    auto call = [&](T* x, R* values, T* left, T* right, T* space, Int size, R* real_work, Int* integers, Int* status) {
      if constexpr (is_complex_v<T>) {
        lapack_call<"gesdd", T>(&job, &m, &n, x, &lda, values, left, &ldu, right, &ldv, space, &size, real_work,
                                integers, status);
      } else {
        lapack_call<"gesdd", T>(&job, &m, &n, x, &lda, values, left, &ldu, right, &ldv, space, &size, integers, status);
      }
    };
    T answer{}, matrix{}, left_vectors{}, right_vectors{};
    R value{}, real_answer{};
    Int integer{}, asked{};
    call(&matrix, &value, &left_vectors, &right_vectors, &answer, -1, &real_answer, &integer, &asked);
    const Int workspace = workspace_size(answer);
    auto one = [&](int64_t i) {
      T* x = matrix_at<T>(a, i, int64_t{m} * n);
      if constexpr (!is_complex_v<T>) {
        if (is_own_svd<T>(m, n) && (!full || m == n) &&
            own_svd<T>(m, n, x, matrix_at<R>(s, i, k), matrix_at<T>(u, i, int64_t{m} * k),
                       matrix_at<T>(vh, i, int64_t{k} * n)))
          return;
      }
      if (!is_finite(x, int64_t{m} * n)) {  // gesdd refuses NaN, and may never end with infinities
        info.data<Int>()[i] = -4;
        return;
      }
      T* left = vectors ? matrix_at<T>(u, i, u.size(-2) * u.size(-1)) : nullptr;
      T* right = vectors ? matrix_at<T>(vh, i, vh.size(-2) * vh.size(-1)) : nullptr;
      R* values = matrix_at<R>(s, i, k);
      std::vector<Int> integers(static_cast<size_t>(8 * std::max<Int>(k, 1)));
      int64_t small = k, large = std::max(m, n);
      std::vector<R> real_work(is_complex_v<T>
                                   ? static_cast<size_t>(std::max<int64_t>(
                                         1, small * std::max(5 * small + 7, 2 * large + 2 * small + 1) + 7 * small))
                                   : 1);
      std::vector<T> work(static_cast<size_t>(workspace));
      call(x, values, left, right, work.data(), workspace, real_work.data(), integers.data(), info.data<Int>() + i);
    };
    if constexpr (!is_complex_v<T>) {
      if (is_small(a) && (!full || m == n))
        return each_small_group<T>(batch_count(a), work, [&](int64_t i, int matrices) {
          uint32_t failed = small_matrices<T>.singular(m, n, matrix_at<T>(a, i, m * n), matrix_at<R>(s, i, k),
                                                       matrix_at<T>(u, i, m * k), matrix_at<T>(vh, i, k * n), matrices);
          for (; failed; failed &= failed - 1) one(i + std::countr_zero(failed));
        });
    }
    each_matrix(batch_count(a), work, one);
  });
}

void eigh(const Tensor& a, const Tensor& w, const Tensor& info, bool upper, bool vectors) {
  Int n = extent(a, -1), ld = std::max<Int>(n, 1);
  char job = vectors ? 'V' : 'N', triangle = upper ? 'U' : 'L';
  visit_lapack(a.dtype(), "linalg.eigh", [&]<class T>(TypeTag<T>) {
    using R = real_t<T>;
    auto call = [&](T* x, R* values, T* work, Int size, R* real_work, Int real_size, Int* integers, Int integer_size,
                    Int* status) {
      if constexpr (is_complex_v<T>) {
        lapack_call<"heevd", T>(&job, &triangle, &n, x, &ld, values, work, &size, real_work, &real_size, integers,
                                &integer_size, status);
      } else {
        lapack_call<"syevd", T>(&job, &triangle, &n, x, &ld, values, work, &size, integers, &integer_size, status);
      }
    };
    T answer{}, matrix{};
    R real_answer{}, value{};
    Int integer_answer = 1, asked = 0;
    call(&matrix, &value, &answer, -1, &real_answer, -1, &integer_answer, -1, &asked);
    const Int size = workspace_size(answer), real_size = workspace_size(real_answer),
              integer_size = std::max<Int>(integer_answer, 1);
    each_matrix(batch_count(a), 9.0 * n * n * n, [&](int64_t i) {
      if constexpr (!is_complex_v<T>) {
        T* own = matrix_at<T>(a, i, int64_t{n} * n);
        if (is_own_symmetric<T>(n, vectors) && symmetric_eigen<T>(n, own, matrix_at<R>(w, i, n), upper, vectors)) {
          info.data<Int>()[i] = 0;
          return;
        }
      }
      std::vector<T> work(static_cast<size_t>(size));
      std::vector<R> real_work(static_cast<size_t>(real_size));
      std::vector<Int> integers(static_cast<size_t>(integer_size));
      call(matrix_at<T>(a, i, int64_t{n} * n), matrix_at<R>(w, i, n), work.data(), size, real_work.data(), real_size,
           integers.data(), integer_size, info.data<Int>() + i);
    });
  });
}

/// LAPACK gives the vectors of a real matrix as real and imaginary columns of conjugate pairs.
template <class R>
void unpack_vectors(Int n, const R* imaginary, const R* packed, std::complex<R>* v) {
  for (Int j = 0; j < n; ++j) {
    const R *x = packed + int64_t{j} * n, *y = x + n;
    std::complex<R>* column = v + int64_t{j} * n;
    if (imaginary[j] == 0) {
      for (Int r = 0; r < n; ++r) column[r] = x[r];
    } else {
      for (Int r = 0; r < n; ++r) {
        column[r] = {x[r], y[r]};
        column[n + r] = {x[r], -y[r]};
      }
      ++j;
    }
  }
}

void eig(const Tensor& a, const Tensor& w, const Tensor& v, const Tensor& info) {
  Int n = extent(a, -1), ld = std::max<Int>(n, 1), one = 1;
  visit_lapack(a.dtype(), "linalg.eig", [&]<class T>(TypeTag<T>) {
    using R = real_t<T>;
    using C = std::complex<R>;
    each_matrix(batch_count(a), 25.0 * n * n * n, [&](int64_t i) {
      T *x = matrix_at<T>(a, i, int64_t{n} * n), answer{};
      C *values = matrix_at<C>(w, i, n), *vectors = v.defined() ? matrix_at<C>(v, i, int64_t{n} * n) : nullptr;
      char no = 'N', job = vectors ? 'V' : 'N';
      Int* status = info.data<Int>() + i;
      std::vector<R> re(static_cast<size_t>(2 * n + 1)), im(static_cast<size_t>(n + 1));
      std::vector<T> packed(vectors && !is_complex_v<T> ? static_cast<size_t>(n) * n : 1);
      auto run = [&](T* work, Int size) {
        if constexpr (is_complex_v<T>) {
          lapack_call<"geev", T>(&no, &job, &n, x, &ld, values, x, &one, vectors ? vectors : x, &ld, work, &size,
                                 re.data(), status);
        } else {
          lapack_call<"geev", T>(&no, &job, &n, x, &ld, re.data(), im.data(), x, &one, packed.data(), &ld, work, &size,
                                 status);
        }
      };
      run(&answer, -1);
      std::vector<T> work(static_cast<size_t>(workspace_size(answer)));
      run(work.data(), static_cast<Int>(work.size()));
      if constexpr (!is_complex_v<T>) {
        for (Int j = 0; j < n; ++j) values[j] = {re[j], im[j]};
        if (vectors) unpack_vectors<R>(n, im.data(), packed.data(), vectors);
      }
    });
  });
}

}  // namespace

void register_lapack_spectral() {
  svd_kernel.set(DeviceType::CPU, svd);
  eigh_kernel.set(DeviceType::CPU, eigh);
  eig_kernel.set(DeviceType::CPU, eig);
}

}  // namespace facula::cpu

// Factorizations that solve systems: Cholesky, LU, LDL, QR, triangular systems, least squares.
#include "cpu/householder.h"
#include "cpu/lapack.h"
#include "cpu/own_lu.h"
#include "cpu/own_triangle.h"
#include "cpu/small_matrix.h"
#include "ops/linalg.h"

namespace facula::cpu {
namespace {

using blas::Int;
using blas::is_complex_v;
using blas::real_t;

void cholesky(const Tensor& a, const Tensor& info, bool upper) {
  Int n = extent(a, -1), ld = std::max<Int>(n, 1);
  const double work = 1.0 * n * n * n / 3;
  visit_lapack(a.dtype(), "linalg.cholesky", [&]<class T>(TypeTag<T>) {
    if constexpr (!is_complex_v<T>) {
      if (n <= kSmallFactor)
        return each_small_group<T>(batch_count(a), work, [&](int64_t i, int matrices) {
          small_matrices<T>.cholesky(n, matrix_at<T>(a, i, n * n), upper, info.data<Int>() + i, matrices);
        });
    }
    each_matrix(batch_count(a), work, [&](int64_t i) {
      char triangle = upper ? 'U' : 'L';
      lapack_call<"potrf", T>(&triangle, &n, matrix_at<T>(a, i, int64_t{n} * n), &ld, info.data<Int>() + i);
    });
  });
}

void lu_of_small(const Tensor& a, const Tensor& pivots, const Tensor& info) {
  const int n = static_cast<int>(a.size(-1));
  visit_small(a.dtype(), [&]<class T>(TypeTag<T>) {
    each_small_group<T>(batch_count(a), 1.0 * n * n * n, [&](int64_t i, int matrices) {
      T* x = matrix_at<T>(a, i, n * n);
      Int *p = pivots.data<Int>() + i * n, *status = info.data<Int>() + i;
      // a few matrices take less time one by one, in the same steps
      if (!own_lu<T> || n <= 4 || 2 * matrices > small_matrices<T>.together)
        return small_matrices<T>.lu(n, x, p, status, matrices);
      for (int l = 0; l < matrices; ++l) status[l] = own_lu<T>(n, n, x + l * n * n, p + l * n);
    });
  });
}

void lu(const Tensor& a, const Tensor& pivots, const Tensor& info) {
  Int m = extent(a, -2), n = extent(a, -1), k = std::min(m, n), ld = std::max<Int>(m, 1);
  if (m == n && n <= kSmallFactor && k > 0 && is_floating(a.dtype())) return lu_of_small(a, pivots, info);
  visit_lapack(a.dtype(), "linalg.lu_factor", [&]<class T>(TypeTag<T>) {
    each_matrix(batch_count(a), 1.0 * m * n * k, [&](int64_t i) {
      if constexpr (!is_complex_v<T>) {
        if (own_lu<T> && std::max(m, n) <= kOwnLuSide<T> && k > 0) {
          info.data<Int>()[i] = own_lu<T>(m, n, matrix_at<T>(a, i, int64_t{m} * n), pivots.data<Int>() + i * k);
          return;
        }
      }
      lapack_call<"getrf", T>(&m, &n, matrix_at<T>(a, i, int64_t{m} * n), &ld, pivots.data<Int>() + i * k,
                              info.data<Int>() + i);
    });
  });
}

/// Solves with factors that divide by zero: infinities and NaN where the real routines make them; the complex ones may
/// not.
template <class T>
void solve_singular(Int n, T* lu, const Int* pivots, T* b, Int columns) {
  if (is_complex_v<T>)
    return static_cast<void>(std::fill_n(b, int64_t{n} * columns, T(std::numeric_limits<real_t<T>>::quiet_NaN())));
  char op = 'N';
  Int ld = std::max<Int>(n, 1), status = 0;
  lapack_call<"getrs", T>(&op, &n, &columns, lu, &ld, pivots, b, &ld, &status);
}

void solve_small(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool transposed) {
  const int n = static_cast<int>(lu.size(-1)), columns = static_cast<int>(b.size(-1));
  visit_small(lu.dtype(), [&]<class T>(TypeTag<T>) {
    each_small_group<T>(batch_count(b), 1.0 * n * n * columns, [&](int64_t i, int matrices) {
      small_matrices<T>.lu_solve(n, matrix_at<T>(lu, i, n * n), pivots.data<Int>() + i * n, columns,
                                 matrix_at<T>(b, i, n * columns), transposed, matrices);
    });
  });
}

void lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, char op) {
  Int n = extent(lu, -1), columns = extent(b, -1), ld = std::max<Int>(n, 1);
  if (is_small(lu) && columns <= kSmallMatrix) return solve_small(lu, pivots, b, op != 'N');
  visit_lapack(lu.dtype(), "linalg.lu_solve", [&]<class T>(TypeTag<T>) {
    each_matrix(batch_count(b), 1.0 * n * n * columns, [&](int64_t i) {
      Int status = 0;
      if constexpr (!is_complex_v<T>) {
        if (n <= kOwnTriangle &&
            own_triangle<T>.lu_solve(n, matrix_at<T>(lu, i, int64_t{n} * n), pivots.data<Int>() + i * n, columns,
                                     matrix_at<T>(b, i, int64_t{n} * columns), op != 'N'))
          return;
      }
      lapack_call<"getrs", T>(&op, &n, &columns, matrix_at<T>(lu, i, int64_t{n} * n), &ld, pivots.data<Int>() + i * n,
                              matrix_at<T>(b, i, int64_t{n} * columns), &ld, &status);
    });
  });
}

/// The inverse of a singular matrix, from its factors in `a`: infinities and NaN.
template <class T>
void invert_singular(Int n, T* a, const Int* pivots) {
  std::vector<T> factors(a, a + int64_t{n} * n);
  for (int64_t k = 0; k < int64_t{n} * n; ++k) a[k] = T(k % (n + 1) == 0 ? 1 : 0);
  solve_singular<T>(n, factors.data(), pivots, a, n);
}

constexpr Int kOwnInverse = 64;

/// The inverse as a solution: more work than getri has, in fewer steps. False, and nothing done, where a pivot is not
/// moderate.
template <class T>
bool invert_by_solving(Int n, T* a, const Int* pivots) {
  const int64_t size = int64_t{n} * n;
  std::vector<T> inverse(static_cast<size_t>(size));
  for (int64_t k = 0; k < size; k += n + 1) inverse[static_cast<size_t>(k)] = 1;
  if (!own_triangle<T>.lu_solve(n, a, pivots, n, inverse.data(), false)) return false;
  std::copy_n(inverse.begin(), size, a);
  return true;
}

void invert_small(const Tensor& lu, const Tensor& pivots, const Tensor& info) {
  const int n = static_cast<int>(lu.size(-1)), size = n * n;
  visit_small(lu.dtype(), [&]<class T>(TypeTag<T>) {
    each_small_group<T>(batch_count(lu), 1.0 * n * n * n, [&](int64_t i, int matrices) {
      T* a = matrix_at<T>(lu, i, size);
      const Int *exchanges = pivots.data<Int>() + i * n, *status = info.data<Int>() + i;
      small_matrices<T>.inverse(n, a, exchanges, status, matrices);
      for (int l = 0; l < matrices; ++l)
        if (status[l] != 0) invert_singular<T>(n, a + l * size, exchanges + l * n);
    });
  });
}

void inverse(const Tensor& lu, const Tensor& pivots, const Tensor& info) {
  Int n = extent(lu, -1), ld = std::max<Int>(n, 1);
  if (is_small(lu)) return invert_small(lu, pivots, info);
  visit_lapack(lu.dtype(), "linalg.inv", [&]<class T>(TypeTag<T>) {
    each_matrix(batch_count(lu), 1.0 * n * n * n, [&](int64_t i) {
      T* a = matrix_at<T>(lu, i, int64_t{n} * n);
      Int* exchanges = pivots.data<Int>() + i * n;
      if (info.data<Int>()[i] != 0) return invert_singular<T>(n, a, exchanges);
      if constexpr (!is_complex_v<T>) {
        if (n <= kOwnInverse && invert_by_solving<T>(n, a, exchanges)) return;
      }
      Int query = -1;
      T answer{};
      lapack_call<"getri", T>(&n, a, &ld, exchanges, &answer, &query, info.data<Int>() + i);
      Int size = std::max(workspace_size(answer), ld);
      std::vector<T> work(static_cast<size_t>(size));
      lapack_call<"getri", T>(&n, a, &ld, exchanges, work.data(), &size, info.data<Int>() + i);
    });
  });
}

/// Right-hand sides that one call of the library solves for. Threads take them; results do not depend on how many there
/// are, since the parts depend on sizes alone.
struct SystemParts {
  Int width, count;
  SystemParts(Int order, Int systems) {
    // the library packs the triangle anew for each part
    constexpr Int kParts = 4, kWidth = 128, kFewest = 128;
    const Int parts = std::min(order, systems) < kFewest ? 1 : std::max(kParts, systems / kWidth);
    width = std::max<Int>((systems / parts + 15) / 16 * 16, 1);
    if (width * parts < systems) width += 16;
    count = std::max<Int>((systems + width - 1) / width, 1);
  }
};

void triangular(const Tensor& a, const Tensor& b, bool upper, bool left, bool unit) {
  const Int m = extent(b, -2), n = extent(b, -1), order = extent(a, -1);
  const Int lda = std::max<Int>(order, 1), ldb = std::max<Int>(m, 1), systems = left ? n : m;
  const SystemParts parts(order, systems);
  visit_lapack(a.dtype(), "linalg.solve_triangular", [&]<class T>(TypeTag<T>) {
    if constexpr (!is_complex_v<T>) {
      if (std::max(m, n) <= kSmallMatrix)
        return each_small_group<T>(batch_count(b), 1.0 * systems * order * order, [&](int64_t i, int matrices) {
          small_matrices<T>.triangular(matrix_at<T>(a, i, order * order), m, n, matrix_at<T>(b, i, m * n), upper, left,
                                       unit, matrices);
        });
    }
    each_matrix(batch_count(b) * parts.count, 1.0 * parts.width * order * order, [&](int64_t i) {
      char side = left ? 'L' : 'R', triangle = upper ? 'U' : 'L', no = 'N', diagonal = unit ? 'U' : 'N';
      T one(1);
      const int64_t matrix = i / parts.count, first = i % parts.count * parts.width;
      Int some = std::min<Int>(parts.width, systems - static_cast<Int>(first)), rows = left ? m : some;
      Int columns = left ? some : n, ld = lda, ld_result = ldb;
      T* result = matrix_at<T>(b, matrix, int64_t{m} * n) + first * (left ? ldb : 1);
      if constexpr (!is_complex_v<T>) {
        if (order <= kOwnTriangle && parts.count == 1 &&
            own_triangle<T>.solve(matrix_at<T>(a, matrix, int64_t{order} * order), m, n, result, upper, left, unit))
          return;
      }
      lapack_call<"trsm", T>(&side, &triangle, &no, &diagonal, &rows, &columns, &one,
                             matrix_at<T>(a, matrix, int64_t{order} * order), &ld, result, &ld_result);
    });
  });
}

void cholesky_solve(const Tensor& factor, const Tensor& b, bool upper) {
  Int m = extent(b, -2), n = extent(b, -1), ld = std::max<Int>(m, 1);
  visit_lapack(b.dtype(), "cholesky_solve", [&]<class T>(TypeTag<T>) {
    each_matrix(batch_count(b), 2.0 * m * n * m, [&](int64_t i) {
      char triangle = upper ? 'U' : 'L';
      Int status = 0;
      if constexpr (!is_complex_v<T>) {
        if (m <= kOwnTriangle && own_triangle<T>.cholesky_solve(m, matrix_at<T>(factor, i, int64_t{m} * m), n,
                                                                matrix_at<T>(b, i, int64_t{m} * n), upper))
          return;
      }
      lapack_call<"potrs", T>(&triangle, &m, &n, matrix_at<T>(factor, i, int64_t{m} * m), &ld,
                              matrix_at<T>(b, i, int64_t{m} * n), &ld, &status);
    });
  });
}

bool by_own_reflectors(Int rows, Int columns) { return rows <= kHouseholderRows && columns <= kHouseholderColumns; }

void qr(const Tensor& a, const Tensor& tau) {
  Int m = extent(a, -2), n = extent(a, -1), k = std::min(m, n), ld = std::max<Int>(m, 1);
  visit_lapack(a.dtype(), "linalg.qr", [&]<class T>(TypeTag<T>) {
    if constexpr (!is_complex_v<T>) {
      if (std::max(m, n) <= kSmallMatrix)
        return each_small_group<T>(batch_count(a), 2.0 * m * n * k, [&](int64_t i, int matrices) {
          small_matrices<T>.qr(m, n, matrix_at<T>(a, i, m * n), matrix_at<T>(tau, i, k), matrices);
        });
    }
    each_matrix(batch_count(a), 2.0 * m * n * k, [&](int64_t i) {
      T *x = matrix_at<T>(a, i, int64_t{m} * n), *t = matrix_at<T>(tau, i, k), answer{};
      if constexpr (!is_complex_v<T>) {
        if (by_own_reflectors(m, n)) return householder<T>.factor(m, n, x, t);
      }
      Int query = -1, status = 0;
      lapack_call<"geqrf", T>(&m, &n, x, &ld, t, &answer, &query, &status);
      Int size = std::max(workspace_size(answer), std::max<Int>(n, 1));
      std::vector<T> work(static_cast<size_t>(size));
      lapack_call<"geqrf", T>(&m, &n, x, &ld, t, work.data(), &size, &status);
    });
  });
}

void reflectors(const Tensor& a, const Tensor& tau) {
  Int m = extent(a, -2), n = extent(a, -1), k = extent(tau, -1), ld = std::max<Int>(m, 1);
  visit_lapack(a.dtype(), "linalg.householder_product", [&]<class T>(TypeTag<T>) {
    if constexpr (!is_complex_v<T>) {
      if (std::max(m, n) <= kSmallMatrix)
        return each_small_group<T>(batch_count(a), 2.0 * m * n * k, [&](int64_t i, int matrices) {
          small_matrices<T>.reflectors(m, n, k, matrix_at<T>(a, i, m * n), matrix_at<T>(tau, i, k), matrices);
        });
    }
    each_matrix(batch_count(a), 2.0 * m * n * k, [&](int64_t i) {
      T *x = matrix_at<T>(a, i, int64_t{m} * n), *t = matrix_at<T>(tau, i, k), answer{};
      if constexpr (!is_complex_v<T>) {
        if (by_own_reflectors(m, n)) return householder<T>.form(m, n, k, x, t);
      }
      Int status = 0;
      auto run = [&](T* work, Int size) {
        if constexpr (is_complex_v<T>) lapack_call<"ungqr", T>(&m, &n, &k, x, &ld, t, work, &size, &status);
        else lapack_call<"orgqr", T>(&m, &n, &k, x, &ld, t, work, &size, &status);
      };
      run(&answer, -1);
      std::vector<T> work(static_cast<size_t>(std::max(workspace_size(answer), std::max<Int>(n, 1))));
      run(work.data(), static_cast<Int>(work.size()));
    });
  });
}

void reflect(const Tensor& a, const Tensor& tau, const Tensor& c, bool left, bool transpose) {
  Int m = extent(c, -2), n = extent(c, -1), k = extent(tau, -1);
  Int lda = std::max<Int>(extent(a, -2), 1), ldc = std::max<Int>(m, 1);
  visit_lapack(a.dtype(), "ormqr", [&]<class T>(TypeTag<T>) {
    each_matrix(batch_count(c), 2.0 * m * n * k, [&](int64_t i) {
      T *x = matrix_at<T>(a, i, a.size(-1) * a.size(-2)), *t = matrix_at<T>(tau, i, k),
        *y = matrix_at<T>(c, i, int64_t{m} * n), answer{};
      char side = left ? 'L' : 'R', op = !transpose ? 'N' : is_complex_v<T> ? 'C' : 'T';
      Int status = 0;
      auto run = [&](T* work, Int size) {
        if constexpr (is_complex_v<T>)
          lapack_call<"unmqr", T>(&side, &op, &m, &n, &k, x, &lda, t, y, &ldc, work, &size, &status);
        else lapack_call<"ormqr", T>(&side, &op, &m, &n, &k, x, &lda, t, y, &ldc, work, &size, &status);
      };
      run(&answer, -1);
      std::vector<T> work(static_cast<size_t>(std::max(workspace_size(answer), std::max(m, n))));
      run(work.data(), static_cast<Int>(work.size()));
    });
  });
}

void ldl(const Tensor& a, const Tensor& pivots, const Tensor& info, bool hermitian) {
  Int n = extent(a, -1), ld = std::max<Int>(n, 1);
  visit_lapack(a.dtype(), "linalg.ldl_factor", [&]<class T>(TypeTag<T>) {
    each_matrix(batch_count(a), 1.0 * n * n * n / 3, [&](int64_t i) {
      T *x = matrix_at<T>(a, i, int64_t{n} * n), answer{};
      char lower = 'L';
      auto run = [&](T* work, Int size) {
        Int *p = pivots.data<Int>() + i * n, *status = info.data<Int>() + i;
        if constexpr (is_complex_v<T>) {
          if (hermitian) return lapack_call<"hetrf", T>(&lower, &n, x, &ld, p, work, &size, status);
        }
        lapack_call<"sytrf", T>(&lower, &n, x, &ld, p, work, &size, status);
      };
      run(&answer, -1);
      std::vector<T> work(static_cast<size_t>(workspace_size(answer)));
      run(work.data(), static_cast<Int>(work.size()));
    });
  });
}

void ldl_solve(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian) {
  Int n = extent(ld, -1), columns = extent(b, -1), lda = std::max<Int>(n, 1);
  visit_lapack(ld.dtype(), "linalg.ldl_solve", [&]<class T>(TypeTag<T>) {
    each_matrix(batch_count(b), 1.0 * n * n * columns, [&](int64_t i) {
      T *x = matrix_at<T>(ld, i, int64_t{n} * n), *y = matrix_at<T>(b, i, int64_t{n} * columns);
      char lower = 'L';
      Int *p = pivots.data<Int>() + i * n, status = 0;
      if constexpr (is_complex_v<T>) {
        if (hermitian) return lapack_call<"hetrs", T>(&lower, &n, &columns, x, &lda, p, y, &lda, &status);
      }
      lapack_call<"sytrs", T>(&lower, &n, &columns, x, &lda, p, y, &lda, &status);
    });
  });
}

/// One least-squares problem; `rank` and `s` only by the drivers that find them.
template <class T>
struct LeastSquares {
  Int m, n, columns, lda, ldb;
  T *a, *b;
  real_t<T> rcond;
  std::vector<real_t<T>> s;
  Int rank = 0;

  struct Workspace {
    size_t elements = 1, reals = 1, integers = 1;
  };
  /// Asks the library for the sizes of workspaces, which are alike for all problems of these sizes.
  Workspace ask(std::string_view driver) {
    T answer{};
    std::vector<real_t<T>> real_work(1);
    std::vector<Int> integers(static_cast<size_t>(std::max({n, m, Int(1)})));
    call(driver, &answer, -1, real_work, integers);
    const auto small = static_cast<size_t>(std::max<Int>(1, std::min(m, n)));
    return {static_cast<size_t>(workspace_size(answer)),
            std::max<size_t>({static_cast<size_t>(real_work[0]), 2 * static_cast<size_t>(n), 5 * small, 1}),
            std::max<size_t>(integers.size(), static_cast<size_t>(integers[0]))};
  }
  void run(std::string_view driver, const Workspace& given) {
    std::vector<T> work(given.elements);
    std::vector<real_t<T>> real_work(given.reals);
    std::vector<Int> integers(given.integers);
    call(driver, work.data(), static_cast<Int>(work.size()), real_work, integers);
  }

 private:
  void call(std::string_view driver, T* work, Int size, std::vector<real_t<T>>& real_work, std::vector<Int>& integers) {
    Int status = 0;
    char no = 'N';
    if (driver == "gels") {
      lapack_call<"gels", T>(&no, &m, &n, &columns, a, &lda, b, &ldb, work, &size, &status);
    } else if (driver == "gelsy") {
      if constexpr (is_complex_v<T>) {
        lapack_call<"gelsy", T>(&m, &n, &columns, a, &lda, b, &ldb, integers.data(), &rcond, &rank, work, &size,
                                real_work.data(), &status);
      } else {
        lapack_call<"gelsy", T>(&m, &n, &columns, a, &lda, b, &ldb, integers.data(), &rcond, &rank, work, &size,
                                &status);
      }
    } else if (driver == "gelsd") {
      if constexpr (is_complex_v<T>) {
        lapack_call<"gelsd", T>(&m, &n, &columns, a, &lda, b, &ldb, s.data(), &rcond, &rank, work, &size,
                                real_work.data(), integers.data(), &status);
      } else {
        lapack_call<"gelsd", T>(&m, &n, &columns, a, &lda, b, &ldb, s.data(), &rcond, &rank, work, &size,
                                integers.data(), &status);
      }
    } else {
      if constexpr (is_complex_v<T>) {
        lapack_call<"gelss", T>(&m, &n, &columns, a, &lda, b, &ldb, s.data(), &rcond, &rank, work, &size,
                                real_work.data(), &status);
      } else {
        lapack_call<"gelss", T>(&m, &n, &columns, a, &lda, b, &ldb, s.data(), &rcond, &rank, work, &size, &status);
      }
    }
  }
};

void least_squares(const Tensor& a, const Tensor& b, const Tensor& rank, const Tensor& s, double rcond,
                   std::string_view driver) {
  Int m = extent(a, -2), n = extent(a, -1), columns = extent(b, -1), k = std::min(m, n);
  Int rows = extent(b, -2);
  visit_lapack(a.dtype(), "linalg.lstsq", [&]<class T>(TypeTag<T>) {
    const auto problem_at = [&](int64_t i) {
      return LeastSquares<T>{m,
                             n,
                             columns,
                             std::max<Int>(m, 1),
                             std::max<Int>(rows, 1),
                             matrix_at<T>(a, i, int64_t{m} * n),
                             matrix_at<T>(b, i, int64_t{rows} * columns),
                             static_cast<real_t<T>>(rcond),
                             std::vector<real_t<T>>(static_cast<size_t>(std::max<Int>(k, 1)))};
    };
    const auto workspace = problem_at(0).ask(driver);
    each_matrix(batch_count(b), 2.0 * m * n * k, [&](int64_t i) {
      LeastSquares<T> problem = problem_at(i);
      if constexpr (!is_complex_v<T>) {
        // without the search for a rank, where there is no doubt of it
        if (driver == "gelsy" && m >= n && n <= kOwnTriangle && by_own_reflectors(m, n) && columns <= 2 * n + 8 &&
            householder<T>.least_squares(m, n, problem.a, columns, problem.b, rcond)) {
          rank.data<int64_t>()[i] = n;
          return;
        }
      }
      problem.run(driver, workspace);
      if (rank.defined()) rank.data<int64_t>()[i] = problem.rank;
      if (s.defined()) std::copy_n(problem.s.begin(), k, matrix_at<real_t<T>>(s, i, k));
    });
  });
}

}  // namespace

void register_lapack_factor() {
  cholesky_kernel.set(DeviceType::CPU, cholesky);
  lu_kernel.set(DeviceType::CPU, lu);
  lu_solve_kernel.set(DeviceType::CPU, lu_solve);
  inverse_kernel.set(DeviceType::CPU, inverse);
  triangular_kernel.set(DeviceType::CPU, triangular);
  cholesky_solve_kernel.set(DeviceType::CPU, cholesky_solve);
  qr_kernel.set(DeviceType::CPU, qr);
  reflectors_kernel.set(DeviceType::CPU, reflectors);
  reflect_kernel.set(DeviceType::CPU, reflect);
  ldl_kernel.set(DeviceType::CPU, ldl);
  ldl_solve_kernel.set(DeviceType::CPU, ldl_solve);
  least_squares_kernel.set(DeviceType::CPU, least_squares);
}

}  // namespace facula::cpu

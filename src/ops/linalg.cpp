// Shape rules of factorizations, and their results put together from LAPACK's.
#include "ops/linalg.h"

#include "core/mode.h"
#include "core/near_name.h"
#include "ops/checks.h"
#include "ops/contiguous.h"
#include "ops/linalg_support.h"
#include "ops/needs.h"
#include "raw_ops.h"

namespace facula::ops {

std::tuple<Tensor, Tensor> linalg_cholesky_ex(const Tensor& self, bool upper, bool check_errors, const Out&,
                                              const Out&) {
  check_square("linalg.cholesky", self);
  Tensor factor = column_major(self), info = info_like(self);
  if (self.is_meta()) return {std::move(factor), std::move(info)};
  cholesky_kernel(self.device(), factor, info, upper);
  zero_triangle(factor, upper);
  if (check_errors)
    check_info("linalg.cholesky", info,
               "the matrix is not positive-definite, got a leading minor that is not positive, of order");
  return {std::move(factor), std::move(info)};
}

Tensor cholesky_solve(const Tensor& self, const Tensor& input2, bool upper, const Out&) {
  check_square("cholesky_solve", input2);
  check_pair("cholesky_solve", input2, self);
  FACULA_CHECK(self.dim() >= 2, ErrorKind::Runtime, "cholesky_solve: batches of matrices, got shapes ", self.sizes(),
               " and ", input2.sizes());
  FACULA_CHECK(self.size(-2) == input2.size(-1), ErrorKind::Runtime, "cholesky_solve: the shapes do not fit, got ",
               self.sizes(), " and ", input2.sizes());
  Dims batch =
      broadcast(input2.sizes().slice(0, input2.dim() - 2), self.sizes().slice(0, self.dim() - 2), "cholesky_solve");
  Tensor x = column_major(expand_batch(self, batch));
  if (!x.is_meta() && x.numel()) cholesky_solve_kernel(x.device(), column_major(expand_batch(input2, batch)), x, upper);
  return x;
}

Tensor cholesky_inverse(const Tensor& self, bool upper, const Out&) {
  check_square("cholesky_inverse", self);
  check_values(diagonal(self, 0, -2, -1),
               {Holds::NotZero, ErrorKind::LinAlg, "cholesky_inverse", "a factor without zeros on its diagonal"});
  Tensor identity = empty_column_major(self, self.size(-1), self.size(-1));
  set_identity(identity);
  return cholesky_solve(identity, self, upper);
}

namespace {

/// NaN for the solutions of singular systems: the complex routines do not divide by their zero pivots.
void fill_singular(const Tensor& x, const Tensor& info) {
  const Scalar nan(std::complex<double>(std::numeric_limits<double>::quiet_NaN(), 0));
  masked_fill_(x, unsqueeze(unsqueeze(gt(info, Operand(0)), -1), -1), nan);
}

}  // namespace

std::tuple<Tensor, Tensor> linalg_inv_ex(const Tensor& A, bool check_errors, const Out&, const Out&) {
  check_square("linalg.inv", A);
  Tensor result = column_major(A), info = info_like(A);
  if (A.is_meta()) return {std::move(result), std::move(info)};
  Tensor pivots = facula::empty(vector_sizes(A, A.size(-1)), DType::Int32, A.device());
  lu_kernel(A.device(), result, pivots, info);
  inverse_kernel(A.device(), result, pivots, info);
  if (check_errors) check_info("linalg.inv", info, "the matrix is singular, got a zero pivot at position");
  return {std::move(result), std::move(info)};
}

std::tuple<Tensor, Tensor, Tensor> linalg_lu_factor_ex(const Tensor& A, bool pivot, bool check_errors, const Out&,
                                                       const Out&, const Out&) {
  check_matrix("linalg.lu_factor", A);
  FACULA_CHECK(pivot, ErrorKind::Runtime,
               "linalg.lu_factor: without pivoting there is no factorization on the CPU, got pivot=False");
  Tensor factors = column_major(A), info = info_like(A);
  Tensor pivots = facula::empty(vector_sizes(A, std::min(A.size(-1), A.size(-2))), DType::Int32, A.device());
  if (A.is_meta()) return {std::move(factors), std::move(pivots), std::move(info)};
  lu_kernel(A.device(), factors, pivots, info);
  if (check_errors)
    check_info("linalg.lu_factor", info, "the factor U is singular, got a zero on its diagonal at position");
  return {std::move(factors), std::move(pivots), std::move(info)};
}

Tensor _lu_permutation(const Tensor& pivots, int64_t rows, DType dtype) {
  need_dimensions("lu_unpack", "pivots", pivots);
  need_dtype("lu_unpack", "pivots", pivots, DType::Int32);
  need_at_least("lu_unpack", "the number of rows", rows, 0);
  Dims sizes(pivots.sizes().slice(0, pivots.dim() - 1));
  sizes.push_back(rows);
  sizes.push_back(rows);
  Tensor result = facula::empty(sizes, dtype, pivots.device());
  if (result.is_meta() || result.numel() == 0) return result;
  fill_zero(result);
  lu_permutation_kernel(result.device(), result, as_contiguous(pivots));
  return result;
}

Tensor _lu_solve(const Tensor& LU, const Tensor& pivots, const Tensor& B, bool adjoint) {
  check_square("linalg.lu_solve", LU);
  check_pair("linalg.lu_solve", LU, B);
  need_dtype("linalg.lu_solve", "pivots", pivots, DType::Int32);
  const int64_t n = LU.size(-1);
  FACULA_CHECK(pivots.sizes() == LU.sizes().slice(0, LU.dim() - 1), ErrorKind::Runtime,
               "linalg.lu_solve: expected one pivot per row, got shapes ", LU.sizes(), " and ", pivots.sizes());
  FACULA_CHECK(B.dim() >= 2 && B.size(-2) == n, ErrorKind::Runtime, "linalg.lu_solve: the shapes do not fit, got ",
               LU.sizes(), " and ", B.sizes());
  Dims batch = broadcast(LU.sizes().slice(0, LU.dim() - 2), B.sizes().slice(0, B.dim() - 2), "linalg.lu_solve");
  Tensor x = column_major(expand_batch(B, batch));
  if (x.is_meta() || x.numel() == 0) return x;
  check_pivots("linalg.lu_solve", pivots, n, false);
  Dims exchanges(batch);
  exchanges.push_back(n);
  lu_solve_kernel(x.device(), column_major(expand_batch(LU, batch)), as_contiguous(expand(pivots, exchanges, false)), x,
                  !adjoint          ? 'N'
                  : LU.is_complex() ? 'C'
                                    : 'T');
  return x;
}

std::tuple<Tensor, Tensor> linalg_solve_ex(const Tensor& A, const Tensor& B, bool left, bool check_errors, const Out&,
                                           const Out&) {
  check_square("linalg.solve", A);
  check_pair("linalg.solve", A, B);
  bool vector = is_vector_right_side(A.sizes(), B.sizes());
  FACULA_CHECK(left || !vector, ErrorKind::Runtime,
               "linalg.solve: a vector stands on the right side only with left=True, got shapes ", A.sizes(), " and ",
               B.sizes());
  Tensor b = vector ? unsqueeze(B, -1) : B;
  FACULA_CHECK(b.dim() >= 2 && b.size(left ? -2 : -1) == A.size(-1), ErrorKind::Runtime,
               "linalg.solve: the shapes do not fit, got ", A.sizes(), " and ", B.sizes());
  if (!left) {  // X A = B is A^T X^T = B^T
    auto [x, info] = linalg_solve_ex(transpose(A, -2, -1), transpose(b, -2, -1), true, check_errors);
    return {alias(transpose(x, -2, -1)), info};
  }
  Dims batch = broadcast(A.sizes().slice(0, A.dim() - 2), b.sizes().slice(0, b.dim() - 2), "linalg.solve");
  Tensor lu = column_major(expand_batch(A, batch)), x = column_major(expand_batch(b, batch)), info = info_like(A);
  if (!A.is_meta()) {
    Tensor all = info_like(lu), pivots = facula::empty(vector_sizes(lu, A.size(-1)), DType::Int32, A.device());
    lu_kernel(A.device(), lu, pivots, all);
    if (check_errors) check_info("linalg.solve", all, "the matrix is singular, got a zero pivot at position");
    lu_solve_kernel(A.device(), lu, pivots, x, 'N');
    if (x.is_complex()) fill_singular(x, all);
    info = all;
  }
  return {vector ? alias(squeeze(x, -1)) : x, info};
}

Tensor linalg_solve_triangular(const Tensor& self, const Tensor& given, bool upper, bool left, bool unitriangular,
                               const Out&) {
  check_square("linalg.solve_triangular", self);
  const bool fits = is_inexact(self.dtype()) && is_inexact(given.dtype()) && can_cast(given.dtype(), self.dtype());
  const Tensor B = fits ? to_dtype(given, self.dtype()) : given;  // the result has the dtype of the matrix
  check_pair("linalg.solve_triangular", self, B);
  FACULA_CHECK(B.dim() >= 2 && B.size(left ? -2 : -1) == self.size(-1), ErrorKind::Runtime,
               "linalg.solve_triangular: the shapes do not fit, got ", self.sizes(), " and ", B.sizes());
  Dims batch =
      broadcast(self.sizes().slice(0, self.dim() - 2), B.sizes().slice(0, B.dim() - 2), "linalg.solve_triangular");
  Tensor x = column_major(expand_batch(B, batch));
  if (!x.is_meta() && x.numel())
    triangular_kernel(x.device(), column_major(expand_batch(self, batch)), x, upper, left, unitriangular);
  return x;
}

Tensor linalg_det(const Tensor& A, const Out&) {
  check_square("linalg.det", A);
  GradMode no_grad(false);
  Tensor result = facula::empty(A.sizes().slice(0, A.dim() - 2), A.dtype(), A.device());
  if (A.is_meta()) return result;
  auto [lu, pivots, info] = linalg_lu_factor_ex(A, true, false);
  det_kernel(A.device(), result, lu, pivots);
  return result;
}

std::tuple<Tensor, Tensor> linalg_slogdet(const Tensor& A, const Out&, const Out&) {
  check_square("linalg.slogdet", A);
  IntList batch = A.sizes().slice(0, A.dim() - 2);
  Tensor sign = facula::empty(batch, A.dtype(), A.device()),
         logarithm = facula::empty(batch, real_dtype(A.dtype()), A.device());
  if (A.is_meta()) return {std::move(sign), std::move(logarithm)};
  auto [lu, pivots, info] = linalg_lu_factor_ex(A, true, false);
  slogdet_kernel(A.device(), sign, logarithm, lu, pivots);
  return {std::move(sign), std::move(logarithm)};
}

std::tuple<Tensor, Tensor> geqrf(const Tensor& self, const Out&, const Out&) {
  check_matrix("geqrf", self);
  Tensor a = column_major(self),
         tau = facula::empty(vector_sizes(self, std::min(self.size(-1), self.size(-2))), self.dtype(), self.device());
  if (!self.is_meta() && tau.numel()) qr_kernel(self.device(), a, tau);
  return {std::move(a), std::move(tau)};
}

std::tuple<Tensor, Tensor> _linalg_qr(const Tensor& A, std::string_view mode) {
  check_matrix("linalg.qr", A);
  FACULA_CHECK(mode == "reduced" || mode == "complete" || mode == "r", ErrorKind::Runtime, "linalg.qr: mode must be ",
               one_of({"reduced", "complete", "r"}, mode));
  int64_t m = A.size(-2), n = A.size(-1), k = std::min(m, n), columns = mode == "complete" ? m : k;
  auto [a, tau] = geqrf(A);
  Tensor q = mode == "r" ? facula::empty({0}, A.dtype(), A.device()) : empty_column_major(A, m, columns);
  Tensor r = empty_column_major(A, columns, n);
  if (A.is_meta()) return {std::move(q), std::move(r)};
  copy_corner(r, a);
  zero_triangle(r, true);
  if (mode != "r" && q.numel()) {
    copy_corner(q, a);
    if (k) reflectors_kernel(A.device(), q, tau);
    else set_identity(q);
  }
  return {std::move(q), std::move(r)};
}

Tensor _householder(const Tensor& self, const Tensor& tau) {
  check_matrix("linalg.householder_product", self);
  check_reflectors("linalg.householder_product", self, tau);
  Tensor q = column_major(self);
  if (!self.is_meta() && q.numel()) {
    if (tau.size(-1)) reflectors_kernel(self.device(), q, as_contiguous(tau));
    else set_identity(q);
  }
  return q;
}

Tensor _ormqr(const Tensor& self, const Tensor& tau, const Tensor& other, bool left, bool transpose) {
  check_reflected("ormqr", self, tau, other, left);
  Tensor result = column_major(other);
  if (!self.is_meta() && result.numel() && tau.size(-1)) {
    reflect_kernel(self.device(), column_major(self), as_contiguous(tau), result, left, transpose);
  }
  return result;
}

std::tuple<Tensor, Tensor, Tensor> _linalg_svd(const Tensor& A, bool full_matrices, bool compute_uv) {
  check_matrix("linalg.svd", A);
  int64_t m = A.size(-2), n = A.size(-1), k = std::min(m, n);
  Tensor s = facula::empty(vector_sizes(A, k), real_dtype(A.dtype()), A.device()), u, vh;
  if (compute_uv) {
    u = empty_column_major(A, m, full_matrices ? m : k);
    vh = empty_column_major(A, full_matrices ? n : k, n);
  }
  Tensor none = facula::empty({0}, A.dtype(), A.device());
  if (A.is_meta()) return {compute_uv ? u : none, s, compute_uv ? vh : none};
  if (k == 0) {
    if (compute_uv) {
      set_identity(u);
      set_identity(vh);
    }
  } else {
    Tensor info = info_like(A);
    svd_kernel(A.device(), column_major(A), u, s, vh, info);
    check_info(
        "linalg.svd", info,
        "the algorithm did not converge (the matrix may have infinite, NaN or ill-conditioned entries), got the code");
  }
  return {compute_uv ? u : none, s, compute_uv ? vh : none};
}

std::tuple<Tensor, Tensor> _linalg_eigh(const Tensor& A, std::string_view UPLO, bool compute_v) {
  check_square("linalg.eigh", A);
  bool upper = UPLO == "U" || UPLO == "u";
  FACULA_CHECK(upper || UPLO == "L" || UPLO == "l", ErrorKind::Runtime, "linalg.eigh: UPLO must be ",
               one_of({"L", "U"}, UPLO));
  Tensor v = column_major(A), w = facula::empty(vector_sizes(A, A.size(-1)), real_dtype(A.dtype()), A.device());
  Tensor none = facula::empty({0}, A.dtype(), A.device());
  if (!A.is_meta() && A.numel()) {
    Tensor info = info_like(A);
    eigh_kernel(A.device(), v, w, info, upper, compute_v);
    check_info("linalg.eigh", info,
               "the algorithm did not converge (the matrix may be ill-conditioned or not finite), got the code");
  }
  return {w, compute_v ? v : none};
}

namespace {
Tensor complex_values(const Tensor& self, Tensor* vectors) {
  check_square("linalg.eig", self);
  DType dtype = complex_dtype(self.dtype());
  Tensor w = facula::empty(vector_sizes(self, self.size(-1)), dtype, self.device());
  if (vectors) *vectors = empty_column_major(self, self.size(-1), self.size(-1), dtype);
  if (self.is_meta() || self.numel() == 0) return w;
  check_values(self, {Holds::Finite, ErrorKind::Runtime, "linalg.eig", "finite elements"});
  Tensor info = info_like(self);
  eig_kernel(self.device(), column_major(self), w, vectors ? *vectors : Tensor(), info);
  check_info("linalg.eig", info, "the algorithm did not converge, got the code");
  return w;
}
}  // namespace

std::tuple<Tensor, Tensor> linalg_eig(const Tensor& self, const Out&, const Out&) {
  Tensor vectors, values = complex_values(self, &vectors);
  return {std::move(values), std::move(vectors)};
}

Tensor _linalg_eigvals(const Tensor& self) { return complex_values(self, nullptr); }

std::tuple<Tensor, Tensor, Tensor> linalg_ldl_factor_ex(const Tensor& self, bool hermitian, bool check_errors,
                                                        const Out&, const Out&, const Out&) {
  check_square("linalg.ldl_factor", self);
  Tensor factors = column_major(self), info = info_like(self);
  Tensor pivots = facula::empty(vector_sizes(self, self.size(-1)), DType::Int32, self.device());
  if (self.is_meta()) return {std::move(factors), std::move(pivots), std::move(info)};
  ldl_kernel(self.device(), factors, pivots, info, hermitian);
  if (check_errors) check_info("linalg.ldl_factor", info, "the factor D is singular, got a zero at position");
  zero_triangle(factors, false);
  return {std::move(factors), std::move(pivots), std::move(info)};
}

Tensor linalg_ldl_solve(const Tensor& LD, const Tensor& pivots, const Tensor& B, bool hermitian, const Out&) {
  check_square("linalg.ldl_solve", LD);
  check_pair("linalg.ldl_solve", LD, B);
  FACULA_CHECK(B.dim() >= 2 && B.size(-2) == LD.size(-1), ErrorKind::Runtime,
               "linalg.ldl_solve: the shapes do not fit, got ", LD.sizes(), " and ", B.sizes());
  FACULA_CHECK(pivots.sizes() == LD.sizes().slice(0, LD.dim() - 1), ErrorKind::Runtime,
               "linalg.ldl_solve: expected one pivot per row, got shapes ", LD.sizes(), " and ", pivots.sizes());
  FACULA_CHECK(pivots.dtype() == DType::Int32, ErrorKind::Runtime, "linalg.ldl_solve: pivots of dtype int32, got ",
               pivots.dtype());
  Dims batch = broadcast(LD.sizes().slice(0, LD.dim() - 2), B.sizes().slice(0, B.dim() - 2), "linalg.ldl_solve");
  Tensor x = column_major(expand_batch(B, batch));
  if (x.is_meta() || x.numel() == 0) return x;
  const int64_t n = LD.size(-1);
  check_pivots("linalg.ldl_solve", pivots, n, true);
  Dims exchanges(batch);
  exchanges.push_back(n);
  ldl_solve_kernel(x.device(), column_major(expand_batch(LD, batch)), as_contiguous(expand(pivots, exchanges, false)),
                   x, hermitian);
  return x;
}

std::tuple<Tensor, Tensor, Tensor, Tensor> linalg_lstsq(const Tensor& self, const Tensor& b,
                                                        std::optional<double> rcond,
                                                        std::optional<std::string_view> driver_given, const Out&,
                                                        const Out&, const Out&, const Out&) {
  check_matrix("linalg.lstsq", self);
  check_pair("linalg.lstsq", self, b);
  std::string_view driver = driver_given.value_or(self.device().type == DeviceType::CUDA ? "gels" : "gelsy");
  FACULA_CHECK(driver == "gels" || driver == "gelsy" || driver == "gelsd" || driver == "gelss", ErrorKind::Runtime,
               "linalg.lstsq: driver must be ", one_of({"gels", "gelsy", "gelsd", "gelss"}, driver));
  GradMode no_grad(false);
  bool vector = self.dim() - 1 == b.dim();
  Tensor right = vector ? unsqueeze(b, -1) : b;
  int64_t m = self.size(-2), n = self.size(-1), k = std::min(m, n);
  FACULA_CHECK(right.dim() >= 2 && right.size(-2) == m, ErrorKind::Runtime, "linalg.lstsq: the shapes do not fit, got ",
               self.sizes(), " and ", b.sizes());
  Dims batch =
      broadcast(self.sizes().slice(0, self.dim() - 2), right.sizes().slice(0, right.dim() - 2), "linalg.lstsq");
  Tensor a = column_major(expand_batch(self, batch)), x = empty_column_major(a, std::max(m, n), right.size(-1));
  DType real = real_dtype(self.dtype());
  Tensor nothing = facula::empty({0}, real, self.device());
  Tensor rank = driver == "gels" ? facula::empty({0}, DType::Int64, self.device())
                                 : facula::empty(batch, DType::Int64, self.device());
  Tensor s = driver == "gelsd" || driver == "gelss" ? facula::empty(vector_sizes(a, k), real, self.device()) : nothing,
         residuals = nothing;
  if (!self.is_meta()) {
    fill_zero(x);
    fill_zero(rank);
    fill_zero(s);
    copy_corner(x, expand_batch(right, batch));
    double epsilon = real == DType::Float32 ? 1.1920928955078125e-07 : 2.220446049250313e-16;
    if (k && right.size(-1)) {
      least_squares_kernel(self.device(), a, x, driver == "gels" ? Tensor() : rank, s.numel() ? s : Tensor(),
                           rcond.value_or(epsilon * static_cast<double>(std::max(m, n))), driver);
    }
    if (m > n && driver != "gelsy" && residuals_known(rank, n)) {
      Tensor sizes = abs(slice(x, -2, n, m, 1));
      residuals = sum(mul(sizes, sizes), std::optional<IntList>({-2}), false, std::nullopt);
    }
  }
  Tensor solution = alias(slice(x, -2, 0, n, 1));
  return {vector ? alias(squeeze(solution, -1)) : solution, residuals, rank, s};
}

}  // namespace facula::ops

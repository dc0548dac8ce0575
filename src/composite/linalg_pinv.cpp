// Pseudo-inverse, rank and matrix exponential: computed with ops, derivatives stated apart where the steps have none.
#include "autograd/formulas_linalg.h"
#include "functions.h"
#include "ops/linalg_support.h"
#include "raw_linalg.h"

namespace facula {
namespace {

double epsilon_of(DType dtype) {
  return real_dtype(dtype) == DType::Float32 ? 1.1920928955078125e-07 : 2.220446049250313e-16;
}

double default_rtol(const Tensor& a) {
  return epsilon_of(a.dtype()) * static_cast<double>(std::max(a.size(-1), a.size(-2)));
}

/// max(atol, rtol * largest) per matrix, with one more dimension. An absolute tolerance alone stands alone.
Tensor tolerance(const Tensor& a, const Tensor& largest, const Tensor& atol, const Tensor& rtol) {
  DType dtype = largest.dtype();
  Tensor absolute = atol.defined() ? to_dtype(atol, dtype) : Tensor(), relative;
  if (rtol.defined()) {
    relative = mul(to_dtype(rtol, dtype), largest);
  } else if (!atol.defined()) {
    relative = mul(largest, default_rtol(a));
  } else {
    Tensor standard = mul(largest, default_rtol(a));
    relative = where(gt(absolute, 0), 0.0, standard);
  }
  return unsqueeze(absolute.defined() ? maximum(absolute, relative) : relative, -1);
}

/// The largest of each row of values without dimensions of size zero.
Tensor largest_of(const Tensor& values, bool descending) {
  return descending ? select(values, -1, 0) : amax(abs(values), {-1}, false);
}

Tensor number(const Tensor& self, std::optional<double> value) {
  return value ? scalar_tensor(*value, DType::Float64, self.device()) : Tensor();
}

void check_tolerance(const char* op, const Tensor& t) {
  FACULA_CHECK(!t.defined() || !t.is_complex(), ErrorKind::Runtime, op, ": real tolerances, got ",
               t.defined() ? t.dtype() : DType::Float32);
}

}  // namespace

namespace ops {

Tensor _linalg_pinv(const Tensor& self, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  check_matrix("linalg.pinv", self);
  GradMode no_grad(false);
  if (self.numel() == 0) return facula::zeros(facula::transpose(self, -2, -1).sizes(), self.dtype(), self.device());
  if (hermitian) {
    auto [values, vectors] = facula::_linalg_eigh(self, "L", true);
    Tensor sizes = facula::abs(values);
    Tensor keep = facula::gt(sizes, tolerance(self, largest_of(values, false), atol, rtol));
    Tensor inverse = facula::where(keep, facula::reciprocal(values), 0.0);
    return facula::matmul(facula::mul(vectors, facula::unsqueeze(inverse, -2)), adjoint_of(vectors));
  }
  auto [u, s, vh] = facula::_linalg_svd(self, false, true);
  Tensor keep = facula::gt(s, tolerance(self, largest_of(s, true), atol, rtol));
  Tensor inverse = facula::where(keep, facula::reciprocal(s), 0.0);
  return facula::matmul(facula::mul(adjoint_of(vh), facula::unsqueeze(inverse, -2)), adjoint_of(u));
}

// Scaling and squaring with the [13/13] Pade approximant (Higham 2005).
Tensor linalg_matrix_exp(const Tensor& self) {
  GradMode no_grad(false);
  if (self.dtype() == DType::Float16 || self.dtype() == DType::BFloat16)  // the coefficients have no such floats
    return facula::to_dtype(ops::linalg_matrix_exp(facula::to_dtype(self, DType::Float32)), self.dtype());
  check_square("linalg.matrix_exp", self);
  if (self.numel() == 0 || self.is_meta()) return facula::empty(self.sizes(), self.dtype(), self.device());
  static const double c[] = {64764752532480000.0,
                             32382376266240000.0,
                             7771770303897600.0,
                             1187353796428800.0,
                             129060195264000.0,
                             10559470521600.0,
                             670442572800.0,
                             33522128640.0,
                             1323241920.0,
                             40840800.0,
                             960960.0,
                             16380.0,
                             182.0,
                             1.0};
  double norm =
      facula::amax(facula::sum(facula::abs(self), std::optional<IntList>({-2}), false, std::nullopt), {}, false)
          .item()
          .to_double();
  int squarings = std::isfinite(norm) && norm > 5.371920351148152
                      ? static_cast<int>(std::ceil(std::log2(norm / 5.371920351148152)))
                      : 0;
  Tensor a = squarings ? facula::mul(self, std::ldexp(1.0, -squarings)) : self, i = identity_like(self, self.size(-1));
  Tensor a2 = facula::matmul(a, a), a4 = facula::matmul(a2, a2), a6 = facula::matmul(a4, a2);
  auto weighted = [&](double w6, double w4, double w2) {
    return facula::add(facula::mul(a6, w6), facula::add(facula::mul(a4, w4), facula::mul(a2, w2)));
  };
  Tensor odd = facula::add(facula::matmul(a6, weighted(c[13], c[11], c[9])),
                           facula::add(weighted(c[7], c[5], c[3]), facula::mul(i, c[1])));
  Tensor u = facula::matmul(a, odd);
  Tensor v = facula::add(facula::matmul(a6, weighted(c[12], c[10], c[8])),
                         facula::add(weighted(c[6], c[4], c[2]), facula::mul(i, c[0])));
  Tensor result = facula::linalg_solve(facula::sub(v, u), facula::add(v, u), true);
  for (int k = 0; k < squarings; ++k) result = facula::matmul(result, result);
  return result;
}

}  // namespace ops

Tensor linalg_pinv(const Tensor& self, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  check_tolerance("linalg.pinv", atol);
  check_tolerance("linalg.pinv", rtol);
  return _linalg_pinv(self, atol, rtol, hermitian);
}

Tensor linalg_pinv(const Tensor& self, std::optional<double> atol, std::optional<double> rtol, bool hermitian) {
  return _linalg_pinv(self, number(self, atol), number(self, rtol), hermitian);
}

Tensor linalg_pinv(const Tensor& self, double rcond, bool hermitian) {
  return _linalg_pinv(self, number(self, 0.0), number(self, rcond), hermitian);
}

Tensor pinverse_uncast(const Tensor& self, double rcond) { return linalg_pinv(self, rcond, false); }

namespace {

Tensor rank_of(const Tensor& self, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  ops::check_matrix("linalg.matrix_rank", self);
  check_tolerance("linalg.matrix_rank", atol);
  check_tolerance("linalg.matrix_rank", rtol);
  GradMode no_grad(false);
  if (self.numel() == 0)
    return zeros(self.sizes().slice(0, static_cast<size_t>(self.dim()) - 2), DType::Int64, self.device());
  Tensor values = hermitian ? abs(linalg_eigvalsh(self, "L")) : linalg_svdvals(self, std::nullopt);
  Tensor above = gt(values, tolerance(self, largest_of(values, !hermitian), atol, rtol));
  return sum(above, std::optional<IntList>({-1}), false, std::nullopt);
}

}  // namespace

Tensor linalg_matrix_rank_uncast(const Tensor& self, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  return rank_of(self, atol, rtol, hermitian);
}

Tensor linalg_matrix_rank_uncast(const Tensor& self, std::optional<double> atol, std::optional<double> rtol,
                                 bool hermitian) {
  return rank_of(self, number(self, atol), number(self, rtol), hermitian);
}

Tensor linalg_matrix_rank_uncast(const Tensor& self, double tol, bool hermitian) {
  return rank_of(self, number(self, tol), number(self, 0.0), hermitian);
}

}  // namespace facula

// The formulas hold for complex matrices; H is the conjugate transpose. Where vectors are determined only up to a
// phase or sign, the parts of the gradient that depend on the choice cancel.
#include "autograd/formulas_linalg.h"

#include "core/mode.h"
#include "functions.h"

namespace facula {

Tensor adjoint_of(const Tensor& a) { return transpose(conj(a), -2, -1); }

Tensor triangle_of(const Tensor& a, bool upper, int64_t diagonal) {
  return upper ? triu(a, diagonal) : tril(a, diagonal);
}

Tensor diagonal_of(const Tensor& a) { return diagonal(a, 0, -2, -1); }

Tensor diagonal_matrix(const Tensor& values) { return diag_embed(values, 0, -2, -1); }

Tensor identity_like(const Tensor& like, int64_t n) { return eye(n, like.dtype(), like.device()); }

Tensor part_of(const Tensor& a, int64_t dim, int64_t from, int64_t to) { return slice(a, dim, from, to, 1); }

bool is_vector_system(IntList a, IntList b) {
  return b.size() == 1 || (a.size() == b.size() + 1 && b == a.slice(0, a.size() - 1));
}

// A = L L^H: dL = L Phi(L^-1 dA L^-H), where Phi keeps the lower triangle with half of the diagonal.
Tensor cholesky_backward(const Tensor& grad, const Tensor& factor, bool upper) {
  if (upper) return cholesky_backward(adjoint_of(grad), adjoint_of(factor), false);
  Tensor phi = triangle_of(matmul(adjoint_of(factor), grad), false, 0);
  Tensor middle = mul(add(phi, adjoint_of(triangle_of(phi, false, -1))), 0.5);
  Tensor right = linalg_solve_triangular(factor, middle, false, false, false);   // middle L^-1
  return linalg_solve_triangular(adjoint_of(factor), right, true, true, false);  // L^-H middle L^-1
}

// X = (L L^H)^-1 B, as a function of all of L; the upper factor is L^H.
std::tuple<Tensor, Tensor> cholesky_solve_backward(const Tensor& grad, const Tensor& result, const Tensor& factor,
                                                   bool upper, bool wants_b, bool wants_factor) {
  const Tensor by_b = cholesky_solve(grad, factor, upper);
  Tensor by_factor;
  if (wants_factor) {
    const Tensor half = matmul(by_b, adjoint_of(result)), both = neg(add(half, adjoint_of(half)));
    by_factor = upper ? matmul(factor, both) : matmul(both, factor);
  }
  return {wants_b ? by_b : Tensor(), by_factor};
}

Tensor cholesky_inverse_backward(const Tensor& grad, const Tensor& result, const Tensor& factor, bool upper) {
  Tensor both = neg(matmul(matmul(result, add(grad, adjoint_of(grad))), result));
  return upper ? matmul(factor, both) : matmul(both, factor);
}

Tensor inv_backward(const Tensor& grad, const Tensor& inverse) {
  Tensor h = adjoint_of(inverse);
  return neg(matmul(h, matmul(grad, h)));
}

namespace {

/// For A = L U square: L^-H (tril(L^H gL, -1) + triu(gU U^H)) U^-H.
Tensor lu_square(const Tensor& l_part, const Tensor& u_part, const Tensor& l, const Tensor& u) {
  Tensor phi = add(triangle_of(l_part, false, -1), triangle_of(u_part, true, 0));
  Tensor right = linalg_solve_triangular(adjoint_of(u), phi, false, false, false);
  return linalg_solve_triangular(adjoint_of(l), right, true, true, true);
}

}  // namespace

Tensor lu_factor_backward(const Tensor& grad, const Tensor& lu, const Tensor& pivots) {
  int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  Tensor l = add(triangle_of(part_of(lu, -1, 0, k), false, -1), eye(m, k, lu.dtype(), lu.device()));
  Tensor u = triangle_of(part_of(lu, -2, 0, k), true, 0);
  Tensor gl = triangle_of(part_of(grad, -1, 0, k), false, -1), gu = triangle_of(part_of(grad, -2, 0, k), true, 0);
  Tensor l1 = part_of(l, -2, 0, k), u1 = part_of(u, -1, 0, k);
  Tensor gl1 = part_of(gl, -2, 0, k), gu1 = part_of(gu, -1, 0, k);
  Tensor l_part = matmul(adjoint_of(l1), gl1), u_part = matmul(gu1, adjoint_of(u1)), result;
  if (m == n) {
    result = lu_square(l_part, u_part, l1, u1);
  } else if (m < n) {  // the columns on the right follow from L alone
    Tensor gu2 = part_of(gu, -1, k, n), u2 = part_of(u, -1, k, n);
    Tensor left = lu_square(sub(l_part, matmul(gu2, adjoint_of(u2))), u_part, l1, u1);
    result = cat({left, linalg_solve_triangular(adjoint_of(l1), gu2, true, true, true)}, -1);
  } else {  // the rows below follow from U alone
    Tensor gl2 = part_of(gl, -2, k, m), l2 = part_of(l, -2, k, m);
    Tensor top = lu_square(l_part, sub(u_part, matmul(adjoint_of(l2), gl2)), l1, u1);
    result = cat({top, linalg_solve_triangular(adjoint_of(u1), gl2, false, false, false)}, -2);
  }
  return matmul(_lu_permutation(pivots, m, lu.dtype()), result);
}

std::tuple<Tensor, Tensor> solve_backward(const Tensor& grad, const Tensor& a, IntList b_sizes, const Tensor& result,
                                          bool left, bool wants_a, bool wants_b) {
  const Tensor by_b = linalg_solve(adjoint_of(a), grad, left);
  Tensor by_a;
  if (wants_a && is_vector_system(a.sizes(), b_sizes)) {
    by_a = neg(mul(unsqueeze(by_b, -1), conj(unsqueeze(result, -2))));
  } else if (wants_a) {
    by_a = neg(left ? matmul(by_b, adjoint_of(result)) : matmul(adjoint_of(result), by_b));
  }
  return {by_a, wants_b ? by_b : Tensor()};
}

std::tuple<Tensor, Tensor> solve_triangular_backward(const Tensor& grad, const Tensor& a, const Tensor& result,
                                                     bool upper, bool left, bool unit, bool wants_a, bool wants_b) {
  const Tensor by_b = linalg_solve_triangular(adjoint_of(a), grad, !upper, left, unit);
  Tensor by_a;
  if (wants_a) {
    const Tensor product = neg(left ? matmul(by_b, adjoint_of(result)) : matmul(adjoint_of(result), by_b));
    by_a = triangle_of(product, upper, unit ? (upper ? 1 : -1) : 0);
  }
  return {by_a, wants_b ? by_b : Tensor()};
}

namespace {

/// For each singular value the product of the others.
Tensor products_of_others(const Tensor& s) {
  int64_t n = s.size(-1);
  Tensor tiled = expand(unsqueeze(s, -2), Dims([&] {
                          Dims d(s.sizes());
                          d.push_back(n);
                          return d;
                        }()));
  Tensor others = where(eye(n, DType::Bool, s.device()), 1.0, tiled);
  Tensor product = ones_like(s);
  for (int64_t i = 0; i < n; ++i) product = mul(product, select(others, -1, i));
  return product;
}

}  // namespace

// det(A) A^-H for regular matrices; through singular values, which need no inverse, where one is singular.
Tensor det_backward(const Tensor& grad, const Tensor& a, const Tensor& det) {
  if (a.numel() == 0) return zeros_like(a);
  Tensor scale = mul(grad, conj(det));
  bool singular = any(eq(det, 0)).item().to_bool();
  if (!singular) {
    // by the factors that the determinant is the product of: where they are far from those of A, both err alike
    Tensor right = mul(unsqueeze(unsqueeze(scale, -1), -1), identity_like(a, a.size(-1)));
    auto [lu, pivots, info] = linalg_lu_factor_ex(a, true, false);
    return linalg_lu_solve(lu, pivots, right, true, true);
  }
  auto [u, s, vh] = _linalg_svd(a, false, true);
  Tensor phase = mul(grad, conj(mul(linalg_det(u), linalg_det(vh))));
  Tensor middle = to_dtype(products_of_others(s), a.dtype());
  return matmul(mul(u, unsqueeze(mul(unsqueeze(phase, -1), middle), -2)), vh);
}

// d log det = trace(A^-1 dA), whose imaginary part turns the sign.
Tensor slogdet_backward(const Tensor& grad_sign, const Tensor& grad_log, const Tensor& a, const Tensor& sign) {
  Tensor g;
  if (grad_log.defined()) g = to_dtype(grad_log, a.dtype());
  if (grad_sign.defined() && a.is_complex()) {
    Tensor turn = mul(to_dtype(imag(mul(conj(grad_sign), sign)), a.dtype()), Scalar(std::complex<double>(0, -1)));
    g = g.defined() ? add(g, turn) : turn;
  }
  if (!g.defined() || a.numel() == 0) return Tensor();
  return linalg_solve(adjoint_of(a), mul(unsqueeze(unsqueeze(g, -1), -1), identity_like(a, a.size(-1))), true);
}

namespace {

/// X + X^H with the real part of the diagonal counted once, of the upper triangle of X.
Tensor hermitian_from_upper(const Tensor& x) {
  Tensor upper = triangle_of(x, true, 1);
  Tensor diagonal_part = diagonal_of(x);
  Tensor once = diagonal_matrix(x.is_complex() ? to_dtype(real(diagonal_part), x.dtype()) : diagonal_part);
  return add(add(upper, adjoint_of(upper)), once);
}

/// A = Q R with square R: (gQ + Q sym(gR R^H - Q^H gQ)) R^-H.
Tensor qr_tall(const Tensor& grad_q, const Tensor& grad_r, const Tensor& q, const Tensor& r) {
  Tensor m;
  if (grad_r.defined()) m = matmul(grad_r, adjoint_of(r));
  if (grad_q.defined()) {
    Tensor t = matmul(adjoint_of(q), grad_q);
    m = m.defined() ? sub(m, t) : neg(t);
  }
  Tensor inside = matmul(q, hermitian_from_upper(m));
  if (grad_q.defined()) inside = add(inside, grad_q);
  return linalg_solve_triangular(adjoint_of(r), inside, false, false, false);
}

}  // namespace

Tensor qr_backward(const Tensor& grad_q, const Tensor& grad_r, const Tensor& q, const Tensor& r,
                   std::string_view mode) {
  FACULA_CHECK(mode != "r", ErrorKind::Runtime, "linalg.qr: the derivative needs Q, use mode='reduced', got mode='r'");
  int64_t m = q.size(-2), n = r.size(-1);
  FACULA_CHECK(mode != "complete" || m <= n, ErrorKind::Runtime,
               "linalg.qr: with mode='complete' there is a derivative only for matrices with at least as many columns "
               "as rows, got ",
               m, " by ", n);
  if (!grad_q.defined() && !grad_r.defined()) return Tensor();
  if (m >= n) return qr_tall(grad_q, grad_r, q, r);
  // A = [X Y] = Q [R1 R2] with square Q: R2 = Q^H Y
  Tensor r1 = part_of(r, -1, 0, m), r2 = part_of(r, -1, m, n), gq = grad_q, g1, right;
  if (grad_r.defined()) {
    Tensor g2 = part_of(grad_r, -1, m, n);
    g1 = part_of(grad_r, -1, 0, m);
    Tensor through = matmul(matmul(q, r2), adjoint_of(g2));
    gq = gq.defined() ? add(gq, through) : through;
    right = matmul(q, g2);
  } else {
    right = zeros_like(matmul(q, r2));
  }
  return cat({qr_tall(gq, g1, q, r1), right}, -1);
}

namespace {

Tensor skew(const Tensor& x) { return sub(x, adjoint_of(x)); }

/// Differences of squares or values with ones on the diagonal, to divide by: E[i, j] = v[j] - v[i].
Tensor differences(const Tensor& v) {
  Tensor e = sub(unsqueeze(v, -2), unsqueeze(v, -1));
  return add(e, eye(v.size(-1), v.dtype(), v.device()));
}

}  // namespace

Tensor svd_backward(const Tensor& grad_u_given, const Tensor& grad_s, const Tensor& grad_vh_given, const Tensor& u_full,
                    const Tensor& s, const Tensor& vh_full, bool full, bool vectors, const Tensor& a) {
  bool values_only = !grad_u_given.defined() && !grad_vh_given.defined();
  // Derivatives of this one would go through vectors that have none: it is made with others.
  if (!vectors || (full && values_only && a.size(-2) != a.size(-1) && GradMode::enabled())) {
    auto [u, values, vh] = _linalg_svd(a, false, true);
    return svd_backward(Tensor(), grad_s, Tensor(), u, values, vh, false, true, a);
  }
  int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  if (a.numel() == 0) return zeros_like(a);
  FACULA_CHECK(!full || m == n || (!grad_u_given.defined() && !grad_vh_given.defined()), ErrorKind::Runtime,
               "linalg.svd: the vectors have a derivative only with full_matrices=False, got a matrix of ", m, " by ",
               n);
  Tensor u = part_of(u_full, -1, 0, k), vh = part_of(vh_full, -2, 0, k);
  const Tensor &gu = grad_u_given, &gvh = grad_vh_given;
  if (!gu.defined() && !gvh.defined()) {
    if (!grad_s.defined()) return Tensor();
    return m >= n ? matmul(u, mul(unsqueeze(grad_s, -1), vh)) : matmul(mul(u, unsqueeze(grad_s, -2)), vh);
  }
  Tensor e = differences(mul(s, s)), row = unsqueeze(s, -2), column = unsqueeze(s, -1), inside, left_skew;
  if (gu.defined()) {
    left_skew = skew(matmul(adjoint_of(u), gu));
    inside = mul(div(left_skew, e), row);
  }
  if (gvh.defined()) {
    Tensor right = mul(column, div(skew(matmul(vh, adjoint_of(gvh))), e));
    inside = inside.defined() ? add(inside, right) : right;
  }
  if (a.is_complex() && gu.defined()) inside = add(inside, diagonal_matrix(div(diagonal_of(left_skew), mul(s, 2.0))));
  if (grad_s.defined()) inside = add(inside, diagonal_matrix(grad_s));
  Tensor left = matmul(u, inside);
  if (m > k && gu.defined()) left = add(left, div(sub(gu, matmul(u, matmul(adjoint_of(u), gu))), row));
  Tensor result = matmul(left, vh);
  if (n > k && gvh.defined())
    result = add(result, matmul(u, div(sub(gvh, matmul(matmul(gvh, adjoint_of(vh)), vh)), column)));
  return result;
}

Tensor eigh_backward(const Tensor& grad_values, const Tensor& grad_vectors, const Tensor& values, const Tensor& vectors,
                     const Tensor& a, std::string_view triangle, bool has_vectors) {
  if (!has_vectors) {
    auto [w, v] = _linalg_eigh(a, triangle, true);
    return eigh_backward(grad_values, Tensor(), w, v, a, triangle, true);
  }
  Tensor h = adjoint_of(vectors);
  if (!grad_vectors.defined()) {
    return grad_values.defined() ? matmul(mul(vectors, unsqueeze(grad_values, -2)), h) : Tensor();
  }
  Tensor product = matmul(h, grad_vectors);
  int64_t n = values.size(-1);
  Tensor inside = where(eye(n, DType::Bool, values.device()), 0.0, div(product, differences(values)));
  if (grad_values.defined()) inside = add(inside, diagonal_matrix(grad_values));
  Tensor result = matmul(matmul(vectors, inside), h);
  return mul(add(result, adjoint_of(result)), 0.5);  // the matrix has no other direction to go
}

Tensor eig_backward(const Tensor& grad_values, const Tensor& grad_vectors, const Tensor& values,
                    const Tensor& vectors) {
  Tensor h = adjoint_of(vectors), inside;
  if (grad_vectors.defined()) {
    Tensor product = matmul(h, grad_vectors);
    Tensor lengths = to_dtype(real(diagonal_of(product)), product.dtype());
    Tensor corrected = sub(product, mul(matmul(h, vectors), unsqueeze(lengths, -2)));
    Tensor ratio = div(corrected, conj(differences(values)));
    inside = where(eye(values.size(-1), DType::Bool, values.device()), 0.0, ratio);
  }
  if (grad_values.defined()) {
    Tensor d = diagonal_matrix(grad_values);
    inside = inside.defined() ? add(inside, d) : d;
  }
  return inside.defined() ? linalg_solve(h, matmul(inside, h), true) : Tensor();
}

Tensor pinv_backward(const Tensor& grad, const Tensor& p, const Tensor& a) {
  Tensor ph = adjoint_of(p), gh = adjoint_of(grad);
  Tensor result = neg(matmul(ph, matmul(grad, ph)));
  Tensor row_side = matmul(matmul(gh, p), ph);     // gH P P^H
  Tensor column_side = matmul(ph, matmul(p, gh));  // P^H P gH
  result = add(result, sub(row_side, matmul(a, matmul(p, row_side))));
  return add(result, sub(column_side, matmul(matmul(column_side, p), a)));
}

namespace {
Tensor as_matrix(const Tensor& t, bool vector) { return vector ? unsqueeze(t, -1) : t; }
}  // namespace

namespace {
Tensor sum_of_defined(const Tensor& a, const Tensor& b) { return !a.defined() ? b : b.defined() ? add(a, b) : a; }

/// What the squared lengths of the columns of A X - B say about A X - B; X makes them least, so nothing comes by X.
Tensor residuals_backward(const Tensor& grad, const Tensor& a, const Tensor& b, const Tensor& x) {
  return mul(mul(sub(matmul(a, x), b), unsqueeze(grad, -2)), 2);
}
}  // namespace

// X = A^+ B
std::tuple<Tensor, Tensor> lstsq_backward(const Tensor& grad, const Tensor& residuals, const Tensor& a,
                                          const Tensor& given, const Tensor& solution, bool wants_a, bool wants_b) {
  const bool vector = a.dim() - 1 == given.dim();
  const Tensor b = as_matrix(given, vector);
  Tensor a_by_x, b_by_x, a_by_residuals, b_by_residuals;
  if (grad.defined()) {
    const Tensor p = _linalg_pinv(a, Tensor(), Tensor(), false), g = as_matrix(grad, vector);
    if (wants_a) a_by_x = pinv_backward(matmul(g, adjoint_of(b)), p, a);
    if (wants_b) b_by_x = matmul(adjoint_of(p), g);
  }
  if (residuals.defined() && residuals.numel()) {
    const Tensor x = as_matrix(solution, vector), each = residuals_backward(residuals, a, b, x);
    if (wants_a) a_by_residuals = matmul(each, adjoint_of(x));
    if (wants_b) b_by_residuals = neg(each);
  }
  const Tensor of_b = sum_of_defined(b_by_x, b_by_residuals);
  return {sum_of_defined(a_by_x, a_by_residuals), vector && of_b.defined() ? squeeze(of_b, -1) : of_b};
}

// The upper right block of exp [[A^H, G], [0, A^H]] is the derivative's adjoint applied to G.
Tensor matrix_exp_backward(const Tensor& grad, const Tensor& a) {
  int64_t n = a.size(-1);
  Tensor h = adjoint_of(a);
  Tensor block = cat({cat({h, grad}, -1), cat({zeros_like(h), h}, -1)}, -2);
  return part_of(part_of(linalg_matrix_exp(block), -2, 0, n), -1, n, 2 * n);
}

}  // namespace facula

// Solving, inverting and factorizing, written with the factorizations.
#include "autograd/formulas_linalg.h"
#include "autograd/function_support.h"
#include "composite/sparse_solve.h"
#include "core/sparse.h"
#include "functions.h"
#include "ops/linalg_support.h"

namespace facula {

// Cholesky

Tensor linalg_cholesky_uncast(const Tensor& self, bool upper) {
  return std::get<0>(linalg_cholesky_ex(self, upper, true));
}

Tensor cholesky_uncast(const Tensor& self, bool upper) {
  FACULA_CHECK(self.dim() >= 2 && self.size(-1) == self.size(-2), ErrorKind::Runtime,
               "cholesky: A must be batches of square matrices, got shape ", self.sizes());
  return linalg_cholesky(self, upper);
}

// LU

Tensor linalg_inv_uncast(const Tensor& A) { return std::get<0>(linalg_inv_ex(A, true)); }

std::tuple<Tensor, Tensor> linalg_lu_factor(const Tensor& A, bool pivot) {
  auto [lu, pivots, info] = linalg_lu_factor_ex(A, pivot, false);
  if (!A.is_meta() && info.numel()) {
    int64_t zero = max(all_examples(info)).item().to_int();
    FACULA_CHECK(zero == 0, ErrorKind::Runtime,
                 "linalg.lu_factor: the factor U is singular (lu_factor_ex and linalg.lu do not mind), got a zero at ",
                 zero, " of its diagonal");
  }
  return {lu, pivots};
}

namespace {

bool wants_gradient(std::initializer_list<const Tensor*> tensors) {
  bool any_wants = false;
  for (const Tensor* t : tensors) any_wants |= recorded_flags_of(all_examples(*t)) != 0;
  return any_wants;
}

struct Triangles {
  Tensor lower, upper;
};

Triangles triangles(const Tensor& lu) {
  int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  return {add(tril(part_of(lu, -1, 0, k), -1), eye(m, k, lu.dtype(), lu.device())), triu(part_of(lu, -2, 0, k), 0)};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> linalg_lu(const Tensor& A, bool pivot) {
  auto [lu, pivots, info] = linalg_lu_factor_ex(A, pivot, false);
  auto [lower, upper] = triangles(lu);
  return {_lu_permutation(pivots, A.size(-2), A.dtype()), lower, upper};
}

std::tuple<Tensor, Tensor, Tensor> lu_unpack(const Tensor& LU_data, const Tensor& LU_pivots, bool unpack_data,
                                             bool unpack_pivots) {
  ops::check_matrix("lu_unpack", LU_data);
  FACULA_CHECK(LU_pivots.dtype() == DType::Int32, ErrorKind::Runtime,
               "lu_unpack: pivots of dtype int32, as lu_factor gives them, got ", LU_pivots.dtype());
  Tensor none = empty({0}, LU_data.dtype(), LU_data.device());
  Tensor p = unpack_pivots ? _lu_permutation(LU_pivots, LU_data.size(-2), LU_data.dtype()) : none;
  if (!unpack_data) return {p, none, none};
  auto [lower, upper] = triangles(LU_data);
  return {p, lower, upper};
}

Tensor linalg_lu_solve_uncast(const Tensor& LU, const Tensor& pivots, const Tensor& B, bool left, bool adjoint) {
  ops::check_square("linalg.lu_solve", LU);
  ops::check_pair("linalg.lu_solve", LU, B);
  FACULA_CHECK(pivots.dtype() == DType::Int32, ErrorKind::Runtime,
               "linalg.lu_solve: pivots of dtype int32, as lu_factor gives them, got ", pivots.dtype());
  FACULA_CHECK(pivots.sizes() == LU.sizes().slice(0, LU.dim() - 1), ErrorKind::Runtime,
               "linalg.lu_solve: expected one pivot per row, got shapes ", LU.sizes(), " and ", pivots.sizes());
  FACULA_CHECK(B.dim() >= 2 && B.size(left ? -2 : -1) == LU.size(-1), ErrorKind::Runtime,
               "linalg.lu_solve: the shapes do not fit, got ", LU.sizes(), " and ", B.sizes());
  if (!left) return adjoint_of(linalg_lu_solve(LU, pivots, adjoint_of(B), true, !adjoint));
  if (LU.is_cpu() && !wants_gradient({&LU, &B})) return _lu_solve(LU, pivots, B, adjoint);
  Tensor p = _lu_permutation(pivots, LU.size(-1), LU.dtype());
  if (!adjoint) {
    Tensor y = linalg_solve_triangular(LU, matmul(transpose(p, -2, -1), B), false, true, true);
    return linalg_solve_triangular(LU, y, true, true, false);
  }
  Tensor h = adjoint_of(LU), y = linalg_solve_triangular(h, B, false, true, false);
  return matmul(p, linalg_solve_triangular(h, y, true, true, true));
}

Tensor lu_solve_uncast(const Tensor& self, const Tensor& LU_data, const Tensor& LU_pivots) {
  return linalg_lu_solve(LU_data, LU_pivots, self, true, false);
}

Tensor linalg_solve_uncast(const Tensor& A, const Tensor& B, bool left) {
  return std::get<0>(linalg_solve_ex(A, B, left, true));
}

std::tuple<Tensor, Tensor> triangular_solve_uncast(const Tensor& self, const Tensor& A, bool upper, bool transposed,
                                                   bool unitriangular) {
  ops::check_square("triangular_solve", A);
  ops::check_pair("triangular_solve", A, self);
  FACULA_CHECK(self.dim() >= 2, ErrorKind::Runtime, "triangular_solve: a batch of matrices as right side, got shape ",
               self.sizes());
  if (is_sparse(A) || is_sparse(self))
    return {solve_sparse_triangular(A, self, upper, transposed, unitriangular), empty({0}, A.dtype(), A.device())};
  Tensor matrix = transposed ? transpose(A, -2, -1) : A;
  Tensor x = linalg_solve_triangular(matrix, self, upper != transposed, true, unitriangular);
  Dims sizes(x.sizes());
  sizes[sizes.size() - 2] = sizes[sizes.size() - 1] = A.size(-1);
  return {x, clone(expand(A, sizes), MemoryFormat::Contiguous)};
}

Tensor logdet(const Tensor& self) {
  ops::check_square("logdet", self);
  auto [sign, logarithm] = linalg_slogdet(self);
  if (self.is_complex()) return add(log(sign), logarithm);
  return where(eq(sign, -1), NAN, logarithm);
}

std::tuple<Tensor, Tensor> linalg_ldl_factor(const Tensor& self, bool hermitian) {
  auto [ld, pivots, info] = linalg_ldl_factor_ex(self, hermitian, true);
  return {ld, pivots};
}

// QR

std::tuple<Tensor, Tensor> linalg_qr_uncast(const Tensor& A, std::string_view mode) { return _linalg_qr(A, mode); }

std::tuple<Tensor, Tensor> qr_uncast(const Tensor& self, bool some) {
  return _linalg_qr(self, some ? "reduced" : "complete");
}

namespace {

/// H c for one reflector H = I - tau v v^H, or its adjoint.
Tensor reflected(const Tensor& c, const Tensor& v, const Tensor& tau, bool adjoint) {
  Tensor factor = unsqueeze(unsqueeze(adjoint ? conj(tau) : tau, -1), -1);
  return sub(c, mul(factor, matmul(v, matmul(adjoint_of(v), c))));
}

/// The product of all reflectors (or its adjoint) times c, step by step: it has derivatives, unlike LAPACK's.
Tensor apply_reflectors(const Tensor& a, const Tensor& tau, Tensor c, bool adjoint) {
  int64_t m = a.size(-2), count = tau.size(-1);
  Tensor v = add(tril(a, -1), eye(m, a.size(-1), a.dtype(), a.device()));
  for (int64_t step = 0; step < count; ++step) {
    int64_t i = adjoint ? step : count - 1 - step;
    c = reflected(c, part_of(v, -1, i, i + 1), select(tau, -1, i), adjoint);
  }
  return c;
}

}  // namespace

Tensor linalg_householder_product_uncast(const Tensor& self, const Tensor& tau) {
  if (!wants_gradient({&self, &tau})) return _householder(self, tau);
  ops::check_matrix("linalg.householder_product", self);
  ops::check_reflectors("linalg.householder_product", self, tau);
  Tensor start = eye(self.size(-2), self.size(-1), self.dtype(), self.device());
  return apply_reflectors(self, tau, add(start, _zero_like(self)), false);
}

Tensor ormqr_uncast(const Tensor& self, const Tensor& tau, const Tensor& other, bool left, bool transpose) {
  if (!wants_gradient({&self, &tau, &other})) return _ormqr(self, tau, other, left, transpose);
  ops::check_reflected("ormqr", self, tau, other, left);
  if (left) return apply_reflectors(self, tau, other, transpose);
  return adjoint_of(apply_reflectors(self, tau, adjoint_of(other), !transpose));
}

// Spectra

std::tuple<Tensor, Tensor, Tensor> linalg_svd_uncast(const Tensor& A, bool full_matrices,
                                                     std::optional<std::string_view> driver) {
  FACULA_CHECK(!driver, ErrorKind::Runtime, "linalg.svd: a driver can be chosen only on CUDA devices, got '",
               driver.value_or(""), "'");
  return _linalg_svd(A, full_matrices, true);
}

Tensor linalg_svdvals_uncast(const Tensor& A, std::optional<std::string_view> driver) {
  FACULA_CHECK(!driver, ErrorKind::Runtime, "linalg.svdvals: a driver can be chosen only on CUDA devices, got '",
               driver.value_or(""), "'");
  return std::get<1>(_linalg_svd(A, false, wants_gradient({&A})));  // which is made of the vectors
}

std::tuple<Tensor, Tensor, Tensor> svd_uncast(const Tensor& self, bool some, bool compute_uv) {
  ops::check_matrix("svd", self);
  int64_t m = self.size(-2), n = self.size(-1);
  if (compute_uv) {
    auto [u, s, vh] = _linalg_svd(self, !some, true);
    return {u, s, adjoint_of(vh)};
  }
  Dims batch(self.sizes().slice(0, self.dim() - 2));
  auto square = [&](int64_t k) {
    Dims sizes(batch);
    sizes.push_back(k);
    sizes.push_back(k);
    return zeros(sizes, self.dtype(), self.device());
  };
  return {square(m), std::get<1>(_linalg_svd(self, false, false)), square(n)};
}

std::tuple<Tensor, Tensor> linalg_eigh_uncast(const Tensor& A, std::string_view UPLO) {
  return _linalg_eigh(A, UPLO, true);
}

Tensor linalg_eigvalsh_uncast(const Tensor& A, std::string_view UPLO) {
  return std::get<0>(_linalg_eigh(A, UPLO, wants_gradient({&A})));  // which is made of the vectors
}

Tensor linalg_eigvals_uncast(const Tensor& self) {
  return wants_gradient({&self}) ? std::get<0>(linalg_eig(self)) : _linalg_eigvals(self);
}

// Tensors as matrices

Tensor linalg_matrix_power(const Tensor& self, int64_t n) {
  FACULA_CHECK(self.dim() >= 2 && self.size(-1) == self.size(-2), ErrorKind::Runtime,
               "linalg.matrix_power: A must be batches of square matrices, got shape ", self.sizes());
  if (n == 0) return add(identity_like(self, self.size(-1)), _zero_like(self));
  Tensor base = n < 0 ? linalg_inv(self) : self, result;
  for (uint64_t left = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n); left; left >>= 1) {
    if (left & 1) result = result.defined() ? matmul(result, base) : base;
    if (left > 1) base = matmul(base, base);
  }
  return n == 1 ? clone(result) : result;
}

Tensor linalg_tensorinv_uncast(const Tensor& self, int64_t ind) {
  FACULA_CHECK(ind > 0, ErrorKind::Runtime, "linalg.tensorinv: ind is greater than zero, got ", ind);
  size_t split = std::min(static_cast<size_t>(ind), self.sizes().size());
  IntList before = self.sizes().slice(0, split), after = self.sizes().slice(split, self.sizes().size() - split);
  int64_t rows = count_elements(before, "linalg.tensorinv"), columns = count_elements(after, "linalg.tensorinv");
  FACULA_CHECK(rows == columns, ErrorKind::Runtime, "linalg.tensorinv: expected as many elements before dimension ",
               ind, " as after, got shape ", self.sizes());
  Dims shape(after);
  for (int64_t s : before) shape.push_back(s);
  return reshape(std::get<0>(linalg_inv_ex(reshape(self, {rows, columns}), true)), shape);
}

Tensor linalg_tensorsolve_uncast(const Tensor& self, const Tensor& other, std::optional<IntList> dims) {
  Tensor a = self;
  if (dims) {
    Dims order;
    std::vector<bool> moved(static_cast<size_t>(std::max<int64_t>(self.dim(), 1)));
    for (int64_t d : *dims) moved[static_cast<size_t>(wrap_dim(d, self.dim(), "linalg.tensorsolve"))] = true;
    for (int64_t d = 0; d < self.dim(); ++d)
      if (!moved[static_cast<size_t>(d)]) order.push_back(d);
    for (int64_t d : *dims) order.push_back(wrap_dim(d, self.dim(), "linalg.tensorsolve"));
    a = permute(self, order);
  }
  FACULA_CHECK(a.dim() >= other.dim(), ErrorKind::Runtime,
               "linalg.tensorsolve: self has at least the dimensions of other, got shapes ", self.sizes(), " and ",
               other.sizes());
  size_t split = static_cast<size_t>(other.dim());
  Dims shape(a.sizes().slice(split, a.sizes().size() - split));
  int64_t columns = count_elements(shape, "linalg.tensorsolve");
  FACULA_CHECK(columns == other.numel(), ErrorKind::Runtime,
               "linalg.tensorsolve: expected a square system, got shapes ", a.sizes(), " and ", other.sizes());
  return reshape(linalg_solve(reshape(a, {columns, columns}), reshape(other, {columns}), true), shape);
}

Tensor linalg_vander(const Tensor& x, std::optional<int64_t> N) {
  if (x.dim() == 0) return linalg_vander(unsqueeze(x, 0), N);
  FACULA_CHECK(x.dtype() != DType::Bool && !is_half(x.dtype()), ErrorKind::Runtime,
               "linalg.vander: expected an integer, float32, float64 or complex tensor, got ", x.dtype());
  int64_t n = N.value_or(x.size(-1));
  FACULA_CHECK(n > 1, ErrorKind::Runtime, "linalg.vander: N is greater than 1, got ", n);
  Tensor value = x.dtype() == DType::Bool ? to_dtype(x, DType::Int64)
                 : is_bits(x.dtype())     ? to_dtype(x, DType::Int64)
                                          : x;
  Dims shape(value.sizes());
  shape.push_back(n - 1);
  const Tensor column = unsqueeze(value, -1);
  return cat(std::vector<Tensor>{ones_like(column), cumprod(expand(column, shape), -1, std::optional<DType>())}, -1);
}

}  // namespace facula

// Factorizations that solve systems: Cholesky, LU, QR, triangular systems, least squares; by cuSOLVER where it is there
// and the policy of solver.cpp gives them to it, else by our own kernels. Panels of columns are
// factorized by a block for each matrix; what a panel does to the columns behind it is a product, or many warps' work.
#include "core/kernel.h"
#include "cuda/linalg.h"
#include "cuda/solver.h"
#include "ops/linalg.h"
#include "ops/matmul.h"

namespace facula::cuda {
namespace {

/// Matrices up to this side are one panel.
constexpr int64_t kOnePanel = 64, kPanel = 32;

int64_t panel_of(int64_t side) { return side <= kOnePanel ? std::max<int64_t>(side, 1) : kPanel; }
long long wide(int64_t n) { return n; }

/// c = c - a b.
void subtract_product(const Tensor& c, const Tensor& a, const Tensor& b) {
  if (c.numel() == 0) return;
  if (c.stride(2) != 1) return subtract_product(flipped(c), flipped(b), flipped(a));
  MatrixProduct p;
  p.dtype = c.dtype();
  p.batch = c.size(0), p.rows = c.size(1), p.columns = c.size(2), p.inner = a.size(2);
  p.a = {a.data<char>(), a.stride(0), a.stride(1), a.stride(2)};
  p.b = {b.data<char>(), b.stride(0), b.stride(1), b.stride(2)};
  p.out = c.data<char>();
  p.out_batch = c.stride(0), p.out_row = c.stride(1);
  p.alpha = -1, p.beta = 1;
  matrix_product_kernel(c.device(), p);
}

// ---- triangular systems

struct Triangle {
  bool upper, unit;
};

/// b = a^-1 b; a lies column after column, b has any strides.
void solve_triangle(const Tensor& a, const Tensor& b, Triangle kind) {
  static const DeviceKernel kernel{"linalg_solve.cuh", "solve_triangle"};
  if (b.numel() == 0) return;
  kernel(device_of(b), {b.dtype(), !kind.upper, kind.unit}, grid_by_warp(b, b.size(0) * b.size(2)), matrices(a),
         matrices(b), wide(b.size(0)), wide(b.size(1)), wide(b.size(2)));
}

/// b = op(a)^-1 b, op one of N, T, C.
void solve_triangle(const Tensor& a, const Tensor& b, Triangle kind, char op) {
  if (op == 'N') return solve_triangle(a, b, kind);
  solve_triangle(copy_of(flipped(a), op == 'C'), b, {!kind.upper, kind.unit});
}

void triangular_cuda(const Tensor& a, const Tensor& b, bool upper, bool left, bool unit) {
  const Tensor x = batch_of(b), m = batch_of(a);
  if (left) solve_triangle(m, x, {upper, unit});
  else solve_triangle(m, flipped(x), {upper, unit}, 'T');
}

// ---- Cholesky

void cholesky_cuda(const Tensor& given, const Tensor& info, bool upper) {
  static const DeviceKernel panels{"linalg_factor.cuh", "cholesky_panel"};
  if (given.numel() == 0 || solver::cholesky(batch_of(given), info, upper)) return;
  // the upper factor is the transposed lower one of the conjugated matrix, which is what the other way of reading gives
  const Tensor a = upper ? flipped(batch_of(given)) : batch_of(given);
  const int64_t n = a.size(1), width = panel_of(n);
  for (int64_t from = 0; from < n; from += width) {
    const int64_t to = std::min(from + width, n);
    panels(device_of(a), {a.dtype()}, grid_by_matrix(a, n - from), matrices(a), wide(a.size(0)), wide(n),
           Panel{from, to, to}, info.data<int>());
    if (to == n) break;
    const Tensor below = part_of(a, to, n, from, to);
    subtract_product(part_of(a, to, n, to, n), below, flipped(a.is_complex() ? copy_of(below, true) : below));
  }
}

void cholesky_solve_cuda(const Tensor& factor, const Tensor& b, bool upper) {
  const Tensor a = batch_of(factor), x = batch_of(b);
  if (solver::cholesky_solve(a, x, upper)) return;
  solve_triangle(a, x, {upper, false}, upper ? 'C' : 'N');
  solve_triangle(a, x, {upper, false}, upper ? 'N' : 'C');
}

// ---- LU

void exchange_rows(const Tensor& x, const Tensor& pivots, int64_t from, int64_t until, bool backward) {
  static const DeviceKernel kernel{"linalg_factor.cuh", "exchange_rows"};
  if (x.numel() == 0) return;
  kernel(device_of(x), {x.dtype()}, grid_for(device_of(x), x.size(0) * x.size(2)), matrices(x), wide(x.size(0)),
         wide(x.size(2)), static_cast<const int*>(pivots.data<int>()), wide(pivots.size(-1)), wide(from), wide(until),
         backward);
}

void lu_cuda(const Tensor& given, const Tensor& pivots, const Tensor& info) {
  static const DeviceKernel panels{"linalg_factor.cuh", "lu_panel"};
  if (given.numel() == 0) return;
  const Tensor a = batch_of(given);
  if (solver::lu(a, pivots, info)) return;
  const int64_t m = a.size(1), n = a.size(2), k = std::min(m, n), width = panel_of(k);
  const bool one = width == k;
  for (int64_t from = 0; from < k; from += width) {
    const int64_t to = std::min(from + width, k), behind = one ? n : to;
    panels(device_of(a), {a.dtype()}, grid_by_matrix(a, m - from), matrices(a), wide(a.size(0)), wide(m),
           Panel{from, to, behind}, pivots.data<int>(), wide(k), info.data<int>());
    if (one) return;
    exchange_rows(part_of(a, 0, m, 0, from), pivots, from, to, false);
    exchange_rows(part_of(a, 0, m, to, n), pivots, from, to, false);
    const Tensor beside = part_of(a, from, to, to, n);
    solve_triangle(part_of(a, from, to, from, to), beside, {false, true});
    subtract_product(part_of(a, to, m, to, n), part_of(a, to, m, from, to), beside);
  }
}

void lu_solve_cuda(const Tensor& lu, const Tensor& pivots, const Tensor& b, char op) {
  const Tensor a = batch_of(lu), x = batch_of(b);
  if (solver::lu_solve(a, pivots, x, op)) return;
  const int64_t n = a.size(1);
  if (op == 'N') {
    exchange_rows(x, pivots, 0, n, false);
    solve_triangle(a, x, {false, true});
    solve_triangle(a, x, {true, false});
  } else {
    solve_triangle(a, x, {true, false}, op);
    solve_triangle(a, x, {false, true}, op);
    exchange_rows(x, pivots, 0, n, true);
  }
}

void inverse_cuda(const Tensor& lu, const Tensor& pivots, const Tensor& info) {
  static const DeviceKernel spoil{"linalg_solve.cuh", "spoil_singular"};
  if (lu.numel() == 0) return;
  const Tensor a = batch_of(lu), x = new_matrices(a, a.size(1), a.size(2));
  set_identity(x);
  lu_solve_cuda(lu, pivots, x, 'N');
  copy_elements(a, x);
  if (a.is_complex())
    spoil(device_of(a), {a.dtype()}, grid_for(device_of(a), a.numel()), static_cast<void*>(a.data()), wide(a.size(0)),
          wide(a.size(1) * a.size(2)), static_cast<const int*>(info.data<int>()));
}

// ---- QR

void run_reflectors(const Tensor& a, const Tensor& tau, const Tensor& x, Panel panel, Reflection how) {
  static const DeviceKernel kernel{"linalg_factor.cuh", "reflect_columns"};
  if (x.numel() == 0) return;
  kernel(device_of(x), {x.dtype()}, grid_by_warp(x, x.size(0) * x.size(2)), matrices(a),
         static_cast<const void*>(tau.data()), wide(tau.size(-1)), matrices(x), wide(x.size(0)), wide(x.size(1)),
         wide(x.size(2)), panel, how);
}

}  // namespace

void factorize_qr(const Tensor& a, const Tensor& tau) {
  static const DeviceKernel panels{"linalg_factor.cuh", "qr_panel"};
  if (solver::qr(a, tau)) return;
  const int64_t m = a.size(1), n = a.size(2), k = std::min(m, n), width = panel_of(k);
  for (int64_t from = 0; from < k; from += width) {
    const int64_t to = std::min(from + width, k), behind = width == k ? n : to;
    panels(device_of(a), {a.dtype()}, grid_by_matrix(a, m - from), matrices(a), wide(a.size(0)), wide(m),
           Panel{from, to, behind}, static_cast<void*>(tau.data()), wide(k));
    run_reflectors(a, tau, part_of(a, 0, m, behind, n), {from, to, to}, {false, true, false, false});
  }
}

void apply_reflectors(const Tensor& a, const Tensor& tau, const Tensor& x, bool adjoint, bool of_identity) {
  if (!of_identity && solver::reflect(a, tau, x, true, adjoint)) return;
  const int64_t k = tau.size(-1);
  run_reflectors(a, tau, x, {0, k, k}, {!adjoint, adjoint, false, of_identity});
}

void apply_reflectors_right(const Tensor& a, const Tensor& tau, const Tensor& x, bool adjoint) {
  if (solver::reflect(a, tau, x, false, adjoint)) return;
  const int64_t k = tau.size(-1);
  run_reflectors(a, tau, flipped(x), {0, k, k}, {adjoint, adjoint, true, false});
}

void solve_full_rank(const Tensor& a, const Tensor& b) {
  const bool is_wide = a.size(1) < a.size(2);
  const Tensor factors = is_wide ? copy_of(flipped(a), true) : a;
  const int64_t m = factors.size(1), k = factors.size(2);
  const Tensor tau = facula::empty({a.size(0), k}, a.dtype(), a.device());
  factorize_qr(factors, tau);
  const Tensor r = part_of(factors, 0, k, 0, k), x = part_of(b, 0, k, 0, b.size(2));
  if (is_wide) {  // A is R^H Q^H: x = Q (R^-H b, 0)
    solve_triangle(r, x, {true, false}, 'C');
    fill_kernel(b.device(), part_of(b, k, m, 0, b.size(2)), Scalar(0));
    apply_reflectors(factors, tau, b, false, false);
  } else {
    apply_reflectors(factors, tau, b, true, false);
    solve_triangle(r, x, {true, false});
  }
}

namespace {

void qr_cuda(const Tensor& a, const Tensor& tau) { factorize_qr(batch_of(a), tau); }

void reflectors_cuda(const Tensor& given, const Tensor& tau) {
  const Tensor a = batch_of(given);
  if (solver::reflectors(a, tau)) return;
  const Tensor q = new_matrices(a, a.size(1), a.size(2));
  set_identity(q);
  apply_reflectors(a, tau, q, false, true);
  copy_elements(a, q);
}

void reflect_cuda(const Tensor& a, const Tensor& tau, const Tensor& c, bool left, bool transpose) {
  if (left) apply_reflectors(batch_of(a), tau, batch_of(c), transpose, false);
  else apply_reflectors_right(batch_of(a), tau, batch_of(c), transpose);
}

}  // namespace

void register_linalg_factor() {
  constexpr auto cuda = DeviceType::CUDA;
  cholesky_kernel.set(cuda, cholesky_cuda);
  cholesky_solve_kernel.set(cuda, cholesky_solve_cuda);
  lu_kernel.set(cuda, lu_cuda);
  lu_solve_kernel.set(cuda, lu_solve_cuda);
  inverse_kernel.set(cuda, inverse_cuda);
  triangular_kernel.set(cuda, triangular_cuda);
  qr_kernel.set(cuda, qr_cuda);
  reflectors_kernel.set(cuda, reflectors_cuda);
  reflect_kernel.set(cuda, reflect_cuda);
}

}  // namespace facula::cuda

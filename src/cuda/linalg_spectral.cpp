// Eigenvalues of Hermitian matrices and singular values: by cuSOLVER where the policy of solver.cpp says so, else by
// Jacobi's methods.
#include "core/kernel.h"
#include "cuda/linalg.h"
#include "cuda/solver.h"
#include "ops/contiguous.h"
#include "ops/linalg.h"

namespace facula::cuda {
namespace {

constexpr int kMostSweeps = 40;
/// Larger matrices are worked on by the whole device.
constexpr int64_t kOneBlock = 64;

/// The memory of sweeps over n x n matrices.
struct SweepRoom {
  Tensor matrix, vectors, rotations, limits, exponents, turned;
  Sweeps sweeps{};

  SweepRoom(const Tensor& like, int64_t n, const Tensor& info, bool wants_vectors) {
    const int64_t count = like.size(0);
    const DType real = real_dtype(like.dtype());
    const auto room = [&](Dims sizes, DType dtype) { return facula::empty(sizes, dtype, like.device()); };
    matrix = new_matrices(like, n, n);
    if (wants_vectors) vectors = new_matrices(like, n, n);
    rotations = room({count, (n + 1) / 2, 4}, real);
    limits = room({count}, real);
    exponents = room({count}, DType::Int32);
    turned = room({count}, DType::Int32);
    sweeps = {count,
              n,
              matrix.data(),
              wants_vectors ? vectors.data() : nullptr,
              rotations.data(),
              limits.data(),
              exponents.data<int>(),
              turned.data<int>(),
              info.data<int>()};
  }
  int device() const { return matrix.device().index; }
};

bool any(const Tensor& flags) {
  const Tensor host = ops::on_host(flags);
  return std::any_of(host.data<int>(), host.data<int>() + host.numel(), [](int flag) { return flag != 0; });
}

/// Sweeps of rounds of the whole device, until one finds nothing to do.
template <class Round>
void sweep(const SweepRoom& room, const Tensor& info, Round round) {
  const int64_t n = room.sweeps.n;
  for (int s = 0; s < kMostSweeps; ++s) {
    fill_kernel(room.turned.device(), room.turned, Scalar(0));
    for (int64_t r = 0; r < 2 * ((n + 1) / 2) - 1; ++r) round(r);
    if (!any(room.turned)) return;
  }
  fill_kernel(info.device(), info, Scalar(n));
}

void eigh_cuda(const Tensor& given, const Tensor& w, const Tensor& info, bool upper, bool vectors) {
  static const DeviceKernel begin{"linalg_jacobi.cuh", "begin_hermitian"}, all{"linalg_jacobi.cuh", "hermitian_sweeps"},
      rotations{"linalg_jacobi.cuh", "hermitian_rotations"}, turns{"linalg_jacobi.cuh", "hermitian_round"},
      end{"linalg_jacobi.cuh", "end_hermitian"};
  const Tensor a = batch_of(given);
  if (solver::eigh(a, w, info, upper, vectors)) return;
  const int64_t n = a.size(1), pairs = (n + 1) / 2;
  const SweepRoom room(a, n, info, vectors);
  const Sweeps& s = room.sweeps;
  const int device = room.device();
  const Grid blocks = grid_by_matrix(a, n * n / 4);
  begin(device, {a.dtype()}, blocks, static_cast<const void*>(a.data()), s, upper);
  if (n <= kOneBlock) {
    all(device, {a.dtype()}, blocks, s, kMostSweeps);
  } else {
    sweep(room, info, [&](long long round) {
      rotations(device, {a.dtype()}, grid_for(device, s.count * pairs), s, round);
      turns(device, {a.dtype()}, grid_for(device, s.count * pairs * (pairs + (vectors ? n : 0))), s, round);
    });
  }
  end(device, {a.dtype()}, blocks, s, static_cast<void*>(w.data()), vectors ? static_cast<void*>(a.data()) : nullptr);
}

/// Lanes that share a pair of columns of n rows.
int lanes_of(int64_t n) { return n <= 16 ? 4 : n <= 64 ? 8 : n <= 256 ? 16 : 32; }

/// The singular values of square matrices (with `triangle`, of their upper triangles), and where `left` is defined the
/// vectors, of which those for zero are zero on the left.
void square_svd(const Tensor& a, bool triangle, const Tensor& values, const Tensor& left, const Tensor& right,
                const Tensor& info) {
  static const DeviceKernel begin{"linalg_jacobi.cuh", "begin_columns"}, all{"linalg_jacobi.cuh", "column_sweeps"},
      turns{"linalg_jacobi.cuh", "column_round"}, end{"linalg_jacobi.cuh", "end_columns"};
  const int64_t n = a.size(1);
  const SweepRoom room(a, n, info, left.defined());
  const Sweeps& s = room.sweeps;
  const int device = room.device(), lanes = lanes_of(n);
  const Grid blocks = grid_by_matrix(a, n * lanes / 2);
  begin(device, {a.dtype()}, blocks, matrices(a), s, triangle);
  if (n <= kOneBlock) {
    all(device, {a.dtype()}, blocks, s, lanes, kMostSweeps);
  } else {
    sweep(room, info, [&](long long round) {
      turns(device, {a.dtype()}, grid_for(device, s.count * ((n + 1) / 2) * lanes, 128), s, lanes, round);
    });
  }
  const auto memory = [](const Tensor& t) { return t.defined() ? static_cast<void*>(t.data()) : nullptr; };
  end(device, {a.dtype()}, blocks, s, static_cast<void*>(values.data()), memory(left), memory(right));
}

/// Columns that are orthonormal or zero become orthonormal: those of Q of their QR factors, whose R is diagonal but
/// for signs.
void complete_columns(const Tensor& x) {
  static const DeviceKernel signs{"linalg_jacobi.cuh", "diagonal_signs"};
  const int64_t n = x.size(1);
  const Tensor factors = copy_of(x, false), tau = facula::empty({x.size(0), n}, x.dtype(), x.device());
  factorize_qr(factors, tau);
  signs(device_of(x), {x.dtype()}, grid_for(device_of(x), x.numel()), static_cast<const void*>(factors.data()),
        static_cast<long long>(x.size(0)), static_cast<long long>(n), static_cast<void*>(x.data()));
  apply_reflectors(factors, tau, x, false, true);
}

/// A tall matrix is Q R: the left vectors are Q times those of R.
void svd_cuda(const Tensor& given, const Tensor& u, const Tensor& values, const Tensor& vh, const Tensor& info) {
  const Tensor original = batch_of(given), none;
  if (solver::svd(original, u.defined() ? batch_of(u) : none, values, u.defined() ? batch_of(vh) : none, info)) return;
  const bool is_wide = original.size(1) < original.size(2), vectors = u.defined();
  const Tensor a = is_wide ? copy_of(flipped(original), true) : original;
  const int64_t m = a.size(1), k = a.size(2);
  Tensor tau, left, right;
  if (m > k) {
    tau = facula::empty({a.size(0), k}, a.dtype(), a.device());
    factorize_qr(a, tau);
  }
  if (vectors) left = new_matrices(a, k, k), right = new_matrices(a, k, k);
  square_svd(part_of(a, 0, k, 0, k), m > k, values, left, right, info);
  if (!vectors) return;
  complete_columns(left);
  const Tensor u_out = batch_of(u), v_out = flipped(batch_of(vh));
  const int64_t columns = is_wide ? v_out.size(2) : u_out.size(2);
  Tensor tall = left;
  if (m > k) {
    tall = new_matrices(a, m, columns);
    set_identity(tall);
    copy_elements(part_of(tall, 0, k, 0, k), left);
    apply_reflectors(a, tau, tall, false, false);
  }
  copy_matrices(u_out, is_wide ? right : tall, false);
  copy_matrices(v_out, is_wide ? tall : right, true);
}

}  // namespace

void register_linalg_spectral() {
  svd_kernel.set(DeviceType::CUDA, svd_cuda);
  eigh_kernel.set(DeviceType::CUDA, eigh_cuda);
}

}  // namespace facula::cuda

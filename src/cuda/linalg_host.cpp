// What cuSOLVER computes where it is there, and else the host, by the kernels of the CPU's column: the non-symmetric
// eigenproblem and LDL factors; and least squares by other drivers than gels, which are always the host's. Their
// algorithms are chains of small steps, of which a device would have little. The matrices are copied to the host, which
// waits for them, and the results are copied back.
#include "core/kernel.h"
#include "cuda/linalg.h"
#include "cuda/solver.h"
#include "ops/linalg.h"

namespace facula::cuda {
namespace {

/// All elements in the order of memory.
Tensor line_of(const Tensor& t) { return make_view(t, {t.numel()}, {1}, 0, false); }

/// A tensor of the device (dense, or undefined) on the host, in the same order of memory; written back by `give_back`.
class OnHost {
 public:
  explicit OnHost(const Tensor& t) : there_(t) {
    if (!t.defined()) return;
    line_ = facula::empty({t.numel()}, t.dtype());
    copy_elements(line_, line_of(t));
    here_ = make_view(line_, t.sizes(), t.strides(), 0, false);
  }
  const Tensor& here() const { return here_; }
  void give_back() const {
    if (there_.defined()) copy_elements(line_of(there_), line_);
  }

 private:
  Tensor there_, line_, here_;
};

void eig_cuda(const Tensor& a, const Tensor& w, const Tensor& v, const Tensor& info) {
  if (solver::eig(batch_of(a), w, v.defined() ? batch_of(v) : v, info)) return;
  const OnHost matrix(a), values(w), vectors(v), status(info);
  eig_kernel(kCPU, matrix.here(), values.here(), vectors.here(), status.here());
  for (const OnHost* t : {&values, &vectors, &status}) t->give_back();
}

void ldl_cuda(const Tensor& a, const Tensor& pivots, const Tensor& info, bool hermitian) {
  if (solver::ldl(batch_of(a), pivots, info, hermitian)) return;
  const OnHost matrix(a), exchanges(pivots), status(info);
  ldl_kernel(kCPU, matrix.here(), exchanges.here(), status.here(), hermitian);
  for (const OnHost* t : {&matrix, &exchanges, &status}) t->give_back();
}

void ldl_solve_cuda(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian) {
  if (solver::ldl_solve(batch_of(ld), pivots, batch_of(b), hermitian)) return;
  const OnHost factors(ld), exchanges(pivots), x(b);
  ldl_solve_kernel(kCPU, factors.here(), exchanges.here(), x.here(), hermitian);
  x.give_back();
}

void least_squares_on_host(const Tensor& a, const Tensor& b, const Tensor& rank, const Tensor& s, double rcond,
                           std::string_view driver) {
  const OnHost matrix(a), x(b), ranks(rank), values(s);
  least_squares_kernel(kCPU, matrix.here(), x.here(), ranks.here(), values.here(), rcond, driver);
  for (const OnHost* t : {&x, &ranks, &values}) t->give_back();
}

void least_squares_cuda(const Tensor& a, const Tensor& b, const Tensor& rank, const Tensor& s, double rcond,
                        std::string_view driver) {
  if (driver == "gels") solve_full_rank(batch_of(a), batch_of(b));
  else least_squares_on_host(a, b, rank, s, rcond, driver);
}

}  // namespace

void register_linalg_host() {
  eig_kernel.set(DeviceType::CUDA, eig_cuda);
  ldl_kernel.set(DeviceType::CUDA, ldl_cuda);
  ldl_solve_kernel.set(DeviceType::CUDA, ldl_solve_cuda);
  least_squares_kernel.set(DeviceType::CUDA, least_squares_cuda);
}

}  // namespace facula::cuda

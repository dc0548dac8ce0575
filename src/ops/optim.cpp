// Brings the tensors of one optimizer step into one layout.
#include "ops/optim.h"

#include "raw_ops.h"

namespace facula {
namespace {

bool same_layout(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.is_conj() == b.is_conj() &&
         (a.strides() == b.strides() || (a.is_contiguous() && b.is_contiguous()));
}

/// `t` itself, or a copy with the layout of `like`.
Tensor arranged(const Tensor& t, const Tensor& like, const char* op, const char* what) {
  if (same_layout(t, like)) return t;
  FACULA_CHECK(t.sizes() == like.sizes(), ErrorKind::Runtime, op, ": expected ", what, " of the parameter's shape ",
               like.sizes(), ", got ", t.sizes());
  Tensor copy =
      facula::empty_strided(like.sizes(), preserved_strides(like.sizes(), like.strides()), like.dtype(), like.device());
  copy_kernel(like.device(), copy, t);
  return copy;
}

void finish(const Tensor& made, const Tensor& wanted) {
  if (!made.is_same(wanted)) copy_kernel(wanted.device(), wanted, made);
  wanted.storage()->bump_version(0);
}

}  // namespace

void optim_step(OptimRule rule, const Tensor& param, const Tensor& grad,
                const std::array<Tensor, kMaxOptimStates>& states,
                const std::array<double, kMaxOptimNumbers>& numbers) {
  const char* op = kOptimRuleInfo[static_cast<size_t>(rule)].name;
  // The pass reads memory as it lies: what has holes or is conjugated lazily is copied, and written back.
  Tensor p = param.is_dense() && !param.is_conj() ? param : facula::empty(param.sizes(), param.dtype(), param.device());
  if (!p.is_same(param)) copy_kernel(param.device(), p, param);
  Tensor g = arranged(grad, p, op, "a gradient");
  std::array<Tensor, kMaxOptimStates> s;
  bool complex = is_complex(p.dtype());
  OptimPass pass{rule, real_dtype(p.dtype()), p.numel() * (complex ? 2 : 1), p.data(), g.data(), {}, numbers};
  for (size_t i = 0; i < s.size(); ++i) {
    if (!states[i].defined()) continue;
    s[i] = arranged(states[i], p, op, "state");
    pass.states[i] = s[i].data();
  }
  optim_kernel(p.device(), pass);
  finish(p, param);
  for (size_t i = 0; i < s.size(); ++i)
    if (s[i].defined()) finish(s[i], states[i]);
}

}  // namespace facula

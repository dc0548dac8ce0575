// Brings the tensors of one optimizer step into one layout.
#include "ops/optim.h"

#include <algorithm>
#include <utility>

#include "core/write.h"
#include "raw_ops.h"

namespace facula {
namespace {

bool same_layout(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.is_conj() == b.is_conj() &&
         (a.strides() == b.strides() || (a.is_contiguous() && b.is_contiguous()));
}

void check_device(const Tensor& t, const Tensor& like, const char* op, const char* what) {
  FACULA_CHECK(t.device() == like.device(), ErrorKind::Runtime, op, ": expected ", what, " on the parameter's device ",
               like.device(), ", got ", t.device());
}

/// `t` itself, or a copy with the layout of `like`.
Tensor arranged(const Tensor& t, const Tensor& like, const char* op, const char* what) {
  if (same_layout(t, like) && t.device() == like.device()) return t;
  check_device(t, like, op, what);
  FACULA_CHECK(t.sizes() == like.sizes(), ErrorKind::Runtime, op, ": expected ", what, " of the parameter's shape ",
               like.sizes(), ", got ", t.sizes());
  Tensor copy =
      facula::empty_strided(like.sizes(), preserved_strides(like.sizes(), like.strides()), like.dtype(), like.device());
  copy_elements(copy, t);
  return copy;
}

void finish(const Tensor& made, const Tensor& wanted) {
  if (!made.is_same(wanted)) copy_elements(wanted, made);
}

/// What one launch shares.
bool is_alike(const OptimPass& a, const OptimPass& b) {
  bool alike = a.rule == b.rule && a.dtype == b.dtype && a.numbers == b.numbers;
  for (size_t i = 0; i < a.states.size(); ++i) alike = alike && !a.states[i] == !b.states[i];
  return alike;
}

}  // namespace

/// A parameter that stands twice in a group has two steps, one after the other.
bool OptimSteps::goes_with(const OptimPass& pass, const Step& step) const {
  return is_alike(pass, passes_[0]) && step.param.device() == steps_[0].param.device() &&
         std::none_of(steps_.begin(), steps_.end(),
                      [&](const Step& s) { return s.param.storage() == step.param.storage(); });
}

void OptimSteps::add(OptimRule rule, const Tensor& param, const Tensor& grad, const States& states,
                     const Numbers& numbers) {
  const char* op = kOptimRuleInfo[static_cast<size_t>(rule)].name;
  materialize(param);
  materialize(grad);
  check_written(param, op);
  for (const Tensor& state : states) {
    materialize(state);
    if (state.defined()) check_written(state, op);
  }
  Step step{param, param, Tensor(), states, {}};
  // The pass reads memory as it lies: what has holes or is conjugated lazily is copied, and written back.
  Tensor& p = step.param_made;
  if (!param.is_dense() || param.is_conj()) {
    p = facula::empty(param.sizes(), param.dtype(), param.device());
    copy_elements(p, param);
  }
  step.grad_made = arranged(grad, p, op, "a gradient");
  const int64_t parts = is_complex(p.dtype()) ? 2 : 1;
  OptimPass pass{rule, real_dtype(p.dtype()), p.numel() * parts, p.data(), step.grad_made.data(), {}, numbers};
  for (size_t i = 0; i < states.size(); ++i) {
    if (!states[i].defined()) continue;
    step.states_made[i] = arranged(states[i], p, op, "state");
    pass.states[i] = step.states_made[i].data();
  }
  if (param.is_cpu()) return run({&pass, 1}, {&step, 1});
  if (!passes_.empty() && !goes_with(pass, step)) run();
  passes_.push_back(pass);
  steps_.push_back(std::move(step));
}

void OptimSteps::run() {
  const std::vector<Step> steps = std::exchange(steps_, {});
  const std::vector<OptimPass> passes = std::exchange(passes_, {});
  if (!passes.empty()) run(passes, steps);
}

void OptimSteps::run(List<OptimPass> passes, List<Step> steps) {
  const Device device = steps[0].param.device();
  WriteScopes writes;
  for (const Step& s : steps) {
    const char* op = kOptimRuleInfo[static_cast<size_t>(passes[0].rule)].name;
    writes.emplace_back(s.param, op);
    for (const Tensor& state : s.states)
      if (state.defined()) writes.emplace_back(state, op);
  }
  if (!device.is_meta()) optim_kernel(device, OptimPasses{passes});
  for (const Step& s : steps) {
    finish(s.param_made, s.param);
    for (size_t i = 0; i < s.states.size(); ++i)
      if (s.states[i].defined()) finish(s.states_made[i], s.states[i]);
  }
}

}  // namespace facula

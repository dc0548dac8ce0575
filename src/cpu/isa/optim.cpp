// Optimizers on the CPU: passes of the rules over elements.
#include "ops/optim.h"

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/floating.h"
#include "kernels/optim_rules.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kLongWork = 1 << 16;

/// One pass over [from, to); states that a rule lacks stand for a local that nobody reads. The rule comes by value, so
/// that its numbers stay in registers.
template <bool S0, bool S1, bool S2, class T, class A, class R>
void run_piece(const R rule, T* p, const T* g, T* s0, T* s1, T* s2, int64_t from, int64_t to) {
  FACULA_SIMD
  for (int64_t i = from; i < to; ++i) {
    A value = load(p[i]), a = 0, b = 0, c = 0;
    if constexpr (S0) a = load(s0[i]);
    if constexpr (S1) b = load(s1[i]);
    if constexpr (S2) c = load(s2[i]);
    rule.template update<S0, S1, S2>(value, A(load(g[i])), a, b, c);
    p[i] = rounded<T>(value);
    if constexpr (S0) s0[i] = rounded<T>(a);
    if constexpr (S1) s1[i] = rounded<T>(b);
    if constexpr (S2) s2[i] = rounded<T>(c);
  }
}

template <class T, class A, class R, int States>
void run_rule(const OptimPass& pass) {
  const R rule(pass.numbers.data());
  T* p = static_cast<T*>(pass.param);
  const T* g = static_cast<const T*>(pass.grad);
  T *s0 = static_cast<T*>(pass.states[0]), *s1 = static_cast<T*>(pass.states[1]), *s2 = static_cast<T*>(pass.states[2]);
  // The optional states of a rule come last, but for RmsProp's two, either of which may be missing.
  auto piece = run_piece<false, false, false, T, A, R>;
  if (s0) piece = run_piece<true, false, false, T, A, R>;
  if constexpr (States >= 2)
    if (s1) piece = run_piece<true, true, false, T, A, R>;
  if constexpr (States >= 3)
    if (s2) piece = s1 ? run_piece<true, true, true, T, A, R> : run_piece<true, false, true, T, A, R>;
  LockRelease unlocked(pass.count > kLongWork);
  parallel_for(0, pass.count, kGrain / 2, [&](int64_t from, int64_t to) { piece(rule, p, g, s0, s1, s2, from, to); });
}

template <template <class> class R, int States>
void run_typed(const OptimPass& pass) {
  visit_floating(kOptimRuleInfo[static_cast<size_t>(pass.rule)].name, pass.dtype,
                 [&]<class T, class A>(T, A) { run_rule<T, A, R<A>, States>(pass); });
}

constexpr void (*kRules[kOptimRules])(const OptimPass&) = {
    run_typed<kernels::Sgd, 1>,      run_typed<kernels::Adam, 3>,    run_typed<kernels::Adamax, 2>,
    run_typed<kernels::NAdam, 2>,    run_typed<kernels::RAdam, 2>,   run_typed<kernels::Adagrad, 1>,
    run_typed<kernels::Adadelta, 2>, run_typed<kernels::RmsProp, 3>, run_typed<kernels::Rprop, 2>,
    run_typed<kernels::Asgd, 1>,
};

void optim_cpu(const OptimPasses& p) {
  for (const OptimPass& pass : p.passes) kRules[static_cast<size_t>(pass.rule)](pass);
}

}  // namespace

void register_optim() { optim_kernel.set(DeviceType::CPU, optim_cpu); }

}  // namespace facula::cpu::FACULA_ISA

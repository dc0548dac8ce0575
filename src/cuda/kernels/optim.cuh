// One pass of an optimizer's rule over a parameter, its gradient and its state.
#pragma once

#include "optim_args.h"
#include "optim_rules.h"
#include "types.cuh"

namespace facula::cuda {

/// S0, S1 and S2 say which states exist.
template <template <class> class Rule, class T, bool S0, bool S1, bool S2>
__global__ __launch_bounds__(256) void optim_pass(OptimArgs g) {
  using A = Compute<T>;
  const Rule<A> rule(g.numbers);
  T *p = static_cast<T*>(g.param), *s0 = static_cast<T*>(g.states[0]), *s1 = static_cast<T*>(g.states[1]),
    *s2 = static_cast<T*>(g.states[2]);
  for (Int64 i = thread_number(); i < g.count; i += thread_count()) {
    A value = convert<A>(p[i]), a{}, b{}, c{};
    if constexpr (S0) a = convert<A>(s0[i]);
    if constexpr (S1) b = convert<A>(s1[i]);
    if constexpr (S2) c = convert<A>(s2[i]);
    rule.template update<S0, S1, S2>(value, convert<A>(static_cast<const T*>(g.grad)[i]), a, b, c);
    p[i] = convert<T>(value);
    if constexpr (S0) s0[i] = convert<T>(a);
    if constexpr (S1) s1[i] = convert<T>(b);
    if constexpr (S2) s2[i] = convert<T>(c);
  }
}

}  // namespace facula::cuda

// Passes of an optimizer's rule over many parameters, their gradients and their states.
#pragma once

#include "optim_args.h"
#include "optim_rules.h"
#include "types.cuh"

namespace facula::cuda {

/// The tensor of a block.
FACULA_FN int tensor_of(const OptimArgs& g, int block) {
  int low = 0, high = g.tensors;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (g.begins[middle] <= block) low = middle;
    else high = middle;
  }
  return low;
}

/// S0, S1 and S2 say which states exist.
template <template <class> class Rule, class T, bool S0, bool S1, bool S2>
__global__ __launch_bounds__(256) void optim_pass(OptimArgs g) {
  using A = Compute<T>;
  const Rule<A> rule(g.numbers);
  const int t = tensor_of(g, blockIdx.x);
  const T* grad = static_cast<const T*>(g.grads[t]);
  T *p = static_cast<T*>(g.params[t]), *s0 = static_cast<T*>(g.states[0][t]), *s1 = static_cast<T*>(g.states[1][t]),
    *s2 = static_cast<T*>(g.states[2][t]);
  const Int64 count = g.counts[t], step = Int64(g.begins[t + 1] - g.begins[t]) * 256;
  for (Int64 i = Int64(blockIdx.x - g.begins[t]) * 256 + threadIdx.x; i < count; i += step) {
    A value = convert<A>(p[i]), a{}, b{}, c{};
    if constexpr (S0) a = convert<A>(s0[i]);
    if constexpr (S1) b = convert<A>(s1[i]);
    if constexpr (S2) c = convert<A>(s2[i]);
    rule.template update<S0, S1, S2>(value, convert<A>(grad[i]), a, b, c);
    p[i] = convert<T>(value);
    if constexpr (S0) s0[i] = convert<T>(a);
    if constexpr (S1) s1[i] = convert<T>(b);
    if constexpr (S2) s2[i] = convert<T>(c);
  }
}

}  // namespace facula::cuda

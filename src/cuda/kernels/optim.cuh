// Passes of an optimizer's rule over many parameters, their gradients and their states.
#pragma once

#include "optim_args.h"
#include "optim_rules.h"
#include "vector.cuh"

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

/// The states of a tensor, and a rule on kWide elements from `i` on. S0, S1 and S2 say which states exist.
template <class T, bool S0, bool S1, bool S2>
struct Optimized {
  T *param, *states[3];
  const T* grad;

  template <int kWide, class R>
  FACULA_FN void update(const R& rule, Int64 i) const {
    using Values = Vector<Compute<T>, kWide>;
    Values value = widen_all(load_vector<kWide>(param + i)), a{}, b{}, c{};
    const Values slope = widen_all(load_vector<kWide>(grad + i));
    if constexpr (S0) a = widen_all(load_vector<kWide>(states[0] + i));
    if constexpr (S1) b = widen_all(load_vector<kWide>(states[1] + i));
    if constexpr (S2) c = widen_all(load_vector<kWide>(states[2] + i));
#pragma unroll
    for (int j = 0; j < kWide; ++j)
      rule.template update<S0, S1, S2>(value.at[j], slope.at[j], a.at[j], b.at[j], c.at[j]);
    store_vector(param + i, narrow_all<T>(value));
    if constexpr (S0) store_vector(states[0] + i, narrow_all<T>(a));
    if constexpr (S1) store_vector(states[1] + i, narrow_all<T>(b));
    if constexpr (S2) store_vector(states[2] + i, narrow_all<T>(c));
  }
};

template <template <class> class Rule, class T, bool S0, bool S1, bool S2, int kWide>
__global__ __launch_bounds__(256) void optim_pass(OptimArgs g) {
  const Rule<Compute<T>> rule(g.numbers);
  const int t = tensor_of(g, blockIdx.x);
  const Optimized<T, S0, S1, S2> tensor{
      static_cast<T*>(g.params[t]),
      {static_cast<T*>(g.states[0][t]), static_cast<T*>(g.states[1][t]), static_cast<T*>(g.states[2][t])},
      static_cast<const T*>(g.grads[t])};
  const Int64 count = g.counts[t], vectors = count / kWide, step = Int64(g.begins[t + 1] - g.begins[t]) * 256,
              own = Int64(blockIdx.x - g.begins[t]) * 256 + threadIdx.x;
#pragma unroll 1
  for (Int64 v = own; v < vectors; v += step) tensor.template update<kWide>(rule, v * kWide);
  if constexpr (kWide > 1)
    if (const Int64 i = vectors * kWide + own; i < count) tensor.template update<1>(rule, i);
}

}  // namespace facula::cuda

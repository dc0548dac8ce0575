// Checks of values.
#pragma once

#include "choices.h"
#include "report.cuh"
#include "types.cuh"

namespace facula::cuda {

using kernels::Holds;

template <int kWhat, class C>
FACULA_FN bool holds(C x, double most) {
  constexpr Holds what = Holds(kWhat);
  if constexpr (is_complex_type<C>) {
    return what == Holds::NotZero ? convert<bool>(x) : kernels::isfinite(x);
  } else if constexpr (what == Holds::NotZero) {
    return x != C(0);
  } else if constexpr (what == Holds::NotNegative) {
    return !(x < C(0));
  } else if constexpr (what == Holds::InUnitInterval) {
    return x >= C(0) && x <= C(1);
  } else if constexpr (what == Holds::Degree) {
    return !(double(x) > most && double(x) < 0x1p63);
  } else if constexpr (is_floating_type<C>) {
    return kernels::isfinite(x);
  } else {
    return true;
  }
}

template <class M, int kWhat>
__global__ __launch_bounds__(256) void check_values(const void* in, Int64 count, double most, Reporter reporter) {
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    const Compute<M> x = convert<Compute<M>>(static_cast<const M*>(in)[i]);
    if (holds<kWhat>(x, most)) continue;
    report_value(reporter, convert<double>(x));
    return;
  }
}

}  // namespace facula::cuda

#include "ops/checks.h"

#include <cmath>
#include <complex>

#include "core/parallel.h"
#include "ops/contiguous.h"
#include "ops/elementwise.h"

namespace facula::cpu {
namespace {

/// Calls use(holds) with the check of an element: once for all of them, so that a loop knows its check.
template <class T, class Use>
auto with_question(Holds what, Use use) {
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    if (what == Holds::NotZero) return use([](T x) { return x != T(0); });
    return use([](T x) { return std::isfinite(x.real()) && std::isfinite(x.imag()); });
  } else {
    switch (what) {
      case Holds::NotZero: return use([](T x) { return x != T(0); });
      case Holds::NotNegative: return use([](T x) { return !(x < T(0)); });
      case Holds::InUnitInterval: return use([](T x) { return x >= T(0) && x <= T(1); });
      case Holds::Degree:
        return use([](T x) { return !(static_cast<double>(x) > ops::kMostDegree && static_cast<double>(x) < 0x1p63); });
      default: return use([](T x) { return std::isfinite(static_cast<double>(x)); });
    }
  }
}

/// The position of the first element for which it does not hold, or n.
template <class T>
int64_t first_failure(Holds what, const T* x, int64_t n) {
  constexpr int64_t kBlock = 256;
  return with_question<T>(what, [=](auto holds) {
    for (int64_t from = 0; from < n; from += kBlock) {
      const int64_t to = std::min(from + kBlock, n);
      unsigned failures = 0;
#pragma omp simd reduction(| : failures)
      for (int64_t i = from; i < to; ++i) failures |= static_cast<unsigned>(!holds(x[i]));
      for (int64_t i = from; failures && i < to; ++i)
        if (!holds(x[i])) return i;
    }
    return n;
  });
}

void check_values_cpu(const Tensor& given, const ValueCheck& check) {
  const DType compute = is_bits(given.dtype()) ? given.dtype() : compute_dtype(given.dtype());
  const Tensor t = ops::as_contiguous(given, compute);
  visit_dtype(compute, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::complex<float>> ||
                  std::is_same_v<T, std::complex<double>>) {
      const int64_t at = first_failure(check.holds, t.data<T>(), t.numel());
      if (at == t.numel()) return;
      throw_refusal(check.error, check.op, ": ", check.expected, ", got ", Scalar(t.data<T>()[at]));
    }
  });
}

}  // namespace

void register_checks() { check_values_kernel.set(DeviceType::CPU, check_values_cpu); }

}  // namespace facula::cpu

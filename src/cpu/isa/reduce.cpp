// Reductions on the CPU.
#include <cstring>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "ops/reduce.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
struct Accumulator {
  using type = T;
};
template <>
struct Accumulator<Half> {
  using type = float;
};
template <>
struct Accumulator<BFloat16> {
  using type = float;
};

template <class T>
T sum_contiguous(const T* in, int64_t n) {
  using A = typename Accumulator<T>::type;
  A total = A(0);
  constexpr int64_t kBlock = 1024;
  for (int64_t at = 0; at < n; at += kBlock) {
    A partial = A(0);
    int64_t count = std::min(kBlock, n - at);
    if constexpr (std::is_arithmetic_v<T>) {
#pragma omp simd reduction(+ : partial)
      for (int64_t i = 0; i < count; ++i) partial += in[at + i];
    } else {
      for (int64_t i = 0; i < count; ++i) partial += A(in[at + i]);
    }
    total += partial;
  }
  return T(total);
}

template <class T>
void sum_typed(const Tensor& out, const Tensor& in) {
  if (out.numel() == 1 && in.is_contiguous()) {
    *out.data<T>() = sum_contiguous(in.data<T>(), in.numel());
    return;
  }
  using A = typename Accumulator<T>::type;
  std::vector<A> totals(static_cast<size_t>(out.numel()), A(0));
  Dims index(static_cast<size_t>(in.dim()));
  Dims step = broadcast_strides(out.sizes(), out.strides(), in.sizes());
  for (int64_t i = 0; i < in.numel(); ++i) {
    int64_t from = 0, to = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      from += index[d] * in.strides()[d];
      to += index[d] * step[d];
    }
    totals[static_cast<size_t>(to)] += A(in.data<T>()[from]);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < in.sizes()[d]) break;
      index[d] = 0;
    }
  }
  for (int64_t i = 0; i < out.numel(); ++i) out.data<T>()[i] = T(totals[static_cast<size_t>(i)]);
}

void sum_cpu(const Tensor& out, const Tensor& in) {
  visit_dtype(in.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, ComplexHalf> || std::is_same_v<T, bool> || sizeof(T) == 1 && !std::is_integral_v<T>)
      throw_error(ErrorKind::NotImplemented, "sum: not implemented for dtype ", in.dtype());
    else
      sum_typed<T>(out, in);
  });
}

}  // namespace

void register_reduce() { sum_kernel.set(DeviceType::CPU, sum_cpu); }

}  // namespace facula::cpu::FACULA_ISA

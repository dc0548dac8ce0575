// Soft-max of attention scores under a mask, row by row.
#include "ops/attention.h"

#include <cmath>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/softmax.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
constexpr T kNever = -std::numeric_limits<T>::infinity();

template <class T>
void add_mask(int64_t n, const T* x, const T* mask, T* out) {
  FACULA_SIMD
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + mask[i];
}

template <class T>
void add_mask(int64_t n, const T* x, const uint8_t* mask, T* out) {
  FACULA_SIMD
  for (int64_t i = 0; i < n; ++i) out[i] = mask[i] ? x[i] : kNever<T>;
}

/// Soft-max of the first n of `length` scores; the others get no weight.
template <class T>
void weigh_row(int64_t n, int64_t length, const T* x, T* out) {
  T largest = n > 0 ? extremum<T, true>(n, x) : kNever<T>;
  if (largest == kNever<T>) n = 0;
  if (n > 0) {
    T scale = T(1) / sum_of_exp(n, x, largest, out);
    FACULA_SIMD
    for (int64_t i = 0; i < n; ++i) out[i] *= scale;
  }
  std::fill(out + n, out + length, T(0));
}

int64_t offset_of_row(const Tensor& mask, int64_t row) {
  int64_t offset = 0;
  for (int64_t d = mask.dim() - 1; d-- > 0;) {
    offset += row % mask.size(d) * mask.stride(d);
    row /= mask.size(d);
  }
  return offset;
}

template <class T>
void run(const Tensor& out, const Tensor& scores, const Tensor& mask, bool is_causal) {
  int64_t length = scores.size(-1), rows = scores.numel() / length, queries = scores.dim() > 1 ? scores.size(-2) : 1;
  parallel_for(0, rows, std::max<int64_t>(1, kGrain / 8 / length), [&](int64_t from, int64_t to) {
    for (int64_t r = from; r < to; ++r) {
      int64_t n = is_causal ? std::min(length, r % queries + 1) : length;
      const T* x = scores.data<T>() + r * length;
      T* y = out.data<T>() + r * length;
      if (mask.defined()) {
        int64_t at = offset_of_row(mask, r);
        if (mask.dtype() == DType::Bool) add_mask(n, x, mask.data<uint8_t>() + at, y);
        else add_mask(n, x, mask.data<T>() + at, y);
        x = y;
      }
      weigh_row(n, length, x, y);
    }
  });
}

void attention_weights_cpu(const Tensor& out, const Tensor& scores, const Tensor& mask, bool is_causal) {
  LockRelease release(scores.numel() > kGrain);
  if (scores.dtype() == DType::Float32) run<float>(out, scores, mask, is_causal);
  else run<double>(out, scores, mask, is_causal);
}

}  // namespace

void register_attention() { attention_weights_kernel.set(DeviceType::CPU, attention_weights_cpu); }

}  // namespace facula::cpu::FACULA_ISA

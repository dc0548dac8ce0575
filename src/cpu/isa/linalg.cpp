// Small matrix products.
#include "cpu/isa.h"
#include "ops/linalg.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
void mm_typed(const Tensor& out, const Tensor& a, const Tensor& b) {
  int64_t rows = a.size(0), inner = a.size(1), columns = b.size(1);
  T* o = out.data<T>();
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) o[i * columns + j] = T(0);
    for (int64_t k = 0; k < inner; ++k) {
      T x = a.data<T>()[i * a.stride(0) + k * a.stride(1)];
      const T* row = b.data<T>() + k * b.stride(0);
      for (int64_t j = 0; j < columns; ++j) o[i * columns + j] += x * row[j * b.stride(1)];
    }
  }
}

void mm_cpu(const Tensor& out, const Tensor& a, const Tensor& b) {
  if (out.dtype() == DType::Float32) mm_typed<float>(out, a, b);
  else if (out.dtype() == DType::Float64) mm_typed<double>(out, a, b);
  else throw_error(ErrorKind::NotImplemented, "mm: not implemented for dtype ", out.dtype());
}

}  // namespace

void register_linalg() { mm_kernel.set(DeviceType::CPU, mm_cpu); }

}  // namespace facula::cpu::FACULA_ISA

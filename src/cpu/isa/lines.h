// Walks all lines of one dimension of several tensors, and hands each to a function as contiguous values.
#pragma once

#include <functional>

#include "core/parallel.h"
#include "cpu/isa/cast.h"
#include "ops/scan.h"

namespace facula::cpu::FACULA_ISA {

/// A tensor seen as lines of dimension `dim`, in the order of `sizes` without that dimension.
struct LineOperand {
  char* data = nullptr;
  DType dtype = DType::Float32;    // of memory
  DType compute = DType::Float32;  // of the values handed on
  int64_t length = 0, stride = 0;  // stride in bytes
  Dims strides;                    // of the other dimensions, in bytes, innermost first
  int64_t pitch = -1;              // bytes from each line to the next, where that is always the same

  LineOperand(const Tensor& t, int64_t dim, DType compute);
  bool direct() const { return dtype == compute && (stride == item_size(dtype) || length == 1); }
};

using LineFunction = std::function<void(const void* const* in, void* const* out)>;

/// Calls `f` once per line; lines are shared out among threads.
void for_lines(IntList sizes, int64_t dim, const std::vector<LineOperand>& in, const std::vector<LineOperand>& out,
               const LineFunction& f);

}  // namespace facula::cpu::FACULA_ISA

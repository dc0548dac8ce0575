// Conversion of contiguous elements between dtypes, and strided gathering and scattering by element size.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "cpu/isa.h"

namespace facula::cpu::FACULA_ISA {

using CastFn = void (*)(int64_t n, void* out, const void* in);

/// Converts `n` contiguous elements; `out` and `in` do not overlap.
void cast(DType to, DType from, int64_t n, void* out, const void* in);

/// Rows of elements that lie evenly in memory; steps are in bytes.
struct StridedRows {
  int64_t count, length, row_step, step;
};
/// Packs elements of `item` bytes.
void gather(int64_t item, const StridedRows& rows, void* out, const char* in);
/// Spreads packed elements.
void scatter(int64_t item, const StridedRows& rows, char* out, const void* in);

}  // namespace facula::cpu::FACULA_ISA

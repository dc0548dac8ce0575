// Conversion of contiguous elements between dtypes, and strided gathering and scattering by element size.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "cpu/isa.h"

namespace facula::cpu::FACULA_ISA {

using CastFn = void (*)(int64_t n, void* out, const void* in);

/// Converts `n` contiguous elements; `out` and `in` do not overlap.
void cast(DType to, DType from, int64_t n, void* out, const void* in);
/// Packs `n` elements of `item` bytes that lie `stride` bytes apart.
void gather(int64_t item, int64_t n, void* out, const char* in, int64_t stride);
/// Spreads `n` packed elements `stride` bytes apart.
void scatter(int64_t item, int64_t n, char* out, int64_t stride, const void* in);

}  // namespace facula::cpu::FACULA_ISA

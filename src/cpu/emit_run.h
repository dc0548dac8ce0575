// Translates a graph of vector operations to machine code that goes through elements vector by vector.
#pragma once

#include "cpu/emit_steps.h"
#include "cpu/emit_x86.h"

namespace facula::cpu::emit {

/// Runs over `n` elements of every argument that is memory; those that are numbers point at one.
using RunFn = void (*)(int64_t n, const void* const* arguments);

/// Whether elements of `dtype` are read and written in a run that computes in `compute`.
bool can_load(DType dtype, DType compute);
bool can_store(DType dtype, DType compute);

/// Lanes of a vector.
inline int64_t lanes_of(DType compute) { return kCodeBytes / item_size(compute); }

/// Appends the code of a RunFn. False where there are not registers enough. With AVX2 `n` has to be whole vectors.
bool translate(const StepGraph& graph, Level level, std::vector<uint8_t>& code);

}  // namespace facula::cpu::emit

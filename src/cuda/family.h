// Compiles families: kernels around one loop that differ in template arguments. A program that uses one of them is
// likely to use others soon.
//
// Policy: a call compiles the one kernel that it needs. Its relatives are compiled afterwards, in the background, as
// one program, which takes a fraction of the time for each. They go to the disk cache, where the next one that is
// requested is found. So a loop can have many variants (dtypes, ways to read its operands) without anybody waiting for
// them. Of the processes that share the cache, one compiles a family. FACULA_CUDA_FAMILIES is `background` or `off`.
// Without it they are compiled for devices, but not for the emulated one, whose compiler takes as long for each as for
// one.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cuda/compile.h"

namespace facula::cuda {

using Family = std::function<std::vector<KernelSource>()>;

/// How many have been compiled by this process, in how many programs.
struct FamilyCounts {
  int64_t kernels = 0, programs = 0;
};
FamilyCounts count_families();
/// Waits for those that were requested.
void finish_families();

bool families_are_wanted();
/// Requests kernels. The list is bounded: what comes when it is full is left out.
void compile_soon(int architecture, std::vector<KernelSource> kernels);

}  // namespace facula::cuda

// Programs for the run-time compiler. Nothing here needs a device or the driver.
#pragma once

#include <string>
#include <vector>

#include "cuda/kernel_cache.h"

namespace facula::cuda {

/// What is compiled: the text of a program, and the kernel in it, a name with its template arguments.
struct KernelSource {
  std::string source, expression;
};

/// For the architecture sm_<architecture>. `log` receives what the compiler says.
CompiledKernel compile(const KernelSource& kernel, int architecture, const std::vector<std::string>& more_options = {},
                       std::string* log = nullptr);

/// The same from the disk cache; what is not there is compiled and put there.
CompiledKernel cached_or_compiled(const KernelSource& kernel, int architecture, bool* was_cached = nullptr);

/// FACULA_CUDA_LOG_KERNELS names a file that gets a line of JSON for each kernel of the process:
/// [source, expression, [bytes of each argument]].
void log_kernel(const KernelSource& kernel, const std::vector<int>& argument_bytes);

}  // namespace facula::cuda

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

/// What the compiler makes: code of the device's architecture; or, where the compiler is older than the device, PTX
/// of the newest architecture that it knows, which the driver compiles further. Throws for devices older than all it
/// knows.
struct Target {
  int architecture;
  bool is_virtual;
};
Target target_of(int architecture);

/// For a device of the architecture (90: compute capability 9.0). `log` receives what the compiler says.
CompiledKernel compile(const KernelSource& kernel, int architecture, const std::vector<std::string>& more_options = {},
                       std::string* log = nullptr);

/// Several kernels as one program, which takes a fraction of the time: they all have the same image.
std::vector<CompiledKernel> compile_together(const std::vector<KernelSource>& kernels, int architecture,
                                             const std::vector<std::string>& more_options = {},
                                             std::string* log = nullptr);

/// Puts those into the disk cache that are not there, for the emulated device only: their code becomes the file
/// `library`, to which the cache refers. Returns how many they were.
size_t cache_together(std::vector<KernelSource> kernels, int architecture, const std::string& library);

/// A kernel from the disk cache; what is not there is compiled and put there.
CompiledKernel cached_or_compiled(const KernelSource& kernel, int architecture, bool* was_cached = nullptr);

/// FACULA_CUDA_LOG_KERNELS names a file that gets a line of JSON for each kernel of the process:
/// [source, expression, [bytes of each argument], threads of a block].
void log_kernel(const KernelSource& kernel, const std::vector<int>& argument_bytes, unsigned threads);

}  // namespace facula::cuda

// Compiles programs with the run-time compiler. Nothing here needs a device or the driver.
#pragma once

#include <string>
#include <vector>

#include "cuda/kernel_cache.h"

namespace facula::cuda {

/// What is compiled: the text of a program, and the kernel in it, a name with its template arguments.
struct KernelSource {
  std::string source, expression;
};

/// What the compiler makes: code of the device's architecture; or, where the compiler is older than the device, code of
/// the newest architecture of the same major version that it knows, which the device runs, too; or PTX of the newest
/// that it knows, which the driver compiles further. Throws for devices older than all it knows.
struct Target {
  int architecture;
  bool is_virtual;
};
Target target_of(int architecture);
/// Devices that do not run the code of their relatives (those of Tegra) get PTX from now on.
void use_no_relatives();

/// PTX of a compiler that is newer than the driver, in the version that a driver of that CUDA (12040: 12.4) reads. Our
/// kernels use nothing that is newer. False where it was no newer.
bool make_older(std::vector<char>& ptx, int driver_version);

/// For a device of the architecture (90: compute capability 9.0). `log` receives what the compiler says.
CompiledKernel compile(const KernelSource& kernel, int architecture, const std::vector<std::string>& more_options = {},
                       std::string* log = nullptr);

/// Several kernels as one program, which takes a fraction of the time: they all have the same image.
std::vector<CompiledKernel> compile_together(const std::vector<KernelSource>& kernels, int architecture,
                                             const std::vector<std::string>& more_options = {},
                                             std::string* log = nullptr);

/// Puts those into the disk cache that are not there, compiled as one program; returns how many they were. With
/// `library`, for the emulated device only, their code becomes a file of that name.
size_t cache_together(std::vector<KernelSource> kernels, int architecture, const std::string& library = {});

/// A kernel from the disk cache; what is not there is compiled and put there.
CompiledKernel cached_or_compiled(const KernelSource& kernel, int architecture, bool* was_cached = nullptr);

/// FACULA_CUDA_LOG_KERNELS names a file that gets a line of JSON for each kernel of the process:
/// [source, expression, [bytes of each argument], threads of a block].
void log_kernel(const KernelSource& kernel, const std::vector<int>& argument_bytes, unsigned threads);

}  // namespace facula::cuda

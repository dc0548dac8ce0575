// Finds the library of the emulated CUDA device. Wheels for other machines have it compiled. A package that was built
// from source has its sources: the host's C++ compiler, which the device needs for its kernels anyway, compiles them
// when the device is first used.
#pragma once

#include <filesystem>
#include <string>

namespace facula::cuda {

/// The path of the library, for a package whose libraries lie in `own_folder`; empty with the reason in `error` when
/// there is none. The first call on a machine compiles it and says so on standard error; others wait for that.
std::filesystem::path emulated_device(const std::filesystem::path& own_folder, std::string& error);

}  // namespace facula::cuda

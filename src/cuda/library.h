// Opens NVIDIA's libraries when they are first needed: the package is linked with none.
// FACULA_CUDA_DISABLE=cublas,cudnn makes Facula work as if those were not there. With FACULA_CUDA=emulated the emulated
// device's library (src/emulator) stands in the place of all libraries whose functions it has.
#pragma once

#include <cstdint>
#include <string>

namespace facula::cuda {

enum class Library : uint8_t { Driver, Compiler, Blas, Dnn, Fft, Solver, Profiler };
constexpr int kLibraries = 7;

struct OpenedLibrary {
  void* handle = nullptr;   // null where it is not there
  std::string path, error;  // where it was found, or why not

  /// A function's address; null, and `why` says it, where the library has none.
  void* find(const char* function, std::string& why) const;
};
/// What users call it.
const char* name_of(Library library);
/// The first call opens it.
const OpenedLibrary& opened(Library library);
bool is_emulated();

/// The functions of a table (`table.name = ...` for each) or why they are not there. X macros of the abi headers list
/// them: see FACULA_FIND.
template <class Functions>
struct Loaded {
  Functions table;
  std::string error;
};

/// For the lists of functions: `#define X(name, ...) FACULA_FIND(loaded, library, name)`.
#define FACULA_FIND(loaded, library, name) \
  (loaded).table.name = reinterpret_cast<decltype((loaded).table.name)>((library).find(#name, (loaded).error));

}  // namespace facula::cuda

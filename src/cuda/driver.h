// Declares NVIDIA's driver and run-time compiler, which are opened when a CUDA device is first used (library.h).
#pragma once

#include <atomic>
#include <string>

#include "core/error.h"
#include "cuda/abi.h"
#include "cuda/library.h"

namespace facula::cuda {

struct Driver {
#define X(name, ...) CUresult (*name)(__VA_ARGS__) = nullptr;
  FACULA_DRIVER_FUNCTIONS(X)
#undef X
};

struct Compiler {
#define X(name, ...) nvrtcResult (*name)(__VA_ARGS__) = nullptr;
  FACULA_COMPILER_FUNCTIONS(X)
#undef X
};

/// Empty when there are devices to use, else the reason why not. The first call opens the driver.
const std::string& why_unavailable();
inline bool is_available() { return why_unavailable().empty(); }

namespace detail {
extern std::atomic<const Driver*> known_driver;  // once it is open
const Driver& open_driver();
}  // namespace detail
/// Only to be used when is_available(). In a forked child its functions do nothing but give an error.
inline const Driver& driver() {
  const Driver* known = detail::known_driver.load(std::memory_order_acquire);
  return __builtin_expect(known != nullptr, 1) ? *known : detail::open_driver();
}

/// Whether this process was forked by one that had begun to use the driver, which does not work in the child: whatever
/// uses a device there is refused, and whatever lets go of something of CUDA's leaves it to the parent.
extern bool is_forked_child;
[[noreturn]] void refuse_in_child(const char* op);
inline void check_not_forked(const char* op) {
  if (__builtin_expect(is_forked_child, 0)) refuse_in_child(op);
}

/// Throws when there is no compiler.
const Compiler& compiler();

/// What a driver call reports; Python sees it as AcceleratorError, but for memory that is not there.
class DriverError : public Error {
 public:
  DriverError(CUresult result, std::string message)
      : Error(result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorKind::OutOfMemory : ErrorKind::Runtime, std::move(message)),
        result_(result) {}
  CUresult result() const { return result_; }

 private:
  CUresult result_;
};

/// The error of a driver call, with the name of the op that this thread runs.
[[noreturn]] void report(CUresult result, const char* call);
inline void check(CUresult result, const char* call) {
  if (__builtin_expect(result != CUDA_SUCCESS, 0)) report(result, call);
}

/// Calls a function of the driver: FACULA_CUDA_CALL(cuStreamQuery, stream).
#define FACULA_CUDA_CALL(name, ...) ::facula::cuda::check(::facula::cuda::driver().name(__VA_ARGS__), #name)

}  // namespace facula::cuda

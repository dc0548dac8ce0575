#include "cpu/blas.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "core/error.h"

namespace facula::cpu::blas {
namespace {

// The library's own detection gives AMD processors with AVX-512 the older AVX2 kernels, at half the speed.
bool wants_skylake_kernels() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512vl") && !std::getenv("OPENBLAS_CORETYPE");
#else
  return false;
#endif
}

/// The environment variable holds `value` meanwhile, unless the user has set it.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(std::getenv(name) ? nullptr : name) {
    if (name_) setenv(name_, value, 1);
  }
  ~Environment() {
    if (name_) unsetenv(name_);
  }

 private:
  const char* name_;
};

void* open_library() {
  std::optional<Environment> core;
  if (wants_skylake_kernels()) core.emplace("OPENBLAS_CORETYPE", "SkylakeX");
  // factorisations use the library's threads, which then spin for 2^18 cycles, 0.1 ms, instead of 2^26
  Environment timeout("OPENBLAS_THREAD_TIMEOUT", "18");
  void* handle = dlopen("libscipy_openblas.so", RTLD_NOW | RTLD_LOCAL);
  FACULA_CHECK(handle, ErrorKind::Runtime, "linear algebra: the bundled OpenBLAS could not be loaded, got ", dlerror());
  return handle;
}

}  // namespace

void* symbol(const std::string& name) {
  static void* const library = open_library();
  void* address = dlsym(library, ("scipy_" + name).c_str());
  FACULA_CHECK(address, ErrorKind::Runtime, "linear algebra: the bundled OpenBLAS lacks a routine, got ", name);
  return address;
}

void set_threads(int count) {
  static auto* const set = reinterpret_cast<void (*)(int)>(symbol("openblas_set_num_threads"));
  static std::atomic<int> current{0};
  if (current.load(std::memory_order_relaxed) == count) return;
  static std::mutex mutex;  // the library grows its pool here
  std::lock_guard lock(mutex);
  set(count);
  current.store(count, std::memory_order_relaxed);
}

}  // namespace facula::cpu::blas

#include "cpu/blas.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

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

void* open_library() {
  bool override_core = wants_skylake_kernels();
  if (override_core) setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
  void* handle = dlopen("libscipy_openblas.so", RTLD_NOW | RTLD_LOCAL);
  if (override_core) unsetenv("OPENBLAS_CORETYPE");
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

#include "cpu/blas.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <vector>

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

/// The environment with some variables more, unless the user has set them, while the library is opened: it reads them
/// then, and has no other way to learn it. setenv() would move and free what other threads read without a lock; here
/// they see the one list or the other, both of which stay.
class Environment {
 public:
  explicit Environment(std::initializer_list<const char*> more) : before_(environ) {
    std::vector<char*> all;
    for (char** entry = before_; entry && *entry; ++entry) all.push_back(*entry);
    for (const char* text : more) {
      const std::string name(text, std::strchr(text, '='));
      if (!std::getenv(name.c_str())) all.push_back(strdup(text));
    }
    all.push_back(nullptr);
    kept = ours_ = new char*[all.size()];
    std::ranges::copy(all, ours_);
    std::atomic_ref(environ).store(ours_);
  }
  ~Environment() {
    char** expected = ours_;  // unless somebody has set a variable meanwhile, in a copy of ours
    std::atomic_ref(environ).compare_exchange_strong(expected, before_);
  }
  Environment(const Environment&) = delete;

 private:
  char** before_;
  char** ours_;
  [[gnu::used]] static inline char** kept = nullptr;  // never freed: somebody may still read there
};

void* open_library() {
  // factorizations use the library's threads, which then spin for 2^18 cycles, 0.1 ms, instead of 2^26
  constexpr const char* kTimeout = "OPENBLAS_THREAD_TIMEOUT=18";
  std::optional<Environment> more;
  if (wants_skylake_kernels()) more.emplace(std::initializer_list{kTimeout, "OPENBLAS_CORETYPE=SkylakeX"});
  else more.emplace(std::initializer_list{kTimeout});
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

// Which MPI: what FACULA_MPI names; one that this process has loaded already (mpi4py's); the files that Python found
// (the `mpich` package beside Facula); what the system's loader finds. All by the standard ABI, `libmpi_abi`.
#include "distributed/mpi_library.h"

#include <dlfcn.h>
#ifdef __linux__
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <cstdlib>
#include <cstring>
#include <mutex>

namespace facula::distributed::mpi {
namespace {

#ifdef __APPLE__
constexpr const char* kNames[] = {"libmpi_abi.1.dylib", "libmpi_abi.0.dylib"};
#else
constexpr const char* kNames[] = {"libmpi_abi.so.1", "libmpi_abi.so.0"};
#endif

std::mutex mutex;

/// Never destroyed: a thread left behind in `library()` may read them while the process ends.
std::vector<std::string>& candidates() {
  static auto* const files = new std::vector<std::string>;
  return *files;
}

void* open_first(std::string& path, std::string& why) {
  const auto tried = [&](const std::string& file, int more) -> void* {
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | more);
    if (handle) path = file;
    else if (more == 0) why += std::string(why.empty() ? "" : "; ") + dlerror();
    return handle;
  };
  if (const char* named = std::getenv("FACULA_MPI"); named && *named) return tried(named, 0);
  for (const char* name : kNames)
    if (void* handle = tried(name, RTLD_NOLOAD)) return handle;
  for (const std::string& file : candidates())
    if (void* handle = tried(file, 0)) return handle;
  for (const char* name : kNames)
    if (void* handle = tried(name, 0)) return handle;
  return nullptr;
}

#ifdef __linux__
[[noreturn]] void exit_of_mpi(int code) {
  if (Calling::here()) throw EngineGaveUp("MPI gave up: a connection is broken");
  std::exit(code);
}

/// Makes calls of exit() in the library calls of exit_of_mpi(), by the table through which it reaches other libraries.
void take_exit(void* handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return;
  const ElfW(Rela)* calls = nullptr;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  size_t bytes = 0;
  for (const ElfW(Dyn)* d = map->l_ld; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag == DT_JMPREL) calls = reinterpret_cast<const ElfW(Rela)*>(d->d_un.d_ptr);
    if (d->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(d->d_un.d_ptr);
    if (d->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(d->d_un.d_ptr);
    if (d->d_tag == DT_PLTRELSZ) bytes = d->d_un.d_val;
  }
  if (!calls || !symbols || !names) return;
  for (const ElfW(Rela)* c = calls; c < calls + bytes / sizeof *calls; ++c) {
    if (std::strcmp(names + symbols[ELF64_R_SYM(c->r_info)].st_name, "exit") != 0) continue;
    const uintptr_t slot = map->l_addr + c->r_offset, page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    if (mprotect(reinterpret_cast<void*>(slot / page * page), page, PROT_READ | PROT_WRITE) == 0)
      *reinterpret_cast<void (**)(int)>(slot) = exit_of_mpi;
  }
}
#else
void take_exit(void*) {}
#endif

Library open() {
  Library library;
  std::string why;
  void* handle = open_first(library.path, why);
  if (!handle)
    fail(Trouble::Backend, "init_process_group: several processes need an MPI library with the standard ABI, and none ",
         "could be opened: pip install 'mpich>=5.0.2', or name a libmpi_abi in FACULA_MPI (", why, ")");
#define X(name, ...)                                                                       \
  library.call.name = reinterpret_cast<int (*)(__VA_ARGS__)>(dlsym(handle, "MPI_" #name)); \
  if (!library.call.name)                                                                  \
    fail(Trouble::Backend, "init_process_group: ", library.path,                           \
         " has no MPI_" #name                                                              \
         ": an MPI with the standard ABI "                                                 \
         "1.0 is needed (pip install 'mpich>=5.0.2')");
  FACULA_MPI_FUNCTIONS(X)
#undef X
  int major = 0, minor = 0;
  library.call.Abi_get_version(&major, &minor);
  if (major != 1)
    fail(Trouble::Backend, "init_process_group: ", library.path, " has version ", major, ".", minor,
         " of MPI's ABI, expected 1.x");
  take_exit(handle);
  return library;
}

Library* opened = nullptr;  // never closed: MPI does not bear it

}  // namespace

thread_local int Calling::depth = 0;

void set_candidates(std::vector<std::string> files) {
  std::scoped_lock lock(mutex);
  candidates() = std::move(files);
}

const Library& library() {
  std::scoped_lock lock(mutex);
  if (!opened) opened = new Library(open());
  return *opened;
}

std::string found_at() {
  try {
    return library().path;
  } catch (const DistError&) {
    return {};
  }
}

std::string error_text(int code, const char* what) {
  char text[kLongestError] = {};
  int length = 0;
  opened->call.Error_string(code, text, &length);
  return std::string(what) + ": MPI says: " + text;
}

void check(int code, const char* what) {
  if (code != kSuccess) fail(Trouble::Backend, error_text(code, what));
}

}  // namespace facula::distributed::mpi

// Which MPI: what FACULA_MPI names; one that this process has loaded already (mpi4py's); the files that Python found
// (the `mpich` package beside Facula); what the system's loader finds. All by the standard ABI, `libmpi_abi`.
#include "distributed/mpi_library.h"

#include <dlfcn.h>
#ifdef __linux__
#include <link.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#endif

#include <atomic>
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
std::atomic<bool> interrupted{false};

void look_out() {
  if (Calling::here() && interrupted.load(std::memory_order_relaxed))
    throw EngineGaveUp("MPI gave up: the group has failed");
}

[[noreturn]] void exit_of_mpi(int code) {
  if (Calling::here()) throw EngineGaveUp("MPI gave up: a connection is broken");
  std::exit(code);
}
[[noreturn]] void abort_of_mpi() { exit_of_mpi(1); }

// What loops in MPI that may never end call.
int yield_of_mpi() { return look_out(), sched_yield(); }
int poll_of_mpi(pollfd* files, nfds_t n, int timeout) { return look_out(), poll(files, n, timeout); }
int epoll_of_mpi(int file, epoll_event* events, int n, int timeout) {
  return look_out(), epoll_wait(file, events, n, timeout);
}
int connect_of_mpi(int file, const sockaddr* to, socklen_t size) { return look_out(), connect(file, to, size); }

struct Hook {
  const char* name;
  void* function;
};
const Hook kHooks[] = {
    {"exit", reinterpret_cast<void*>(exit_of_mpi)},       {"abort", reinterpret_cast<void*>(abort_of_mpi)},
    {"poll", reinterpret_cast<void*>(poll_of_mpi)},       {"epoll_wait", reinterpret_cast<void*>(epoll_of_mpi)},
    {"connect", reinterpret_cast<void*>(connect_of_mpi)}, {"sched_yield", reinterpret_cast<void*>(yield_of_mpi)},
};

/// Puts a function in the place of one that a library calls, in the table through which it reaches other libraries.
bool redirect(uintptr_t slot, void* function) {
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  if (mprotect(reinterpret_cast<void*>(slot / page * page), page, PROT_READ | PROT_WRITE) != 0) return false;
  *reinterpret_cast<void**>(slot) = function;
  return true;
}

/// Makes calls of these functions in the library ours; whether abort() was among them.
bool take_calls(const link_map& map) {
  const ElfW(Rela)* calls = nullptr;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  size_t bytes = 0;
  for (const ElfW(Dyn)* d = map.l_ld; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag == DT_JMPREL) calls = reinterpret_cast<const ElfW(Rela)*>(d->d_un.d_ptr);
    if (d->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(d->d_un.d_ptr);
    if (d->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(d->d_un.d_ptr);
    if (d->d_tag == DT_PLTRELSZ) bytes = d->d_un.d_val;
  }
  if (!calls || !symbols || !names) return false;
  bool aborts = false;
  for (const ElfW(Rela)* c = calls; c < calls + bytes / sizeof *calls; ++c) {
    const char* name = names + symbols[ELF64_R_SYM(c->r_info)].st_name;
    for (const Hook& hook : kHooks)
      if (std::strcmp(name, hook.name) == 0 && redirect(map.l_addr + c->r_offset, hook.function))
        aborts = aborts || hook.function == reinterpret_cast<void*>(abort_of_mpi);
  }
  return aborts;
}

/// Of MPI, and of libfabric beside it. Whether abort() in MPI is ours.
bool take_calls(void* handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return false;
  for (const link_map* m = map->l_next; m; m = m->l_next)
    if (std::strstr(m->l_name, "/libfabric.so")) take_calls(*m);
  return take_calls(*map);
}
#else
std::atomic<bool> interrupted{false};
bool take_calls(void*) { return false; }
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
  library.aborts_to_us = take_calls(handle);
  return library;
}

Library* opened = nullptr;  // never closed: MPI does not bear it

}  // namespace

thread_local int Calling::depth = 0;

void Calling::interrupt() { interrupted = true; }

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

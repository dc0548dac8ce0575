// Which MPI: what FACULA_MPI names; one that this process has loaded already (mpi4py's); the files that Python found
// (the
// `mpich` package beside Facula); what the system's loader finds. All by the standard ABI, `libmpi_abi`.
#include "distributed/mpi_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

namespace facula::distributed::mpi {
namespace {

#ifdef __APPLE__
constexpr const char* kNames[] = {"libmpi_abi.1.dylib", "libmpi_abi.0.dylib"};
#else
constexpr const char* kNames[] = {"libmpi_abi.so.1", "libmpi_abi.so.0"};
#endif

std::mutex mutex;
std::vector<std::string> candidates;

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
  for (const std::string& file : candidates)
    if (void* handle = tried(file, 0)) return handle;
  for (const char* name : kNames)
    if (void* handle = tried(name, 0)) return handle;
  return nullptr;
}

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
  return library;
}

Library* opened = nullptr;  // never closed: MPI does not bear it

}  // namespace

void set_candidates(std::vector<std::string> files) {
  std::scoped_lock lock(mutex);
  candidates = std::move(files);
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

void check(int code, const char* what) {
  if (code == kSuccess) return;
  char text[kLongestError] = {};
  int length = 0;
  opened->call.Error_string(code, text, &length);
  fail(Trouble::Backend, what, ": MPI says: ", text);
}

}  // namespace facula::distributed::mpi

#include "cuda/driver.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "cuda/device.h"

namespace facula::cuda {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

/// The folder that this library lies in.
fs::path own_folder() {
  Dl_info self;
  if (!dladdr(reinterpret_cast<void*>(&why_unavailable), &self) || !self.dli_fname) return {};
  std::error_code ignored;
  const fs::path whole = fs::canonical(self.dli_fname, ignored);
  return (whole.empty() ? fs::path(self.dli_fname) : whole).parent_path();
}

std::vector<std::string> matching(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return paths;
}

/// Where a library of NVIDIA's may be, best first: what a user says, the pip packages beside this one, the system.
std::vector<std::string> places(const std::string& name) {
  std::vector<std::string> all;
  if (const std::string folder = variable("FACULA_CUDA_LIBRARIES"); !folder.empty()) all.push_back(folder + "/" + name);
  const std::string site = own_folder().parent_path().string();
  for (const char* inside : {"/nvidia/*/lib/", "/nvidia/*/*/lib/"})
    for (const std::string& path : matching(site + inside + name)) all.push_back(path);
  all.push_back(name);
  for (const std::string& home : {variable("CUDA_HOME"), std::string("/usr/local/cuda")})
    if (!home.empty()) all.push_back(home + "/lib64/" + name);
  return all;
}

void* open_first(const std::vector<std::string>& names, std::string& error) {
  for (const std::string& name : names) {
    if (void* loaded = dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD)) return loaded;  // another package's copy
    for (const std::string& place : places(name))
      if (void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  const char* text = dlerror();
  error = text ? text : "not found";
  return nullptr;
}

template <class Table>
struct Library {
  Table table;
  std::string error;
};

void* find(void* library, const char* name, std::string& error) {
  void* function = dlsym(library, name);
  if (!function && error.empty()) error = std::string("the library has no function ") + name;
  return function;
}

void* open_driver(std::string& error) {
  if (variable("FACULA_CUDA") == "emulated") {
    for (const char* place : {"/lib/", "/"}) {
      const std::string path = own_folder().string() + place + "libfacula_emulated_cuda.so";
      if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
    }
    const char* text = dlerror();
    error = text ? text : "the emulated device's library is not there";
    return nullptr;
  }
  return open_first({"libcuda.so.1"}, error);
}

Library<Driver> load_driver() {
  Library<Driver> l;
  void* library = open_driver(l.error);
  if (!library) {
    l.error = "NVIDIA's driver does not load: " + l.error;
    return l;
  }
#define X(name, ...) l.table.name = reinterpret_cast<decltype(l.table.name)>(find(library, #name, l.error));
  FACULA_DRIVER_FUNCTIONS(X)
#undef X
  if (!l.error.empty()) return l;
  int count = 0;
  if (const CUresult result = l.table.cuInit(0); result != CUDA_SUCCESS) {
    l.error = "cuInit gives error " + std::to_string(result);
  } else if (l.table.cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0) {
    l.error = "the driver finds no device";
  }
  return l;
}

const Library<Driver>& loaded_driver() {
  static const Library<Driver> l = load_driver();
  return l;
}

// NVRTC opens its builtins by their bare name, without looking into its own folder: they must be there before.
void load_builtins(void* compiler_library) {
  Dl_info info;
  void* known = dlsym(compiler_library, "nvrtcVersion");
  if (!known || !dladdr(known, &info)) return;
  for (const std::string& path : matching(fs::path(info.dli_fname).parent_path().string() + "/libnvrtc-builtins.so*"))
    dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

Library<Compiler> load_compiler() {
  Library<Compiler> l;
  void* library = is_emulated() ? open_driver(l.error) : open_first({"libnvrtc.so.13", "libnvrtc.so.12"}, l.error);
  if (!library) {
    l.error = "CUDA's run-time compiler (NVRTC, pip package nvidia-cuda-nvrtc) does not load: " + l.error;
    return l;
  }
  if (!is_emulated()) load_builtins(library);
#define X(name, ...) l.table.name = reinterpret_cast<decltype(l.table.name)>(find(library, #name, l.error));
  FACULA_COMPILER_FUNCTIONS(X)
#undef X
  return l;
}

const char* text_of(CUresult (*ask)(CUresult, const char**), CUresult result) {
  const char* text = nullptr;
  return ask(result, &text) == CUDA_SUCCESS && text ? text : "unknown";
}

}  // namespace

const std::string& why_unavailable() { return loaded_driver().error; }
bool is_emulated() { return variable("FACULA_CUDA") == "emulated"; }
const Driver& driver() { return loaded_driver().table; }

const Compiler& compiler() {
  static const Library<Compiler> l = load_compiler();
  FACULA_CHECK(l.error.empty(), ErrorKind::Runtime, current_op(), ": a CUDA kernel has to be compiled, but ", l.error);
  return l.table;
}

void report(CUresult result, const char* call) {
  const Driver& d = driver();
  throw_error(result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorKind::OutOfMemory : ErrorKind::Runtime, current_op(),
              ": CUDA error: ", text_of(d.cuGetErrorString, result), ", got ", text_of(d.cuGetErrorName, result),
              " from ", call);
}

}  // namespace facula::cuda

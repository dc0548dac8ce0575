#include "cuda/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string_view>
#include <vector>

#include "cuda/collectives.h"
#include "cuda/driver.h"
#include "cuda/emulated_device.h"

namespace facula::cuda {
namespace {

namespace fs = std::filesystem;

struct File {
  const char* name;  // null ends the list
  int cuda;          // the major version of CUDA that it is of; 0 for any
};
struct Known {
  const char *name, *what, *probe;         // `probe` is a function that it must have
  std::array<File, 3> files;               // best first
  std::array<const char*, 12> needs = {};  // what it opens by bare names, in an order in which that works
};
constexpr Known known[kLibraries] = {
    {"driver", "NVIDIA's driver", "cuInit", {{{"libcuda.so.1", 0}}}},
    {"nvrtc",
     "CUDA's run-time compiler (NVRTC, pip package nvidia-cuda-nvrtc)",
     "nvrtcVersion",
     {{{"libnvrtc.so.13", 13}, {"libnvrtc.so.12", 12}}}},
    {"cublas",
     "cuBLAS (pip package nvidia-cublas)",
     "cublasLtMatmul",
     {{{"libcublasLt.so.13", 13}, {"libcublasLt.so.12", 12}}}},
    {"cudnn",
     "cuDNN (pip package nvidia-cudnn-cu13)",
     "cudnnBackendExecute",
     {{{"libcudnn.so.9", 0}}},
     {"libnvrtc.so", "libcublasLt.so", "libcublas.so", "libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9",
      "libcudnn_adv.so.9", "libcudnn_heuristic.so.9", "libcudnn_engines_precompiled.so.9",
      "libcudnn_engines_runtime_compiled.so.9"}},
    {"cufft",
     "cuFFT (pip package nvidia-cufft)",
     "cufftCreate",
     {{{"libcufft.so.12", 13}, {"libcufft.so.11", 12}}},
     {"libnvJitLink.so"}},
    {"cusolver",
     "cuSOLVER (pip package nvidia-cusolver)",
     "cusolverDnCreate",
     {{{"libcusolver.so.12", 13}, {"libcusolver.so.11", 12}}},
     {"libnvJitLink.so", "libcublasLt.so", "libcublas.so", "libcusparse.so"}},
    {"cupti",
     "CUPTI (pip package nvidia-cuda-cupti)",
     "cuptiGetVersion",
     {{{"libcupti.so.13", 13}, {"libcupti.so.12", 12}}}},
};
constexpr Known known_collectives = {
    "nccl", "NCCL (pip package nvidia-nccl-cu13)", "ncclCommInitRankConfig", {{{"libnccl.so.2", 0}}}};

const Known& row(Library library) { return known[static_cast<size_t>(library)]; }

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

bool is_disabled(std::string_view name) {
  const std::string all = "," + variable("FACULA_CUDA_DISABLE") + ",";
  return all.find("," + std::string(name) + ",") != std::string::npos;
}

/// The folder that this library lies in.
fs::path own_folder() {
  Dl_info self;
  if (!dladdr(reinterpret_cast<void*>(&name_of), &self) || !self.dli_fname) return {};
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
  const std::string site = own_folder().parent_path().parent_path().string();  // from facula/lib
  for (const char* inside : {"/nvidia/*/lib/", "/nvidia/*/*/lib/"})
    for (const std::string& path : matching(site + inside + name)) all.push_back(path);
  all.push_back(name);
  for (const std::string& home : {variable("CUDA_HOME"), std::string("/usr/local/cuda")})
    if (!home.empty()) all.push_back(home + "/lib64/" + name);
  return all;
}

/// The driver's major version: libraries of a later one do not work with it.
int driver_major() {
  int version = 0;
  if (!is_available() || driver().cuDriverGetVersion(&version) != CUDA_SUCCESS) return 0;
  constexpr int kMajor = 1000;
  return version / kMajor;
}

/// A library by its file's name: another package's copy where one is loaded, else the first of its places.
void* open_file(const std::string& name) {
  if (void* loaded = dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD)) return loaded;
  for (const std::string& place : places(name))
    if (void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  return nullptr;
}

/// Whether a library lies where the system does not look by itself, and so may what it opens by a bare name.
bool is_in_known_folder(const char* name) {
  std::error_code ignored;
  const std::vector<std::string> all = places(name);
  return std::any_of(all.begin(), all.end(), [&](const std::string& place) {
    return place.find('/') != std::string::npos && fs::exists(place, ignored);
  });
}

/// Opens what a library needs before itself, as far as it is there: the loader then finds it by its name, wherever it
/// lies. Of the same CUDA where that is known, else of all that the driver takes.
void open_needs(const Known& library, int cuda) {
  constexpr int kNewest = 13, kOldest = 11;  // versions in the names of files
  const int newest = cuda ? cuda : driver_major() ? std::min(driver_major(), kNewest) : kNewest;
  for (const char* need : library.needs) {
    if (!need) break;
    if (std::string_view(need).find(".so.") != std::string_view::npos) {
      open_file(need);
      continue;
    }
    for (int version = newest; version >= kOldest; --version)
      if (open_file(std::string(need) + "." + std::to_string(version)) && cuda) break;
  }
}

void* open_first(const Known& library, std::string& error) {
  for (const File& file : library.files) {
    if (!file.name) break;
    if (file.cuda && driver_major() && file.cuda > driver_major()) continue;
    if (is_in_known_folder(file.name)) open_needs(library, file.cuda);
    if (void* handle = open_file(file.name)) return handle;
  }
  const char* text = dlerror();
  error = text ? text : "not found";
  return nullptr;
}

void* open_emulated(std::string& error) {
  const fs::path path = emulated_device(own_folder(), error);
  if (path.empty()) return nullptr;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (const char* text = handle ? nullptr : dlerror()) error = text;
  return handle;
}

// NVRTC opens its builtins by their bare name, without looking into its own folder: they must be there before.
void load_builtins(const std::string& compiler) {
  for (const std::string& path : matching(fs::path(compiler).parent_path().string() + "/libnvrtc-builtins.so*"))
    dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

OpenedLibrary open(const Known& library) {
  OpenedLibrary o;
  if (is_disabled(library.name)) {
    o.error = std::string(library.what) + " is not used: FACULA_CUDA_DISABLE names it";
    return o;
  }
  void* handle = is_emulated() ? open_emulated(o.error) : open_first(library, o.error);
  if (!handle) {
    o.error = std::string(library.what) + " does not load: " + o.error;
    return o;
  }
  if (!dlsym(handle, library.probe)) {
    o.error = is_emulated() ? std::string("the emulated device has no stand-in for ") + library.what
                            : std::string(library.what) + " has no function " + library.probe;
    return o;
  }
  o.handle = handle;
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map) o.path = map->l_name;
  return o;
}

struct Slot {
  std::once_flag once;
  OpenedLibrary library;
};

}  // namespace

const char* name_of(Library library) { return row(library).name; }
bool is_emulated() {
  static const bool emulated = variable("FACULA_CUDA") == "emulated" || variable("FACULA_CUDA") == "null";
  return emulated;
}

const OpenedLibrary& opened(Library library) {
  static Slot slots[kLibraries];
  Slot& slot = slots[static_cast<size_t>(library)];
  std::call_once(slot.once, [&] {
    slot.library = open(row(library));
    if (library == Library::Compiler && slot.library.handle && !is_emulated()) load_builtins(slot.library.path);
  });
  return slot.library;
}

const OpenedLibrary& opened_collectives() {
  static Slot slot;
  std::call_once(slot.once, [] { slot.library = open(known_collectives); });
  return slot.library;
}

void* OpenedLibrary::find(const char* function, std::string& why) const {
  void* address = handle ? dlsym(handle, function) : nullptr;
  if (!address && why.empty()) why = handle ? path + " has no function " + function : error;
  return address;
}

}  // namespace facula::cuda

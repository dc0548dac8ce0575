// The driver's functions for the emulated device: arguments are checked as the real driver checks them, work is
// queued.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "cuda/abi_cupti.h"
#include "emulator/library.h"
#include "emulator/stream.h"

#define API extern "C" __attribute__((visibility("default")))  // functions of topics of their own are in their files
#define DECLARE(name, ...) API CUresult name(__VA_ARGS__);
FACULA_DRIVER_FUNCTIONS(DECLARE)
#undef DECLARE

using namespace facula::emulator;

namespace {

std::atomic<bool> initialized{false};
std::atomic<int> failing_switch{0};
constexpr uintptr_t kForeign = 0xf0;

constexpr unsigned kMostThreads = 1024, kMostGrid = 65535, kMostDynamicShared = 227 << 10,
                   kDefaultDynamicShared = 48 << 10;
constexpr size_t kMostArguments = 4096;

struct Function {
  const FaculaEmulatedKernel* kernel = nullptr;
  unsigned dynamic_shared = kDefaultDynamicShared;
};
struct Module {
  void* library;
  int file;
  std::map<std::string, CUfunction> functions;
};
auto& functions = *new Handles<CUfunction, Function>;
auto& modules = *new Handles<CUmodule, Module>;
void* host(CUdeviceptr p) { return reinterpret_cast<void*>(p); }
bool is_device(int device) { return device >= 0 && device < settings().devices; }

CUresult queue(CUstream stream, Stream::Work work, const What& what) {
  const StreamPointer s = stream_here(stream);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  s->push(std::move(work), what);
  return sticky_error;
}
What copy_of(size_t bytes, CUpti_ActivityMemcpyKind kind, int from, int to) {
  What what("memcpy", What::Kind::Copy);
  what.bytes = bytes;
  what.copy = kind, what.from = from, what.to = to;
  return what;
}
CUresult queue_copy(void* to, const void* from, const What& what, CUstream stream) {
  return queue(stream, [=, bytes = what.bytes](BlockRunner&) { std::memmove(to, from, bytes); }, what);
}

/// Memory of the host that cuMemHostAlloc gave.
class PinnedRanges {
 public:
  void add(void* memory, size_t bytes) {
    std::lock_guard<std::mutex> guard(mutex_);
    blocks_[static_cast<const char*>(memory)] = bytes;
  }
  bool remove(void* memory) {
    std::lock_guard<std::mutex> guard(mutex_);
    return blocks_.erase(static_cast<const char*>(memory));
  }
  bool holds(const void* memory) {
    const auto* at = static_cast<const char*>(memory);
    std::lock_guard<std::mutex> guard(mutex_);
    const auto after = blocks_.upper_bound(at);
    return after != blocks_.begin() && at < std::prev(after)->first + std::prev(after)->second;
  }

 private:
  std::mutex mutex_;
  std::map<const char*, size_t> blocks_;
};
PinnedRanges& pinned = *new PinnedRanges;

/// Of memory of the host, as CUPTI numbers it.
int host_kind(const void* memory) {
  return pinned.holds(memory) ? CUPTI_ACTIVITY_MEMORY_KIND_PINNED : CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
}

struct Attribute {
  CUdevice_attribute attribute;
  int value;
};
// A small device.
constexpr Attribute attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, kDefaultDynamicShared},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 2},
    {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 64},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 20},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, kMostDynamicShared},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
};

struct ErrorText {
  CUresult error;
  const char *name, *text;
};
constexpr ErrorText errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "an argument is not allowed"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "the device has no more memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "cuInit was not called"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "there is no such device"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "not a module of the emulated device"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "the image was compiled for other devices"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "not a stream, event or function"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "the module has no such function"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "queued work is not done"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED",
     "a kernel did something undefined; standard error has the reason"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "not in this process, or not on this device"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "not permitted while a stream is captured"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "an earlier error has ended the capture"},
    {CUDA_ERROR_STREAM_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "two captures cannot be joined"},
    {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "the capture did not begin on this stream"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "a stream that joined the capture was not joined with the first one again"},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "a captured stream cannot wait for an event from outside"},
    {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "the event was recorded in a captured stream"},
    {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "another thread began the capture"},
};
const ErrorText* find_error(CUresult error) {
  const auto found =
      std::find_if(std::begin(errors), std::end(errors), [&](const ErrorText& e) { return e.error == error; });
  return found == std::end(errors) ? nullptr : found;
}

/// A launch's arguments by value: the caller's are gone when the kernel runs.
struct Arguments {
  std::vector<char> bytes;
  std::vector<void*> places;

  Arguments(const FaculaEmulatedKernel& kernel, void** given) {
    constexpr size_t kAlign = 16;
    std::vector<size_t> offsets;
    size_t total = 0;
    for (int i = 0; i < kernel.arguments; ++i) {
      offsets.push_back(total);
      total += (kernel.sizes[i] + kAlign - 1) / kAlign * kAlign;
    }
    bytes.resize(total + kAlign);
    char* first = bytes.data() + (kAlign - reinterpret_cast<uintptr_t>(bytes.data()) % kAlign) % kAlign;
    for (int i = 0; i < kernel.arguments; ++i) {
      places.push_back(first + offsets[static_cast<size_t>(i)]);
      std::memcpy(places.back(), given[i], kernel.sizes[i]);
    }
  }
  Arguments(const Arguments&) = delete;
};

/// Whether as many arguments are given as the kernel takes. Facula ends its lists with a null pointer, so that it can
/// be checked; the real driver would read what lies behind a list that is too short.
bool are_all_given(const FaculaEmulatedKernel& kernel, void** arguments) {
  return std::find(arguments, arguments + kernel.arguments, nullptr) == arguments + kernel.arguments &&
         !arguments[kernel.arguments];
}

size_t argument_bytes(const FaculaEmulatedKernel& kernel) {
  size_t total = 0;
  for (int i = 0; i < kernel.arguments; ++i) total += kernel.sizes[i];
  return total;
}

}  // namespace

// ---- devices

API CUresult cuInit(unsigned) {
  initialized = true;
  return CUDA_SUCCESS;
}
API CUresult cuDriverGetVersion(int* version) {
  *version = settings().driver;
  return CUDA_SUCCESS;
}
API CUresult cuGetErrorName(CUresult error, const char** text) {
  const ErrorText* found = find_error(error);
  *text = found ? found->name : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuGetErrorString(CUresult error, const char** text) {
  const ErrorText* found = find_error(error);
  *text = found ? found->text : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuDeviceGetCount(int* count) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  *count = settings().devices;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return is_device(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
API CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  std::snprintf(name, static_cast<size_t>(length), "Facula's emulated device");
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  std::memcpy(uuid->bytes, "facula-emulated", 16);
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}
API CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  *bytes = settings().memory;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = 0;
  for (const Attribute& a : attributes)
    if (a.attribute == attribute) *value = a.value;
  if (attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) *value = settings().reads_pageable;
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) *value = settings().capability / 10;
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) *value = settings().capability % 10;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  *can = device != peer;
  return is_device(device) && is_device(peer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
// A context is its device's number, one higher so that none is null.
API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(static_cast<uintptr_t>(device) + 1);
  return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
// One of kForeign is another library's (cuCtxCreate): nothing of a primary context works in it.
API CUresult cuCtxSetCurrent(CUcontext context) {
  if (failing_switch > 0 && --failing_switch == 0) return CUDA_ERROR_INVALID_CONTEXT;
  const auto number = reinterpret_cast<uintptr_t>(context);
  const int device = static_cast<int>(number) - 1;
  if (!is_device(device) && number != kForeign) return CUDA_ERROR_INVALID_CONTEXT;
  current_device = number == kForeign ? kForeignDevice : device;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetCurrent(CUcontext* context) {
  const uintptr_t number = current_device == kForeignDevice ? kForeign : static_cast<uintptr_t>(current_device) + 1;
  *context = reinterpret_cast<CUcontext>(number);
  return CUDA_SUCCESS;
}
API CUresult cuCtxSynchronize() {
  if (const CUresult refused = refuse_any_capture(); refused != CUDA_SUCCESS) return refused;
  synchronize_all();
  return sticky_error;
}
API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}

/// For tests: of the calls of cuCtxSetCurrent from now on the n-th fails.
FACULA_EMULATED void facula_emulated_fail_switch(int n) { failing_switch = n; }

// ---- memory

API CUresult cuMemAlloc_v2(CUdeviceptr* memory, size_t bytes) {
  if (const CUresult refused = refuse_while_capturing(); refused != CUDA_SUCCESS) return refused;
  if (current_device == kForeignDevice) return CUDA_ERROR_INVALID_CONTEXT;
  return allocate(memory, bytes, current_device);
}
API CUresult cuMemFree_v2(CUdeviceptr memory) {
  if (const CUresult refused = refuse_while_capturing(); refused != CUDA_SUCCESS) return refused;
  return release(memory);
}
API CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  memory_info(free, total, current_device);
  return CUDA_SUCCESS;
}
API CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr memory) {
  const int device = device_of(memory);
  if (attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL || device < 0) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<int*>(value) = device;
  return CUDA_SUCCESS;
}
API CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  if (const CUresult refused = refuse_while_capturing(); refused != CUDA_SUCCESS) return refused;
  constexpr size_t kPage = 4096;
  const size_t size = (bytes + kPage - 1) / kPage * kPage;
  if (size == 0 || size > settings().memory) return size ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
  *memory = std::aligned_alloc(kPage, size);
  if (!*memory) return CUDA_ERROR_OUT_OF_MEMORY;
  pinned.add(*memory, size);
  return CUDA_SUCCESS;
}
API CUresult cuMemFreeHost(void* memory) {
  if (const CUresult refused = refuse_while_capturing(); refused != CUDA_SUCCESS) return refused;
  synchronize_all();
  if (!pinned.remove(memory)) return CUDA_ERROR_INVALID_VALUE;
  std::free(memory);
  return CUDA_SUCCESS;
}
// Pinned memory of the host is read when the device gets there, other memory before the call returns, unless the device
// can read it by itself.
API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  if (!is_allocated(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const StreamPointer s = stream_here(stream);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  const What what = copy_of(bytes, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, host_kind(from), CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  if (pinned.holds(from) || settings().reads_pageable) return queue_copy(host(to), from, what, stream);
  const auto read = [=](BlockRunner&) { std::memcpy(host(to), from, bytes); };  // in a graph: at every launch
  if (captured(*s, read, what)) return sticky_error;
  auto staged =
      std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
  return queue(stream, [=](BlockRunner&) { std::memcpy(host(to), staged->data(), bytes); }, what);
}
API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (!is_allocated(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return queue_copy(to, host(from),
                    copy_of(bytes, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, host_kind(to)),
                    stream);
}
API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (settings().mode == Mode::Null) {
    std::memmove(host(to), host(from), bytes);
    return CUDA_SUCCESS;
  }
  if (!is_allocated(to, bytes) || !is_allocated(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  constexpr int kDevice = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  const bool same = device_of(to) == device_of(from);
  const auto kind = same ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOD : CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  return queue_copy(host(to), host(from), copy_of(bytes, kind, kDevice, kDevice), stream);
}
API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream stream) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}
API CUresult cuMemsetD8Async(CUdeviceptr memory, unsigned char value, size_t bytes, CUstream stream) {
  if (!is_allocated(memory, bytes)) return CUDA_ERROR_INVALID_VALUE;
  What what("memset", What::Kind::Fill);
  what.bytes = bytes;
  what.to = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  return queue(stream, [=](BlockRunner&) { std::memset(host(memory), value, bytes); }, what);
}

// ---- streams and events

API CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned, int) { return make_stream(stream, current_device); }
API CUresult cuStreamDestroy_v2(CUstream stream) { return destroy_stream(stream); }
API CUresult cuStreamQuery(CUstream stream) {
  const StreamPointer s = stream_here(stream);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = refuse_capturing(*s); refused != CUDA_SUCCESS) return refused;
  return s->is_idle() ? sticky_error.load() : CUDA_ERROR_NOT_READY;
}
API CUresult cuStreamSynchronize(CUstream stream) {
  const StreamPointer s = stream_here(stream);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = refuse_capturing(*s); refused != CUDA_SUCCESS) return refused;
  s->synchronize();
  return sticky_error;
}
API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return queue(stream, [=](BlockRunner&) { function(data); }, "host function");
}

CUresult facula::emulator::queue_loops(CUstream stream, std::function<void()> loops) {
  if (settings().mode == Mode::Null) return CUDA_SUCCESS;
  return queue(stream, [loops = std::move(loops)](BlockRunner&) { loops(); }, {"library", What::Kind::Kernel});
}

// There is no profiler to notify.
API CUresult cuProfilerStart() { return CUDA_SUCCESS; }
API CUresult cuProfilerStop() { return CUDA_SUCCESS; }

// ---- kernels

struct ImageFacts {  // compiler.cpp wrote them
  int32_t architecture, is_virtual;
};
ImageFacts facts_of(const char* image) {
  constexpr size_t kFacts = 16;
  ImageFacts facts;
  std::memcpy(&facts, image + kFacts, sizeof facts);
  return facts;
}
/// Whether the device runs an image: code of its major version that is not newer, and PTX of any that is not.
bool is_for_device(const ImageFacts& image) {
  const int own = settings().capability;
  const bool is_relative = settings().runs_relatives && image.architecture / 10 == own / 10;
  return image.architecture <= own && (image.is_virtual || image.architecture == own || is_relative);
}
/// Whether the driver is as new as PTX, which has its version behind the library: 9.x is of CUDA 13.
bool is_read(const char* ptx) {
  int major = 0, minor = 0;
  return std::sscanf(ptx, " .version %d.%d", &major, &minor) == 2 &&
         major * 10 + minor <= (settings().driver / 1000 - 4) * 10 + settings().driver % 1000 / 10;
}

// A module is the shared library that compiler.cpp made, behind the length of it and who runs it; or the library's
// path.
API CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (const CUresult refused = refuse_while_capturing(); refused != CUDA_SUCCESS) return refused;
  if (settings().mode == Mode::Null) {
    *module = modules.add(std::make_shared<Module>(nullptr, -1));
    return CUDA_SUCCESS;
  }
  const auto* bytes = static_cast<const char*>(image);
  const bool is_path = std::memcmp(bytes, "FACULAEP", 8) == 0;
  if (!is_path && std::memcmp(bytes, "FACULAEM", 8) != 0) return CUDA_ERROR_INVALID_IMAGE;
  const ImageFacts facts = facts_of(bytes);
  if (!is_for_device(facts)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  uint64_t length;
  std::memcpy(&length, bytes + 8, sizeof length);
  bytes += 24;
  if (facts.is_virtual && !is_read(bytes + length)) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  std::string path(bytes, is_path ? length : 0);
  int file = -1;
  if (!is_path) {
    // The file stays open: the loader knows libraries by their path, and a number used again would be the old library.
    file = memfd_create("facula_kernel", MFD_CLOEXEC);
    for (uint64_t done = 0; done < length;) {
      const ssize_t n = write(file, bytes + done, length - done);
      if (n <= 0) return CUDA_ERROR_OUT_OF_MEMORY;
      done += static_cast<uint64_t>(n);
    }
    path = "/proc/self/fd/" + std::to_string(file);
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto* kernels = library ? static_cast<const FaculaEmulatedKernel*>(dlsym(library, "facula_kernels")) : nullptr;
  if (!kernels) {
    std::fprintf(stderr, "facula emulated device: a module does not load: %s\n", dlerror());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  auto made = std::make_shared<Module>(library, file);
  for (; kernels->name; ++kernels) made->functions[kernels->name] = functions.add(std::make_shared<Function>(kernels));
  *module = modules.add(std::move(made));
  return CUDA_SUCCESS;
}
API CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(module, image);
}
API CUresult cuModuleUnload(CUmodule module) {
  if (const CUresult refused = refuse_while_capturing(); refused != CUDA_SUCCESS) return refused;
  const std::shared_ptr<Module> m = modules.remove(module);
  if (!m) return CUDA_ERROR_INVALID_HANDLE;
  synchronize_all();
  for (const auto& [name, function] : m->functions) functions.remove(function);
  if (m->library) dlclose(m->library);
  return CUDA_SUCCESS;
}
API CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const std::shared_ptr<Module> m = modules.find(module);
  if (!m) return CUDA_ERROR_INVALID_HANDLE;
  if (settings().mode == Mode::Null && !m->functions.count(name))
    m->functions[name] = functions.add(std::make_shared<Function>());
  const auto found = m->functions.find(name);
  if (found == m->functions.end()) return CUDA_ERROR_NOT_FOUND;
  *function = found->second;
  return CUDA_SUCCESS;
}
API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  const std::shared_ptr<Function> f = functions.find(function);
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
  if (value < 0 || static_cast<unsigned>(value) > kMostDynamicShared) return CUDA_ERROR_INVALID_VALUE;
  f->dynamic_shared = static_cast<unsigned>(value);
  return CUDA_SUCCESS;
}
API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,
                            void** arguments, void**) {
  if (settings().mode == Mode::Null) return CUDA_SUCCESS;
  const std::shared_ptr<Function> f = functions.find(function);
  const Index3 grid{grid_x, grid_y, grid_z}, block{block_x, block_y, block_z};
  const uint64_t threads = uint64_t{block_x} * block_y * block_z;
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  if (threads == 0 || threads > kMostThreads || !grid_x || !grid_y || !grid_z || grid_x > 0x7fffffff ||
      grid_y > kMostGrid || grid_z > kMostGrid || shared_bytes > f->dynamic_shared ||
      argument_bytes(*f->kernel) > kMostArguments || !are_all_given(*f->kernel, arguments))
    return CUDA_ERROR_INVALID_VALUE;
  auto values = std::make_shared<Arguments>(*f->kernel, arguments);
  const FaculaEmulatedKernel* kernel = f->kernel;
  const auto run = [=](BlockRunner& runner) {
    if (sticky_error != CUDA_SUCCESS) return;
    std::string error;
    running_kernel = kernel->name;
    const bool is_good = runner.run(kernel->call, values->places.data(), grid, block, shared_bytes, error);
    running_kernel = nullptr;
    if (is_good) return;
    std::fprintf(stderr, "facula emulated device: kernel %s: %s\n", kernel->name, error.c_str());
    sticky_error = CUDA_ERROR_LAUNCH_FAILED;
  };
  What what(kernel->name, What::Kind::Kernel);
  what.grid = grid, what.block = block, what.shared_bytes = shared_bytes;
  return queue(stream, run, what);
}

namespace {

/// Modules look for the emulator's functions among global symbols.
__attribute__((constructor)) void be_global() {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&cuInit), &self) && self.dli_fname)
    dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

}  // namespace

#include "cuda/kernel.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "core/host.h"
#include "cuda/compile.h"
#include "cuda/device.h"
#include "cuda/family.h"
#include "cuda/stream.h"

namespace facula::cuda {
namespace {

constexpr const char* kTypeNames[] = {
#define X(id, ...) "facula::cuda::" #id,
    FACULA_DTYPES(X)
#undef X
};

/// Says once that the driver has to do the rest of the compiler's work.
void note_target(int architecture, const Target& target) {
  static std::atomic<bool> noted{false};
  if (!target.is_virtual || noted.exchange(true) || !host.warn) return;
  const auto text = [](int a) { return std::to_string(a / 10) + "." + std::to_string(a % 10); };
  host.warn(("CUDA's compiler is older than the device: kernels are compiled for compute capability " +
             text(target.architecture) + ", and by the driver from there to " + text(architecture) +
             " whenever they are loaded; a newer nvidia-cuda-nvrtc compiles them for the device")
                .c_str());
}

std::string driver_text() {
  int version = 0;
  driver().cuDriverGetVersion(&version);
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// A compiler that is newer than the driver writes PTX of a version that the driver does not read: it gets an older
/// one.
CUmodule load_module(CompiledKernel kernel) {
  char log[2048] = {};
  CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log - 1)};
  CUmodule module = nullptr;
  const auto load = [&] { return driver().cuModuleLoadDataEx(&module, kernel.image.data(), 2, names, values); };
  CUresult result = load();
  const bool is_unread = result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || result == CUDA_ERROR_INVALID_PTX;
  if (is_unread) {
    int version = 0;
    FACULA_CUDA_CALL(cuDriverGetVersion, &version);
    if (make_older(kernel.image, version)) result = load();
  }
  std::string text = std::string("cuModuleLoadDataEx") + (*log ? ": " : "") + log;
  if (is_unread)
    text += " (the driver is one of CUDA " + driver_text() +
            " and older than CUDA's compiler: a newer driver, or an older nvidia-cuda-nvrtc, may do)";
  check(result, text.c_str());
  return module;
}

/// The module of a kernel's image; one that several kernels share is loaded once.
CUmodule module_of(int device, const CompiledKernel& kernel) {
  if (kernel.shared.empty()) return load_module(kernel);
  static std::mutex& mutex = *new std::mutex;
  static auto& shared = *new std::map<std::pair<int, std::string>, CUmodule>;
  std::lock_guard lock(mutex);
  CUmodule& module = shared[{device, kernel.shared}];
  if (!module) module = load_module(kernel);
  return module;
}

CUfunction load(int device, const KernelSource& source, const Family& family) {
  const Properties& p = properties(device);
  const int architecture = p.major * 10 + p.minor;
  note_target(architecture, target_of(architecture));
  bool was_cached = false;
  CompiledKernel kernel = cached_or_compiled(source, architecture, &was_cached);
  DeviceGuard guard(device);
  RelaxedCapture relaxed;
  CUmodule module = nullptr;
  try {
    module = module_of(device, kernel);
  } catch (const DriverError& error) {
    const Target target = target_of(architecture);
    const bool is_relatives = target.architecture != architecture && !target.is_virtual;
    if (!is_relatives || error.result() != CUDA_ERROR_NO_BINARY_FOR_GPU) throw;
    use_no_relatives();
    note_target(architecture, target_of(architecture));
    kernel = cached_or_compiled(source, architecture, &was_cached);
    module = module_of(device, kernel);
  }
  if (!was_cached && family && families_are_wanted()) compile_soon(architecture, family());
  CUfunction function = nullptr;
  FACULA_CUDA_CALL(cuModuleGetFunction, &function, module, kernel.name.c_str());
  return function;
}

}  // namespace

void TemplateArgument::refuse_number(int number) {
  throw_error(ErrorKind::Assertion, current_op(), ": expected a kernel's template argument from 0 to ", kMostNumber,
              ", got ", number);
}

void refuse_arguments(size_t count) {
  throw_error(ErrorKind::Assertion, current_op(), ": at most ", kMostTemplateArguments,
              " template arguments of a kernel, got ", count);
}

std::string TemplateArgument::text() const { return code_ & 0x80 ? kTypeNames[code_ & 0x7f] : std::to_string(code_); }

// Threads that need a kernel that is being compiled wait for it; others compile meanwhile.
CUfunction compiled(int device, const std::string& source, const std::string& expression,
                    const std::vector<int>& argument_bytes, unsigned threads, const Family& family) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::tuple<int, std::string, std::string>, std::shared_future<CUfunction>>;
  std::promise<CUfunction> promise;
  std::shared_future<CUfunction> result;
  bool mine = false;
  const auto key = std::make_tuple(device, source, expression);
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto& slot = known[key];
    if (!slot.valid()) {
      slot = promise.get_future().share();
      mine = true;
    }
    result = slot;
  }
  if (mine) {
    try {
      log_kernel({source, expression}, argument_bytes, threads);
      promise.set_value(load(device, {source, expression}, family));
    } catch (...) {
      promise.set_exception(std::current_exception());
      std::lock_guard<std::mutex> lock(mutex);
      known.erase(key);
    }
  }
  return result.get();
}

namespace {

struct Hash {
  size_t operator()(const FunctionKey& k) const {
    uint64_t h = reinterpret_cast<uintptr_t>(k.kernel) + k.types * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(k.device);
    return (h ^ h >> 32) * 0xd6e8feb86659fd93;
  }
};
std::shared_mutex functions_mutex;
auto& functions = *new std::unordered_map<FunctionKey, CUfunction, Hash>;

struct Recent {
  FunctionKey key{};
  CUfunction function = nullptr;
};
constexpr size_t kRecent = 256;
thread_local std::unique_ptr<Recent[]> recent;  // not an array: there is little room for variables of threads
Recent& recent_slot(const FunctionKey& key) {
  if (__builtin_expect(!recent, 0)) recent = std::make_unique<Recent[]>(kRecent);
  return recent[Hash()(key) >> 56];
}

}  // namespace

CUfunction recent_function(const FunctionKey& key) {
  const Recent& slot = recent_slot(key);
  return slot.key == key ? slot.function : nullptr;
}

CUfunction known_function(const FunctionKey& key) {
  std::shared_lock lock(functions_mutex);
  const auto found = functions.find(key);
  if (found == functions.end()) return nullptr;
  recent_slot(key) = {key, found->second};
  return found->second;
}

CUfunction keep_function(const FunctionKey& key, CUfunction function) {
  std::unique_lock lock(functions_mutex);
  recent_slot(key) = {key, function};
  return functions[key] = function;
}

CUfunction DeviceKernel::function(int device, TemplateArguments types, std::span<const int> argument_bytes,
                                  unsigned threads) const {
  const FunctionKey key{this, packed(types), device};
  if (CUfunction function = recent_function(key)) return function;
  if (CUfunction function = known_function(key)) return function;
  std::string expression = std::string("facula::cuda::") + name_;
  const char* before =
      expression.find('<') == std::string::npos ? "<" : ", ";  // the first arguments may be part of the name
  for (const TemplateArgument& t : types) {
    expression += before + t.text();
    before = ", ";
  }
  if (types.size()) expression += ">";
  CUfunction function = compiled(device, std::string("#include \"") + file_ + "\"\n", expression,
                                 {argument_bytes.begin(), argument_bytes.end()}, threads);
  return keep_function(key, function);
}

void launch(CUfunction function, int device, const Grid& grid, void** arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  constexpr unsigned kUsualShared = 48 << 10;
  if (grid.shared_bytes > kUsualShared)
    FACULA_CUDA_CALL(cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                     static_cast<int>(grid.shared_bytes));
  FACULA_CUDA_CALL(cuLaunchKernel, function, static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                   static_cast<unsigned>(grid.z), grid.threads, 1u, 1u, grid.shared_bytes,
                   handle(current_stream(device)), arguments, nullptr);
  wait_if_blocking(device);
}

DType bits_of(int64_t bytes) {
  switch (bytes) {
    case 1: return DType::UInt8;
    case 2: return DType::UInt16;
    case 4: return DType::UInt32;
    case 8: return DType::UInt64;
    default: return DType::Complex128;
  }
}

Grid grid_for(int device, int64_t count, unsigned threads) {
  const Properties& p = properties(device);
  const int64_t most =
      int64_t{p.multiprocessors} * std::max(1, p.threads_per_multiprocessor / static_cast<int>(threads)) * 4;
  return {threads, std::min((count + threads - 1) / threads, most)};
}

int aligned_width(DType dtype, std::span<const void* const> tensors) {
  for (const void* tensor : tensors)
    if (reinterpret_cast<uintptr_t>(tensor) % 16 != 0) return 1;
  return static_cast<int>(16 / item_size(dtype));
}

}  // namespace facula::cuda

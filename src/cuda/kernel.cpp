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

#include "cuda/device.h"
#include "cuda/kernel_cache.h"
#include "cuda/stream.h"

namespace facula::cuda {
namespace {

constexpr const char* kTypeNames[] = {
#define X(id, ...) "facula::cuda::" #id,
    FACULA_DTYPES(X)
#undef X
};

// ---- NVRTC

class Program {
 public:
  explicit Program(const std::string& source) {
    std::vector<const char*> texts, names;
    for (int i = 0; i < device_source_count; ++i) {
      texts.push_back(device_sources[i].text);
      names.push_back(device_sources[i].name);
    }
    check_compiler(compiler().nvrtcCreateProgram(&program_, source.c_str(), "facula_kernel.cu", device_source_count,
                                                 texts.data(), names.data()));
  }
  ~Program() { compiler().nvrtcDestroyProgram(&program_); }
  Program(const Program&) = delete;

  CompiledKernel compile(const std::string& expression, const std::vector<std::string>& options) {
    check_compiler(compiler().nvrtcAddNameExpression(program_, expression.c_str()));
    std::vector<const char*> given;
    for (const std::string& option : options) given.push_back(option.c_str());
    if (compiler().nvrtcCompileProgram(program_, static_cast<int>(given.size()), given.data()) != NVRTC_SUCCESS)
      throw_error(ErrorKind::Runtime, current_op(), ": the CUDA kernel does not compile, got ", log());
    CompiledKernel made;
    const char* name = nullptr;
    check_compiler(compiler().nvrtcGetLoweredName(program_, expression.c_str(), &name));
    made.name = name;
    size_t bytes = 0;
    check_compiler(compiler().nvrtcGetCUBINSize(program_, &bytes));
    made.image.resize(bytes);
    check_compiler(compiler().nvrtcGetCUBIN(program_, made.image.data()));
    return made;
  }

 private:
  void check_compiler(nvrtcResult result) const {
    FACULA_CHECK(result == NVRTC_SUCCESS, ErrorKind::Runtime, current_op(), ": CUDA's compiler works, got error ",
                 result);
  }
  std::string log() const {
    size_t bytes = 0;
    if (compiler().nvrtcGetProgramLogSize(program_, &bytes) != NVRTC_SUCCESS || bytes == 0) return "no text";
    std::string text(bytes, '\0');
    compiler().nvrtcGetProgramLog(program_, text.data());
    return text.c_str();
  }
  nvrtcProgram program_ = nullptr;
};

std::vector<std::string> compile_options(int device) {
  const Properties& p = properties(device);
  return {"-arch=sm_" + std::to_string(p.major) + std::to_string(p.minor), "--std=c++20", "-default-device",
          "--fmad=true"};
}

// All sources belong to the key: a kernel may include any of them.
const std::string& source_key() {
  static const std::string key = [] {
    uint64_t sum = 0;
    for (int i = 0; i < device_source_count; ++i) sum = checksum(device_sources[i].text, sum);
    return std::to_string(sum);
  }();
  return key;
}

std::string cache_key(int device, const std::string& source, const std::string& expression) {
  int major = 0, minor = 0;
  compiler().nvrtcVersion(&major, &minor);
  std::string key =
      source_key() + "\n" + std::to_string(major) + "." + std::to_string(minor) + (is_emulated() ? "e" : "");
  for (const std::string& option : compile_options(device)) key += " " + option;
  return key + "\n" + expression + "\n" + source;
}

CUfunction load(int device, const std::string& source, const std::string& expression) {
  const std::string key = cache_key(device, source, expression);
  CompiledKernel kernel;
  if (!read_cached(key, kernel)) {
    kernel = Program(source).compile(expression, compile_options(device));
    write_cached(key, kernel);
  }
  DeviceGuard guard(device);
  CUmodule module = nullptr;
  FACULA_CUDA_CALL(cuModuleLoadData, &module, kernel.image.data());
  CUfunction function = nullptr;
  FACULA_CUDA_CALL(cuModuleGetFunction, &function, module, kernel.name.c_str());
  return function;
}

}  // namespace

std::string TemplateArgument::text() const { return code_ & 0x80 ? kTypeNames[code_ & 0x7f] : std::to_string(code_); }

// Threads that ask for a kernel that is being compiled wait for it; others compile meanwhile.
CUfunction compiled(int device, const std::string& source, const std::string& expression) {
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
      promise.set_value(load(device, source, expression));
    } catch (...) {
      promise.set_exception(std::current_exception());
      std::lock_guard<std::mutex> lock(mutex);
      known.erase(key);
    }
  }
  return result.get();
}

namespace {

struct Key {
  const void* kernel;
  uint64_t types;
  int device;
  bool operator==(const Key&) const = default;
};
struct Hash {
  size_t operator()(const Key& k) const {
    uint64_t h = reinterpret_cast<uintptr_t>(k.kernel) + k.types * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(k.device);
    return (h ^ h >> 32) * 0xd6e8feb86659fd93;
  }
};
std::shared_mutex functions_mutex;
auto& functions = *new std::unordered_map<Key, CUfunction, Hash>;

}  // namespace

CUfunction DeviceKernel::function(int device, TemplateArguments types) const {
  uint64_t packed = 1;
  for (const TemplateArgument& t : types) packed = packed << 8 | t.code();
  const Key key{this, packed, device};
  {
    std::shared_lock lock(functions_mutex);
    if (const auto found = functions.find(key); found != functions.end()) return found->second;
  }
  std::string expression = std::string("facula::cuda::") + name_;
  const char* before =
      expression.find('<') == std::string::npos ? "<" : ", ";  // the first arguments may be part of the name
  for (const TemplateArgument& t : types) {
    expression += before + t.text();
    before = ", ";
  }
  if (types.size()) expression += ">";
  CUfunction function = compiled(device, std::string("#include \"") + file_ + "\"\n", expression);
  std::unique_lock lock(functions_mutex);
  return functions[key] = function;
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

}  // namespace facula::cuda

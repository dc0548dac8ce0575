#include "cuda/compile.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <compare>
#include <cstdlib>
#include <map>

#include "cuda/background.h"
#include "cuda/device.h"
#include "cuda/kernel.h"

namespace facula::cuda {
namespace {

class CompiledSource {
 public:
  explicit CompiledSource(const std::string& source) {
    std::vector<const char*> texts, names;
    for (int i = 0; i < device_source_count; ++i) {
      texts.push_back(device_sources[i].text);
      names.push_back(device_sources[i].name);
    }
    check(compiler().nvrtcCreateProgram(&program_, source.c_str(), "facula_kernel.cu", device_source_count,
                                        texts.data(), names.data()));
  }
  ~CompiledSource() { compiler().nvrtcDestroyProgram(&program_); }
  CompiledSource(const CompiledSource&) = delete;

  void compile(const std::vector<std::string>& expressions, const std::vector<std::string>& options) {
    for (const std::string& e : expressions) check(compiler().nvrtcAddNameExpression(program_, e.c_str()));
    std::vector<const char*> given;
    for (const std::string& option : options) given.push_back(option.c_str());
    if (compiler().nvrtcCompileProgram(program_, static_cast<int>(given.size()), given.data()) != NVRTC_SUCCESS)
      throw_error(ErrorKind::Runtime, current_op(), ": the CUDA kernel does not compile, got ", log());
  }

  std::string name(const std::string& expression) const {
    const char* name = nullptr;
    check(compiler().nvrtcGetLoweredName(program_, expression.c_str(), &name));
    return name;
  }

  std::vector<char> image(bool is_virtual) const {
    const Compiler& c = compiler();
    size_t bytes = 0;
    check((is_virtual ? c.nvrtcGetPTXSize : c.nvrtcGetCUBINSize)(program_, &bytes));
    std::vector<char> made(bytes);  // of PTX with the zero at its end
    check((is_virtual ? c.nvrtcGetPTX : c.nvrtcGetCUBIN)(program_, made.data()));
    return made;
  }

  std::string log() const {
    size_t bytes = 0;
    if (compiler().nvrtcGetProgramLogSize(program_, &bytes) != NVRTC_SUCCESS || bytes == 0) return "no text";
    std::string text(bytes, '\0');
    compiler().nvrtcGetProgramLog(program_, text.data());
    return text.c_str();
  }

 private:
  static void check(nvrtcResult result) {
    FACULA_CHECK(result == NVRTC_SUCCESS, ErrorKind::Runtime, current_op(), ": CUDA's compiler works, got error ",
                 result);
  }
  nvrtcProgram program_ = nullptr;
};

struct Version {
  int major = 0, minor = 0;
  auto operator<=>(const Version&) const = default;
};
Version compiler_version() {
  Version v;
  compiler().nvrtcVersion(&v.major, &v.minor);
  return v;
}

std::atomic<bool> are_relatives_strange{false};

std::vector<std::string> options_for(int architecture) {
  const Target target = target_of(architecture);
  std::vector<std::string> options = {
      (target.is_virtual ? "-arch=compute_" : "-arch=sm_") + std::to_string(target.architecture), "--std=c++20",
      "-default-device", "--fmad=true"};
  // without declarations of textures and of the runtime's functions, which take 40 ms to read
  if (compiler_version() >= Version{12, 4}) options.push_back("-minimal");
  return options;
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

std::string cache_key(const KernelSource& kernel, int architecture) {
  const auto [major, minor] = compiler_version();
  std::string key =
      source_key() + "\n" + std::to_string(major) + "." + std::to_string(minor) + (is_emulated() ? "e" : "");
  for (const std::string& option : options_for(architecture)) key += " " + option;
  return key + "\n" + kernel.expression + "\n" + kernel.source;
}

void replace_all(std::string& text, std::string_view old, const std::string& made) {
  for (size_t at = text.find(old); at != std::string::npos; at = text.find(old, at + made.size()))
    text.replace(at, old.size(), made);
}

/// One program of many: the loops of element-wise kernels, which are all called Loop, get names of their own.
std::string joined(const std::vector<KernelSource>& kernels, std::vector<std::string>& expressions) {
  std::string text;
  std::map<std::string, std::string> loop_of_source;
  for (const KernelSource& k : kernels) {
    const auto [place, is_new] = loop_of_source.try_emplace(k.source, "Loop" + std::to_string(loop_of_source.size()));
    if (kernels.size() == 1) place->second = "Loop";
    std::string source = k.source, expression = k.expression;
    replace_all(source, "struct Loop ", "struct " + place->second + " ");
    replace_all(expression, "facula::cuda::Loop,", "facula::cuda::" + place->second + ",");
    if (is_new) text += source;
    expressions.push_back(std::move(expression));
  }
  return text;
}

std::string json(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n') quoted += "\\n";
    else quoted += c;
  }
  return quoted + '"';
}

}  // namespace

Target target_of(int architecture) {
  static const std::vector<int> known = [] {
    int count = 0;
    if (compiler().nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS) count = 0;
    std::vector<int> all(static_cast<size_t>(count));
    if (count) compiler().nvrtcGetSupportedArchs(all.data());
    std::sort(all.begin(), all.end());
    return all;
  }();
  const auto above = std::upper_bound(known.begin(), known.end(), architecture);
  const auto text = [](int a) { return std::to_string(a / 10) + "." + std::to_string(a % 10); };
  FACULA_CHECK(above != known.begin() || known.empty(), ErrorKind::Runtime, current_op(),
               ": CUDA's compiler, of version ", compiler_version().major, ".", compiler_version().minor,
               ", makes kernels for devices of compute capability ", text(known.front()), " and newer, got one of ",
               text(architecture), "; an older compiler (nvidia-cuda-nvrtc) may know it");
  const int best = known.empty() ? architecture : *std::prev(above);
  const bool runs_it = best == architecture || (best / 10 == architecture / 10 && !are_relatives_strange);
  return {best, !runs_it};
}

void use_no_relatives() { are_relatives_strange = true; }

bool make_older(std::vector<char>& ptx, int driver_version) {
  constexpr std::string_view kWord = ".version ";
  const std::string_view text(ptx.data(), ptx.size());
  const size_t at = text.rfind(kWord);
  if (at == std::string_view::npos) return false;
  const size_t begin = at + kWord.size(), end = text.find('\n', begin);
  if (end == std::string_view::npos) return false;
  // CUDA 11.x reads PTX 7.x and 12.x reads 8.x, but 12.6 and later one less.
  const int major = driver_version / 1000, minor = driver_version % 1000 / 10;
  const int readable = (major - 4) * 10 + minor - (major == 12 && minor >= 6);
  const auto number = std::string(text.substr(begin, end - begin));
  if (std::lround(std::atof(number.c_str()) * 10) <= readable) return false;
  const std::string older = std::to_string(readable / 10) + "." + std::to_string(readable % 10);
  ptx.erase(ptx.begin() + static_cast<ptrdiff_t>(begin), ptx.begin() + static_cast<ptrdiff_t>(end));
  ptx.insert(ptx.begin() + static_cast<ptrdiff_t>(begin), older.begin(), older.end());
  return true;
}

CompiledKernel compile(const KernelSource& kernel, int architecture, const std::vector<std::string>& more_options,
                       std::string* log) {
  return compile_together({kernel}, architecture, more_options, log)[0];
}

std::vector<CompiledKernel> compile_together(const std::vector<KernelSource>& kernels, int architecture,
                                             const std::vector<std::string>& more_options, std::string* log) {
  std::vector<std::string> options = options_for(architecture), expressions;
  options.insert(options.end(), more_options.begin(), more_options.end());
  CompiledSource program(joined(kernels, expressions));
  program.compile(expressions, options);
  if (log) *log = program.log();
  std::vector<CompiledKernel> made;
  const std::vector<char> image = program.image(target_of(architecture).is_virtual);
  for (const std::string& e : expressions) made.push_back({program.name(e), image});
  return made;
}

size_t cache_together(std::vector<KernelSource> kernels, int architecture, const std::string& library) {
  CompiledKernel found;
  std::erase_if(kernels, [&](const KernelSource& k) { return read_cached(cache_key(k, architecture), found); });
  if (kernels.empty()) return 0;
  FACULA_CHECK(library.empty() || is_emulated(), ErrorKind::Value, "cache_together: the emulated device, got another");
  if (!library.empty()) {
    const auto made = compile_together(kernels, architecture, {"-library=" + library});
    for (size_t i = 0; i < made.size(); ++i) write_cached(cache_key(kernels[i], architecture), made[i]);
    return made.size();
  }
  std::vector<std::string> keys;
  for (const KernelSource& kernel : kernels) keys.push_back(cache_key(kernel, architecture));
  write_cached_together(keys, compile_together(kernels, architecture));
  return kernels.size();
}

CompiledKernel cached_or_compiled(const KernelSource& kernel, int architecture, bool* was_cached) {
  const std::string key = cache_key(kernel, architecture);
  CompiledKernel found;
  const bool cached = read_cached(key, found);
  if (was_cached) *was_cached = cached;
  if (cached) return found;
  note_foreground_work();
  CompiledKernel made = compile(kernel, architecture);
  note_foreground_work();
  write_cached(key, made);
  return made;
}

void log_kernel(const KernelSource& kernel, const std::vector<int>& argument_bytes, unsigned threads) {
  static const char* const path = std::getenv("FACULA_CUDA_LOG_KERNELS");
  if (!path || !*path) return;
  std::string line = "[" + json(kernel.source) + ", " + json(kernel.expression) + ", [";
  for (size_t i = 0; i < argument_bytes.size(); ++i) line += (i ? ", " : "") + std::to_string(argument_bytes[i]);
  line += "], " + std::to_string(threads) + "]\n";
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const bool written = file >= 0 && write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (file >= 0) close(file);
  FACULA_CHECK(written, ErrorKind::Runtime, "FACULA_CUDA_LOG_KERNELS: a file that can be written, got ", path);
}

}  // namespace facula::cuda

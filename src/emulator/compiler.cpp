// NVRTC's functions for the emulated device: the kernel's source is compiled by the host's C++ compiler into a shared
// library. $CXX names the compiler, FACULA_EMULATED_FLAGS its flags (default -O1). With -DFACULA_EMULATED_INLINED, -O2,
// -mfma and -ffp-contract=fast among them, products and sums become one instruction where a GPU's compiler would do so.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/abi.h"
#include "cuda/spawn.h"

#define API extern "C" __attribute__((visibility("default")))
#define DECLARE(name, ...) API nvrtcResult name(__VA_ARGS__);
FACULA_COMPILER_FUNCTIONS(DECLARE)
#undef DECLARE

extern "C" const char facula_emulated_device_header[];  // device.h; made by the build

namespace {

namespace fs = std::filesystem;
using facula::cuda::contents, facula::cuda::finish, facula::cuda::host_compiler, facula::cuda::start,
    facula::cuda::words;

// Whom the compiler knows: a device of FACULA_EMULATED_CAPABILITY may be newer or older than all of them.
constexpr int kArchitectures[] = {75, 80, 86, 89, 90, 100, 120};
constexpr int kImageFormat = 3;

struct CompiledSource {
  std::string source, name, log, image;
  int architecture = 0;
  bool is_virtual = false;
  std::map<std::string, std::string> headers;
  std::vector<std::string> expressions, options;
};
CompiledSource& program_of(nvrtcProgram p) { return *reinterpret_cast<CompiledSource*>(p); }

/// A folder of this process that goes away with it.
struct Folder {
  fs::path path;
  const pid_t owner = getpid();
  Folder() {
    std::error_code failed;
    std::string pattern = (fs::temp_directory_path(failed) / "facula-emulated-XXXXXX").string();
    if (!failed && mkdtemp(pattern.data())) path = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path.empty() && owner == getpid()) fs::remove_all(path, ignored);
  }
};

std::string full_source(const CompiledSource& p) {
  std::string text = "#define FACULA_EMULATED_KERNEL 1\n#include \"facula_emulated_device.h\"\n#line 1 \"" + p.name +
                     "\"\n" + p.source +
                     "\nextern \"C\" {\nextern __attribute__((visibility(\"default\"))) const FaculaEmulatedKernel "
                     "facula_kernels[];\n" +
                     "const FaculaEmulatedKernel facula_kernels[] = {\n";
  for (const std::string& e : p.expressions) text += "FACULA_EMULATED_ENTRY(\"" + e + "\", " + e + ")\n";
  return text + "{nullptr, nullptr, 0, nullptr}};\n}\n";
}

std::vector<std::string> command_line(const CompiledSource& p, const fs::path& in, const fs::path& out) {
  std::vector<std::string> command = host_compiler();
  command.push_back("-ffp-contract=off");
  const char* flags = std::getenv("FACULA_EMULATED_FLAGS");
  for (const std::string& flag : words(flags ? flags : "-O1")) command.push_back(flag);
  for (const char* flag : {"-std=c++20", "-w", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
                           "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"})
    command.push_back(flag);
  for (const std::string& option : p.options)
    if (option.starts_with("-D")) command.push_back(option);
  command.insert(command.end(), {"-I" + in.parent_path().string(), "-o", out.string(), in.string()});
  return command;
}

/// Reads -arch=sm_90 or -arch=compute_90.
bool find_architecture(CompiledSource& p) {
  for (const std::string& option : p.options) {
    for (const std::string_view kind : {"-arch=sm_", "-arch=compute_"}) {
      if (!option.starts_with(kind)) continue;
      p.architecture = std::atoi(option.c_str() + kind.size());
      p.is_virtual = kind != "-arch=sm_";
    }
  }
  return std::count(std::begin(kArchitectures), std::end(kArchitectures), p.architecture) == 1;
}

/// What an image begins with: its kind, the length of the rest, whom it is for.
std::string image_head(const CompiledSource& p, const char* kind, uint64_t length) {
  const int32_t facts[] = {p.architecture, p.is_virtual};
  std::string head(kind, 8);
  head.append(reinterpret_cast<const char*>(&length), sizeof length);
  head.append(reinterpret_cast<const char*>(facts), sizeof facts);
  return head;
}

/// The library itself, or with -library=PATH only its path, after moving it there.
void make_image(CompiledSource& p, const fs::path& library) {
  constexpr std::string_view kOption = "-library=";
  const auto option = std::find_if(p.options.begin(), p.options.end(),
                                   [&](const std::string& option) { return option.starts_with(kOption); });
  std::string bytes;
  if (option != p.options.end()) {
    bytes = option->substr(kOption.size());
    fs::create_directories(fs::path(bytes).parent_path());
    fs::copy_file(library, bytes + ".new", fs::copy_options::overwrite_existing);
    fs::rename(bytes + ".new", bytes);
  } else {
    bytes = contents(library);
  }
  p.image = image_head(p, option != p.options.end() ? "FACULAEP" : "FACULAEM", bytes.size()) + bytes;
  if (p.is_virtual) p.image += "\n.version 9.0\n";  // as PTX says it
}

}  // namespace

// The minor number changes with whatever a compiled kernel depends on, so that disk caches do not mix them up.
API nvrtcResult nvrtcVersion(int* major, int* minor) {
  size_t all = std::hash<std::string_view>()(facula_emulated_device_header);
  for (const char* name : {"CXX", "FACULA_EMULATED_FLAGS", "FACULA_CUDA"}) {
    const char* value = std::getenv(name);
    all = (all + kImageFormat) * 31 + std::hash<std::string_view>()(value ? value : "");
  }
  *major = 13;
  *minor = static_cast<int>(all & 0x7fffffff);
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name, int headers,
                                   const char* const* texts, const char* const* names) {
  auto* p = new CompiledSource{source, name ? name : "kernel.cu", {}, {}, {}, {}, {}};
  for (int i = 0; i < headers; ++i) p->headers[names[i]] = texts[i];
  *program = reinterpret_cast<nvrtcProgram>(p);
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete reinterpret_cast<CompiledSource*>(*program);
  *program = nullptr;
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, const char* expression) {
  program_of(program).expressions.push_back(expression);
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  static std::atomic<int> number{0};
  static const Folder folder;
  CompiledSource& p = program_of(program);
  if (const char* device = std::getenv("FACULA_CUDA"); device && std::string_view(device) == "null") {
    p.image = image_head(p, "FACULAEM", 0);
    return NVRTC_SUCCESS;
  }
  p.options.assign(options, options + count);
  if (!find_architecture(p)) {
    p.log = "the emulated device's compiler knows no such architecture (-arch)";
    return NVRTC_ERROR_INVALID_OPTION;
  }
  const fs::path here = folder.path / std::to_string(number++);
  std::error_code failed;
  if (folder.path.empty() || !fs::create_directory(here, failed)) {
    p.log = "the emulated device needs a folder for temporary files, and cannot make one (TMPDIR names another)";
    return NVRTC_ERROR_COMPILATION;
  }
  for (const auto& [name, text] : p.headers) std::ofstream(here / name) << text;
  std::ofstream(here / "facula_emulated_device.h") << facula_emulated_device_header;
  const fs::path source = here / "kernel.cpp", library = here / "kernel.so", log = here / "log";
  std::ofstream(source) << full_source(p);
  const std::vector<std::string> command = command_line(p, source, library);
  const int status = finish(start(command, log));
  p.log = status == -1 ? "the emulated device needs a C++ compiler, and \"" + command[0] +
                             "\" does not start (CXX names another)"
                       : contents(log);
  if (status == 0) make_image(p, library);
  std::error_code ignored;
  fs::remove_all(here, ignored);
  return status == 0 ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}
API nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* bytes) {
  *bytes = program_of(program).log.size() + 1;
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  std::strcpy(log, program_of(program).log.c_str());
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, const char* expression, const char** name) {
  for (const std::string& e : program_of(program).expressions) {
    if (e != expression) continue;
    *name = e.c_str();
    return NVRTC_SUCCESS;
  }
  return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
}
// As the real one: of a virtual architecture there is no code of a device.
API nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes) {
  *bytes = program_of(program).is_virtual ? 0 : program_of(program).image.size();
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) {
  if (program_of(program).is_virtual) return NVRTC_SUCCESS;
  return nvrtcGetPTX(program, cubin);
}
API nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* bytes) {
  *bytes = program_of(program).image.size();
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx) {
  std::memcpy(ptx, program_of(program).image.data(), program_of(program).image.size());
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(std::size(kArchitectures));
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcGetSupportedArchs(int* architectures) {
  std::copy(std::begin(kArchitectures), std::end(kArchitectures), architectures);
  return NVRTC_SUCCESS;
}

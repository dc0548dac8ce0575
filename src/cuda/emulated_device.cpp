#include "cuda/emulated_device.h"

#include <sys/file.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "cuda/kernel_cache.h"
#include "cuda/spawn.h"

namespace facula::cuda {
namespace {

namespace fs = std::filesystem;
const std::string kName = "libfacula_emulated_cuda", kEnding = ".so";

/// One process at a time has the lock of a folder; others wait.
struct FolderLock {
  int file;
  explicit FolderLock(const fs::path& folder)
      : file(folder.empty() ? -1 : open((folder / ".emulated-lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (file >= 0) flock(file, LOCK_EX);
  }
  ~FolderLock() {
    if (file >= 0) close(file);
  }
  bool held() const { return file >= 0; }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
};

std::vector<fs::path> files_under(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code missing;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, missing))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// Changes with the sources.
std::string number_of_build(const std::vector<fs::path>& files) {
  uint64_t sum = 0;
  for (const fs::path& file : files) sum = checksum(contents(file), sum);
  char text[20];
  std::snprintf(text, sizeof text, "-%016llx", static_cast<unsigned long long>(sum));
  return text;
}

/// Compiles sources, as many at a time as there are cores, in a folder of its own.
class Build {
 public:
  Build(fs::path sources, fs::path folder) : sources_(std::move(sources)), folder_(std::move(folder)) {
    std::error_code failed;
    fs::create_directories(folder_, failed);
  }
  ~Build() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Build(const Build&) = delete;
  Build& operator=(const Build&) = delete;

  bool compile(const std::vector<fs::path>& files) {
    const size_t together = std::max(1U, std::thread::hardware_concurrency());
    for (const fs::path& file : files) {
      if (file.extension() != ".cpp") continue;
      if (running_.size() == together && !wait_for_first()) return false;
      const fs::path object = folder_ / (file.stem().string() + ".o");
      objects_.push_back(object.string());
      std::vector<std::string> command = host_compiler();
      for (const char* flag : {"-std=c++20", "-O1", "-w", "-fPIC", "-fopenmp", "-fvisibility=hidden", "-pthread", "-c"})
        command.push_back(flag);
      command.insert(command.end(), {"-I" + sources_.string(), "-o", object.string(), file.string()});
      running_.push_back({start(command, log_of(object)), object, command[0]});
    }
    while (!running_.empty())
      if (!wait_for_first()) return false;
    return true;
  }
  bool link(const fs::path& library) {
    const fs::path made = folder_ / library.filename();
    std::vector<std::string> command = host_compiler();
    for (const char* flag : {"-shared", "-fopenmp", "-pthread", "-s", "-o"}) command.push_back(flag);
    command.push_back(made.string());
    command.insert(command.end(), objects_.begin(), objects_.end());
    command.push_back("-ldl");
    running_.push_back({start(command, log_of(made)), made, command[0]});
    if (!wait_for_first()) return false;
    std::error_code failed;
    fs::rename(made, library, failed);
    if (failed) error = "cannot write " + library.string();
    return !failed;
  }
  std::string error;

 private:
  struct Step {
    pid_t process;
    fs::path made;
    std::string compiler;
  };
  static fs::path log_of(const fs::path& made) { return made.string() + ".log"; }
  bool wait_for_first() {
    const Step step = running_.front();
    running_.erase(running_.begin());
    const int status = finish(step.process);
    if (status == 0) return true;
    while (!running_.empty()) {  // nobody is left behind
      finish(running_.front().process);
      running_.erase(running_.begin());
    }
    error = step.process < 0
                ? "the emulated device needs a C++ compiler, and \"" + step.compiler +
                      "\" does not start (CXX names another)"
                : "the emulated device's sources do not compile: " + contents(log_of(step.made)).substr(0, 2000);
    return false;
  }

  fs::path sources_, folder_;
  std::vector<std::string> objects_;
  std::vector<Step> running_;
};

fs::path build(const fs::path& sources, const std::vector<fs::path>& files, const fs::path& library,
               std::string& error) {
  std::fprintf(stderr, "facula: compiling the emulated CUDA device, once; this takes less than a minute\n");
  Build build(sources, library.parent_path() / (".emulated-build-" + std::to_string(getpid())));
  if (build.compile(files) && build.link(library)) return library;
  error = build.error;
  return {};
}

}  // namespace

fs::path emulated_device(const fs::path& own_folder, std::string& error) {
  std::error_code failed;
  for (const char* place : {"lib", "."})
    if (const fs::path shipped = own_folder / place / (kName + kEnding); fs::exists(shipped, failed)) return shipped;
  const fs::path sources = own_folder.parent_path() / "share/emulator";  // from facula/lib
  const std::vector<fs::path> files = files_under(sources);
  if (files.empty()) {
    error = "the package has neither the emulated device's library nor its sources";
    return {};
  }
  const std::string name = kName + number_of_build(files) + kEnding;
  const fs::path temporary = fs::temp_directory_path(failed) / ("facula-" + std::to_string(getuid()));
  const fs::path places[] = {own_folder, cache_folder(), temporary};  // best first: the package may be read-only
  for (const fs::path& place : places)
    if (!place.empty() && fs::exists(place / name, failed)) return place / name;
  for (const fs::path& place : places) {
    if (!place.empty()) fs::create_directories(place, failed);
    const FolderLock lock(place);
    if (!lock.held()) continue;
    if (fs::exists(place / name, failed)) return place / name;  // made by another process in the meantime
    return build(sources, files, place / name, error);
  }
  error =
      "the emulated device is compiled when it is first used, and neither the package's folder, the cache's "
      "(FACULA_CACHE_DIR) nor " +
      temporary.string() + " can be written";
  return {};
}

}  // namespace facula::cuda

// The emulated device of a package that was built from source: compiled when it is first asked for.
#include <dlfcn.h>
#include <stdlib.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "cuda/emulated_device.h"

namespace fs = std::filesystem;
using facula::cuda::emulated_device;

namespace {

/// A package in a folder that goes away: libraries in `lib`, sources in share/emulator.
struct Package {
  fs::path top, lib;
  Package() {
    std::string pattern = (fs::temp_directory_path() / "facula-test-XXXXXX").string();
    top = mkdtemp(pattern.data());
    lib = top / "lib";
    fs::create_directories(lib);
    setenv("FACULA_CACHE_DIR", (top / "cache").c_str(), 1);
  }
  ~Package() { fs::remove_all(top); }
  void source(const std::string& name, const std::string& text) const {
    const fs::path path = top / "share/emulator" / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string made(std::string& error) const { return emulated_device(lib, error).string(); }
};

void compiles_once() {
  const Package package;
  package.source("emulator/answer.h", "inline int of_header() { return 40; }\n");
  package.source(
      "emulator/one.cpp",
      "#include \"emulator/answer.h\"\nint two();\n"
      "extern \"C\" __attribute__((visibility(\"default\"))) int answer() { return of_header() + two(); }\n");
  package.source("emulator/two.cpp", "int two() { return 2; }\n");
  std::string error;
  const std::string library = package.made(error);
  CHECK(error.empty());
  EXPECT(library.starts_with(package.lib.string()));
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  CHECK(handle);
  EXPECT(reinterpret_cast<int (*)()>(dlsym(handle, "answer"))() == 42);
  const auto when = fs::last_write_time(library);
  EXPECT(package.made(error) == library && fs::last_write_time(library) == when);
  package.source("emulator/two.cpp", "int two() { return 3; }\n");  // another version of the package
  EXPECT(package.made(error) != library && error.empty());
  for (const fs::directory_entry& entry : fs::directory_iterator(package.lib))
    EXPECT(entry.path().filename().string().find("build") == std::string::npos);
}

/// Threads, like processes, wait for the one that compiles: all get one library, which is made once.
void many_ask_at_once() {
  const Package package;
  package.source("emulator/answer.cpp", "int answer() { return 1; }\n");
  std::array<std::string, 4> found, errors;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < found.size(); ++i) threads.emplace_back([&, i] { found[i] = package.made(errors[i]); });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < found.size(); ++i) EXPECT(errors[i].empty() && !found[i].empty() && found[i] == found[0]);
}

void says_why_not() {
  const Package package;
  std::string error;
  EXPECT(package.made(error).empty() &&
         error == "the package has neither the emulated device's library nor its sources");
  package.source("emulator/wrong.cpp", "int wrong() { return nothing_of_this_name; }\n");
  EXPECT(package.made(error).empty() && error.find("nothing_of_this_name") != std::string::npos);
  setenv("CXX", "no-such-compiler", 1);
  EXPECT(package.made(error).empty() && error.find("\"no-such-compiler\" does not start") != std::string::npos);
  unsetenv("CXX");
}

}  // namespace

int main() {
  compiles_once();
  many_ask_at_once();
  says_why_not();
  return failures != 0;
}

#include "cuda/kernel_cache.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace facula::cuda {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kMagic = "facula cuda kernel 1\n";

}  // namespace

fs::path cache_folder() {
  const auto variable = [](const char* name) {
    const char* text = std::getenv(name);
    return fs::path(text ? text : "");
  };
  if (const fs::path given = variable("FACULA_CACHE_DIR"); !given.empty()) return given / "cuda";
  if (const fs::path given = variable("XDG_CACHE_HOME"); !given.empty()) return given / "facula" / "cuda";
  const fs::path home = variable("HOME");
  return home.empty() ? fs::path() : home / ".cache" / "facula" / "cuda";
}

namespace {

fs::path path_of(const std::string& key) {
  char name[40];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(checksum(key, 0)));
  return cache_folder() / name;
}

// A file is the magic, then three texts, each behind its length, and the checksum of all of them.
void append(std::string& to, std::string_view text) {
  const uint64_t length = text.size();
  to.append(reinterpret_cast<const char*>(&length), sizeof length);
  to.append(text);
}

bool take(std::string_view& from, std::string_view& text) {
  uint64_t length;
  if (from.size() < sizeof length) return false;
  std::memcpy(&length, from.data(), sizeof length);
  from.remove_prefix(sizeof length);
  if (from.size() < length) return false;
  text = from.substr(0, length);
  from.remove_prefix(length);
  return true;
}

}  // namespace

uint64_t checksum(std::string_view text, uint64_t sum) {
  uint64_t h = sum ^ 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

bool read_cached(const std::string& key, CompiledKernel& kernel) {
  std::ifstream file(path_of(key), std::ios::binary);
  if (!file) return false;
  std::ostringstream all;
  all << file.rdbuf();
  const std::string bytes = all.str();
  std::string_view rest = bytes;
  if (!rest.starts_with(kMagic) || rest.size() < kMagic.size() + sizeof(uint64_t)) return false;
  uint64_t sum;
  std::memcpy(&sum, bytes.data() + bytes.size() - sizeof sum, sizeof sum);
  rest.remove_suffix(sizeof sum);
  if (checksum(rest, 0) != sum) return false;
  rest.remove_prefix(kMagic.size());
  std::string_view found, name, image;
  if (!take(rest, found) || found != key || !take(rest, name) || !take(rest, image)) return false;
  kernel.name = name;
  kernel.image.assign(image.begin(), image.end());
  return true;
}

void write_cached(const std::string& key, const CompiledKernel& kernel) {
  static std::atomic<int> number{0};
  const fs::path path = path_of(key);
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  if (failed || path.parent_path().empty()) return;
  std::string bytes(kMagic);
  append(bytes, key);
  append(bytes, kernel.name);
  append(bytes, {kernel.image.data(), kernel.image.size()});
  const uint64_t sum = checksum(bytes, 0);
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  const fs::path fresh = path.string() + "." + std::to_string(getpid()) + "." + std::to_string(number++);
  std::ofstream file(fresh, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) fs::rename(fresh, path, failed);
  if (!file || failed) fs::remove(fresh, failed);
}

}  // namespace facula::cuda

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
constexpr std::string_view kMagic = "facula cuda kernel 2\n", kImageMagic = "facula cuda image 1\n";

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

// A file is the magic, then texts, each behind its length, and the checksum of all of them.
void append(std::string& to, std::string_view text) {
  const uint64_t length = text.size();
  to.append(reinterpret_cast<const char*>(&length), sizeof length);
  to.append(text);
}

bool consume(std::string_view& from, std::string_view& text) {
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

namespace {

/// The texts of a file, behind its magic and before its checksum; nothing where it does not check.
std::string read_checked(const fs::path& path, std::string_view magic) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  std::ostringstream all;
  all << file.rdbuf();
  std::string bytes = all.str();
  uint64_t sum;
  if (!bytes.starts_with(magic) || bytes.size() < magic.size() + sizeof sum) return {};
  std::memcpy(&sum, bytes.data() + bytes.size() - sizeof sum, sizeof sum);
  bytes.resize(bytes.size() - sizeof sum);
  if (checksum(bytes, 0) != sum) return {};
  return bytes.substr(magic.size());
}

/// Under another name first. False where it cannot be written.
bool write_checked(const fs::path& path, std::string_view magic, std::initializer_list<std::string_view> texts) {
  static std::atomic<int> number{0};
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  if (failed || path.parent_path().empty()) return false;
  std::string bytes(magic);
  for (const std::string_view text : texts) append(bytes, text);
  const uint64_t sum = checksum(bytes, 0);
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  const fs::path fresh = path.string() + "." + std::to_string(getpid()) + "." + std::to_string(number++);
  std::ofstream file(fresh, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) fs::rename(fresh, path, failed);
  if (file && !failed) return true;
  fs::remove(fresh, failed);
  return false;
}

std::string_view whole(const std::vector<char>& image) { return {image.data(), image.size()}; }

/// The image that several kernels share, by its name.
bool read_image(const std::string& name, std::vector<char>& image) {
  const std::string bytes = read_checked(cache_folder() / name, kImageMagic);
  std::string_view rest = bytes, found;
  if (!consume(rest, found)) return false;
  image.assign(found.begin(), found.end());
  return true;
}

}  // namespace

bool read_cached(const std::string& key, CompiledKernel& kernel) {
  const std::string bytes = read_checked(path_of(key), kMagic);
  std::string_view rest = bytes, found, name, shared, image;
  if (!consume(rest, found) || found != key || !consume(rest, name) || !consume(rest, shared) || !consume(rest, image))
    return false;
  kernel.name = name;
  kernel.shared = shared;
  kernel.image.assign(image.begin(), image.end());
  return shared.empty() || read_image(kernel.shared, kernel.image);
}

void write_cached(const std::string& key, const CompiledKernel& kernel) {
  write_checked(path_of(key), kMagic, {key, kernel.name, "", whole(kernel.image)});
}

void write_cached_together(const std::vector<std::string>& keys, const std::vector<CompiledKernel>& kernels) {
  uint64_t sum = checksum(whole(kernels[0].image), 0);
  char name[40];
  std::snprintf(name, sizeof name, "%016llx.image", static_cast<unsigned long long>(sum));
  if (!write_checked(cache_folder() / name, kImageMagic, {whole(kernels[0].image)})) return;
  for (size_t i = 0; i < keys.size(); ++i)
    write_checked(path_of(keys[i]), kMagic, {keys[i], kernels[i].name, name, ""});
}

}  // namespace facula::cuda

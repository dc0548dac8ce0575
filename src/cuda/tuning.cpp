#include "cuda/tuning.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "core/error.h"
#include "cuda/device.h"
#include "cuda/library.h"

namespace facula::cuda {
namespace {

std::string variable(const char* name) {
  const char* text = std::getenv((std::string("PYTORCH_TUNABLEOP_") + name).c_str());
  return text ? text : "";
}
void read_switch(std::atomic<bool>& to, const char* name) {
  if (const std::string text = variable(name); !text.empty()) to = text == "1";
}
void read_number(std::atomic<int>& to, const char* name) {
  if (const std::string text = variable(name); !text.empty()) to = std::max(0, std::atoi(text.c_str()));
}

/// "results.csv" -> "results3.csv"; a %d in the name is where the number goes.
std::string numbered(const std::string& path, int device) {
  const std::string number = std::to_string(device);
  if (const size_t at = path.find("%d"); at != std::string::npos) return std::string(path).replace(at, 2, number);
  const std::filesystem::path p(path);
  return (p.parent_path() / (p.stem().string() + number + p.extension().string())).string();
}

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> found;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, ',');) found.push_back(field);
  return found;
}

}  // namespace

Tuning::Tuning() {
  read_switch(enabled, "ENABLED");
  read_switch(tunes, "TUNING");
  read_switch(records_untuned, "RECORD_UNTUNED");
  read_switch(checks, "NUMERICAL_CHECK");
  read_number(most_milliseconds, "MAX_TUNING_DURATION_MS");
  read_number(most_iterations, "MAX_TUNING_ITERATIONS");
  if (const std::string text = variable("FILENAME"); !text.empty()) path_ = text;
  if (const std::string text = variable("UNTUNED_FILENAME"); !text.empty()) untuned_path_ = text;
}

std::optional<TunedWay> Tuning::find(const Key& key, int device) {
  bool read_now;
  {
    std::lock_guard guard(mutex_);
    read_now = !std::exchange(was_read_, true);
  }
  if (read_now) read(path(device), device);
  std::lock_guard guard(mutex_);
  const auto found = results_.find(key);
  return found == results_.end() ? std::nullopt : std::optional(found->second);
}

void Tuning::add(const Key& key, const TunedWay& way, int device) {
  {
    std::lock_guard guard(mutex_);
    results_[key] = way;
  }
  write(device);
}

void Tuning::add_untuned(const Key& key, int device) {
  std::lock_guard guard(mutex_);
  if (!untuned_.insert(key).second) return;
  std::ofstream(numbered(untuned_path_, device), std::ios::app) << key.first << ',' << key.second << '\n';
}

std::map<Tuning::Key, TunedWay> Tuning::results() {
  std::lock_guard guard(mutex_);
  return results_;
}

Tuning::Rows Tuning::validators(int device) {
  const OpenedLibrary& library = opened(Library::Blas);
  std::string why;
  const auto version = reinterpret_cast<size_t (*)()>(library.find("cublasLtGetVersion", why));
  return {{"CUBLASLT_VERSION", version ? std::to_string(version()) : "unknown"}, {"DEVICE", properties(device).name}};
}

bool Tuning::read(const std::string& path, int device) {
  std::ifstream in(path);
  if (!in) return false;
  Rows made_with;
  std::map<Key, TunedWay> found;
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> f = fields(line);
    if (f.size() == 3 && f[0] == "Validator") made_with.emplace_back(f[1], f[2]);
    else if (f.size() >= 3) found[{f[0], f[1]}] = {f[2], f.size() > 3 ? std::atof(f[3].c_str()) : 0.0};
  }
  if (made_with != validators(device)) return false;
  std::lock_guard guard(mutex_);
  was_read_ = true;
  for (const auto& [key, way] : found) results_[key] = way;
  ++version;
  return true;
}

void Tuning::write(int device) {
  const std::string to = path(device), part = to + ".new";
  if (to.empty()) return;
  const Rows made_with = validators(device);
  std::lock_guard guard(mutex_);
  {
    std::ofstream out(part);
    for (const auto& [name, value] : made_with) out << "Validator," << name << ',' << value << '\n';
    for (const auto& [key, way] : results_)
      out << key.first << ',' << key.second << ',' << way.way << ',' << way.milliseconds << '\n';
    FACULA_CHECK(out.flush(), ErrorKind::Runtime, "cuda.tunable: cannot write ", part);
  }
  std::error_code error;
  std::filesystem::rename(part, to, error);
  FACULA_CHECK(!error, ErrorKind::Runtime, "cuda.tunable: cannot write ", to, ": ", error.message());
}

std::string Tuning::path(int device) {
  std::lock_guard guard(mutex_);
  return with_device_ ? numbered(path_, device) : path_;
}

void Tuning::set_path(const std::string& path, bool with_device) {
  std::lock_guard guard(mutex_);
  path_ = path;
  with_device_ = with_device;
  was_read_ = false;
  ++version;
}

Tuning& tuning() {
  static Tuning& only = *new Tuning;
  return only;
}

}  // namespace facula::cuda

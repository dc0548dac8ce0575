#include "cuda/allocator_settings.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "core/error.h"

namespace facula::cuda {
namespace {

constexpr size_t kMiB = 1 << 20, kLeastSplitMiB = 20;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Pieces between separators that stand in no brackets.
std::vector<std::string_view> pieces(std::string_view text, char separator) {
  std::vector<std::string_view> all;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : separator;
    depth += (c == '[') - (c == ']');
    if (c != separator || (depth > 0 && i < text.size())) continue;
    all.push_back(trimmed(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  return all;
}

[[noreturn]] void wrong(std::string_view key, const char* expected, std::string_view given) {
  throw_error(ErrorKind::Value, "CUDAAllocatorConfig: ", key, ": ", expected, ", got ", given);
}

template <class T>
T number(std::string_view key, const char* expected, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) wrong(key, expected, text);
  return value;
}

void set_expandable(AllocatorSettings& s, std::string_view key, std::string_view value) {
  if (value != "True" && value != "False") wrong(key, "True or False", value);
  s.expandable_segments = value == "True";
}
void set_max_split(AllocatorSettings& s, std::string_view key, std::string_view value) {
  const auto mib = number<size_t>(key, "a number of MiB", value);
  if (mib <= kLeastSplitMiB) wrong(key, "more than 20", value);
  s.max_split = std::min(mib, SIZE_MAX / kMiB) * kMiB;
}
void set_threshold(AllocatorSettings& s, std::string_view key, std::string_view value) {
  s.garbage_threshold = number<double>(key, "a share between 0 and 1", value);
  if (!(s.garbage_threshold > 0 && s.garbage_threshold < 1)) wrong(key, "a share between 0 and 1", value);
}
size_t power(std::string_view key, std::string_view text) {
  const auto n = number<size_t>(key, "a power of two", text);
  if (!std::has_single_bit(n)) wrong(key, "a power of two", text);
  return n;
}
/// The place of a size in MiB among the divisions.
size_t place_of(size_t mib) { return std::min<size_t>(std::bit_width(mib), 16) - (mib > 0); }

void set_divisions(AllocatorSettings& s, std::string_view key, std::string_view value) {
  if (value.empty() || value.front() != '[') return s.divisions.fill(power(key, value));
  if (value.back() != ']') wrong(key, "a list in brackets", value);
  size_t from = 0, last = 1;
  for (const std::string_view item : pieces(value.substr(1, value.size() - 2), ',')) {
    const auto both = pieces(item, ':');
    if (both.size() != 2) wrong(key, "sizes with their divisions, such as 256:4", item);
    const size_t to = both[0] == ">" ? s.divisions.size() - 1 : place_of(power(key, both[0]));
    last = power(key, both[1]);
    for (; from <= to; ++from) s.divisions[from] = last;
  }
  for (; from < s.divisions.size(); ++from) s.divisions[from] = last;
}
void set_backend(AllocatorSettings&, std::string_view key, std::string_view value) {
  if (value != "native") wrong(key, "native", value);
}

constexpr struct {
  std::string_view key;
  void (*set)(AllocatorSettings&, std::string_view key, std::string_view value);
} keys[] = {{"expandable_segments", set_expandable},
            {"max_split_size_mb", set_max_split},
            {"garbage_collection_threshold", set_threshold},
            {"roundup_power2_divisions", set_divisions},
            {"backend", set_backend}};

struct Current {
  std::mutex mutex;
  std::string text;
  AllocatorSettings settings;

  Current() {
    for (const char* name : {"FACULA_CUDA_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
      const char* found = std::getenv(name);
      if (!found) continue;
      settings = parse_allocator_settings(text = found);
      return;
    }
  }
};
Current& current() {
  static Current c;  // made anew while the environment's are wrong
  return c;
}

}  // namespace

AllocatorSettings parse_allocator_settings(std::string_view text) {
  AllocatorSettings s;
  if (trimmed(text).empty()) return s;
  for (const std::string_view item : pieces(text, ',')) {
    const size_t colon = item.find(':');
    const std::string_view key = trimmed(item.substr(0, colon));
    const auto* known = std::find_if(std::begin(keys), std::end(keys), [&](const auto& k) { return k.key == key; });
    FACULA_CHECK(known != std::end(keys), ErrorKind::Value,
                 "CUDAAllocatorConfig: one of expandable_segments, max_split_size_mb, "
                 "garbage_collection_threshold, roundup_power2_divisions and backend, got ",
                 key.empty() ? "nothing" : key);
    if (colon == std::string_view::npos) wrong(key, "a value after a colon", item);
    known->set(s, key, trimmed(item.substr(colon + 1)));
  }
  return s;
}

AllocatorSettings allocator_settings() {
  Current& c = current();
  std::lock_guard<std::mutex> lock(c.mutex);
  return c.settings;
}
std::string allocator_settings_text() {
  Current& c = current();
  std::lock_guard<std::mutex> lock(c.mutex);
  return c.text;
}
void set_allocator_settings(std::string_view text) {
  const AllocatorSettings parsed = parse_allocator_settings(text);
  Current& c = current();
  std::lock_guard<std::mutex> lock(c.mutex);
  c.settings = parsed;
  c.text = text;
  ++detail::settings_version;
}

size_t divisions_for(const AllocatorSettings& s, size_t bytes) { return s.divisions[place_of(bytes / kMiB)]; }

bool detail::is_switched_on(const char* name) {
  const char* text = std::getenv(name);
  return text && *text && *text != '0';
}

}  // namespace facula::cuda

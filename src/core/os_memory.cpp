#include "core/os_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace facula::os {

char* reserve(size_t bytes) {
  const size_t padded = bytes + kHugePage;
  void* raw = mmap(nullptr, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  char* first = static_cast<char*>(raw);
  char* begin = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(raw) + kHugePage - 1) & ~(kHugePage - 1));
  if (begin > first) munmap(first, static_cast<size_t>(begin - first));
  const size_t tail = padded - bytes - static_cast<size_t>(begin - first);
  if (tail > 0) munmap(begin + bytes, tail);
  return begin;
}

bool commit(char* begin, size_t bytes) { return mprotect(begin, bytes, PROT_READ | PROT_WRITE) == 0; }

void prefer_huge_pages(char* begin, size_t bytes, bool prefer) {
  madvise(begin, bytes, prefer ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

namespace {

struct Pages {
  void* begin;
  size_t bytes;
};

Pages whole_pages(char* begin, size_t bytes) {
  const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + kPage - 1) & ~(kPage - 1);
  const uintptr_t last = (reinterpret_cast<uintptr_t>(begin) + bytes) & ~(kPage - 1);
  return {reinterpret_cast<void*>(first), last > first ? last - first : 0};
}

}  // namespace

void discard(char* begin, size_t bytes) {
  const Pages pages = whole_pages(begin, bytes);
  if (pages.bytes > 0) madvise(pages.begin, pages.bytes, MADV_DONTNEED);
}

Moved move_pages(char* from, char* to, size_t bytes) {
#ifdef MREMAP_DONTUNMAP
  constexpr int kFlags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
  if (mremap(from, bytes, bytes, kFlags, to) != MAP_FAILED) return Moved::Yes;
  return errno == EFAULT ? Moved::Partly : Moved::No;
#else
  static_cast<void>(from), static_cast<void>(to), static_cast<void>(bytes);
  return Moved::No;
#endif
}

bool keep_from_children(char* begin, size_t bytes, bool keep) {
  const Pages pages = whole_pages(begin, bytes);
  return pages.bytes > 0 && madvise(pages.begin, pages.bytes, keep ? MADV_DONTFORK : MADV_DOFORK) == 0;
}

bool map_anew(char* begin, size_t bytes) {
  const Pages pages = whole_pages(begin, bytes);
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return mmap(pages.begin, pages.bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0) != MAP_FAILED;
}

void unreserve(char* begin, size_t bytes) { munmap(begin, bytes); }

namespace {

std::string read_text(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(fd, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
  close(fd);
  return text;
}

// The number after `key` at the start of a line, or `otherwise`.
size_t field(const std::string& text, const std::string& key, size_t otherwise) {
  for (size_t line = 0; line < text.size();) {
    if (text.compare(line, key.size(), key) == 0) return std::strtoull(text.c_str() + line + key.size(), nullptr, 10);
    const size_t end = text.find('\n', line);
    if (end == std::string::npos) break;
    line = end + 1;
  }
  return otherwise;
}

// A number file of a cgroup; an absent file and the word "max" mean no limit.
size_t number_file(const std::string& path) {
  const std::string text = read_text(path);
  if (text.empty() || text[0] < '0' || text[0] > '9') return SIZE_MAX;
  return std::strtoull(text.c_str(), nullptr, 10);
}

struct Cgroup {
  std::string limit_file;
  std::string usage_file;
  std::string stat_file;
  std::string stat_prefix;  // before the names of the page cache's counters
};

size_t physical_memory() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// The cgroups above this process that limit its memory. Found once: processes hardly ever move.
const std::vector<Cgroup>& limiting_cgroups() {
  static const std::vector<Cgroup>* found = [] {
    auto* groups = new std::vector<Cgroup>;
    const std::string table = read_text("/proc/self/cgroup");  // rows "id:controllers:path"
    for (size_t line = 0; line < table.size();) {
      const size_t end = std::min(table.find('\n', line), table.size());
      const std::string row = table.substr(line, end - line);
      line = end + 1;
      const size_t first = row.find(':'), second = row.find(':', first + 1);
      if (second == std::string::npos) continue;
      const std::string controllers = "," + row.substr(first + 1, second - first - 1) + ",";
      const bool unified = controllers == ",,";
      if (!unified && controllers.find(",memory,") == std::string::npos) continue;
      const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
      // Inside a container the path may name a folder of the host that is not visible: walk up to the root.
      for (std::string path = row.substr(second + 1);; path = path.substr(0, path.rfind('/'))) {
        const std::string folder = root + path;
        Cgroup group{folder + (unified ? "/memory.max" : "/memory.limit_in_bytes"),
                     folder + (unified ? "/memory.current" : "/memory.usage_in_bytes"), folder + "/memory.stat",
                     unified ? "" : "total_"};
        if (number_file(group.limit_file) < physical_memory()) groups->push_back(group);
        if (path.empty() || path == "/") break;
      }
    }
    return groups;
  }();
  return *found;
}

}  // namespace

size_t total_memory() {
  size_t total = physical_memory();
  for (const Cgroup& group : limiting_cgroups()) total = std::min(total, number_file(group.limit_file));
  return total;
}

size_t available_memory() {
  const size_t kib = field(read_text("/proc/meminfo"), "MemAvailable:", physical_memory() >> 10);
  size_t available = kib << 10;
  for (const Cgroup& group : limiting_cgroups()) {
    const size_t limit = number_file(group.limit_file);
    size_t used = number_file(group.usage_file);
    if (limit == SIZE_MAX || used == SIZE_MAX) continue;
    const std::string stat = read_text(group.stat_file);
    const size_t files =
        field(stat, group.stat_prefix + "inactive_file ", 0) + field(stat, group.stat_prefix + "active_file ", 0);
    used -= std::min(used, files);  // cached files are dropped before anything fails
    available = std::min(available, limit - std::min(limit, used));
  }
  return available;
}

}  // namespace facula::os

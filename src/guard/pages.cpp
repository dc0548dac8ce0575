// A block is a range of pages of its own: one without access, the bytes, one without access. The bytes end at the last
// page, so that the first element past them is a segmentation fault. Their alignment is that of their size, as any view
// may have it. What is left in front of them is filled and looked at when they are released. Fresh bytes hold a pattern
// that makes bad indices, released ones stay without access until `kKept` later ones have been released.
#include "guard/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "core/backend.h"
#include "core/mode.h"
#include "core/storage.h"

namespace facula::guard {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kMost = size_t{1} << 20;  // larger blocks are the allocator's own
constexpr size_t kKept = 256;
constexpr char kFilled = 0x5a;

struct Range {
  char* begin = nullptr;
  size_t bytes = 0;
};
struct Pages {
  std::mutex mutex;
  Allocator before;
  std::unordered_map<char*, Range> held;
  std::deque<Range> released;
};
Pages& pages() {
  static Pages& it = *new Pages;
  return it;
}
thread_local bool is_on = false;

Range map_block(size_t bytes) {
  const size_t inner = (bytes + kPage - 1) / kPage * kPage, all = inner + 2 * kPage;
  void* range = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const bool mapped = range != MAP_FAILED;
  char* begin = static_cast<char*>(range);
  FACULA_CHECK(mapped && mprotect(begin + kPage, inner, PROT_READ | PROT_WRITE) == 0, ErrorKind::OutOfMemory,
               "guard: cannot get pages for ", bytes, " bytes");
  std::memset(begin + kPage, kFilled, inner);
  return {begin, all};
}

void* allocate(size_t bytes, Device device, Stream stream) {
  Pages& p = pages();
  if (!is_on || bytes > kMost) return p.before.allocate(bytes, device, stream);
  const Range range = map_block(bytes);
  char* block = range.begin + range.bytes - kPage - bytes;
  const std::lock_guard lock(p.mutex);
  p.held.emplace(block, range);
  return block;
}

void check_front(const Range& range, const char* block) {
  const char* first = range.begin + kPage;
  if (std::all_of(first, block, [](char c) { return c == kFilled; })) return;
  std::fputs("facula: something wrote in front of a tensor's memory\n", stderr);
  std::abort();
}

void release(void* pointer, size_t bytes, Device device) {
  Pages& p = pages();
  const std::unique_lock lock(p.mutex);
  const auto found = p.held.find(static_cast<char*>(pointer));
  if (found == p.held.end()) return p.before.release(pointer, bytes, device);
  const Range range = found->second;
  check_front(range, found->first);
  p.held.erase(found);
  mprotect(range.begin, range.bytes, PROT_NONE);
  madvise(range.begin, range.bytes, MADV_DONTNEED);
  p.released.push_back(range);
  if (p.released.size() <= kKept) return;
  munmap(p.released.front().begin, p.released.front().bytes);
  p.released.pop_front();
}

}  // namespace

void guard_pages(bool on) {
  static std::once_flag installed;
  std::call_once(installed, [] {
    Allocator& allocator = backend_of(DeviceType::CPU).allocator;
    pages().before = allocator;
    allocator = {allocate, release};
    if (!on_storage_change) on_storage_change = [](Storage*, int64_t) {};
  });
  is_on = on;
  set_watch(kWatchThreadMemory, on);  // small storages then come from the allocator, too
}

}  // namespace facula::guard

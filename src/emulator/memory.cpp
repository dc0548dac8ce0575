#include <sys/mman.h>

#include <cstring>
#include <map>
#include <vector>

#include "emulator/stream.h"

namespace facula::emulator {
namespace {

constexpr size_t kAlign = 512;
constexpr int kFresh = 0xcb, kReleased = 0xdd;

/// The memory of all devices: one range of addresses.
struct Arena {
  std::mutex mutex;
  char* base = nullptr;
  size_t bytes = 0;
  std::map<CUdeviceptr, size_t> taken, free;  // by address; `free` blocks never touch each other
  std::vector<size_t> used;
  std::map<CUdeviceptr, int> owner;
  int openings = 0;

  Arena() {
    const Settings& s = settings();
    bytes = s.memory * static_cast<size_t>(s.devices);
    void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      bytes = 0;
      return;
    }
    base = static_cast<char*>(memory);
    free[reinterpret_cast<CUdeviceptr>(base)] = bytes;
    used.resize(static_cast<size_t>(s.devices));
    if (is_open()) protect(PROT_READ | PROT_WRITE);  // threads work in it while the host does something else
  }
  static bool is_open() { return settings().mode == Mode::Async || settings().mode == Mode::Null; }
  void protect(int how) const { mprotect(base, bytes, how); }
};

Arena& arena() {
  static Arena& a = *new Arena;  // never dies: streams may outlive main
  return a;
}

size_t rounded(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace

Opened::Opened() {
  if (Arena::is_open()) return;
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  if (a.openings++ == 0) a.protect(PROT_READ | PROT_WRITE);
}

Opened::~Opened() {
  if (Arena::is_open()) return;
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  if (--a.openings == 0) a.protect(PROT_NONE);
}

CUresult allocate(CUdeviceptr* memory, size_t bytes, int device) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Opened opened;
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  if (bytes > settings().memory) return CUDA_ERROR_OUT_OF_MEMORY;
  const size_t size = rounded(bytes);
  if (a.used.empty() || a.used[static_cast<size_t>(device)] + size > settings().memory) return CUDA_ERROR_OUT_OF_MEMORY;
  for (auto block = a.free.begin(); block != a.free.end(); ++block) {
    if (block->second < size) continue;
    const auto [address, room] = *block;
    a.free.erase(block);
    if (room > size) a.free[address + size] = room - size;
    a.taken[address] = bytes;
    a.owner[address] = device;
    a.used[static_cast<size_t>(device)] += size;
    if (settings().mode != Mode::Null) std::memset(reinterpret_cast<void*>(address), kFresh, size);
    *memory = address;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult release(CUdeviceptr memory) {
  synchronize_all();  // as the real one
  Opened opened;
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  const auto found = a.taken.find(memory);
  if (found == a.taken.end()) return CUDA_ERROR_INVALID_VALUE;
  size_t size = rounded(found->second);
  a.taken.erase(found);
  a.used[static_cast<size_t>(a.owner[memory])] -= size;
  a.owner.erase(memory);
  if (settings().mode != Mode::Null) std::memset(reinterpret_cast<void*>(memory), kReleased, size);
  auto next = a.free.lower_bound(memory);
  if (next != a.free.end() && next->first == memory + size) {
    size += next->second;
    next = a.free.erase(next);
  }
  if (next != a.free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == memory) {
      before->second += size;
      return CUDA_SUCCESS;
    }
  }
  a.free[memory] = size;
  return CUDA_SUCCESS;
}

void memory_info(size_t* free, size_t* total, int device) {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  *total = settings().memory;
  *free = a.used.empty() ? 0 : settings().memory - a.used[static_cast<size_t>(device)];
}

bool is_allocated(CUdeviceptr memory, size_t bytes) {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  auto after = a.taken.upper_bound(memory);
  if (after == a.taken.begin()) return false;
  const auto& [address, size] = *std::prev(after);
  return bytes <= size && memory - address <= size - bytes;
}

}  // namespace facula::emulator

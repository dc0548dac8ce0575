// Memory of the emulated devices: one file in memory, which other processes can map, too. What cuMemAlloc gives lies in
// one mapping of it; what cuMemCreate gives has no address before cuMemMap.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "emulator/stream.h"

#define API extern "C" __attribute__((visibility("default")))
#define DECLARE(name, ...) API CUresult name(__VA_ARGS__);
FACULA_VIRTUAL_MEMORY_FUNCTIONS(DECLARE)
#undef DECLARE

namespace facula::emulator {
namespace {

constexpr size_t kAlign = 4096, kGranularity = 2 << 20;
constexpr int kFresh = 0xcb, kReleased = 0xdd;

/// Bytes of the file that are in use.
struct Taken {
  size_t bytes;
  int device, users;  // mappings of it, and who made it
  bool is_shareable = false;
};
/// Addresses that kernels may use.
struct Visible {
  enum Kind : uint8_t { Allocated, Mapped, Imported } kind;
  size_t bytes, offset;
  bool readable;
  int users = 1;
  bool is_foreign = false;  // of another process's file
};
/// Memory that cuMemImportFromShareableHandle has found, until it is released; what is mapped stays.
struct Foreign {
  int file;
  size_t offset, bytes;
};
/// What is in a file that cuMemExportToShareableHandle makes.
struct Exported {
  char magic[8];
  SharedMemory memory;
};
constexpr char kExportMagic[8] = "FEEXPOR";
constexpr CUmemGenericAllocationHandle kFirstForeign = CUmemGenericAllocationHandle{1} << 62;

void watch_accesses();

struct Arena {
  std::mutex mutex;
  int file = -1;
  char* base = nullptr;
  size_t bytes = 0;
  std::map<size_t, Taken> taken;  // by offset in the file
  std::map<size_t, size_t> free;  // those never touch each other
  std::vector<size_t> used;
  std::map<CUdeviceptr, Visible> visible;
  std::map<CUdeviceptr, size_t> reserved;
  std::map<std::string, CUdeviceptr> imported;
  std::deque<size_t> quarantine;  // guarded allocations that were released: inaccessible as long as there is other room
  std::map<CUmemGenericAllocationHandle, Foreign> foreign;
  CUmemGenericAllocationHandle next_foreign = kFirstForeign;
  int openings = 0;

  Arena() {
    const Settings& s = settings();
    bytes = s.memory * static_cast<size_t>(s.devices);
    file = memfd_create("facula_device", MFD_CLOEXEC);
    void* memory =
        file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0
            ? mmap(nullptr, bytes, s.guard ? PROT_NONE : protection(false), MAP_SHARED | MAP_NORESERVE, file, 0)
            : MAP_FAILED;
    if (memory == MAP_FAILED) {
      bytes = 0;
      return;
    }
    base = static_cast<char*>(memory);
    free[0] = bytes;
    if (s.guard || !is_open()) watch_accesses();
    used.resize(static_cast<size_t>(s.devices));
  }
  // In async mode threads work in it while the host does something else.
  static bool is_open() { return settings().mode == Mode::Async || settings().mode == Mode::Null; }
  static int protection(bool open) { return open || is_open() ? PROT_READ | PROT_WRITE : PROT_NONE; }
  void protect(bool open) const {
    if (!settings().guard) mprotect(base, bytes, protection(open));
    for (const auto& [address, piece] : visible)
      if (piece.kind == Visible::Allocated ? settings().guard : piece.readable) protect(address, piece.bytes, open);
  }
  static void protect(CUdeviceptr address, size_t size, bool open) {
    const CUdeviceptr begin = address / kAlign * kAlign;
    mprotect(reinterpret_cast<void*>(begin), address - begin + size, protection(open));
  }

  bool take(size_t* offset, size_t size, int device);
  bool take_pages(size_t* offset, size_t size, int device);
  void give_back(size_t offset);
  void free_pages(size_t offset, size_t size);
  /// `bytes` that end where a page ends that is never accessible.
  bool take_guarded(size_t* offset, size_t bytes, int device);
  void release_guarded(const Visible& piece);
};

Arena& arena() {
  static Arena& a = *new Arena;  // never dies: streams may outlive main
  return a;
}

size_t rounded(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

bool Arena::take(size_t* offset, size_t size, int device) {
  if (!take_pages(offset, size, device)) return false;
  if (settings().mode != Mode::Null) std::memset(base + *offset, kFresh, size);
  return true;
}

bool Arena::take_pages(size_t* offset, size_t size, int device) {
  if (used.empty() || size > settings().memory || used[static_cast<size_t>(device)] + size > settings().memory)
    return false;
  for (auto block = free.begin(); block != free.end(); ++block) {
    if (block->second < size) continue;
    const auto [at, room] = *block;
    free.erase(block);
    if (room > size) free[at + size] = room - size;
    taken[at] = {size, device, 1};
    used[static_cast<size_t>(device)] += size;
    *offset = at;
    return true;
  }
  return false;
}

void Arena::give_back(size_t offset) {
  const auto found = taken.find(offset);
  if (--found->second.users > 0) return;
  size_t size = found->second.bytes;
  used[static_cast<size_t>(found->second.device)] -= size;
  taken.erase(found);
  if (settings().mode != Mode::Null) std::memset(base + offset, kReleased, size);
  free_pages(offset, size);
}

void Arena::free_pages(size_t offset, size_t size) {
  auto next = free.lower_bound(offset);
  if (next != free.end() && next->first == offset + size) {
    size += next->second;
    next = free.erase(next);
  }
  if (next != free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  free[offset] = size;
}

/// What a kernel may reach behind the last byte, since allocations begin at multiples of this.
constexpr size_t kGuardUnit = 256;

bool Arena::take_guarded(size_t* offset, size_t bytes_wanted, int device) {
  const size_t size = rounded(bytes_wanted) + kAlign;
  while (!take_pages(offset, size, device)) {
    if (quarantine.empty()) return false;
    const size_t oldest = quarantine.front();
    quarantine.pop_front();
    const size_t its_size = taken.at(oldest).bytes;
    taken.erase(oldest);
    free_pages(oldest, its_size);
  }
  mprotect(base + *offset, size - kAlign, PROT_READ | PROT_WRITE);
  std::memset(base + *offset, kFresh, size - kAlign);
  *offset += size - kAlign - (bytes_wanted + kGuardUnit - 1) / kGuardUnit * kGuardUnit;
  return true;
}

void Arena::release_guarded(const Visible& piece) {
  const auto found = std::prev(taken.upper_bound(piece.offset));
  auto& [offset, pages] = *found;
  used[static_cast<size_t>(pages.device)] -= pages.bytes;
  const char *behind = base + piece.offset + piece.bytes, *end = base + offset + pages.bytes - kAlign;
  if (std::any_of(behind, end, [](char c) { return static_cast<unsigned char>(c) != kFresh; })) {
    std::fprintf(stderr, "facula emulated device: something was written behind the end of a block of %zu bytes\n",
                 piece.bytes);
    sticky_error = CUDA_ERROR_LAUNCH_FAILED;
  }
  mprotect(base + offset, pages.bytes, PROT_NONE);
  fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(pages.bytes));
  quarantine.push_back(offset);
}

// ---- accesses of memory that is not allocated

struct sigaction former_action;

/// Says whose access it was; the process then ends as it would have.
void report_access(int signal, siginfo_t* information, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(information->si_addr);
  const Arena& a = arena();
  const auto base = reinterpret_cast<uintptr_t>(a.base);
  char text[300];
  int length = 0;
  if (running_kernel)
    length = std::snprintf(text, sizeof text,
                           "facula emulated device: kernel %s accesses memory that is not allocated, at %p\n",
                           running_kernel, information->si_addr);
  else if (address >= base && address < base + a.bytes)
    length = std::snprintf(text, sizeof text, "facula emulated device: the host accesses device memory, at %p\n",
                           information->si_addr);
  if (length > 0) static_cast<void>(!write(2, text, std::min(static_cast<size_t>(length), sizeof text)));
  if (former_action.sa_flags & SA_SIGINFO && former_action.sa_sigaction) {
    former_action.sa_sigaction(signal, information, context);
    return;
  }
  sigaction(signal, &former_action, nullptr);  // the access is tried once more
}

/// Not with AddressSanitizer or the like, which have reports of their own.
void watch_accesses() {
  struct sigaction action{};
  action.sa_sigaction = report_access;
  action.sa_flags = SA_SIGINFO;
  for (const int signal : {SIGSEGV, SIGBUS}) {
    if (sigaction(signal, nullptr, &former_action) != 0 || former_action.sa_handler != SIG_DFL) continue;
    sigaction(signal, &action, &former_action);
  }
}

}  // namespace

std::vector<Piece> pieces_of_memory() {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  std::vector<Piece> pieces;
  for (const auto& [address, piece] : a.visible)
    if (piece.readable) pieces.push_back({reinterpret_cast<char*>(address), piece.bytes});
  return pieces;
}

Opened::Opened() {
  if (Arena::is_open()) return;
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  if (a.openings++ == 0) a.protect(true);
}

Opened::~Opened() {
  if (Arena::is_open()) return;
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  if (--a.openings == 0) a.protect(false);
}

CUresult allocate(CUdeviceptr* memory, size_t bytes, int device) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Opened opened;
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  size_t offset = 0;
  if (bytes > settings().memory) return CUDA_ERROR_OUT_OF_MEMORY;
  if (settings().guard ? !a.take_guarded(&offset, bytes, device) : !a.take(&offset, rounded(bytes), device))
    return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = reinterpret_cast<CUdeviceptr>(a.base + offset);
  a.visible[*memory] = {Visible::Allocated, bytes, offset, true, 1, false};
  return CUDA_SUCCESS;
}

CUresult release(CUdeviceptr memory) {
  synchronize_all();  // as the real one
  Opened opened;
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  const auto found = a.visible.find(memory);
  if (found == a.visible.end() || found->second.kind != Visible::Allocated) return CUDA_ERROR_INVALID_VALUE;
  if (settings().guard) a.release_guarded(found->second);
  else a.give_back(found->second.offset);
  a.visible.erase(found);
  return CUDA_SUCCESS;
}

void memory_info(size_t* free, size_t* total, int device) {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  *total = settings().memory;
  *free = a.used.empty() ? 0 : settings().memory - a.used[static_cast<size_t>(device)];
}

int device_of(CUdeviceptr memory) {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  auto piece = a.visible.upper_bound(memory);
  if (piece == a.visible.begin()) return -1;
  --piece;
  if (memory - piece->first >= piece->second.bytes) return -1;
  const auto after = a.taken.upper_bound(piece->second.offset);
  const bool is_own = piece->second.kind != Visible::Imported && !piece->second.is_foreign && after != a.taken.begin();
  return is_own ? std::prev(after)->second.device : 0;
}

// Mapped pieces beside each other are one range.
bool is_allocated(CUdeviceptr memory, size_t bytes) {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  auto piece = a.visible.upper_bound(memory);
  if (piece == a.visible.begin()) return false;
  --piece;
  if (memory - piece->first > piece->second.bytes) return false;
  size_t left = bytes + (memory - piece->first);
  while (left > piece->second.bytes) {
    const CUdeviceptr end = piece->first + piece->second.bytes;
    left -= piece->second.bytes;
    const auto next = std::next(piece);
    if (next == a.visible.end() || next->first != end || next->second.kind != Visible::Mapped ||
        piece->second.kind != Visible::Mapped || !next->second.readable)
      return false;
    piece = next;
  }
  return piece->second.readable;
}

bool find_allocation(CUdeviceptr memory, SharedMemory* shared) {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  auto piece = a.visible.upper_bound(memory);
  if (piece == a.visible.begin()) return false;
  --piece;
  if (piece->second.kind != Visible::Allocated || memory - piece->first >= piece->second.bytes) return false;
  *shared = {getpid(), a.file, piece->second.offset, rounded(piece->second.bytes)};
  return true;
}

CUresult import_memory(CUdeviceptr* memory, const SharedMemory& shared) {
  if (shared.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  const std::string key = std::to_string(shared.process) + ":" + std::to_string(shared.offset);
  if (const auto known = a.imported.find(key); known != a.imported.end()) {
    ++a.visible[*memory = known->second].users;
    return CUDA_SUCCESS;
  }
  const std::string path = "/proc/" + std::to_string(shared.process) + "/fd/" + std::to_string(shared.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;  // the process is gone
  void* at = mmap(nullptr, shared.bytes, Arena::protection(a.openings > 0), MAP_SHARED, file,
                  static_cast<off_t>(shared.offset));
  close(file);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = a.imported[key] = reinterpret_cast<CUdeviceptr>(at);
  a.visible[*memory] = {Visible::Imported, shared.bytes, 0, true, 1, false};
  return CUDA_SUCCESS;
}

CUresult close_import(CUdeviceptr memory) {
  synchronize_all();
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  const auto found = a.visible.find(memory);
  if (found == a.visible.end() || found->second.kind != Visible::Imported) return CUDA_ERROR_INVALID_VALUE;
  if (--found->second.users > 0) return CUDA_SUCCESS;
  munmap(reinterpret_cast<void*>(memory), found->second.bytes);
  a.visible.erase(found);
  std::erase_if(a.imported, [&](const auto& i) { return i.second == memory; });
  return CUDA_SUCCESS;
}

}  // namespace facula::emulator

// ---- virtual memory

using namespace facula::emulator;

API CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*,
                                           CUmemAllocationGranularity_flags) {
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}

API CUresult cuMemAddressReserve(CUdeviceptr* range, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  if (bytes == 0 || bytes % kGranularity) return CUDA_ERROR_INVALID_VALUE;
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  a.reserved[*range = reinterpret_cast<CUdeviceptr>(at)] = bytes;
  return CUDA_SUCCESS;
}

API CUresult cuMemAddressFree(CUdeviceptr range, size_t bytes) {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  const auto found = a.reserved.find(range);
  const auto inside = a.visible.lower_bound(range);
  if (found == a.reserved.end() || found->second != bytes ||
      (inside != a.visible.end() && inside->first < range + bytes))
    return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(range), bytes);
  a.reserved.erase(found);
  return CUDA_SUCCESS;
}

// A handle is the offset in the file, and one so that none is 0.
API CUresult cuMemCreate(CUmemGenericAllocationHandle* memory, size_t bytes, const CUmemAllocationProp* properties,
                         unsigned long long) {
  if (const CUresult refused = refuse_while_capturing(); refused != CUDA_SUCCESS) return refused;
  if (bytes == 0 || bytes % kGranularity || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->location.id < 0 ||
      properties->location.id >= settings().devices)
    return CUDA_ERROR_INVALID_VALUE;
  Opened opened;
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  size_t offset = 0;
  if (!a.take(&offset, bytes, properties->location.id)) return CUDA_ERROR_OUT_OF_MEMORY;
  a.taken[offset].is_shareable = properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  *memory = offset + 1;
  return CUDA_SUCCESS;
}

// The bytes live on while they are mapped.
API CUresult cuMemRelease(CUmemGenericAllocationHandle memory) {
  Opened opened;
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  if (const auto found = a.foreign.find(memory); found != a.foreign.end()) {
    close(found->second.file);
    a.foreign.erase(found);
    return CUDA_SUCCESS;
  }
  if (!a.taken.count(memory - 1)) return CUDA_ERROR_INVALID_VALUE;
  a.give_back(memory - 1);
  return CUDA_SUCCESS;
}

API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* memory, void* at) {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  const auto found = a.visible.find(reinterpret_cast<CUdeviceptr>(at));
  if (found == a.visible.end() || found->second.kind != Visible::Mapped || found->second.is_foreign)
    return CUDA_ERROR_INVALID_VALUE;
  ++a.taken.at(found->second.offset).users;
  *memory = found->second.offset + 1;
  return CUDA_SUCCESS;
}

// The file says where the memory lies in that of this process, which must live when it is imported.
API CUresult cuMemExportToShareableHandle(void* shared, CUmemGenericAllocationHandle memory,
                                          CUmemAllocationHandleType type, unsigned long long) {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  const auto taken = a.taken.find(memory - 1);
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || taken == a.taken.end() || !taken->second.is_shareable)
    return CUDA_ERROR_INVALID_VALUE;
  Exported made{{}, {getpid(), a.file, taken->first, taken->second.bytes}};
  std::memcpy(made.magic, kExportMagic, sizeof made.magic);
  const int file = memfd_create("facula_export", MFD_CLOEXEC);
  if (file < 0 || pwrite(file, &made, sizeof made, 0) != sizeof made) return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(shared) = file;
  return CUDA_SUCCESS;
}

API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* memory, void* shared,
                                            CUmemAllocationHandleType type) {
  Exported given{};
  const int file = static_cast<int>(reinterpret_cast<intptr_t>(shared));
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || pread(file, &given, sizeof given, 0) != sizeof given ||
      std::memcmp(given.magic, kExportMagic, sizeof given.magic) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const SharedMemory& m = given.memory;
  const std::string path = "/proc/" + std::to_string(m.process) + "/fd/" + std::to_string(m.file);
  const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) return CUDA_ERROR_INVALID_VALUE;
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  a.foreign[*memory = a.next_foreign++] = {opened, m.offset, m.bytes};
  return CUDA_SUCCESS;
}

API CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle memory,
                      unsigned long long) {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  const auto taken = a.taken.find(memory - 1);
  const auto foreign = a.foreign.find(memory);
  const bool is_foreign = foreign != a.foreign.end();
  auto range = a.reserved.upper_bound(at);
  const auto next = a.visible.lower_bound(at);
  if ((taken == a.taken.end() && !is_foreign) || offset != 0 ||
      bytes != (is_foreign ? foreign->second.bytes : taken->second.bytes) || at % kAlign ||
      range == a.reserved.begin() || (next != a.visible.end() && next->first < at + bytes))
    return CUDA_ERROR_INVALID_VALUE;
  --range;
  if (at + bytes > range->first + range->second) return CUDA_ERROR_INVALID_VALUE;
  void* mapped = mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                      is_foreign ? foreign->second.file : a.file,
                      static_cast<off_t>(is_foreign ? foreign->second.offset : taken->first));
  if (mapped == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!is_foreign) ++taken->second.users;
  a.visible[at] = {Visible::Mapped, bytes, is_foreign ? 0 : taken->first, false, 1, is_foreign};
  return CUDA_SUCCESS;
}

// Unlike cuMemFree it does not wait: work that still uses the memory is an error, here of the process.
API CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  Opened opened;
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  const auto found = a.visible.find(at);
  if (found == a.visible.end() || found->second.kind != Visible::Mapped || found->second.bytes != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (!found->second.is_foreign) a.give_back(found->second.offset);
  a.visible.erase(found);
  return CUDA_SUCCESS;
}

API CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* who, size_t count) {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  if (count == 0 || who->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
  for (CUdeviceptr done = at; done < at + bytes;) {
    const auto piece = a.visible.find(done);
    if (piece == a.visible.end() || piece->second.kind != Visible::Mapped) return CUDA_ERROR_INVALID_VALUE;
    piece->second.readable = true;
    mprotect(reinterpret_cast<void*>(done), piece->second.bytes, Arena::protection(a.openings > 0));
    done += piece->second.bytes;
  }
  return CUDA_SUCCESS;
}

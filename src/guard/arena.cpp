// Blocks are multiples of a page's 64th, in lists by size; nothing is merged, as a test run is short. What the
// allocator knows lies outside of the arena. A released block is filled with 0xa5 when the arena is next open, so that
// use after release shows as wrong numbers.
#include "guard/arena.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/error.h"

namespace facula::guard {
namespace {

constexpr size_t kReserved = size_t{1} << 36;  // addresses, not memory
constexpr size_t kMost = size_t{1} << 29;      // of one block: a test that asks for more has lost its way
constexpr size_t kUnit = 64;
constexpr size_t kPage = 4096;

struct Arena {
  std::mutex mutex;
  char* begin = nullptr;
  size_t top = 0;   // bytes ever handed out
  size_t used = 0;  // bytes in blocks that callers hold
  int open = 0;     // kernels that run
  const char* kernel = "none";
  std::map<size_t, std::vector<char*>> free;
  std::vector<std::pair<char*, size_t>> released;  // to be filled
};
Arena& arena() {
  static Arena& it = *new Arena;
  return it;
}

size_t rounded(size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

void protect(Arena& a, int protection) {
  const size_t bytes = (a.top + kPage - 1) / kPage * kPage;
  if (bytes && mprotect(a.begin, bytes, protection) != 0)
    throw_error(ErrorKind::Runtime, "guard: the arena's protection cannot be changed, got ", bytes, " bytes");
}

void write_text(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

// Only what may be called in a signal handler.
void report(int signal, siginfo_t* info, void*) {
  if (arena_owns(info->si_addr)) {
    write_text("facula: the host touched memory of the guard device; the last kernel was ");
    write_text(arena().kernel);
    write_text("\n");
    void* frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  }
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
  raise(signal);
}

}  // namespace

void reserve_arena() {
  Arena& a = arena();
  void* range = mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  FACULA_CHECK(range != MAP_FAILED, ErrorKind::OutOfMemory, "guard: no room for ", kReserved, " bytes of addresses");
  a.begin = static_cast<char*>(range);
  void* frames[1];
  backtrace(frames, 1);  // loads what it needs now, not in the handler
  struct sigaction handler = {};
  handler.sa_sigaction = report;
  handler.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &handler, nullptr);
}

void* arena_allocate(size_t bytes) {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  FACULA_CHECK(bytes <= kMost, ErrorKind::OutOfMemory, "guard: out of memory, got a request of ", bytes, " bytes");
  const size_t size = rounded(bytes);
  char* block = nullptr;
  if (auto& list = a.free[size]; !list.empty()) {
    block = list.back();
    list.pop_back();
  } else {
    FACULA_CHECK(size <= kReserved - a.top, ErrorKind::OutOfMemory, "guard: out of memory, got a request of ", bytes,
                 " bytes");
    block = a.begin + a.top;
    a.top += size;
    if (a.open) protect(a, PROT_READ | PROT_WRITE);
  }
  a.used += size;
  return block;
}

void arena_release(void* block, size_t bytes) {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  const size_t size = rounded(bytes);
  a.used -= size;
  a.released.emplace_back(static_cast<char*>(block), size);
}

bool arena_owns(const void* memory) {
  const Arena& a = arena();
  return a.begin && memory >= a.begin && memory < a.begin + kReserved;
}

size_t arena_used() { return arena().used; }
int open_kernels() { return arena().open; }

void open_arena(const char* kernel) {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  if (a.open++ == 0) {
    protect(a, PROT_READ | PROT_WRITE);
    for (auto [block, size] : a.released) {
      std::memset(block, 0xa5, size);
      a.free[size].push_back(block);
    }
    a.released.clear();
  }
  a.kernel = kernel;
}

void close_arena() {
  Arena& a = arena();
  std::lock_guard<std::mutex> guard(a.mutex);
  if (--a.open == 0) protect(a, PROT_NONE);
}

}  // namespace facula::guard

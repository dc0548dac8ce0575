#include "emulator/library.h"

#include <cstdio>

namespace facula::emulator {
namespace {

constexpr size_t kMostRemembered = size_t{1} << 20;

struct Memory {
  std::mutex mutex;
  std::string all, given;
};
Memory& memory() {
  static Memory& m = *new Memory;
  return m;
}

}  // namespace

void remember(const std::string& request) {
  Memory& m = memory();
  std::lock_guard<std::mutex> guard(m.mutex);
  if (m.all.size() < kMostRemembered) m.all += request + "\n";
}

int refused(const char* call, const std::string& why, int status) {
  std::fprintf(stderr, "facula emulated device: %s: %s\n", call, why.c_str());
  return status;
}

bool is_readable(const void* p, int64_t bytes, int64_t alignment) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  return p && address % static_cast<uintptr_t>(alignment) == 0 && bytes >= 0 &&
         is_allocated(address, static_cast<size_t>(bytes));
}

}  // namespace facula::emulator

/// What was requested of the stand-ins since the last call, a request a line; the text is good until the next call.
FACULA_EMULATED const char* facula_emulated_requests() {
  auto& m = facula::emulator::memory();
  std::lock_guard<std::mutex> guard(m.mutex);
  m.given = std::move(m.all);
  m.all.clear();
  return m.given.c_str();
}

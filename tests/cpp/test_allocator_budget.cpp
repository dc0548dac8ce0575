// The CPU allocator under a memory budget, with blocks that nobody needs in the place of what a budget lets go of: what
// is held and what is resident stay below it, pages are used again, and what fails leaves the allocator working.
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "core/budget_hooks.h"
#include "core/error.h"
#include "core/os_memory.h"
#include "cpu/allocator.h"

using namespace facula;
using namespace facula::cpu;

namespace {

const bool keeps_blocks = keeps_released_blocks();
constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;

struct Piece {
  unsigned char* data;
  size_t bytes;
};

Piece filled(size_t bytes, unsigned char mark) {
  Piece piece{static_cast<unsigned char*>(allocate(bytes)), bytes};
  std::memset(piece.data, mark, bytes);
  return piece;
}

void give(const Piece& piece, unsigned char mark) {
  for (size_t i = 0; i < piece.bytes; i += 509) CHECK(piece.data[i] == mark);
  CHECK(piece.data[piece.bytes - 1] == mark);
  release(piece.data, piece.bytes);
}

/// A budget, and what it lets go of: the oldest pieces first.
class Budget {
 public:
  explicit Budget(size_t bytes) : bytes_(bytes) {
    empty_cache();
    CHECK(memory_stats().allocated_bytes.current == 0);
    release(allocate(100), 100);  // the thread has such blocks, before those of let_go() would pass the budget
    now = this;
    budget_hooks.make_room = [](Device device, size_t missing) {
      CHECK(device.is_cpu());
      return now->let_go(missing);
    };
    set_memory_budget(bytes);
    CHECK(memory_stats().budget == bytes);
    reset_peak_memory_stats();
  }
  ~Budget() {
    const MemoryStats stats = memory_stats();
    CHECK(stats.allocated_bytes.peak <= bytes_ + beyond);
    CHECK(stats.reserved_bytes.peak <= bytes_ + beyond + kSpans);
    let_go(SIZE_MAX);
    budget_hooks = {};
    set_memory_budget(0);
    CHECK(memory_stats().budget == 0);
    empty_cache();
    CHECK(memory_stats().allocated_bytes.current == 0);
  }
  Budget(const Budget&) = delete;

  void spare(size_t bytes) {
    const Piece piece = filled(bytes, kMark);
    std::lock_guard guard(lock_);
    pieces_.push_back(piece);
  }

  size_t calls = 0, asked = 0;
  size_t beyond = keeps_blocks ? 0 : 64 * kKiB;  // the system's own small blocks ask nobody

 private:
  static constexpr unsigned char kMark = 0x5A;
  static constexpr size_t kSpans = 4 * kMiB;  // what spans of small blocks have left, which does not count
  static inline Budget* now = nullptr;

  size_t let_go(size_t missing) {
    memory_stats();               // takes the allocator's locks: nobody holds them
    release(allocate(100), 100);  // who lets go asks for memory, too
    std::lock_guard guard(lock_);
    ++calls;
    asked = missing;
    size_t went = 0;
    for (; went < missing && !pieces_.empty(); pieces_.pop_front()) {
      went += pieces_.front().bytes;
      give(pieces_.front(), kMark);
    }
    return went;
  }

  const size_t bytes_;
  std::mutex lock_;
  std::deque<Piece> pieces_;
};

std::string refusal(size_t bytes) {
  try {
    release(allocate(bytes), bytes);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::OutOfMemory);
    return error.what();
  }
  return {};
}

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void test_kept_in_loops() {
  for (const size_t most : {40 * kKiB, 900 * kKiB, 6 * kMiB}) {
    const size_t before = resident_bytes(), budget = 25 * kMiB;
    Budget b(budget);
    std::mt19937 random(5);
    for (size_t taken = 0; taken < 6 * budget;) {
      const size_t wanted = 1 + random() % most;
      const Piece used = filled(wanted, 1);
      b.spare(1 + random() % most);
      give(used, 1);
      taken += wanted;
    }
    CHECK(b.calls > 10);
    if (!is_watched()) CHECK(resident_bytes() - before <= budget + budget / 20 + 16 * kMiB);
    CHECK(memory_stats().allocated_bytes.current > budget / 2);  // no more went than had to
  }
}

void test_pages_are_used_again() {
  if (!keeps_blocks) return;
  Budget b(100 * kMiB);
  for (int i = 0; i < 3; ++i) b.spare(30 * kMiB);
  give(filled(5 * kMiB, 2), 2);
  const long faults = page_faults();
  const uint64_t misses = memory_stats().misses, trims = memory_stats().trims;
  for (int i = 0; i < 20; ++i) {
    b.spare(30 * kMiB);                                  // where the oldest one was
    CHECK(b.asked >= 20 * kMiB && b.asked < 21 * kMiB);  // spans of small blocks count
    give(filled(5 * kMiB, 3), 3);                        // what was cached meanwhile still is
  }
  CHECK(memory_stats().misses == misses && memory_stats().trims == trims);
  if (!is_watched()) CHECK(page_faults() - faults < 100);
}

void test_trims_what_is_missing() {
  if (!keeps_blocks) return;
  Budget b(64 * kMiB);
  const Piece first = filled(22 * kMiB, 1), between = filled(kMiB, 1), second = filled(22 * kMiB, 1);
  b.spare(2 * kMiB);
  give(first, 1);
  give(second, 1);
  const Piece large = filled(30 * kMiB, 1);  // fits where neither was; 13 MiB are missing
  CHECK(b.calls == 0);
  CHECK(memory_stats().reserved_bytes.current >= 63 * kMiB);
  give(between, 1);
  give(large, 1);
}

bool moves_pages() {
  char* range = os::reserve(2 * os::kHugePage);
  CHECK(range && os::commit(range, 2 * os::kHugePage));
  range[0] = 17;
  const bool moves = os::move_pages(range, range + os::kHugePage, os::kHugePage) == os::Moved::Yes;
  CHECK(range[0] == (moves ? 0 : 17) && range[os::kHugePage] == (moves ? 17 : 0));
  os::unreserve(range, 2 * os::kHugePage);
  return moves;
}

void test_holes_cost_nothing() {
  {
    Budget b(64 * kMiB);
    std::vector<Piece> pieces;
    for (int i = 0; i < 62; ++i) pieces.push_back(filled(kMiB, 4));
    for (size_t i = 0; i < 62; i += 2) give(pieces[i], 4);
    const long faults = page_faults();
    give(filled(30 * kMiB, 5), 5);
    CHECK(b.calls == 0);
    if (keeps_blocks && !is_watched() && moves_pages()) CHECK(page_faults() - faults < 1000);  // of 7,680
    for (size_t i = 1; i < 62; i += 2) give(pieces[i], 4);
  }
  if (keeps_blocks) CHECK(memory_stats().largest_free_block >= 62 * kMiB);  // what was kept apart has come together
}

std::vector<std::string> order;
Piece kept{nullptr, 0};

void test_order_and_error() {
  Budget b(64 * kMiB);
  const auto before = drop_cached_memory;
  drop_cached_memory = [] {
    order.push_back("kept");
    const bool any = kept.data != nullptr;
    release(kept.data, kept.bytes);
    kept.data = nullptr;
    return any;
  };
  budget_hooks.why_full = [](Device, size_t bytes) {
    order.push_back("why");
    memory_stats();  // without a lock
    return "because of " + std::to_string(bytes);
  };
  const Piece held = filled(20 * kMiB, 6);
  kept = filled(10 * kMiB, 1);
  b.spare(10 * kMiB);
  order.clear();
  give(filled(40 * kMiB, 7), 7);  // what was kept goes first
  CHECK(b.calls == 1 && order == std::vector<std::string>({"kept", "kept"}));

  const uint64_t failures = memory_stats().failures;
  CHECK(refusal(98 * kMiB / 2) ==
        "allocate: cannot get 49.0 MiB within the memory budget of 64 MiB: because of 51380224");
  CHECK(memory_stats().failures == failures + 1 && order.back() == "why");
  const size_t calls = b.calls;
  CHECK(!refusal(65 * kMiB).empty() && b.calls == calls);  // nothing is let go of for what can never be
  budget_hooks.why_full = nullptr;
  CHECK(refusal(49 * kMiB) == "allocate: cannot get 49.0 MiB within the memory budget of 64 MiB: 20.0 MiB are held");
  give(filled(40 * kMiB, 7), 7);
  give(held, 6);
  drop_cached_memory = before;
}

void test_beside_a_limit() {
  Budget b(64 * kMiB);
  set_memory_limit(32 * kMiB);
  b.spare(20 * kMiB);
  give(filled(30 * kMiB, 1), 1);  // the limit is kept by what a budget can let go of
  CHECK(b.calls == 1 && memory_stats().reserved_bytes.peak <= 32 * kMiB);
  CHECK(refusal(40 * kMiB).find("set_memory_limit allows 32.0 MiB") != std::string::npos);
  set_memory_limit(0);
  give(filled(40 * kMiB, 1), 1);
  set_memory_budget(96 * kMiB);
  give(filled(80 * kMiB, 1), 1);
  set_memory_budget(64 * kMiB);  // takes effect at once
  CHECK(memory_stats().reserved_bytes.current <= 64 * kMiB);
  b.beyond = 32 * kMiB;
}

void test_small_blocks() {
  if (!keeps_blocks) return;
  Budget b(8 * kMiB);
  b.spare(5 * kMiB);
  std::vector<void*> blocks;
  for (size_t bytes = 0; bytes < 7 * kMiB; bytes += 1024) blocks.push_back(allocate(1024));
  CHECK(b.calls == 1);
  for (size_t bytes = 0; bytes < 9 * kMiB; bytes += 1024) blocks.push_back(allocate(1024));
  CHECK(b.calls > 100);  // at every batch: nothing is left, and they go beyond the budget
  CHECK(!refusal(100 * kKiB).empty());
  set_memory_limit(4 * kMiB);  // but not beyond a limit
  bool refused = false;
  try {
    for (int i = 0; i < 10000; ++i) blocks.push_back(allocate(2048 + 1024 * (i & 1)));
  } catch (const Error& error) {
    refused = error.kind() == ErrorKind::OutOfMemory;
  }
  CHECK(refused);
  set_memory_limit(0);
  const auto large = [&](size_t i) { return i < 16384 ? size_t{1024} : 2048 + 1024 * ((i - 16384) & 1); };
  for (size_t i = 0; i < blocks.size(); ++i) release(blocks[i], large(i));
  b.beyond = 16 * kMiB;
}

void test_threads() {
  Budget b(64 * kMiB);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&b, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 400; ++i) {
        const auto mark = static_cast<unsigned char>(t);
        const Piece used = filled(1 + random() % (size_t{4} << (random() % 21)), mark);
        b.spare(1 + random() % (size_t{4} << (random() % 21)));
        give(used, mark);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(b.calls > 0);
  b.beyond = 4 * kMiB;  // arenas of small blocks
}

}  // namespace

int main() {
  test_kept_in_loops();
  test_pages_are_used_again();
  test_trims_what_is_missing();
  test_holes_cost_nothing();
  test_order_and_error();
  test_beside_a_limit();
  test_small_blocks();
  test_threads();
  std::puts("allocator under a budget: all tests passed");
  return 0;
}

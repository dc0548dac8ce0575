// The CPU allocator: contents, alignment, merging, threads, fork, limits and what the counters say.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "core/error.h"
#include "cpu/allocator.h"

using namespace facula::cpu;

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kWatched = true;
#else
constexpr bool kWatched = false;
#endif
// The library may have been compiled with a sanitizer and this program without, or the reverse.
const bool keeps_blocks = keeps_released_blocks();
const bool counts_faults = !kWatched && !is_watched();  // a sanitizer's own memory faults too

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;

struct Piece {
  unsigned char* data;
  size_t bytes;
};

// Marks both ends of a block, so that overlapping blocks are noticed.
Piece take(size_t bytes, unsigned char mark) {
  Piece piece{static_cast<unsigned char*>(allocate(bytes)), bytes};
  CHECK(piece.data != nullptr);
  CHECK(reinterpret_cast<uintptr_t>(piece.data) % kAlignment == 0);
  const size_t edge = std::min<size_t>(bytes, 256);
  std::memset(piece.data, mark, edge);
  std::memset(piece.data + bytes - edge, mark, edge);
  return piece;
}

void give(const Piece& piece, unsigned char mark) {
  const size_t edge = std::min<size_t>(piece.bytes, 256);
  for (size_t i = 0; i < edge; ++i) {
    CHECK(piece.data[i] == mark);
    CHECK(piece.data[piece.bytes - 1 - i] == mark);
  }
  release(piece.data, piece.bytes);
}

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

size_t random_size(std::mt19937& random) {
  const unsigned power = random() % 24;  // up to 16 MiB, every magnitude equally often
  return random() % (size_t{2} << power);
}

void test_sizes_and_contents() {
  for (size_t bytes = 0; bytes <= 3 * facula::kSmallBlock; ++bytes) give(take(bytes, 0xA5), 0xA5);
  std::mt19937 random(7);
  std::vector<Piece> live(200, Piece{nullptr, 0});
  for (int step = 0; step < 20000; ++step) {
    const size_t i = random() % live.size();
    const auto mark = static_cast<unsigned char>(i);
    if (live[i].data != nullptr) give(live[i], mark);
    live[i] = take(random_size(random), mark);
  }
  for (size_t i = 0; i < live.size(); ++i)
    if (live[i].data != nullptr) give(live[i], static_cast<unsigned char>(i));
  release(nullptr, 100);
}

void test_counters_return_to_zero() {
  empty_cache();
  const MemoryStats before = memory_stats();
  CHECK(before.allocated_bytes.current == 0);
  CHECK(before.allocations.current == 0);
  reset_peak_memory_stats();
  {
    void* small = allocate(100);
    void* middle = allocate(100 * kKiB);
    void* large = allocate(100 * kMiB);
    const MemoryStats during = memory_stats();
    CHECK(during.allocations.current == 3);
    CHECK(during.allocated_bytes.current >= 100 * kMiB + 100 * kKiB + 100);
    CHECK(during.allocated_bytes.current <= 102 * kMiB);
    CHECK(during.total_allocations == before.total_allocations + 3);
    release(large, 100 * kMiB);
    release(middle, 100 * kKiB);
    release(small, 100);
  }
  const MemoryStats after = memory_stats();
  CHECK(after.allocated_bytes.current == 0);
  CHECK(after.allocations.current == 0);
  CHECK(after.allocated_bytes.peak >= 100 * kMiB);
  if (keeps_blocks) CHECK(after.cached_bytes >= 100 * kMiB);
  if (keeps_blocks) CHECK(after.largest_free_block >= 100 * kMiB);
  empty_cache();
  CHECK(memory_stats().cached_bytes < 2 * kMiB);
  reset_peak_memory_stats();
  CHECK(memory_stats().allocated_bytes.peak == 0);
}

void test_reuse_costs_no_page_fault() {
  if (!keeps_blocks) return;
  for (size_t bytes : {size_t{64}, 5 * kKiB, 300 * kKiB, 3 * kMiB, 64 * kMiB}) {
    auto touch_once = [bytes] {
      auto* data = static_cast<char*>(allocate(bytes));
      for (size_t i = 0; i < bytes; i += 4096) data[i] = 1;
      release(data, bytes);
    };
    for (int i = 0; i < 3; ++i) touch_once();
    const uint64_t misses = memory_stats().misses;
    const long faults = page_faults();
    for (int i = 0; i < 20; ++i) touch_once();
    CHECK(memory_stats().misses == misses);
    if (counts_faults) CHECK(page_faults() - faults <= 2);
  }
}

void test_neighbors_merge() {
  if (!keeps_blocks) return;
  empty_cache();
  const size_t segment_bytes = memory_stats().segment_bytes;
  std::vector<void*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(allocate(8 * kMiB));
  for (size_t i = 0; i < 16; i += 2) release(blocks[i], 8 * kMiB);
  for (size_t i = 1; i < 16; i += 2) release(blocks[i], 8 * kMiB);
  CHECK(memory_stats().largest_free_block >= 128 * kMiB);
  void* whole = allocate(128 * kMiB);  // fits where the sixteen were
  CHECK(memory_stats().segment_bytes <= std::max(segment_bytes, 130 * kMiB));
  release(whole, 128 * kMiB);
  empty_cache();
}

// Sizes that change from round to round must not pile up: what is kept stays near the highest use.
void test_cache_is_bounded() {
  if (!keeps_blocks) return;
  empty_cache();
  reset_peak_memory_stats();
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Piece> live;
    for (int i = 0; i < 10; ++i) live.push_back(take(kMiB + random() % (8 * kMiB), 1));
    for (const Piece& piece : live) give(piece, 1);
  }
  const MemoryStats stats = memory_stats();
  CHECK(stats.reserved_bytes.peak <= stats.allocated_bytes.peak + 40 * kMiB);
  empty_cache();
}

// Blocks that a thread keeps are not held by anybody, have a bound, and are given back.
void test_kept_blocks() {
  empty_cache();
  if (!keeps_blocks) return;
  const auto total = [] { return memory_stats().total_allocations; };
  const uint64_t before = total();
  void* first = allocate(20 * kKiB);
  release(first, 20 * kKiB);
  CHECK(memory_stats().allocated_bytes.current == 0 && memory_stats().allocations.current == 0);
  void* again = allocate(20 * kKiB - 100);
  CHECK(again == first && total() == before + 2);
  void* other = allocate(20 * kKiB);
  CHECK(other != again && memory_stats().allocations.current == 2);
  CHECK(memory_stats().allocated_bytes.current == 40 * kKiB);
  std::thread elsewhere([&] {  // kept by that thread, which ends
    release(again, 20 * kKiB - 100);
    release(other, 20 * kKiB);
    CHECK(memory_stats().allocated_bytes.current == 0);
  });
  elsewhere.join();
  std::vector<Piece> many;
  for (int i = 0; i < 100; ++i) many.push_back(take(64 * kKiB, 4));
  for (const Piece& piece : many) give(piece, 4);
  CHECK(memory_stats().allocated_bytes.current == 0 && total() == before + 103);
  empty_cache();
  CHECK(memory_stats().cached_bytes < 2 * kMiB);
  CHECK(memory_stats().largest_free_block >= 100 * 64 * kKiB);  // nothing is left between
}

void test_blocks_cross_threads() {
  std::vector<Piece> blocks;
  std::mt19937 random(1);
  for (int round = 0; round < 4; ++round) {
    std::thread maker([&] {
      for (int i = 0; i < 3000; ++i) blocks.push_back(take(random() % 9000, 7));
    });
    maker.join();
    std::thread taker([&] {
      for (const Piece& piece : blocks) give(piece, 7);
      blocks.clear();
    });
    taker.join();
  }
  CHECK(memory_stats().allocated_bytes.current == 0);
}

void test_many_threads() {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      std::mt19937 random(t);
      std::vector<Piece> live(50, Piece{nullptr, 0});
      for (int step = 0; step < 4000; ++step) {
        const size_t i = random() % live.size();
        const auto mark = static_cast<unsigned char>(t * 50 + i);
        if (live[i].data != nullptr) give(live[i], mark);
        live[i] = take(random() % (size_t{2} << (random() % 20)), mark);
        if (step % 1000 == 0) memory_stats();
        if (step % 1500 == 0) empty_cache();
      }
      for (size_t i = 0; i < live.size(); ++i)
        if (live[i].data != nullptr) give(live[i], static_cast<unsigned char>(t * 50 + i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const MemoryStats stats = memory_stats();
  CHECK(stats.allocated_bytes.current == 0);
  CHECK(stats.allocations.current == 0);
}

// Children forked while another thread allocates must be able to allocate, release and read the counters.
void test_fork() {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    std::mt19937 random(5);
    // Not under AddressSanitizer, whose own allocator does not survive a fork in the middle of a call.
    while (keeps_blocks && !stop.load()) give(take(random() % (2 * kMiB), 9), 9);
  });
  void* inherited = allocate(2 * kMiB);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(20);  // a deadlock ends the child by signal
      std::vector<Piece> live;
      for (size_t bytes = 1; bytes < 4 * kMiB; bytes *= 3) live.push_back(take(bytes, 3));
      for (const Piece& piece : live) give(piece, 3);
      release(inherited, 2 * kMiB);
      memory_stats();
      empty_cache();
      std::_Exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop = true;
  busy.join();
  release(inherited, 2 * kMiB);
  CHECK(memory_stats().allocated_bytes.current == 0);
}

bool child_succeeds(bool (*holds)()) {
  const pid_t child = fork();
  if (child == 0) std::_Exit(holds() ? 0 : 1);
  int status = -1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Free blocks are not copied for a child, nor when the parent goes on writing there.
void test_fork_leaves_free_memory_out() {
  if (!keeps_blocks) return;
  empty_cache();
  const auto first_byte = [](char* block) { return *static_cast<volatile char*>(block); };
  static constexpr size_t kBytes = 8 * kMiB;
  char* held = static_cast<char*>(allocate(kBytes));
  char* free = static_cast<char*>(allocate(kBytes));
  std::memset(held, 6, kBytes);
  std::memset(free, 7, kBytes);
  release(free, kBytes);
  static char* inherited = held;
  CHECK(child_succeeds([] {
    char* fresh = static_cast<char*>(allocate(kBytes));
    bool right = fresh[0] == 0 && fresh[kBytes - 1] == 0 && inherited[0] == 6 && inherited[kBytes - 1] == 6;
    std::memset(fresh, 1, kBytes);
    release(fresh, kBytes);
    return right && memory_stats().allocated_bytes.current == kBytes;
  }));
  const long before = page_faults();
  CHECK(allocate(kBytes) == free);
  CHECK(first_byte(free) == 7);
  std::memset(free, 8, kBytes);
  CHECK(page_faults() - before < 64);
  CHECK(first_byte(held) == 6);
  release(held, kBytes);  // a child may still have its pages
  CHECK(allocate(kBytes) == held);
  CHECK(first_byte(held) == 0);
  release(held, kBytes);
  release(free, kBytes);
}

std::string refusal(size_t bytes) {
  try {
    release(allocate(bytes), bytes);
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

void test_out_of_memory() {
  const uint64_t failures = memory_stats().failures;
  const std::string text = refusal(size_t{1} << 52);
  CHECK(text.rfind("allocate: cannot get 4.0 PiB; ", 0) == 0);
  CHECK(text.find(" are held by tensors, ") != std::string::npos);
  CHECK(!refusal(SIZE_MAX).empty());
  CHECK(!refusal(SIZE_MAX - 63).empty());
  CHECK(!refusal(size_t{1} << 45).empty());  // 32 TiB: the system would promise it
  CHECK(memory_stats().failures == failures + 4);
  give(take(10 * kMiB, 1), 1);
  CHECK(memory_stats().allocated_bytes.current == 0);
}

void test_limit() {
  empty_cache();
  set_memory_limit(64 * kMiB);
  void* half = allocate(32 * kMiB);
  CHECK(refusal(40 * kMiB).find("set_memory_limit allows 64.0 MiB") != std::string::npos);
  void* rest = allocate(20 * kMiB);
  release(half, 32 * kMiB);
  release(rest, 20 * kMiB);
  void* whole = allocate(60 * kMiB);  // only with what the cache holds
  release(whole, 60 * kMiB);
  CHECK(memory_stats().reserved_bytes.current <= 64 * kMiB);
  set_memory_limit(0);
  release(allocate(200 * kMiB), 200 * kMiB);
  empty_cache();
}

struct AtExit {
  void* block = nullptr;
  ~AtExit() { release(block, 500); }
};

// Objects of a thread, and of the process, may go after the thread's lists did.
void test_late_release() {
  std::thread([] {
    static thread_local AtExit early;  // made before the lists, so destroyed after them
    early.block = allocate(500);
    static thread_local AtExit late;
    late.block = allocate(500);
  }).join();
  CHECK(memory_stats().allocations.current == 0);
  static AtExit process;
  process.block = allocate(500);
}

}  // namespace

int main() {
  test_sizes_and_contents();
  test_counters_return_to_zero();
  test_reuse_costs_no_page_fault();
  test_neighbors_merge();
  test_cache_is_bounded();
  test_kept_blocks();
  test_blocks_cross_threads();
  test_many_threads();
  test_fork();
  test_fork_leaves_free_memory_out();
  test_out_of_memory();
  test_limit();
  test_late_release();
  std::puts("allocator: all tests passed");
  return 0;
}

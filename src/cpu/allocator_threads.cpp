// The blocks of threads, and rule 8 of the policy: fork().
#include "cpu/allocator_threads.h"

#include <pthread.h>

#include <vector>

#include "core/small_block.h"
#include "cpu/allocator_region.h"

namespace facula::cpu::detail {
namespace {

// Lists the threads that have blocks of their own, and counts what ended threads took and what fork() lost. Guarded by
// `lock`.
struct Threads {
  std::vector<ThreadBlocks*> all;
  uint64_t taken_by_ended = 0;
  CachedBlocks lost;
};
Threads& threads() {
  static Threads* instance = new Threads;  // blocks are released until the very end of the process
  return *instance;
}

constinit ThreadBlocks no_blocks{0};  // of threads that have not begun or have ended: always empty, keeps nothing

}  // namespace

thread_local constinit ThreadBlocks* thread_blocks __attribute__((tls_model("initial-exec"))) = &no_blocks;

void give_back(void* address) {
  Region& region = middle_region;
  Block* block = region.held_at(address);
  policy.held -= block->size;
  meters.held.subtract(block->size);
  meters.blocks.subtract(1);
  region.free(block);
}

namespace {

thread_local constinit bool blocks_ended = false;

/// Lives in every thread that has blocks; its end hands them over.
class OwnBlocks {
 public:
  static constexpr size_t kMost = size_t{256} << 10;

  OwnBlocks() : blocks_(new ThreadBlocks(kMost)) {
    std::lock_guard guard(lock);
    threads().all.push_back(blocks_);
    thread_blocks = blocks_;
  }
  ~OwnBlocks() {
    blocks_ended = true;
    thread_blocks = &no_blocks;
    std::lock_guard guard(lock);
    blocks_->drain(give_back);
    threads().taken_by_ended += blocks_->taken();
    std::erase(threads().all, blocks_);
    delete blocks_;
  }
  OwnBlocks(const OwnBlocks&) = delete;

 private:
  ThreadBlocks* blocks_;
};

}  // namespace

bool cache_block(void* block, size_t bytes) noexcept {
  if (thread_blocks == &no_blocks && !blocks_ended) static thread_local OwnBlocks own;
  return thread_blocks->keep(block, bytes);
}

CachedBlocks cached_blocks() {
  CachedBlocks cached = threads().lost;
  cached.taken += threads().taken_by_ended;
  for (const ThreadBlocks* blocks : threads().all) {
    cached.bytes += blocks->bytes();
    cached.count += blocks->count();
    cached.taken += blocks->taken();
  }
  return cached;
}

namespace {

// Rule 8. The newest hot blocks: those are used next.
struct LeftOut {
  Block* block;
  char* begin;
  size_t bytes;
};
constexpr size_t kMostLeftOut = 64;  // each may cut a mapping into three
constinit LeftOut left_out[kMostLeftOut];
constinit size_t left_out_count = 0;

void leave_out_free_blocks() {
  left_out_count = 0;
  for (Block* block = hot_list.newest(); block && left_out_count < kMostLeftOut; block = block->older) {
    if (block->hot() < kLargeRequest) continue;
    LeftOut& part = left_out[left_out_count];
    part = {block, block->hot_begin, block->hot()};
    if (os::keep_from_children(part.begin, part.bytes, true)) ++left_out_count;
  }
}

void before_fork() {
  small_block_lock();
  lock.lock();
  leave_out_free_blocks();
}
void after_fork() {
  for (size_t i = 0; i < left_out_count; ++i) os::keep_from_children(left_out[i].begin, left_out[i].bytes, false);
  ++forks;
  lock.unlock();
  small_block_unlock();
}
// Blocks of other threads, which are no more, may have been caught in the middle of a change: they are given up.
void after_fork_in_child() {
  for (const ThreadBlocks* blocks : threads().all) {
    if (blocks == thread_blocks) continue;
    threads().lost.bytes += blocks->bytes();
    threads().lost.count += blocks->count();
    threads().lost.taken += blocks->taken();
  }
  std::erase_if(threads().all, [](const ThreadBlocks* blocks) { return blocks != thread_blocks; });
  for (size_t i = 0; i < left_out_count; ++i) {
    const LeftOut& part = left_out[i];
    (large_region.contains(part.block) ? large_region : middle_region)
        .replace_left_out(part.block, part.begin, part.bytes);
  }
  ++forks;
  lock.unlock();
  small_block_forget_other_threads();
  small_block_unlock();
}

[[maybe_unused]] const bool fork_watched = pthread_atfork(before_fork, after_fork, after_fork_in_child) == 0;

}  // namespace
}  // namespace facula::cpu::detail

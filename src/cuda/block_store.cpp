#include "cuda/block_store.h"

namespace facula::cuda {
namespace {

constexpr size_t kMostWasted = 20 << 20;  // of a large block that serves a smaller request whole

}  // namespace

Block* BlockStore::make(CUdeviceptr address, size_t size, uint64_t stream, Pool& pool) {
  Block* block = spare_.empty() ? new Block : spare_.back();
  if (!spare_.empty()) spare_.pop_back();
  *block = Block{address, size, stream, &pool};
  blocks_.insert(address, block);
  return block;
}

void BlockStore::forget(Block* block) {
  blocks_.erase(block->address);
  spare_.push_back(block);
}

void BlockStore::put(Block* block) {
  block->age = ++clock_;
  block->pool->free.insert(block);
  records_.count_free(block, 1);
}

void BlockStore::remove(Block* block) {
  if (block->pool->free.erase(block)) records_.count_free(block, -1);
}

Block* BlockStore::find_free(Pool& pool, size_t size, uint64_t stream, size_t max_split) {
  Block wanted{0, size, stream, &pool};
  const auto found = pool.free.lower_bound(&wanted);
  if (found == pool.free.end() || (*found)->stream != stream) return nullptr;
  Block* block = *found;
  const bool is_too_large =
      size < max_split ? block->size >= max_split && max_split != SIZE_MAX : block->size >= size + kMostWasted;
  if (is_too_large) return nullptr;
  remove(block);
  return block;
}

Block* BlockStore::join_free(Block* block) {
  if (block->before && block->before->is_free()) block = join(block->before, block);
  if (block->after && block->after->is_free()) block = join(block, block->after);
  return block;
}

Block* BlockStore::join(Block* first, Block* second) {
  remove(first);
  remove(second);
  first->size += second->size;
  first->after = second->after;
  if (first->after) first->after->before = first;
  forget(second);
  return first;
}

Block* BlockStore::cut(Block* block, size_t size) {
  Block* rest = make(block->address + size, block->size - size, block->stream, *block->pool);
  rest->range = block->range;
  rest->state = block->state;
  rest->before = block;
  rest->after = block->after;
  if (rest->after) rest->after->before = rest;
  block->after = rest;
  block->size = size;
  return rest;
}

Block* BlockStore::make_free(Block* block) {
  block->state = BlockState::Free;
  block->requested = 0;
  put(block = join_free(block));
  return block;
}

bool BlockStore::join_recent(Pool& pool) {
  if (!std::exchange(pool.has_recent, false)) return false;
  for (Pool::Recent& recent : pool.recent) {
    Block* block = std::exchange(recent.last, nullptr);
    while (block) make_free(std::exchange(block, block->next_recent));
  }
  return true;
}

void AllocatorRecords::write_note(const char* action, const Block* block, size_t size) {
  trace.note({action, block->address, size, block->stream, block->pool->graph_id(), block->place, 0});
}

}  // namespace facula::cuda

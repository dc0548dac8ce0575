// Blocks of up to 4 KB from thread-local free lists: tensors, storage headers with small data, autograd nodes.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace facula {

constexpr size_t kSmallBlock = 4096;

namespace detail {
struct FreeBlock {
  FreeBlock* next;
};
inline thread_local FreeBlock* small_blocks[kSmallBlock / 64 + 1] __attribute__((tls_model("initial-exec"))) = {};
}  // namespace detail

/// 64-byte aligned memory; `bytes` must be at most kSmallBlock.
inline void* small_allocate(size_t bytes) {
  size_t size_class = (bytes + 63) >> 6;
  detail::FreeBlock* block = detail::small_blocks[size_class];
  if (__builtin_expect(block != nullptr, 1)) {
    detail::small_blocks[size_class] = block->next;
    return block;
  }
  void* fresh = std::aligned_alloc(64, (size_class ? size_class : 1) << 6);
  if (!fresh) throw std::bad_alloc();
  return fresh;
}

/// Gives back memory of small_allocate(bytes), from any thread.
inline void small_release(void* pointer, size_t bytes) {
  size_t size_class = (bytes + 63) >> 6;
  auto* block = static_cast<detail::FreeBlock*>(pointer);
  block->next = detail::small_blocks[size_class];
  detail::small_blocks[size_class] = block;
}

}  // namespace facula

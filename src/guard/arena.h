// Manages the guarded memory: one range of addresses, opened for kernels only.
#pragma once

#include <cstddef>

namespace facula::guard {

/// Reserves the addresses and installs the handler that reports accesses to them.
void reserve_arena();

void* arena_allocate(size_t bytes);
void arena_release(void* block, size_t bytes);
bool arena_owns(const void* memory);
size_t arena_used();

/// Opens the arena until as many calls of close_arena(); `kernel` is named in reports.
void open_arena(const char* kernel);
void close_arena();
int open_kernels();

}  // namespace facula::guard

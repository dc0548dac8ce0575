// Computes evicted bytes again: the missing steps run in order, each once. Bytes that lie elsewhere are read.
//
//   - What is needed is listed first, with what each step reads; bytes that are here are held meanwhile. What is made
//     on the way is dropped after its last use, or stays where saved values want it, free to go again.
//   - One thread repeats at a time; others wait, without the interpreter's lock.
//   - An op that fails (no memory, an interrupt) leaves all cells as they were, or further on: the pass can be run
//     again.
#pragma once

#include "budget/cell.h"

namespace facula::budget {

/// The storage with the cell's bytes, made again if need be. The cell has saved values.
Ref<Storage> bytes_of(const Ref<Cell>& cell);

/// Of this thread; 0: none does.
uint16_t op_that_runs_again();

}  // namespace facula::budget

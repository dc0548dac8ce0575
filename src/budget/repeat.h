// Computes evicted bytes again: the missing steps run in order, each once. Bytes that lie elsewhere are read.
//
//   - The needed steps are listed first, with what each of them reads; bytes that are here are held meanwhile.
//     Intermediate results are dropped after their last use, or stay if saved values need them, and may then be evicted
//     again.
//   - One thread repeats at a time; others wait, without the interpreter's lock.
//   - If an op fails (no memory, an interrupt), all cells are as they were, or further on, so the pass can be run
//     again.
#pragma once

#include "budget/cell.h"

namespace facula::budget {

/// The storage with the cell's bytes, made again if need be. The cell has saved values.
Ref<Storage> bytes_of(const Ref<Cell>& cell);

/// Of this thread; 0: none does.
uint16_t op_that_runs_again();

}  // namespace facula::budget

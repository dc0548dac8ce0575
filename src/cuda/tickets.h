// Provides the words by which the blocks of one kernel find out which of them comes last (is_last_block in
// kernels/block.cuh).
#pragma once

namespace facula::cuda {

/// So many words are there for a kernel: a kernel with more results than that leaves each to one block.
constexpr int kTickets = 1024;

/// The words of the current stream: zero before each of its kernels, which leave them so. Kernels of one stream follow
/// each other, and so do those of a graph that were captured from one stream: a graph has words of its own, since it
/// may be replayed while the stream does something else.
unsigned* fold_ticket(int device);

}  // namespace facula::cuda

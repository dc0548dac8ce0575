// Determines what the blocks of a running kernel see of the others' writes to memory, where FACULA_EMULATED_FENCES
// requests it. A GPU promises no more than this: that a block sees what another one wrote before a __threadfence(), if
// that one then changed a word by an atomic function, and this one has looked at the word in the same way and passed a
// fence since. So a block here begins with what was there before the kernel. A fence gives its writes to the others,
// and theirs to it where it has called an atomic function before. Writes that no fence gave away are seen when the
// kernel has ended. Words that atomic functions change are everybody's at once.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

namespace facula::emulator {

/// A piece of memory that kernels may use.
struct Piece {
  char* memory;
  size_t bytes;
};

class Views {
 public:
  void begin_kernel();
  void begin_block();
  void fence();
  /// Before and after an atomic function changes the word.
  void begin_atomic(void* word, size_t bytes);
  void end_atomic(void* word, size_t bytes);
  void end_block();
  void end_kernel();

 private:
  /// The memory itself is what the running block sees.
  struct View : Piece {
    std::vector<char> before;  // the kernel
    std::vector<char> given;   // by fences and atomic functions
    std::vector<char> seen;    // by the block, when it last looked
  };
  struct Orphan {
    char* to;
    std::vector<char> bytes;
  };
  View* view_of(const void* word);

  std::vector<View> views_;
  std::vector<Orphan> orphans_;  // what blocks that have ended gave to nobody
  bool has_looked_ = false;      // the running block, by an atomic function
  std::unique_lock<std::mutex> turn_;
};

}  // namespace facula::emulator

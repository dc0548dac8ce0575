// Runs the blocks of a kernel one after the other, and the threads of a block by turns, on the calling thread.
//
// A thread runs until it returns or waits, so a kernel without barriers is a plain loop over its threads, without a
// switch. A thread that waits stays on its stack, and another stack goes on with the threads that have not started.
// Blocks and threads begin in the requested order. What a GPU leaves undefined is an error here: barriers that only
// some threads reach, or at two places at once, and warps whose lanes wait for each other for ever.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "emulator/device.h"
#include "emulator/fiber.h"
#include "emulator/views.h"

namespace facula::emulator {

enum class Order : uint8_t { Forward, Reverse, Random };

class BlockRunner {
 public:
  explicit BlockRunner(Order order, bool fences_count = false) : order_(order), fences_count_(fences_count) {}

  /// Runs all blocks; false with `error` set when the kernel did something undefined.
  bool run(void (*kernel)(void**), void** arguments, const Index3& grid, const Index3& block, unsigned shared_bytes,
           std::string& error);

  // ---- called by kernels, see device.h
  int synchronize(int predicate, int line);
  void collective(unsigned mask, void* data, void (*run)(void** lanes));
  void* shared(const void* key, unsigned long bytes);
  [[noreturn]] void trap(const char* what);
  Views& views() { return views_; }
  unsigned lane() const { return static_cast<unsigned>(current_) % 32; }
  void copy(void* to, const void* from, unsigned bytes);
  void commit_copies();
  void wait_for_copies(unsigned groups_left);
  void check_shared(const void* p);

 private:
  enum class State : uint8_t { Unstarted, Ready, AtBarrier, AtCollective, Done };
  struct Thread {
    Index3 index;
    State state;
    int fiber;
    void* data;
  };
  /// What a thread has ordered to be copied into shared memory.
  struct Copy {
    void* to;
    const void* from;
    unsigned bytes;
  };
  struct Copies {
    std::deque<std::vector<Copy>> groups;
    std::vector<Copy> open;  // of no group yet
  };
  /// Lanes that wait at one collective.
  struct Gathering {
    unsigned mask, arrived;
    void (*run)(void** lanes);
  };
  struct Warp {
    unsigned existing, done;
    std::vector<Gathering> gatherings;
  };
  struct SharedArray {
    const void* key;
    unsigned long offset, bytes;
  };

  void prepare(const Index3& block);
  bool run_blocks(const Index3& grid, unsigned shared_bytes);
  bool run_block();
  static void fiber_entry();
  void fiber_main();
  int take_fiber();
  void switch_to(int fiber);
  void start_next();
  void wait(State state);
  bool resume_ready();
  void make_ready(int thread);
  void release_barrier();
  void finish(Gathering gathering, int warp);
  bool is_complete(const Gathering& gathering, const Warp& warp) const;
  [[noreturn]] void fail(std::string what);
  std::string waiting() const;

  uint64_t draw() { return (random_ = random_ * 6364136223846793005 + 1442695040888963407) >> 33; }

  Order order_;
  bool fences_count_;
  Views views_;
  uint64_t random_ = 0x9e3779b97f4a7c15;
  std::vector<Thread> threads_;
  std::vector<int> starts_;  // threads in the order in which they start
  std::vector<Warp> warps_;
  std::vector<Copies> copies_;  // of each thread, where there are any
  std::deque<int> ready_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<int> idle_;
  Fiber main_;
  int current_ = -1, fiber_ = -1, started_ = 0, alive_ = 0, arrived_ = 0, predicates_ = 0, counted_ = 0;
  int barrier_ = 0;  // the line that threads wait at
  void (*kernel_)(void**) = nullptr;
  void** arguments_ = nullptr;
  std::unique_ptr<char, void (*)(void*)> shared_{nullptr, nullptr};
  std::vector<SharedArray> arrays_;
  unsigned long shared_used_ = 0;
  BlockView view_{};
  std::string error_;
};

}  // namespace facula::emulator

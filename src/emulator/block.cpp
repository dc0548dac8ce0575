#include "emulator/block.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

namespace facula::emulator {
namespace {

constexpr unsigned long kStaticShared = 48 << 10, kShared = 228 << 10, kSharedAlign = 128;
constexpr int kUninitialized = 0xff;  // NaN in every floating-point type
constexpr unsigned kChunk = 16;       // bytes of an asynchronous copy

thread_local BlockRunner* running = nullptr;
thread_local FaculaEmulated visible{};

}  // namespace

bool BlockRunner::run(void (*kernel)(void**), void** arguments, const Index3& grid, const Index3& block,
                      unsigned shared_bytes, std::string& error) {
  BlockRunner* outer = running;
  running = this;
  kernel_ = kernel;
  arguments_ = arguments;
  if (!shared_) shared_ = {static_cast<char*>(std::aligned_alloc(kSharedAlign, kShared)), std::free};
  prepare(block);
  view_ = {{}, block, grid, shared_.get()};
  visible.block = &view_;
  const bool views = fences_count_ && uint64_t{grid.x} * grid.y * grid.z > 1;
  visible.views = views ? &views_ : nullptr;
  if (views) views_.begin_kernel();
  const bool good = run_blocks(grid, shared_bytes);
  if (views) views_.end_kernel();
  running = outer;
  if (!good) {  // stacks of threads that never ended are not used again
    error = std::exchange(error_, {});
    fibers_.clear();
    idle_.clear();
  }
  return good;
}

bool BlockRunner::run_blocks(const Index3& grid, unsigned shared_bytes) {
  const uint64_t count = uint64_t{grid.x} * grid.y * grid.z;
  uint64_t at = 0, step = 1;  // every step-th block, round and round: all of them, where it has no divisor of `count`
  if (order_ == Order::Reverse) at = step = count - 1;
  if (order_ == Order::Random) {
    at = draw() % count;
    do step = draw() % count + 1;
    while (std::gcd(step, count) != 1);
  }
  for (uint64_t done = 0; done < count; ++done, at = (at + step) % count) {
    view_.index = {static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                   static_cast<unsigned>(at / grid.x / grid.y)};
    arrays_.clear();
    shared_used_ = (shared_bytes + kSharedAlign - 1) / kSharedAlign * kSharedAlign;
    std::memset(shared_.get(), kUninitialized, shared_used_);
    if (visible.views) views_.begin_block();
    if (!run_block()) return false;
    if (visible.views) views_.end_block();
  }
  return true;
}

void BlockRunner::prepare(const Index3& block) {
  const int count = static_cast<int>(block.x * block.y * block.z);
  threads_.resize(static_cast<size_t>(count));
  starts_.resize(threads_.size());
  warps_.assign((threads_.size() + 31) / 32, {});
  for (int t = 0; t < count; ++t) {
    const auto u = static_cast<unsigned>(t);
    threads_[static_cast<size_t>(t)] = {
        {u % block.x, u / block.x % block.y, u / block.x / block.y}, State::Unstarted, -1, nullptr};
    starts_[static_cast<size_t>(t)] = order_ == Order::Reverse ? count - 1 - t : t;
    warps_[static_cast<size_t>(t / 32)].existing |= 1u << (t % 32);
  }
}

bool BlockRunner::run_block() {
  for (Thread& t : threads_) t.state = State::Unstarted;
  for (Warp& w : warps_) {
    w.done = 0;
    w.gatherings.clear();
  }
  if (order_ == Order::Random) {
    for (size_t i = starts_.size(); i > 1; --i) std::swap(starts_[i - 1], starts_[draw() % i]);
  }
  ready_.clear();
  copies_.clear();
  started_ = arrived_ = predicates_ = 0;
  alive_ = static_cast<int>(threads_.size());
  fiber_ = -1;
  const int first = take_fiber();
  fiber_ = first;
  fibers_[static_cast<size_t>(first)]->resume(main_);
  return error_.empty();
}

void BlockRunner::fiber_entry() { running->fiber_main(); }

/// Starts threads until there are no more, then lets those go on that wait no longer.
void BlockRunner::fiber_main() {
  for (;;) {
    while (started_ < static_cast<int>(threads_.size())) start_next();
    const int mine = fiber_;
    idle_.push_back(mine);
    if (!resume_ready()) {
      if (alive_ && error_.empty()) error_ = waiting();
      fiber_ = -1;
      main_.resume(*fibers_[static_cast<size_t>(mine)]);
    }
  }
}

void BlockRunner::start_next() {
  const int t = starts_[static_cast<size_t>(started_++)];
  Thread& thread = threads_[static_cast<size_t>(t)];
  thread.state = State::Ready;
  thread.fiber = fiber_;
  current_ = t;
  visible.thread = &thread.index;
  kernel_(arguments_);
  thread.state = State::Done;
  --alive_;
  Warp& warp = warps_[static_cast<size_t>(t / 32)];
  warp.done |= 1u << (t % 32);
  if (arrived_ && arrived_ == alive_) release_barrier();
  for (size_t g = 0; g < warp.gatherings.size(); ++g) {
    if (!is_complete(warp.gatherings[g], warp)) continue;
    const Gathering whole = warp.gatherings[g];
    warp.gatherings.erase(warp.gatherings.begin() + static_cast<ptrdiff_t>(g--));
    finish(whole, t / 32);
  }
}

int BlockRunner::take_fiber() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(&BlockRunner::fiber_entry));
    return static_cast<int>(fibers_.size()) - 1;
  }
  const int fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

void BlockRunner::switch_to(int fiber) {
  if (fiber == fiber_) return;
  Fiber& from = *fibers_[static_cast<size_t>(fiber_)];
  fiber_ = fiber;
  fibers_[static_cast<size_t>(fiber)]->resume(from);
}

void BlockRunner::make_ready(int thread) {
  threads_[static_cast<size_t>(thread)].state = State::Ready;
  ready_.push_back(thread);
}

bool BlockRunner::resume_ready() {
  if (ready_.empty()) return false;
  const int t = ready_.front();
  ready_.pop_front();
  current_ = t;
  visible.thread = &threads_[static_cast<size_t>(t)].index;
  switch_to(threads_[static_cast<size_t>(t)].fiber);
  return true;
}

/// Until somebody makes the current thread ready, and its turn comes.
void BlockRunner::wait(State state) {
  const int me = current_;
  threads_[static_cast<size_t>(me)].state = state;
  if (started_ < static_cast<int>(threads_.size())) switch_to(take_fiber());
  else if (!resume_ready()) fail(waiting());
  current_ = me;
  visible.thread = &threads_[static_cast<size_t>(me)].index;
}

int BlockRunner::synchronize(int predicate, int line) {
  if (arrived_ == 0) barrier_ = line;
  else if (barrier_ != line) fail("threads of one block wait at two different __syncthreads()");
  ++arrived_;
  predicates_ += predicate != 0;
  if (arrived_ == alive_) release_barrier();
  else wait(State::AtBarrier);
  return counted_;
}

void BlockRunner::release_barrier() {
  counted_ = predicates_;
  arrived_ = predicates_ = 0;
  for (size_t t = 0; t < threads_.size(); ++t)
    if (threads_[t].state == State::AtBarrier) make_ready(static_cast<int>(t));
}

bool BlockRunner::is_complete(const Gathering& gathering, const Warp& warp) const {
  return gathering.arrived == (gathering.mask & warp.existing & ~warp.done);
}

void BlockRunner::collective(unsigned mask, void* data, void (*run)(void** lanes)) {
  const int w = current_ / 32;
  Warp& warp = warps_[static_cast<size_t>(w)];
  const unsigned mine = 1u << (current_ % 32);
  if (!(mask & mine)) fail("a lane calls a warp function with a mask that it is not in");
  threads_[static_cast<size_t>(current_)].data = data;
  auto g = std::find_if(warp.gatherings.begin(), warp.gatherings.end(),
                        [&](const Gathering& each) { return each.mask == mask && each.run == run; });
  if (g == warp.gatherings.end()) g = warp.gatherings.insert(g, {mask, 0, run});
  g->arrived |= mine;
  if (!is_complete(*g, warp)) return wait(State::AtCollective);
  const Gathering whole = *g;
  warp.gatherings.erase(g);
  finish(whole, w);
}

/// Computes what the lanes wait for and lets them go on.
void BlockRunner::finish(Gathering gathering, int warp) {
  void* lanes[32] = {};
  for (int l = 0; l < 32; ++l)
    if (gathering.arrived >> l & 1) lanes[l] = threads_[static_cast<size_t>(warp * 32 + l)].data;
  gathering.run(lanes);
  for (int l = 0; l < 32; ++l) {
    const int t = warp * 32 + l;
    if (lanes[l] && threads_[static_cast<size_t>(t)].state == State::AtCollective) make_ready(t);
  }
}

void* BlockRunner::shared(const void* key, unsigned long bytes) {
  for (const SharedArray& a : arrays_)
    if (a.key == key) return shared_.get() + a.offset;
  const unsigned long offset = shared_used_, rounded = (bytes + 15) / 16 * 16;
  unsigned long fixed = rounded;
  for (const SharedArray& a : arrays_) fixed += a.bytes;
  if (fixed > kStaticShared) fail("more than 48 KB of __shared__ arrays");
  if (offset + rounded > kShared) fail("more than 228 KB of shared memory");
  arrays_.push_back({key, offset, rounded});
  shared_used_ += rounded;
  std::memset(shared_.get() + offset, kUninitialized, rounded);
  return shared_.get() + offset;
}

void BlockRunner::check_shared(const void* p) {
  const auto begin = reinterpret_cast<uintptr_t>(shared_.get()), address = reinterpret_cast<uintptr_t>(p);
  if (address < begin || address + kChunk > begin + shared_used_) fail("16 bytes that are not in shared memory");
  if (address % kChunk) fail("16 bytes of shared memory that begin at no multiple of 16");
}

void BlockRunner::copy(void* to, const void* from, unsigned bytes) {
  check_shared(to);
  if (bytes > kChunk) fail("an asynchronous copy of more than 16 bytes");
  if (bytes && reinterpret_cast<uintptr_t>(from) % kChunk) fail("an asynchronous copy from no multiple of 16");
  copies_.resize(threads_.size());
  copies_[static_cast<size_t>(current_)].open.push_back({to, from, bytes});
  std::memset(to, kUninitialized, kChunk);
}

void BlockRunner::commit_copies() {
  copies_.resize(threads_.size());
  Copies& mine = copies_[static_cast<size_t>(current_)];
  mine.groups.push_back(std::exchange(mine.open, {}));
}

void BlockRunner::wait_for_copies(unsigned groups_left) {
  copies_.resize(threads_.size());
  std::deque<std::vector<Copy>>& groups = copies_[static_cast<size_t>(current_)].groups;
  for (; groups.size() > groups_left; groups.pop_front()) {
    for (const Copy& c : groups.front()) {
      std::memset(c.to, 0, kChunk);
      std::memcpy(c.to, c.from, c.bytes);
    }
  }
}

std::string BlockRunner::waiting() const {
  int at_barrier = 0, at_collective = 0;
  for (const Thread& t : threads_) {
    at_barrier += t.state == State::AtBarrier;
    at_collective += t.state == State::AtCollective;
  }
  return "deadlock: " + std::to_string(at_barrier) + " threads wait at __syncthreads() and " +
         std::to_string(at_collective) + " for lanes of their warp, of " + std::to_string(threads_.size());
}

/// Ends the kernel: its threads never go on.
void BlockRunner::fail(std::string what) {
  error_ = std::move(what) + " (block " + std::to_string(view_.index.x) + ", " + std::to_string(view_.index.y) + ", " +
           std::to_string(view_.index.z) + "; thread " + std::to_string(current_) + ")";
  Fiber& from = *fibers_[static_cast<size_t>(fiber_)];
  fiber_ = -1;
  main_.resume(from);
  std::abort();  // not reached
}

void BlockRunner::trap(const char* what) { fail(what); }

}  // namespace facula::emulator

using facula::emulator::running;

extern "C" {
__attribute__((visibility("default"))) FaculaEmulated* facula_emulated_state() { return &facula::emulator::visible; }

__attribute__((visibility("default"))) int facula_emulated_synchronize(int predicate, int line) {
  return running->synchronize(predicate, line);
}
__attribute__((visibility("default"))) void facula_emulated_collective(unsigned mask, void* data, void (*run)(void**)) {
  running->collective(mask, data, run);
}
__attribute__((visibility("default"))) void* facula_emulated_shared(const void* key, unsigned long bytes) {
  return running->shared(key, bytes);
}
__attribute__((visibility("default"))) unsigned facula_emulated_lane() { return running->lane(); }
__attribute__((visibility("default"))) void facula_emulated_fence() { running->views().fence(); }
__attribute__((visibility("default"))) void facula_emulated_atomic(void* word, unsigned long bytes, bool is_done) {
  if (is_done) running->views().end_atomic(word, bytes);
  else running->views().begin_atomic(word, bytes);
}
__attribute__((visibility("default"))) void facula_emulated_trap(const char* what) { running->trap(what); }
__attribute__((visibility("default"))) void facula_emulated_copy(void* to, const void* from, unsigned bytes) {
  running->copy(to, from, bytes);
}
__attribute__((visibility("default"))) void facula_emulated_commit_copies() { running->commit_copies(); }
__attribute__((visibility("default"))) void facula_emulated_wait_for_copies(unsigned groups_left) {
  running->wait_for_copies(groups_left);
}
__attribute__((visibility("default"))) void facula_emulated_check_shared(const void* p) { running->check_shared(p); }
}

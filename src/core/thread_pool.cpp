#include "core/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>

namespace facula::thread_pool {
namespace {

// A waiting thread spins for kSpin and keeps its processor, then yields to others for kAwake, and sleeps after that.
constexpr auto kSpin = std::chrono::microseconds(20), kAwake = std::chrono::microseconds(2000);
constexpr int kJobs = 8;  // callers that are helped at the same time
constexpr int kMostWorkers = 1024;

thread_local constinit bool in_piece_ __attribute__((tls_model("initial-exec"))) = false;
thread_local constinit int number_ __attribute__((tls_model("initial-exec"))) = 0;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield");
#endif
}

/// Waits in a way that costs others little.
class Patience {
 public:
  /// Waits for a moment; returns whether it is not yet time to sleep.
  bool wait() {
    if (++rounds_ % 64 != 0) return pause(), true;
    const auto now = std::chrono::steady_clock::now();
    if (rounds_ == 64) start_ = now;
    yields_ = yields_ || now - start_ > kSpin;
    if (yields_) {
      sched_yield();
      rounds_ = 127;  // asks the clock each time
    }
    return now - start_ < kAwake;
  }

 private:
  unsigned rounds_ = 0;
  bool yields_ = false;
  std::chrono::steady_clock::time_point start_;
};

/// One loop. `state` is the number of the job and below it that of the next piece: a thread takes a piece by exchanging
/// it, which fails when the job that it read about is no longer the current one. Fields are atomic since a thread
/// may read them just before it fails so.
struct Job {
  static constexpr uint64_t kClosed = UINT32_MAX;
  alignas(64) std::atomic<uint64_t> state{kClosed};
  std::atomic<int> pieces{0}, helpers{0};
  std::atomic<Piece> piece{nullptr};
  std::atomic<void*> context{nullptr};
  std::atomic<bool> taken{false};  // by a caller
  alignas(64) std::atomic<int> left{0};

  void open(int threads, int count, Piece call, void* with) {
    pieces.store(count, std::memory_order_relaxed);
    helpers.store(threads - 1, std::memory_order_relaxed);
    piece.store(call, std::memory_order_relaxed);
    context.store(with, std::memory_order_relaxed);
    left.store(count, std::memory_order_relaxed);
    const uint64_t number = (state.load(std::memory_order_relaxed) >> 32) + 1;
    state.store(number << 32, std::memory_order_release);
  }

  void close() {
    state.fetch_or(kClosed, std::memory_order_release);
    taken.store(false, std::memory_order_release);
  }

  /// Takes and does pieces as long as there are any; returns whether there were.
  bool work(int number) {
    bool any = false;
    uint64_t now = state.load(std::memory_order_acquire);
    while (true) {
      const int next = static_cast<int>(now & UINT32_MAX);
      if ((now & UINT32_MAX) == kClosed || next >= pieces.load(std::memory_order_relaxed)) return any;
      if (number > helpers.load(std::memory_order_relaxed)) return any;
      const Piece call = piece.load(std::memory_order_relaxed);
      void* const with = context.load(std::memory_order_relaxed);
      if (!state.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      any = true;
      call(with, next);
      left.fetch_sub(1, std::memory_order_acq_rel);
      now = state.load(std::memory_order_acquire);
    }
  }
};

struct Worker {
  alignas(64) std::atomic<int> asleep{0};  // 1: wants to be woken
};

int futex(std::atomic<int>& word, int what, int value) {
  static_assert(sizeof word == sizeof(int));
  return static_cast<int>(syscall(SYS_futex, &word, what | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0));
}

/// Lives as long as the process: its threads may still wait when static objects end.
class Pool {
 public:
  void run(int threads, int pieces, Piece piece, void* context) {
    Job* const job = free_job();
    if (!job) return alone(pieces, piece, context);
    const int workers = ensure(std::min(threads - 1, kMostWorkers));
    job->open(workers + 1, pieces, piece, context);
    opened_.fetch_add(1, std::memory_order_seq_cst);
    for (int i = 0; i < workers; ++i) wake(workers_[i]);
    in_piece_ = true;
    job->work(0);
    in_piece_ = false;
    Patience patience;
    while (job->left.load(std::memory_order_acquire) != 0) patience.wait();
    job->close();
  }

 private:
  static void alone(int pieces, Piece piece, void* context) {
    in_piece_ = true;
    for (int i = 0; i < pieces; ++i) piece(context, i);
    in_piece_ = false;
  }

  Job* free_job() {
    for (Job& job : jobs_)
      if (!job.taken.load(std::memory_order_relaxed) && !job.taken.exchange(true, std::memory_order_acquire))
        return &job;
    return nullptr;
  }

  /// Starts threads up to so many, or as many as the system gives; returns how many of them there are.
  int ensure(int count) {
    if (count <= started_.load(std::memory_order_acquire)) return count;
    const std::lock_guard lock(starting_);
    sigset_t all, before;  // signals are for the threads of the program
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      for (int i = started_.load(std::memory_order_relaxed); i < count; ++i) {
        std::thread([this, i] { serve(i); }).detach();
        started_.store(i + 1, std::memory_order_release);
      }
    } catch (const std::system_error&) {  // no thread can be had: those that are there do
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return std::min(count, started_.load(std::memory_order_relaxed));
  }

  static void wake(Worker& worker) {
    if (worker.asleep.load(std::memory_order_seq_cst) && worker.asleep.exchange(0, std::memory_order_seq_cst))
      futex(worker.asleep, FUTEX_WAKE, 1);
  }

  [[noreturn]] void serve(int index) {
    in_piece_ = true;
    number_ = index + 1;
    pthread_setname_np(pthread_self(), "facula");
    while (true) {
      const unsigned seen = opened_.load(std::memory_order_seq_cst);
      bool any = false;
      for (Job& job : jobs_) any |= job.work(number_);
      if (!any) wait_for_another(seen, workers_[index]);
    }
  }

  void wait_for_another(unsigned seen, Worker& self) {
    Patience patience;
    while (patience.wait())
      if (opened_.load(std::memory_order_acquire) != seen) return;
    self.asleep.store(1, std::memory_order_seq_cst);
    while (opened_.load(std::memory_order_seq_cst) == seen && self.asleep.load(std::memory_order_seq_cst))
      futex(self.asleep, FUTEX_WAIT, 1);
    self.asleep.store(0, std::memory_order_relaxed);
  }

  alignas(64) std::atomic<unsigned> opened_{0};
  std::atomic<int> started_{0};
  std::mutex starting_;
  Job jobs_[kJobs];
  Worker workers_[kMostWorkers];
};

Pool& pool() {
  static Pool& made = *new Pool;
  return made;
}

}  // namespace

void run(int threads, int pieces, Piece piece, void* context) { pool().run(threads, pieces, piece, context); }
bool in_piece() { return in_piece_; }
int thread_number() { return number_; }

}  // namespace facula::thread_pool

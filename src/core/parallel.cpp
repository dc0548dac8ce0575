#include "core/parallel.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "core/asking.h"
#include "core/mode.h"
#include "core/thread_pool.h"

namespace facula {
namespace {

std::atomic<int> threads_{0};
// No pool survives fork, ours and OpenMP's: a child that used threads would wait for ever.
std::atomic<bool> forked_child_{false};
std::once_flag at_fork_once_;

void watch_forks() {
  std::call_once(at_fork_once_, [] { pthread_atfork(nullptr, nullptr, [] { forked_child_ = true; }); });
}

/// CPUs granted by the control group (v2, then v1); a large number when there is no quota.
double cgroup_quota() {
  double quota = -1, period = -1;
  if (FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "r")) {
    if (std::fscanf(file, "%lf %lf", &quota, &period) != 2) quota = -1;
    std::fclose(file);
  } else if (FILE* v1 = std::fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r")) {
    if (std::fscanf(v1, "%lf", &quota) != 1) quota = -1;
    std::fclose(v1);
    if (FILE* p = std::fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "r")) {
      if (std::fscanf(p, "%lf", &period) != 1) period = -1;
      std::fclose(p);
    }
  }
  return quota > 0 && period > 0 ? quota / period : 1e9;
}

int default_threads() {
  for (const char* variable : {"FACULA_NUM_THREADS", "OMP_NUM_THREADS"}) {
    if (const char* text = std::getenv(variable)) {
      int wanted = std::atoi(text);
      if (wanted > 0) return wanted;
    }
  }
  cpu_set_t set;
  int affinity = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  double quota = std::floor(cgroup_quota());
  return std::max(1, static_cast<int>(std::min<double>(affinity, quota)));
}

}  // namespace

int num_threads() {
  int count = threads_.load(std::memory_order_relaxed);
  if (count == 0) {
    count = default_threads();
    threads_.store(count, std::memory_order_relaxed);
  }
  return count;
}

void set_num_threads(int count) { threads_.store(std::max(1, count), std::memory_order_relaxed); }

bool in_parallel_region() { return thread_pool::in_piece(); }
bool in_forked_child() {
  watch_forks();  // whoever asks is about to start threads
  return forked_child_.load(std::memory_order_relaxed);
}

namespace detail {
namespace {

// Pieces and slices end between vectors of elements where they have several.
constexpr int64_t kVector = 16;
int64_t up_to_vectors(int64_t count) { return (count + kVector - 1) / kVector * kVector; }
int64_t whole_vectors(int64_t count) { return count >= kVector ? count / kVector * kVector : count; }

using Clock = std::chrono::steady_clock;
constexpr auto kSliceTime = std::chrono::milliseconds(30);  // slices grow to about this

/// When an interruption was last looked for, on this thread; the beginning of a loop counts, too.
class Question {
 public:
  explicit Question(Clock::time_point now) : last_(now) {}
  void ask(Clock::time_point now) {
    if (!host.check_interrupt || Uninterrupted::depth || thread_pool::thread_number() != 0) return;
    if (now - last_ < std::chrono::milliseconds(ask_interval())) return;
    const Opened meanwhile;
    host.check_interrupt();
    last_ = Clock::now();
  }

 private:
  Clock::time_point last_;
};

void run_until(int64_t begin, int64_t end, int64_t grain, Body body, void* context, const std::atomic<bool>& stop) {
  if (is_one_slice(end - begin, grain)) return body(context, begin, end);
  int64_t slice = std::max<int64_t>(grain, 1) * kFirstSlice;
  Clock::time_point now = Clock::now();
  Question question(now);
  for (int64_t from = begin; !stop.load(std::memory_order_relaxed);) {
    const int64_t to = end - from <= slice ? end : from + slice;
    body(context, from, to);
    if (to == end) return;
    from = to;
    const Clock::time_point then = std::exchange(now, Clock::now());
    question.ask(now);
    if (now - then < kSliceTime / 2) slice = std::min(2 * slice, std::max(end - from, slice));
    else if (now - then > 2 * kSliceTime) slice = std::max<int64_t>(slice / 2, 1);
    slice = whole_vectors(slice);
  }
}

/// The piece of a thread of the pool, for observers of all threads.
class PieceNote {
 public:
  explicit PieceNote(bool watched) : notifies_(watched && thread_pool::thread_number() != 0) {
    if (notifies_) on_piece(true);
  }
  ~PieceNote() {
    if (notifies_) on_piece(false);
  }
  PieceNote(const PieceNote&) = delete;

 private:
  bool notifies_;
};

/// A thread comes back for more so many times where each piece is at least so many grains: one whose processor is taken
/// away for a while then does not keep all others waiting.
constexpr int64_t kTurns = 4, kLongTurn = 4;

/// A thread is woken for so much work: waking it and waiting for it take one to two microseconds, and what it reads
/// may lie in another processor's cache.
constexpr auto kWorthAThread = std::chrono::nanoseconds(6000);
constexpr int64_t kShort = 16;  // grains: a loop of more is divided without a trial

/// A loop in pieces. The first exception ends the others' slices and leaves the loop.
struct Loop {
  int64_t begin, end, chunk, grain;
  Body body;
  void* context;
  bool watched;
  std::exception_ptr failure{};
  std::atomic<bool> failed{false};

  void run(int piece) {
    try {
      PieceNote note(watched);
      const int64_t from = begin + piece * chunk;
      run_until(from, end - from <= chunk ? end : from + chunk, grain, body, context, failed);
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  }
};

/// The number of iterations does not say how long they take: of bytes or of logarithms, from the cache or not. So a
/// short loop begins on the calling thread, with its first part by the clock. Returns where it is then, and says how
/// many threads what is left is worth.
int64_t begin_alone(int64_t begin, int64_t end, int64_t grain, Body body, void* context, int& threads) {
  const int64_t trial = whole_vectors(std::max<int64_t>(1, grain / 8));
  if (end - begin >= kShort * grain || 8 * trial > end - begin) return begin;
  const Clock::time_point start = Clock::now();
  body(context, begin, begin + trial);
  const double each = std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(trial);
  const double left = each * static_cast<double>(end - begin - trial);
  const double worth = left / std::chrono::duration<double>(kWorthAThread).count();
  threads = std::clamp(static_cast<int>(std::min(worth, 1e6)), 1, threads);
  return begin + trial;
}

}  // namespace

int64_t parallel_chunk(int64_t count, int64_t grain) {
  if (forked_child_.load(std::memory_order_relaxed) || thread_pool::in_piece()) return count;
  const int64_t pieces = std::min<int64_t>(num_threads(), (count + grain - 1) / std::max<int64_t>(grain, 1));
  if (pieces <= 1) return count;
  const int64_t chunk = (count + pieces - 1) / pieces, vectors = up_to_vectors(chunk);
  return count >= 1024 && vectors <= count ? vectors : chunk;
}

void run_slices(int64_t begin, int64_t end, int64_t grain, Body body, void* context) {
  run_until(begin, end, grain, body, context, std::atomic<bool>(false));
}

void run_parallel(int64_t begin, int64_t end, int64_t chunk, int64_t grain, Body body, void* context) {
  watch_forks();
  int threads = static_cast<int>((end - begin + chunk - 1) / chunk);
  if (const int64_t from = begin_alone(begin, end, grain, body, context, threads); from != begin) {
    begin = from;
    if (threads == 1) return run_slices(begin, end, grain, body, context);
    chunk = (end - begin + threads - 1) / threads;
    if (chunk >= 512) chunk = up_to_vectors(chunk);
  }
  if (chunk >= kTurns * kLongTurn * std::max<int64_t>(grain, 1)) chunk = up_to_vectors(chunk / kTurns);
  const int pieces = static_cast<int>((end - begin + chunk - 1) / chunk);
  Loop loop{begin, end, chunk, grain, body, context, (watching() & kWatchProcess) && on_piece};
  thread_pool::run(threads, pieces, [](void* of, int piece) { static_cast<Loop*>(of)->run(piece); }, &loop);
  if (loop.failure) std::rethrow_exception(loop.failure);
}

}  // namespace detail
}  // namespace facula

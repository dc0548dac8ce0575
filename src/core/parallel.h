// Runs loops on one pool of threads (core/thread_pool.h). Small work stays on the calling thread. Results never depend
// on the number of threads, because kernels split reductions by fixed blocks.
//
// Long loops can be interrupted. A thread runs its piece in slices, and between slices that took long enough the
// calling thread checks whether the user wants to stop (Ctrl-C). The error then leaves every loop and the op. Loops
// that one thread runs alone use sliced_for() for the same purpose.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

#include "core/host.h"

namespace facula {

int num_threads();
void set_num_threads(int count);
bool in_parallel_region();
/// Whether this process was forked from one that had started threads, which do not exist here.
bool in_forked_child();

/// Work per thread (in simple element operations) below which starting another thread does not pay.
constexpr int64_t kGrain = 32768;

/// While one lives, loops of this thread ask nobody: for who holds a mutex that a holder of the interpreter lock may
/// wait for.
class Uninterrupted {
 public:
  Uninterrupted() { ++depth; }
  ~Uninterrupted() { --depth; }
  Uninterrupted(const Uninterrupted&) = delete;
  static thread_local constinit int depth __attribute__((tls_model("initial-exec")));
};

/// For loops over ops, which sliced_for does not see: asks every few hundred rounds.
inline void ask_in_round(int64_t round) {
  if (round % 256 == 255 && host.check_interrupt && !Uninterrupted::depth && !in_parallel_region())
    host.check_interrupt();
}

/// Installed by observers (src/observe): called when a thread of the pool begins and ends its piece of an op of a
/// watched thread.
extern void (*on_piece)(bool begins);

namespace detail {
using Body = void (*)(void* context, int64_t from, int64_t to);
void run_parallel(int64_t begin, int64_t end, int64_t chunk, int64_t grain, Body body, void* context);
void run_slices(int64_t begin, int64_t end, int64_t grain, Body body, void* context);
int64_t parallel_chunk(int64_t count, int64_t grain);

/// Less work than so many grains is not sliced.
constexpr int64_t kFirstSlice = 4;
inline bool is_one_slice(int64_t count, int64_t grain) { return count / kFirstSlice <= grain; }

/// The one compiled copy of a loop body, for the calling thread alone and for pieces: bodies are most of the code of
/// kernels.
template <class F>
[[gnu::noinline]] void call_body(void* context, int64_t from, int64_t to) {
  (*static_cast<F*>(context))(from, to);
}
}  // namespace detail

/// Calls f(from, to) over [begin, end) in order, on this thread; `grain` as in parallel_for.
template <class F>
void sliced_for(int64_t begin, int64_t end, int64_t grain, F&& f) {
  if (end <= begin) return;
  constexpr detail::Body body = detail::call_body<std::remove_reference_t<F>>;
  if (detail::is_one_slice(end - begin, grain)) body(&f, begin, end);
  else detail::run_slices(begin, end, grain, body, &f);
}

/// Calls f(from, to) over disjoint parts of [begin, end). `grain` iterations are kGrain element operations or more:
/// what a thread is worth starting for.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& f) {
  int64_t count = end - begin;
  if (count <= 0) return;
  int64_t chunk = count <= grain ? count : detail::parallel_chunk(count, grain);
  if (chunk >= count) sliced_for(begin, end, grain, f);
  else detail::run_parallel(begin, end, chunk, grain, detail::call_body<std::remove_reference_t<F>>, &f);
}

/// Lets other Python threads run while a kernel works; a no-op where the caller holds no interpreter lock.
class LockRelease {
 public:
  /// `worth_it`: whether the work is long enough to pay for the two lock operations.
  explicit LockRelease(bool worth_it) : saved_(worth_it && host.release_lock ? host.release_lock() : nullptr) {}
  ~LockRelease() {
    if (saved_) host.take_lock(saved_);
  }
  LockRelease(const LockRelease&) = delete;

 private:
  void* saved_;
};

}  // namespace facula

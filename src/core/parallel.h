// One pool of threads for everything (OpenMP). Small work stays on the calling thread; results never depend on the
// number of threads, because kernels split reductions by fixed blocks.
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

namespace detail {
void run_parallel(int64_t begin, int64_t end, int64_t chunk, void (*body)(void*, int64_t, int64_t), void* context);
int64_t parallel_chunk(int64_t count, int64_t grain);

/// The one compiled copy of a loop body, for the calling thread alone and for pieces: bodies are most of the code of kernels.
template <class F>
[[gnu::noinline]] void call_body(void* context, int64_t from, int64_t to) {
  (*static_cast<std::remove_reference_t<F>*>(context))(from, to);
}
}  // namespace detail

/// Calls f(from, to) over disjoint pieces of [begin, end), each at least `grain` long.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& f) {
  int64_t count = end - begin;
  if (count <= 0) return;
  int64_t chunk = count <= grain ? count : detail::parallel_chunk(count, grain);
  if (chunk >= count) detail::call_body<F>(&f, begin, end);
  else detail::run_parallel(begin, end, chunk, detail::call_body<F>, &f);
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

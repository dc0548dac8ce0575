// Loops over several threads.
#pragma once

#include <torch/types.h>

#include "core/parallel.h"

namespace torch {

int get_thread_num();
inline bool in_parallel_region() { return facula::in_parallel_region(); }
namespace internal {
constexpr int64_t GRAIN_SIZE = facula::kGrain;
}

/// Calls f(from, to) over disjoint parts of [begin, end), of which those of one thread may be several.
template <class F>
void parallel_for(const int64_t begin, const int64_t end, const int64_t grain_size, const F& f) {
  auto body = [&f](int64_t from, int64_t to) { f(from, to); };
  facula::parallel_for(begin, end, std::max<int64_t>(grain_size, 1), body);
}

/// Joins by `join` what f(from, to, identity) gives for parts of [begin, end). Parts do not depend on the number of
/// threads.
template <class T, class F, class Join>
T parallel_reduce(const int64_t begin, const int64_t end, const int64_t grain_size, const T identity, const F& f,
                  const Join& join) {
  if (begin >= end) return identity;
  const int64_t most = 256, least = std::max<int64_t>(grain_size, 1);
  const int64_t part = std::max(least, (end - begin + most - 1) / most), parts = (end - begin + part - 1) / part;
  std::vector<T> found(static_cast<size_t>(parts), identity);
  parallel_for(0, parts, 1, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i)
      found[static_cast<size_t>(i)] = f(begin + i * part, std::min(begin + (i + 1) * part, end), identity);
  });
  T total = identity;
  for (const T& each : found) total = join(total, each);
  return total;
}

}  // namespace torch

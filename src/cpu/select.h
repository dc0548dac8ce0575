// Finds the k-th smallest of many values. A sample shows between which two values it lies, and only the values between
// them are partitioned.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

namespace facula::cpu {

/// Of the values get(0), ..., get(n - 1), among which `<` is a total order, the one with k smaller ones before it.
template <class V, class Get>
V kth_smallest(int64_t n, int64_t k, Get get) {
  constexpr int64_t kSample = 1024, kMargin = 64;  // four standard deviations of a quantile's place in the sample
  constexpr int64_t kFew = 64;
  V few[kFew];
  const auto many = n > kFew ? std::make_unique_for_overwrite<V[]>(static_cast<size_t>(n)) : nullptr;
  V* const kept = many ? many.get() : few;
  auto partitioned = [&](int64_t count, int64_t at) {
    std::nth_element(kept, kept + at, kept + count);
    return kept[at];
  };
  if (n >= 4 * kSample) {
    const int64_t step = n / kSample, last = kSample - 1, place = std::min(k / step, last);
    V sample[kSample];
    for (int64_t i = 0; i < kSample; ++i) sample[i] = get(i * step);
    std::sort(sample, sample + kSample);
    const bool bounded = place >= kMargin, limited = place + kMargin <= last;
    const V low = sample[bounded ? place - kMargin : 0], high = sample[limited ? place + kMargin : last];
    int64_t count = 0, below = 0;
    for (int64_t i = 0; i < n; ++i) {
      const V v = get(i);
      const bool under = bounded & (v < low), over = limited & (high < v);
      kept[count] = v;
      count += !(under | over);
      below += under;
    }
    if (k >= below && k - below < count) return partitioned(count, k - below);
  }
  for (int64_t i = 0; i < n; ++i) kept[i] = get(i);
  return partitioned(n, k);
}

}  // namespace facula::cpu

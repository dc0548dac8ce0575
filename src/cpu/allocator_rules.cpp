#include "cpu/allocator_rules.h"

#include "core/small_block.h"

namespace facula::cpu::detail {

constexpr size_t kSlack = 16 * kMiB;
constexpr int kRequestsPerWindow = 16384;

void keep_bound() {
  if (policy.held > policy.peak) policy.peak = policy.held;
  if (++policy.requests == kRequestsPerWindow) {
    policy.previous_peak = policy.peak;
    policy.peak = policy.held;
    policy.requests = 0;
  }
  const size_t recent_peak = std::max(policy.peak, policy.previous_peak);
  const size_t bound = recent_peak + recent_peak / 16 + kSlack;
  const size_t now = policy.held + hot_list.bytes();
  if (now > bound) hot_list.trim(now - bound);
}

void set_tight(bool tight) {
  if (policy.tight == tight) return;
  policy.tight = tight;
  middle_region.advise_pages();
  large_region.advise_pages();
}

void set_bounds(size_t limit, size_t budget) {
  policy.limit = limit;
  policy.budget = budget;
  policy.bound = limit > 0 && budget > 0 ? std::min(limit, budget) : std::max(limit, budget);
  const size_t used = bounded_bytes();
  if (policy.bound > 0 && used > policy.bound) hot_list.trim(used - policy.bound);
  policy.can_move = budget > 0;
  if (budget == 0) {
    set_tight(false);
    middle_region.merge_all();
    large_region.merge_all();
    middle_region.renew();
    large_region.renew();
  }
  small_block_counts_spans.store(budget > 0, std::memory_order_relaxed);
}

size_t bytes_in_blocks() { return bounded_bytes() - std::min(hot_list.bytes(), bounded_bytes()); }

// Rule 7.
static bool fits_bound(size_t fresh, size_t reused, size_t bound) {
  const size_t used = bounded_bytes();
  if (used + fresh <= bound) return true;
  const size_t over = used + fresh - bound;
  if (over > hot_list.bytes() - reused) return false;
  set_tight(policy.budget > 0);
  hot_list.trim(over, policy.budget > 0 ? kTrimUnit : kSmallestTrim);
  return bounded_bytes() + fresh <= bound;
}

bool admit_locked(size_t fresh, size_t reused, size_t bound) {
  if (bound > 0 && !fits_bound(fresh, reused, bound)) return false;
  policy.unchecked += fresh;
  if (policy.unchecked < kFreshBytesPerCheck) return true;
  const size_t total = os::total_memory();
  if (meters.held.current() + fresh > total) return false;
  size_t available = os::available_memory();
  if (available < fresh + total / 16 && hot_list.bytes() > 0) {
    hot_list.trim(SIZE_MAX);
    meters.retries.fetch_add(1, std::memory_order_relaxed);
    available = os::available_memory();
  }
  if (available < fresh) return false;
  policy.unchecked = 0;
  return true;
}

}  // namespace facula::cpu::detail

#include "budget/report.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

namespace facula::budget {

std::atomic<bool> places_are_wanted{false};

int64_t report_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

namespace {
uint64_t processor_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}
}  // namespace

// ---- sizes

EventSizes::EventSizes(IntList sizes) : count_(static_cast<uint32_t>(sizes.size())) {
  const bool fit = sizes.size() <= kInline &&
                   std::ranges::all_of(sizes, [](int64_t size) { return size >= 0 && size <= int64_t{UINT32_MAX}; });
  if (!fit) {
    many_ = std::make_unique<Dims>(sizes);
    return;
  }
  std::ranges::transform(sizes, few_, [](int64_t size) { return static_cast<uint32_t>(size); });
}

Dims EventSizes::dims() const {
  if (many_) return *many_;
  Dims dims;
  for (size_t i = 0; i < count_; ++i) dims.push_back(few_[i]);
  return dims;
}

// ---- notes

Row& Report::row_of(MadeBy by) {
  const auto [found, fresh] = row_numbers_.try_emplace(by, rows_.size());
  if (fresh) rows_.emplace_back().by = by;
  return rows_[found->second];
}

void Report::note_let_go(MadeBy by, IntList sizes, DType dtype, size_t bytes, Cause cause) {
  const EventKind kind = cause == Cause::Request ? EventKind::LetGo : EventKind::MovedAway;
  const Event event{report_clock(), kind, dtype, true, by, bytes, 0, EventSizes(sizes)};
  std::lock_guard guard(lock_);
  Row& row = row_of(by);
  ++row.let_go;
  row.let_go_bytes += bytes;
  for (auto& [number, highest] : watches_) highest.let_go += bytes;
  events_.add(event);
}

void Report::note_again(MadeBy by, size_t bytes, uint64_t ns) {
  const Event event{report_clock(), EventKind::Again, DType::Float32, false, by, bytes, ns, EventSizes()};
  std::lock_guard guard(lock_);
  Row& row = row_of(by);
  ++row.again;
  row.again_bytes += bytes;
  row.again_ns += ns;
  again_ns_ += ns;
  events_.add(event);
}

void Report::note_moved(MadeBy by, size_t bytes, bool back, uint64_t ns) {
  const Event event{report_clock(), EventKind::MovedBack, DType::Float32, false, by, bytes, ns, EventSizes()};
  std::lock_guard guard(lock_);
  Row& row = row_of(by);
  ++row.moved;
  row.moved_bytes += bytes;
  row.moved_ns += ns;
  if (back) events_.add(event);  // note_let_go() says when bytes have gone
}

void Report::note_copied(IntList sizes, DType dtype, size_t bytes, uint32_t place) {
  const Event event{report_clock(), EventKind::Copied, dtype, true, {0, place}, bytes, 0, EventSizes(sizes)};
  std::lock_guard guard(lock_);
  const auto same = std::ranges::find_if(
      copied_, [&](const Copied& c) { return c.place == place && c.dtype == dtype && IntList(c.sizes) == sizes; });
  if (same != copied_.end()) {
    ++same->count;
    same->bytes += bytes;
  } else {
    copied_.push_back({Dims(sizes), dtype, place, 1, bytes});
  }
  events_.add(event);
}

void Report::note_room(size_t held, size_t can_go, size_t request, size_t bound) {
  places_are_wanted.store(true, std::memory_order_relaxed);
  const uint64_t stays = held - std::min(held, can_go);
  std::lock_guard guard(lock_);
  ++rooms_;
  for (auto& [number, highest] : watches_) {
    highest.held = std::max<uint64_t>(highest.held, held);
    highest.smallest = std::max<uint64_t>(highest.smallest, std::min(stays + request, bound));
  }
}

void Report::note_refused(size_t smallest) {
  std::lock_guard guard(lock_);
  for (auto& [number, highest] : watches_) highest.smallest = std::max<uint64_t>(highest.smallest, smallest);
}

void Report::note_pass(bool begins) {
  const int64_t now = report_clock();
  std::lock_guard guard(lock_);
  if (begins) {  // passes of several threads appear as one
    if (running_passes_++ == 0) {
      passes_.add({now, 0});
      gradients_ = 0;
    }
    return;
  }
  if (running_passes_ == 0) return;  // it began without a budget
  ++ended_passes_;
  const StepTime present{std::this_thread::get_id(), by_wall_ ? static_cast<uint64_t>(now) : processor_ns()};
  const bool same = present.thread == last_pass_.thread;
  step_ = {same ? present.ns - last_pass_.ns : 0, again_ns_ - again_before_, most_gone_};
  if (step_.ns) {
    steps_ns_ += step_.ns;
    steps_again_ns_ += step_.again_ns;
  }
  last_pass_ = present;
  again_before_ = again_ns_;
  most_gone_ = 0;
  last_pass_end_ = now;
  if (--running_passes_ == 0) passes_.last().end = now;
}

LastStep Report::last_step() const {
  std::lock_guard guard(lock_);
  return step_;
}

void Report::note_sample(size_t held, size_t saved_here, size_t gone) {
  const int64_t now = report_clock();
  std::lock_guard guard(lock_);
  samples_.add({now, held, saved_here, gone, gradients_});
  most_gone_ = std::max<uint64_t>(most_gone_, gone);
  for (auto& [number, highest] : watches_) {
    highest.held = std::max<uint64_t>(highest.held, held);
    highest.plain = std::max<uint64_t>(highest.plain, held + gone);
    highest.smallest = std::max<uint64_t>(highest.smallest, held - std::min(held, saved_here));
  }
}

void Report::note_gradient(size_t bytes) {
  std::lock_guard guard(lock_);
  gradients_ += bytes;
}

// ---- readers

Totals Report::totals() const {
  std::lock_guard guard(lock_);
  return {rows_, copied_, ended_passes_, last_pass_end_, rooms_, steps_ns_, steps_again_ns_};
}

std::vector<Event> Report::events(int64_t since) const {
  std::lock_guard guard(lock_);
  return events_.from(since, &Event::time);
}

std::vector<Sample> Report::samples(int64_t since) const {
  std::lock_guard guard(lock_);
  return samples_.from(since, &Sample::time);
}

std::vector<Pass> Report::passes(int64_t since) const {
  std::lock_guard guard(lock_);
  return passes_.from(since, &Pass::begin);
}

uint64_t Report::let_go_bytes() const {
  std::lock_guard guard(lock_);
  return watches_.rbegin()->second.let_go;
}

uint64_t Report::smallest() const {
  std::lock_guard guard(lock_);
  return watches_.rbegin()->second.smallest;
}

uint64_t Report::new_gradients() const {
  std::lock_guard guard(lock_);
  return gradients_;
}

uint32_t Report::begin_watch(size_t held) {
  std::lock_guard guard(lock_);
  watches_[++last_watch_] = {held, held, 0, 0};
  return last_watch_;
}

Highest Report::watched(uint32_t watch) const {
  std::lock_guard guard(lock_);
  const auto found = watches_.find(watch);
  return found == watches_.end() ? Highest{} : found->second;
}

void Report::end_watch(uint32_t watch) {
  std::lock_guard guard(lock_);
  if (watch) watches_.erase(watch);
}

// ---- one for each device

namespace {
// Never destroyed: threads may end later.
std::array<std::array<std::atomic<Report*>, 128>, kDeviceTypes> reports{};
}  // namespace

Report& report_of(Device device) {
  const size_t index = device.type == DeviceType::CPU ? 0 : static_cast<size_t>(std::max<int>(device.index, 0));
  std::atomic<Report*>& slot = reports[static_cast<size_t>(device.type)][index];
  Report* known = slot.load(std::memory_order_acquire);
  if (known) return *known;
  auto fresh = std::make_unique<Report>(device);
  if (slot.compare_exchange_strong(known, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
  return *known;
}

void note_pass_ends() {
  for (auto& of_type : reports) {
    for (std::atomic<Report*>& slot : of_type) {
      if (Report* report = slot.load(std::memory_order_acquire)) report->note_pass(false);
    }
  }
}

}  // namespace facula::budget

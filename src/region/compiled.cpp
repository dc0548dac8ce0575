#include "region/compiled.h"

#include <algorithm>
#include <bit>

namespace facula {
namespace {

constexpr double kWorth = 0.97;  // of the time of eager calls
constexpr int64_t kLeastBytes = int64_t{8192} * 2;

int64_t median(std::array<int64_t, 8> times) {
  std::ranges::nth_element(times, times.begin() + 4);
  return times[4];
}

}  // namespace

const char* name(CompileState state) {
  constexpr const char* kNames[] = {"look", "learn", "trial", "follow", "pass"};
  return kNames[static_cast<size_t>(state)];
}

CompiledCalls::Way CompiledCalls::begin(uint64_t sizes) {
  ++calls;
  const bool others = sizes != sizes_;
  sizes_ = sizes;
  if (never_follows) return {};
  if (always_follows) return {true, true, false};
  if (state == CompileState::Pass && ((others && looks_ < kLooks) || in_state_ >= kTrusted)) become(CompileState::Look);
  if (state == CompileState::Trial && others) become(CompileState::Trial);
  if (state == CompileState::Follow && in_state_ >= kTrusted) become(CompileState::Trial);
  switch (state) {
    case CompileState::Look: return {true, false, false};
    case CompileState::Trial: return {in_state_ % 2 == 1, true, true};
    case CompileState::Pass: return {};
    default: return {true, true, false};
  }
}

void CompiledCalls::end(const Way& way, const Outcome& outcome) {
  ++in_state_;
  if (outcome.failed) return;
  if (way.follows && way.region) {
    missed_ = ((missed_ << 1) | outcome.missed) & 0xFFFFFu;
    if (std::popcount(missed_) >= kMostMisses && !always_follows) return become(CompileState::Pass);
  }
  switch (state) {
    case CompileState::Look:
      ++looks_;
      become(is_worth_following() ? CompileState::Learn : CompileState::Pass);
      break;
    case CompileState::Learn:
      if (in_state_ == kLearned) become(CompileState::Trial);
      break;
    case CompileState::Trial:
      (way.region ? followed_ : eager_)[static_cast<size_t>((in_state_ - 1) / 2)] = outcome.nanoseconds;
      if (in_state_ == 2 * kTried) judge();
      break;
    default: break;
  }
}

void CompiledCalls::judge() {
  const bool faster = static_cast<double>(median(followed_)) < kWorth * static_cast<double>(median(eager_));
  become(faster ? CompileState::Follow : CompileState::Pass);
}

/// Whether a recording has ops that could wait together.
bool CompiledCalls::is_worth_following() const {
  if (work->recordings.empty()) return false;
  const auto& ops = work->recordings.front()->ops;
  return std::ranges::count_if(ops, [](const RecordedOp& op) { return op.waits && op.bytes >= kLeastBytes; }) >= 2;
}

void CompiledCalls::become(CompileState next) {
  state = next;
  in_state_ = 0;
  missed_ = 0;
}

void CompiledCalls::reset() {
  work->recordings.clear();
  work->calls = work->misses = 0;
  looks_ = 0;
  become(CompileState::Look);
}

}  // namespace facula

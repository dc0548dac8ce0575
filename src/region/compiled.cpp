#include "region/compiled.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <mutex>
#include <optional>

#include "core/short_memory.h"
#include "observe/observer.h"

namespace facula {
namespace {

constexpr double kWorth = 0.97;   // of the time of eager calls
constexpr double kPlain = 0.9;    // so much less needs no second trial
constexpr double kAsMuch = 1.02;  // of the time, where much memory is let go
constexpr int64_t kMuchMemory = int64_t{8} << 20;
constexpr int64_t kLeastBytes = int64_t{8192} * 2;

// ---- backward passes, by the numbers of nodes

/// Functions whose nodes are known by numbers; their places are used again.
struct Numbers {
  std::mutex lock;
  std::vector<std::shared_ptr<CompiledCalls>> passes{nullptr};  // of number 0: none
  std::vector<uint16_t> free;
};
Numbers& numbers() {
  static Numbers* instance = new Numbers;
  return *instance;
}

/// A pass that runs now.
struct RunningPass {
  std::shared_ptr<CompiledCalls> calls;
  std::unique_lock<std::mutex> counts;  // of `calls`: of several passes at a time one is looked at
  CompiledCalls::Way way;
  std::optional<StretchRun> stretches;
  std::optional<Region> region;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
};

void* pass_begins(uint16_t compiled, uint64_t kind) {
  auto pass = std::make_unique<RunningPass>();
  {
    std::lock_guard guard(numbers().lock);
    if (compiled < numbers().passes.size()) pass->calls = numbers().passes[compiled];
  }
  if (!pass->calls) return nullptr;
  pass->counts = std::unique_lock(pass->calls->one_at_a_time, std::try_to_lock);
  if (!pass->counts) return nullptr;
  if (pass->calls->stretches) {
    pass->stretches.emplace(pass->calls->stretches);
    if (!pass->calls->stretches->called && !pass->stretches->ask()) return nullptr;
    pass->region.emplace(*pass->calls->work, false, compiled);
    pass->region->stretches = &*pass->stretches;
    return pass.release();
  }
  if (!pass->calls->never_follows) pass->way = pass->calls->begin(kind);
  if (pass->way.region) {
    pass->region.emplace(*pass->calls->work, pass->way.follows, compiled);
    pass->region->tape_may_wait = pass->calls->always_follows || pass->calls->state == CompileState::Follow;
  }
  return pass.release();
}

void pass_ends(void* running, bool failed) {
  const std::unique_ptr<RunningPass> pass(static_cast<RunningPass*>(running));
  if (pass->stretches) {  // what waits after an error is made when it is needed
    if (!failed) pass->stretches->end();
    pass->calls->stretches->called = pass->calls->stretches->called || !failed;
    return;
  }
  CompiledCalls::Outcome outcome;
  outcome.failed = failed;
  if (pass->region && !failed) {  // what waits after an error is made when it is needed
    pass->region->leave();
    outcome.missed = pass->way.follows && !pass->region->follows();
  }
  pass->region.reset();
  outcome.nanoseconds = (std::chrono::steady_clock::now() - pass->began).count();
  pass->calls->end(pass->way, outcome);
}

}  // namespace

uint16_t CompiledCalls::number() {
  if (number_) return number_;
  Numbers& all = numbers();
  std::lock_guard guard(all.lock);
  region_hooks.pass_begins = pass_begins;
  region_hooks.pass_ends = pass_ends;
  auto passes = std::make_shared<CompiledCalls>(std::make_shared<Work>());
  passes->never_follows = never_follows;
  passes->always_follows = always_follows;
  passes->stretches = backward_stretches;
  if (!all.free.empty()) {
    number_ = all.free.back();
    all.free.pop_back();
    all.passes[number_] = std::move(passes);
  } else if (all.passes.size() <= UINT16_MAX) {
    number_ = static_cast<uint16_t>(all.passes.size());
    all.passes.push_back(std::move(passes));
  }
  return number_;
}

CompiledCalls::~CompiledCalls() {
  if (!number_) return;
  std::shared_ptr<CompiledCalls> dying;
  std::lock_guard guard(numbers().lock);
  dying.swap(numbers().passes[number_]);
  numbers().free.push_back(number_);
}

bool next_pass_follows(uint16_t compiled) {
  std::shared_ptr<CompiledCalls> passes;
  {
    std::lock_guard guard(numbers().lock);
    if (compiled < numbers().passes.size()) passes = numbers().passes[compiled];
  }
  if (!passes) return false;
  const std::unique_lock counts(passes->one_at_a_time, std::try_to_lock);
  return counts && passes->will_follow();
}

bool CompiledCalls::will_follow() const {
  if (never_follows || is_memory_short()) return false;
  if (always_follows) return true;
  switch (state) {
    case CompileState::Learn: return true;
    case CompileState::Trial: return in_state_ % 2 == 1;
    case CompileState::Follow: return in_state_ < kTrusted;
    default: return false;
  }
}

const char* name(CompileState state) {
  constexpr const char* kNames[] = {"look", "learn", "trial", "follow", "pass", "replay"};
  return kNames[static_cast<size_t>(state)];
}

CompiledCalls::Way CompiledCalls::begin(uint64_t sizes) {
  ++calls;
  if (is_memory_short()) return {};
  const bool others = sizes != sizes_;
  sizes_ = sizes;
  if (always_follows && !never_follows) return {.region = true, .follows = true, .sizes = sizes};
  if (state == CompileState::Replay) return {.replays = true, .sizes = sizes};
  if (always_replays && may_replay && !replayed_) return {.timed = true, .prepares = true, .sizes = sizes};
  if (state == CompileState::Pass && in_state_ >= patience_ && patience_ == kStable)
    return {.timed = true, .prepares = true, .sizes = sizes};
  if (state == CompileState::Pass && !never_follows && in_state_ >= kTrusted) {
    become(CompileState::Look);
    looks_again_ = true;
  }
  if (state == CompileState::Pass && others && looks_ < kLooks && !has_looked_at(sizes)) become(CompileState::Look);
  if (state == CompileState::Trial && others) {
    doubted_ = false;
    become(CompileState::Trial);
  }
  if (state == CompileState::Follow && in_state_ >= kTrusted)
    become(judged_by_bytes().value_or(false) ? CompileState::Follow : CompileState::Trial);
  switch (state) {
    case CompileState::Look:
      // where the settings refused others, those that were recorded before go on
      if (!looks_again_ && has_looked_at(sizes)) return {};
      return {.region = true, .asks = !looks_again_, .sizes = sizes};
    case CompileState::Trial: {
      const bool other_way = in_state_ % 2 == 1;
      if (tries_steps_) return {.timed = true, .replays = other_way, .sizes = sizes};
      return {.region = other_way, .follows = true, .timed = true, .sizes = sizes};
    }
    case CompileState::Pass: return {};
    default: return {.region = true, .follows = true, .sizes = sizes};
  }
}

void CompiledCalls::end(const Way& way, const Outcome& outcome) {
  ++in_state_;
  if (outcome.failed) return;
  if ((way.follows && way.region) || way.replays) {
    missed_ = ((missed_ << 1) | outcome.missed) & 0xFFFFFu;
    if (std::popcount(missed_) >= kMostMisses && !always_follows && !always_replays) return become(CompileState::Pass);
  }
  switch (state) {
    case CompileState::Look:
      if (!way.region) break;  // it was not to be recorded
      ++looks_;
      looks_again_ = false;
      if (!has_looked_at(way.sizes)) looked_.push_back(way.sizes);
      become(!never_follows && is_worth_following() ? CompileState::Learn : CompileState::Pass);
      break;
    case CompileState::Learn:
      if (in_state_ < kLearned) break;
      if (const auto saves = judged_by_bytes()) become(*saves ? CompileState::Follow : CompileState::Pass);
      else become(CompileState::Trial);
      break;
    case CompileState::Trial:
      (way.region || way.replays ? followed_ : eager_)[static_cast<size_t>((in_state_ - 1) / 2)] = outcome.nanoseconds;
      if (in_state_ == 2 * kTried) judge();
      break;
    default: break;
  }
}

/// Whether the last call moved fewer bytes than an eager one, where devices did the work.
std::optional<bool> CompiledCalls::judged_by_bytes() const {
  std::lock_guard guard(work->lock);
  if (work->recordings.empty() || work->recordings.front()->counts.on_devices == 0) return {};
  return work->recordings.front()->counts.not_moved > 0;
}

/// The least times of both ways are compared: what else the machine does makes calls longer, never shorter.
void CompiledCalls::judge() {
  const bool replays = tries_steps_;
  const auto least = [](const auto& times) { return static_cast<double>(*std::ranges::min_element(times)); };
  const double ratio = least(followed_) / least(eager_);
  const bool idle = !replays && nothing_waited();
  const bool faster = !idle && ratio < kWorth;
  if (faster && ratio > kPlain && !doubted_) {  // once more
    doubted_ = true;
    return become(CompileState::Trial);
  }
  doubted_ = false;
  const bool good = faster || (!replays && ratio < kAsMuch && lets_go());
  const CompileState better = replays ? CompileState::Replay : CompileState::Follow;
  tries_steps_ = false;
  become(good ? better : CompileState::Pass);
}

bool CompiledCalls::is_tiny(int64_t nanoseconds) {
  if (nanoseconds < kTiny) return true;
  if (++long_ >= kLong) prepared(false);
  return false;
}

void CompiledCalls::prepared(bool found) {
  replayed_ = true;
  prepared_at_ = calls;
  tries_steps_ = found && !always_replays;
  patience_ = kTrusted;
  if (found) become(always_replays ? CompileState::Replay : CompileState::Trial);
}

/// Steps that serve few calls cost more than they gain.
bool CompiledCalls::replaces_steps() {
  constexpr int64_t kServed = 200;
  replaced_ = calls - prepared_at_ >= kServed ? 0 : replaced_ + 1;
  prepared_at_ = calls;
  if (replaced_ < kReplaced || always_replays) return true;
  tries_steps_ = false;
  become(CompileState::Pass);
  return false;
}

/// Whether the last call put nothing off: then what a clock says is noise.
bool CompiledCalls::nothing_waited() const {
  std::lock_guard guard(work->lock);
  return work->recordings.empty() || work->recordings.front()->counts.put_off == 0;
}

/// Whether followed calls let go of a good part of what their ops make.
bool CompiledCalls::lets_go() const {
  constexpr int64_t kPart = 12;
  std::lock_guard guard(work->lock);
  if (work->recordings.empty()) return false;
  const Recording& last = *work->recordings.front();
  int64_t made = 0;
  for (const RecordedOp& op : last.ops) made += op.bytes;
  return last.counts.bytes_let_go >= std::max(kMuchMemory, made / kPart);
}

bool CompiledCalls::has_looked_at(uint64_t sizes) const { return std::ranges::find(looked_, sizes) != looked_.end(); }

/// Whether a recording has ops that could wait together.
bool CompiledCalls::is_worth_following() const {
  std::lock_guard guard(work->lock);
  if (work->recordings.empty()) return false;
  const auto& ops = work->recordings.front()->ops;
  return std::ranges::count_if(ops,
                               [](const RecordedOp& op) { return learned(op.waits) && op.bytes >= kLeastBytes; }) >= 2;
}

void CompiledCalls::become(CompileState next) {
  if (next != state) doubted_ = false;
  state = next;
  in_state_ = 0;
  missed_ = 0;
  patience_ = next == CompileState::Pass && may_replay && !replayed_ ? kStable : kTrusted;
}

void CompiledCalls::reset() {
  std::lock_guard guard(work->lock);
  work->recordings.clear();
  work->misses = 0;
  looks_ = 0;
  looked_.clear();
  looks_again_ = false;
  replayed_ = tries_steps_ = false;
  replaced_ = long_ = 0;
  become(CompileState::Look);
}

}  // namespace facula

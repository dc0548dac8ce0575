// What a tape holds when it alone does: values that nodes have saved for a backward pass.
//   - A result that nobody has needed so far stays without bytes when the call ends: the group lives on as its recipe.
//     A backward pass that is followed takes its steps over (absorb.cpp); whoever else needs it has it made.
//   - A result that was made, because a product read it, goes back to its recipe (Recipe::let_go()) while the call
//     runs, if what it is made of is held by others anyway.
// Both only where the recipe does not hold more memory than it saves.
#include <algorithm>

#include "region/instance.h"

namespace facula {
int64_t Instance::result_bytes(const Result& r) const {
  int64_t numel = 1;
  for (const int64_t size : r.sizes) numel *= size;
  return numel * item_size(values_[r.value].dtype);
}

bool Instance::holds_too_much() const {
  constexpr int64_t kMost = int64_t{64} << 20, kTimes = 2;
  const int64_t held = held_bytes();
  if (held == 0) return false;
  int64_t waiting = 0;
  for (size_t r = 0; r < outs_.size(); ++r)
    if (is_wanted(r)) waiting += result_bytes(outs_[r]);
  return held > std::min(kMost, kTimes * waiting);
}

bool Instance::may_be_let_go(const Result& r) const {
  return !ends_ && stream.device.is_cpu() && learned(r.read_at_once) && result_bytes(r) >= kLeastLetGo;
}

/// Those that no result which waits, or may wait again, is made of.
void Instance::forget_unneeded_inputs() {
  std::vector<bool> needed(values_.size());
  for (size_t r = 0; r < outs_.size(); ++r)
    if (is_wanted(r) || is_reclaimable(r)) needed[outs_[r].value] = true;
  forget_inputs(needed_values(steps_, values_, needed));
}

/// Of different storages.
int64_t Instance::input_bytes(bool only_held) const {
  std::vector<const Storage*> seen;
  int64_t bytes = 0;
  std::lock_guard guard(lock_);
  for (const auto* list : {&inputs_, &others_}) {
    for (const Tensor& t : *list) {
      if (!t.defined() || std::ranges::find(seen, t.storage()) != seen.end()) continue;
      seen.push_back(t.storage());
      const auto ours = std::ranges::count_if(
          inputs_, [&](const Tensor& other) { return other.defined() && other.storage() == t.storage(); });
      if (!only_held || t.storage()->refs.load() <= ours) bytes += static_cast<int64_t>(t.storage()->nbytes);
    }
  }
  return bytes;
}

void Instance::close() {
  std::lock_guard guard(lock_);
  open_ = false;
}

void Instance::end(bool tape_may_wait) {
  close();
  ends_ = true;
  if (tape_may_wait && stream.device.is_cpu()) leave_to_tape();
  for (size_t r = 0; r < outs_.size(); ++r)
    if (!learned(outs_[r].for_tape)) make_result(r);
  keep_for_good();
  forget_unneeded_inputs();
}

void Instance::leave_to_tape() {
  constexpr int64_t kOf = 5, kAtMost = 4;  // inputs of 5 bytes for 4: small ones count little
  int64_t left = 0;
  std::vector<size_t> which;
  for (size_t r = 0; r < outs_.size(); ++r) {
    if (learned(outs_[r].for_tape) || learned(outs_[r].place.op().wanted) || !only_saved(r)) continue;
    which.push_back(r);
    left += result_bytes(outs_[r]);
  }
  if (input_bytes(false) * kAtMost > left * kOf) return;
  for (const size_t r : which) learn(outs_[r].for_tape, true);
}

int64_t Instance::let_go_of_saved() {
  int64_t bytes = 0;
  for (size_t r = 0; r < outs_.size(); ++r) {
    if (!is_reclaimable(r)) continue;
    if (input_bytes(true) * 8 > result_bytes(outs_[r])) {  // which the recipe would keep
      keep_for_good();
      forget_unneeded_inputs();
      return bytes;
    }
    learn(outs_[r].for_tape, true);
    const size_t gone = let_go(r);
    if (!gone) learn(outs_[r].for_tape, false);
    bytes += static_cast<int64_t>(gone);
  }
  return bytes;
}

}  // namespace facula

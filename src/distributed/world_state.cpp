// Who waits for whom, what failed, and what a world says of itself.
#include <algorithm>

#include "cuda/collectives.h"
#include "distributed/control.h"
#include "distributed/world.h"

namespace facula::distributed {

bool World::has_several_groups() {
  const std::scoped_lock lock(mutex_);
  return std::count_if(groups_.begin(), groups_.end(), [](const auto& g) { return g->size() > 1; }) > 1;
}

std::vector<uint64_t> World::long_waits() {
  const std::scoped_lock lock(mutex_);
  std::vector<uint64_t> numbers;
  for (const auto& [number, op] : long_waits_) numbers.push_back(number);
  return numbers;
}

/// Messages and devices are not looked into: what they call when they are done may be anything. The lock is held.
bool World::may_go_on_by_message() const {
  for (const auto* list : {&messages_, &on_device_}) {
    for (const Message& m : *list) {
      const auto awaited = [&](const auto& wait) { return wait.second == m.op.get(); };
      if (!m.op->callbacks.empty() || std::any_of(long_waits_.begin(), long_waits_.end(), awaited)) return true;
    }
  }
  return false;
}

/// Who gives an operation less time than this may mean to go on without it.
constexpr double kBrief = 5;

Waiting World::waiting() {
  // Between two looks at the same waits nobody of them has called anything; other threads are counted in between.
  const std::vector<uint64_t> waits = long_waits();
  const int threads = program_threads ? program_threads() : 0;
  Waiting said;
  if (waits.empty() || waits != long_waits()) return said;
  const std::scoped_lock lock(mutex_);
  if (may_go_on_by_message() || waits.size() != long_waits_.size()) return said;
  size_t found = 0;
  bool brief = false;
  for (const auto& group : groups_) {
    if (group->size() == 1) continue;
    said.issued[group->key()] = group->issued;
    for (const auto& op : group->queue) {
      const bool waits_for = std::any_of(long_waits_.begin(), long_waits_.end(),
                                         [&](const auto& wait) { return wait.second == op.get(); });
      if (op->done() || (!waits_for && op->callbacks.empty())) continue;
      found += waits_for;
      brief = brief || (waits_for && op->call.timeout < kBrief);
      const auto place = waits_for ? said.awaited.begin() : said.awaited.end();  // what the program waits for first
      said.awaited.insert(place, {group->key(), group->title(*op), group->ranks, op->sequence});
    }
  }
  if (found != waits.size()) said.awaited.clear();  // one is done
  said.certain = !brief && static_cast<size_t>(threads) == waits.size();
  return said;
}

void World::give_up(const std::string& key, uint64_t sequence, const std::string& why) {
  const std::scoped_lock lock(mutex_);
  for (const auto& group : groups_) {
    if (group->key() != key) continue;
    for (const auto& op : group->queue) {
      if (op->sequence == sequence && !op->done()) return break_off(*group, *op, group->title(*op) + why);
    }
  }
}

void World::fail_all(const std::string& why) {
  engine_->interrupt();
  std::scoped_lock lock(mutex_);
  fail_all_locked(why);
}

std::string World::trouble() {
  const auto lock = lock_soon();
  return lock ? trouble_ : std::string();
}

void World::fail_all_locked(const std::string& why) {
  if (!broken_.empty()) return;
  broken_ = why;
  if (trouble_.empty()) trouble_ = why;
  engine_->abandon();
  if (!on_device_.empty()) cuda::fail_next_wait(std::make_exception_ptr(DistError(Trouble::Backend, why)));
  if (device_engine_) device_engine_->abandon();
  for (const Message& m : on_device_) break_off(*m.group, *m.op, m.group->title(*m.op) + " failed: " + why);
  for (const auto& group : groups_)
    for (const auto& op : group->queue) break_off(*group, *op, group->title(*op) + " failed: " + why);
  for (const Message& m : messages_) break_off(*m.group, *m.op, m.group->title(*m.op) + " failed: " + why);
}

std::string World::broken() {
  std::scoped_lock lock(mutex_);
  return broken_;
}

std::deque<Record> World::records() {
  std::scoped_lock lock(mutex_);
  return recorder_.records();
}

/// The lock, or none when a call of the engine does not return.
std::unique_lock<std::mutex> World::lock_soon() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  for (const Deadline deadline = Deadline::after(0.3); !lock && !deadline.passed(); (void)lock.try_lock())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return lock;
}

std::string World::state() {
  const auto lock = lock_soon();
  if (!lock) return {};
  std::ostringstream s;
  for (const auto& group : groups_) {
    s << group->number << '\t' << group->issued << '\t' << group->finished << '\t' << group->last << '\t';
    const CallSite site = group->queue.empty() ? group->gave_up : group->queue.front()->call.site;
    if (site.line) s << site.file << ':' << site.line;
    s << '\n';
  }
  return s.str();
}

}  // namespace facula::distributed

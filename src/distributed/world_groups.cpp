// How ranks make groups, and leave them.
#include <unistd.h>

#include <algorithm>
#include <future>
#include <sstream>

#include "distributed/control.h"
#include "distributed/world.h"

namespace facula::distributed {

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (int r : ranks) text += " " + std::to_string(r);
  return text;
}

std::string Group::key() const {
  std::string text = std::to_string(number);
  if (number == 0) return text;  // all
  for (int r : ranks) text += "," + std::to_string(r);
  return text;
}

std::shared_ptr<Group> World::make_group(const std::vector<int>& ranks, const std::string& name, bool locally,
                                         double timeout, CallSite site, bool nccl) {
  const auto here = std::find(ranks.begin(), ranks.end(), rank_);
  uint64_t salt = 1;
  std::string key = "group";
  for (int r : ranks) salt = salt * 1099511628211u + static_cast<uint64_t>(r) + 1, key += "," + std::to_string(r);
  constexpr int kNumbers = 1 << 14;
  int number;  // the same on all ranks of the group, and another one than that of a group made next to it
  std::shared_ptr<Operation> meeting;
  if (locally) {
    if (here == ranks.end()) return nullptr;
    const int attempt = [&] {
      std::scoped_lock lock(mutex_);
      return local_groups_[key]++;
    }();
    if (store_) store_->barrier(key + "#" + std::to_string(attempt), static_cast<int64_t>(ranks.size()), timeout);
    number = kNumbers + static_cast<int>((salt + static_cast<uint64_t>(attempt) + 1) % kNumbers);
  } else {
    Call call{.kind = Kind::Barrier, .name = "new_group"};
    call.timeout = timeout;
    call.site = site;
    call.salt = salt;
    call.detail = ranks_text(ranks);
    meeting = submit(everybody_, std::move(call));
    wait(*meeting);
    number = static_cast<int>(meeting->sequence % kNumbers);
  }
  auto group = std::make_shared<Group>();
  if (nccl) {
    const std::scoped_lock lock(mutex_);
    join_devices(*group, ranks, number);
  }
  if (here == ranks.end()) return nullptr;
  group->name = name;
  group->number = number;
  group->ranks = ranks;
  group->rank = static_cast<int>(here - ranks.begin());
  group->id = enter_group(ranks, number, timeout, meeting);
  const std::scoped_lock lock(mutex_);
  groups_.push_back(group);
  return group;
}

/// The engine waits for the others without a deadline: on a thread of its own, which is left behind when they do not
/// come. `meeting`: the operation in which all ranks said that they do, if they did.
int World::enter_group(const std::vector<int>& ranks, int number, double timeout,
                       const std::shared_ptr<Operation>& meeting) {
  const std::string what = "new_group (" + ranks_text(ranks) + ")";
  auto lock = lock_engine();
  if (!broken_.empty()) fail(Trouble::Backend, what, " failed: ", broken_);
  entering_ = true;
  lock.unlock();
  auto made = std::make_shared<std::promise<int>>();
  auto id = made->get_future();
  std::thread([made, ranks, number, world = shared_from_this()] {
    const auto leave = [&world] {
      std::scoped_lock lock(world->mutex_);
      world->entering_ = false;
    };
    try {
      const int entered = world->engine_->make_group(ranks, number);
      leave();
      made->set_value(entered);
    } catch (const EngineGaveUp& error) {  // why is heard soon
      std::scoped_lock lock(world->mutex_);
      world->gave_up_itself(error.what());
    } catch (...) {
      leave();
      made->set_exception(std::current_exception());
    }
  }).detach();
  for (const Deadline deadline = Deadline::after(timeout);;) {
    if (id.wait_for(std::chrono::milliseconds(5)) == std::future_status::ready) return id.get();
    Interruptible::check();
    if (const std::string why = broken(); !why.empty()) fail(Trouble::Backend, what, " failed: ", why);
    if (!deadline.passed()) continue;
    std::ostringstream why;
    if (control_ && meeting) why << control_->why_late(everybody_, meeting, true);
    else why << what << " gave up after " << timeout << " s: its ranks called it";
    why << "\n  MPI did not bring them together";
    fail_all(why.str());
    fail(Trouble::Backend, why.str());
  }
}

/// The lock, when the engine can be called, or will not be called any more.
std::unique_lock<std::mutex> World::lock_engine() {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!entering_ || !broken_.empty()) return lock;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    Interruptible::check();
  }
}

void World::drop_group(const std::shared_ptr<Group>& group) {
  check_process();
  const auto lock = lock_engine();
  groups_.remove(group);
  group->broken = "it was destroyed";
  if (!broken_.empty() || !group->queue.empty()) return;
  engine_->drop_group(group->id);
  if (group->device_id > 0) device_engine_->drop_group(group->device_id);
}

}  // namespace facula::distributed

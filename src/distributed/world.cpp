#include "distributed/world.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>

#include "cuda/collectives.h"
#include "cuda/stream.h"
#include "distributed/control.h"
#include "distributed/pause.h"

namespace facula::distributed {
namespace {

constexpr double kNews = 0.7;         // seconds until it is known who is gone, when the engine has noticed
constexpr double kGrace = 0.3;        // seconds in which messages of a rank that has left may still be found
constexpr size_t kDescription = 512;  // bytes that a rank sends of its call where ranks disagree

bool checks() {
  const char* set = std::getenv("FACULA_DIST_CHECK");
  return !set || std::strcmp(set, "0") != 0;
}

double seconds_of(const char* variable, double otherwise) {
  const char* set = std::getenv(variable);
  return set && *set ? std::atof(set) : otherwise;
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// A transfer may still touch its memory, also when the world is gone.
void keep_for_ever(std::shared_ptr<Operation> op) {
  static std::mutex mutex;
  static auto* leaked = new std::vector<std::shared_ptr<Operation>>;
  std::scoped_lock lock(mutex);
  leaked->push_back(std::move(op));
}

}  // namespace

std::string Group::title(const Operation& op) const {
  std::ostringstream s;
  s << op.call.name;
  if (!is_point_to_point(op.call.kind)) s << " #" << op.sequence;
  const std::string text = op.text();
  s << " of group " << name << text.substr(text.find(" ("));
  if (op.call.site.line) s << " at " << op.call.site.file << ":" << op.call.site.line;
  return s.str();
}

World::World(std::unique_ptr<Engine> engine, std::shared_ptr<Store> store, int rank, int size, bool threaded, bool nccl)
    : engine_(std::move(engine)),
      threaded_(threaded),
      store_(std::move(store)),
      rank_(rank),
      size_(size),
      process_(getpid()) {
  everybody_ = std::make_shared<Group>();
  everybody_->name = "WORLD";
  everybody_->rank = rank;
  for (int r = 0; r < size; ++r) everybody_->ranks.push_back(r);
  groups_.push_back(everybody_);
  if (nccl) join_devices(*everybody_, everybody_->ranks, 0);
  if (!threaded) return;
  control_ = std::make_unique<Control>(*this, store_->clone());
  thread_ = std::thread([this] { run(); });
}

World::~World() { leave(); }

void World::leave(const std::string& exception) {
  if (getpid() != process_) {
    if (thread_.joinable()) thread_.detach();
    return;
  }
  if (device_engine_) drain_devices();
  if (control_) control_->leave(exception);
  if (control_ && !control_->ended()) new std::shared_ptr<World>(weak_from_this().lock());  // never let go
  stopping_ = true;
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void World::check_process() const {
  FACULA_CHECK(getpid() == process_, ErrorKind::Runtime,
               "distributed: a forked child is no member of its parent's group; only the process that called "
               "init_process_group is");
}

// ---- operations

/// As long as one lives, a thread of the program drives what is under way.
struct World::Driving {
  std::atomic<int>& drivers;
  explicit Driving(std::atomic<int>& d) : drivers(d) { ++drivers; }
  ~Driving() { --drivers; }
};

/// A wait that is known to others once it is long: they, too, may wait for us.
class World::LongWait {
 public:
  LongWait(World& world, const Operation& op) : world_(world), op_(op) {}
  ~LongWait() {
    if (number_ == 0) return;
    const std::scoped_lock lock(world_.mutex_);
    world_.long_waits_.erase(number_);
  }
  LongWait(const LongWait&) = delete;
  /// Now and then: looks whether all wait for each other.
  void look() {
    if (pause_ == 0) return again(kFirst * std::max(1.0, world_.size_ / kRanks));
    if (!next_.passed() || !world_.has_several_groups()) return;
    if (number_ == 0) {
      const std::scoped_lock lock(world_.mutex_);
      number_ = ++world_.last_wait_;
      world_.long_waits_[number_] = &op_;
    }
    world_.control_->look_for_deadlock();
    again(std::min(2 * pause_, std::max(pause_, kLongest)));
  }

 private:
  static constexpr double kFirst = 0.3, kRanks = 16, kLongest = 5;
  void again(double seconds) {
    pause_ = seconds;
    next_ = Deadline::after(seconds);
  }
  World& world_;
  const Operation& op_;
  uint64_t number_ = 0;
  double pause_ = 0;
  Deadline next_;
};

std::shared_ptr<Operation> World::run(const std::shared_ptr<Group>& group, Call call) {
  const Driving driving(drivers_);  // before it is submitted, so that the engine's thread sleeps on
  auto op = submit(group, std::move(call));
  wait(*op);
  return op;
}

void World::begin_batch(Group& group) {
  const std::scoped_lock lock(mutex_);
  group.batch = std::make_shared<Batch>();
}
void World::end_batch(Group& group) {
  const std::scoped_lock lock(mutex_);
  if (group.batch) group.batch->closed = true;
  group.batch = nullptr;
}
/// The lock is held.
void World::join_batch(Group& group, Operation& op) {
  if (!group.batch || op.route != Route::Device) return;
  ++group.batch->size;
  for (Transfer& t : op.plan) {
    t.batch = group.batch;
    if (!device_engine_->is_connected(group.device_id, t)) group.batch->separate = true;
  }
}

std::shared_ptr<Operation> World::submit(const std::shared_ptr<Group>& group, Call call) {
  check_process();
  auto op = std::make_shared<Operation>(std::move(call), group->rank, group->size(), group->nccl);
  static const double patience = seconds_of("FACULA_DIST_WARN_AFTER", 60);
  op->warning = Deadline::after(patience);
  op->queued_at = now();
  std::unique_lock lock(mutex_);
  const std::string& broken = !broken_.empty() ? broken_ : group->broken;
  if (!broken.empty())
    fail(Trouble::Backend, op->call.name, ": the group ", group->name, " cannot be used any more: ", broken);
  if (op->captured && !op->plan.empty() && !device_engine_->is_connected(group->device_id, op->plan[0]))
    fail(Trouble::Backend, op->call.name, ": the devices of the group ", group->name,
         " are not connected yet: run it once before a graph is captured, got a capture");
  ++submitted_;
  if (is_point_to_point(op->call.kind)) {
    op->sequence = ++group->messages;
    join_batch(*group, *op);
    messages_.push_back({group, op});
  } else {
    op->sequence = ++group->issued;
    group->queue.push_back(op);
  }
  recorder_.add(*op, group->name);
  lock.unlock();
  // A small one is most often waited for at once, by who submits it; else the thread finds it within a millisecond.
  if (!threaded_) poll();
  else if (drivers_ == 0 && (op->plan.size() > 1 || op->route != Route::Host || dozes_)) wake_.notify_one();
  return op;
}

bool World::wait(Operation& op, double timeout) {
  check_process();
  const Driving driving(drivers_);
  const Deadline deadline = Deadline::after(timeout);
  Pause pause(spins(), longest_nap());
  LongWait long_wait(*this, op);
  for (int naps = 0;;) {
    const size_t before = op.next;
    poll();
    if (op.has_left_host()) break;
    if (op.next != before) pause.reset();  // the others are here
    if (timeout >= 0 && deadline.passed()) return false;
    if (!pause.next() || ++naps % 16 != 0) continue;
    Interruptible::check();
    if (control_ && timeout < 0) long_wait.look();
  }
  if (op.route == Route::Device && !(op.done() && op.error)) return wait_for_device(op, timeout);
  if (op.error) {
    if (op.route == Route::Device) cuda::fail_next_wait(nullptr);  // it is said here
    throw DistError(*op.error);
  }
  return true;
}

void World::when_done(const std::shared_ptr<Operation>& op, std::function<void()> f) {
  {
    std::scoped_lock lock(mutex_);
    if (!op->has_left_host()) {
      op->callbacks.push_back(std::move(f));
      return;
    }
  }
  f();
}

/// Microseconds that a wait looks without a pause.
int World::spins() const { return engine_->ranks_per_processor() > 1 ? 20 : 1000; }

/// Microseconds. A rank that naps on keeps all others waiting, and many that look often keep processors from working.
int World::longest_nap() const {
  return static_cast<int>(std::clamp(60 * engine_->ranks_per_processor(), 250.0, 2000.0));
}

/// Drives whatever is under way; whether something is.
bool World::poll() {
  std::vector<std::shared_ptr<Operation>> finished;
  bool busy = false;
  {
    const std::scoped_lock lock(mutex_);
    if (gave_up_at_ > 0 && broken_.empty() && now() - gave_up_at_ > kNews) fail_all_locked(engine_end_);
    for (const auto& group : groups_) {
      while (!group->queue.empty() &&
             (advance(*group, *group->queue.front()) || needs_one_who_left(*group, *group->queue.front()))) {
        finished.push_back(group->queue.front());
        if (!finished.back()->done()) on_device_.push_back({group, finished.back()});
        group->queue.pop_front();
      }
      if (group->queue.empty()) continue;
      busy = true;
      watch_clock(group, group->queue.front());
    }
    for (auto m = messages_.begin(); m != messages_.end();) {
      if (advance(*m->group, *m->op) || needs_one_who_left(*m->group, *m->op)) {
        finished.push_back(m->op);
        if (!m->op->done()) on_device_.push_back(*m);
        m = messages_.erase(m);
      } else {
        busy = true;
        watch_clock(m->group, m->op);
        ++m;
      }
    }
    for (auto m = on_device_.begin(); m != on_device_.end();) {
      if (look(*m->group, *m->op) || needs_one_who_left(*m->group, *m->op)) {
        m = on_device_.erase(m);
      } else {
        busy = true;
        watch_clock(m->group, m->op);
        ++m;
      }
    }
    std::erase_if(finished, [](const auto& op) { return op->callbacks.empty(); });
  }
  for (const auto& op : finished)
    for (auto& f : std::exchange(op->callbacks, {})) f();
  return busy;
}

/// One look at an operation; whether it is done.
bool World::advance(Group& group, Operation& op) {
  if (op.has_left_host()) return true;
  if (gave_up_at_ > 0 || entering_) return false;
  try {
    switch (op.phase.load(std::memory_order_relaxed)) {
      case Phase::Queued:
        op.started_at = now();
        recorder_.started(op);
        if (!group.broken.empty()) fail(Trouble::Backend, group.title(op), " cannot start: ", group.broken);
        if (is_point_to_point(op.call.kind) || group.size() == 1 || !checks()) return move_on(group, op);
        op.begin_agreement(group.rank);
        op.request =
            engine_->issue(group.id, {.kind = Kind::Barrier, .in = &op.agreement, .out = &op.agreement, .count = 1});
        op.phase = Phase::Agreeing;
        [[fallthrough]];
      case Phase::Agreeing: return engine_->test(op.request, op.received) && agree(group, op);
      case Phase::Describing:
        if (engine_->test(op.request, op.received)) disagree(group, op);
        return op.done();
      case Phase::Moving: return engine_of(op).test(op.request, op.received) && move_on(group, op);
      case Phase::OnDevice:
      case Phase::Done: return true;
    }
  } catch (const EngineGaveUp& error) {
    gave_up_itself(error.what());
    return false;
  } catch (const Error& error) {
    const std::string why = error.what();
    break_off(group, op, op.route == Route::Device ? group.title(op) + " failed: " + why : why);
  }
  return true;
}

/// Whatever is under way waits until it is heard who is gone.
void World::gave_up_itself(const char* why) {
  if (gave_up_at_ > 0) return;
  gave_up_at_ = now();
  engine_end_ = why;
  engine_->abandon();
}

bool World::agree(Group& group, Operation& op) {
  if (!op.agreement.reached() || op.agreement.imbalance != 0) return describe(group, op);
  op.end_agreement();
  return move_on(group, op);
}

/// Collects from all ranks what they have called.
bool World::describe(Group& group, Operation& op) {
  op.texts.assign(kDescription * static_cast<size_t>(group.size()) + kDescription, '\0');
  std::string mine = op.text();
  if (op.call.site.line) mine += std::string(" at ") + op.call.site.file + ":" + std::to_string(op.call.site.line);
  char* own = op.texts.data() + kDescription * static_cast<size_t>(group.size());
  std::memcpy(own, mine.data(), std::min(mine.size(), kDescription - 1));
  op.request = engine_->issue(
      group.id,
      {.kind = Kind::AllGather, .in = own, .out = op.texts.data(), .count = static_cast<int64_t>(kDescription)});
  op.phase = Phase::Describing;
  return false;
}

/// The ranks called different things, and all know it: the group stays in step.
void World::disagree(Group& group, Operation& op) {
  std::map<std::string, std::vector<int>> by_text;
  for (int r = 0; r < group.size(); ++r)
    by_text[std::string(op.texts.data() + kDescription * static_cast<size_t>(r))].push_back(r);
  std::vector<std::pair<std::vector<int>, std::string>> calls;
  for (auto& [text, ranks] : by_text) calls.emplace_back(ranks, text);
  std::sort(calls.begin(), calls.end());
  std::string why = std::string(op.call.name) + " #" + std::to_string(op.sequence) + " of group " + group.name +
                    ": the ranks do not agree:";
  for (const auto& [ranks, text] : calls) why += "\n  " + ranks_text(ranks) + ": " + text;
  op.error = std::make_unique<DistError>(Trouble::Backend, why);
  op.finish.clear();
  complete(group, op);
}

/// Starts the next transfer, or finishes.
bool World::move_on(Group& group, Operation& op) {
  while (op.next < op.plan.size()) {
    op.request = engine_of(op).issue(id_of(group, op), op.plan[op.next++]);
    op.phase = Phase::Moving;
    if (!engine_of(op).test(op.request, op.received)) return false;
  }
  if (op.route == Route::Device) {
    leave_to_device(group, op);
    if (op.captured) complete(group, op);
    return true;
  }
  if (op.call.kind == Kind::Recv && op.received.bytes >= 0 && op.received.bytes != op.plan[0].count)
    fail(Trouble::Backend, "recv: the tensor holds ", op.plan[0].count, " bytes, rank ", op.received.source, " sent ",
         op.received.bytes);
  if (op.route == Route::Staged) {
    const cuda::StreamGuard guard(op.caller);
    for (const auto& f : op.finish) f();
  } else {
    for (const auto& f : op.finish) f();
  }
  complete(group, op);
  return true;
}

void World::complete(Group& group, Operation& op) {
  op.done_at = now();
  recorder_.ended(op);
  if (!is_point_to_point(op.call.kind)) {
    group.finished = std::max(group.finished, op.sequence);  // a device may be behind the host
    group.last = op.call.name;
  }
  if (!op.captured) op.memory.clear();
  op.finish.clear();
  op.phase.store(Phase::Done, std::memory_order_release);
}

/// Ends an operation whose transfer may be under way still. The lock is held.
void World::break_off(Group& group, Operation& op, std::string why, Trouble trouble) {
  if (op.done()) return;
  const bool moves_on_device = op.route == Route::Device && op.phase >= Phase::Moving;
  if (op.phase != Phase::Queued) {
    for (const auto& waiting : group.queue)
      if (waiting.get() == &op) keep_for_ever(waiting);
    for (const Message& m : messages_)
      if (m.op.get() == &op) keep_for_ever(m.op);
  }
  if ((!is_point_to_point(op.call.kind) || moves_on_device) && group.broken.empty())
    group.broken = why, group.gave_up = op.call.site;
  if (trouble_.empty()) trouble_ = why;
  op.error = std::make_unique<DistError>(trouble, why);
  op.done_at = now();
  recorder_.ended(op);
  op.phase.store(Phase::Done, std::memory_order_release);
  if (moves_on_device) end_on_device(group, why);
}

void World::watch_clock(const std::shared_ptr<Group>& group, const std::shared_ptr<Operation>& op) {
  if (!op->reported && op->deadline.passed()) {
    op->reported = true;
    if (control_) control_->late(group, op, true);
    else break_off(*group, *op, group->title(*op) + " gave up after " + std::to_string(op->call.timeout) + " s");
  } else if (!op->warned && op->warning.passed()) {
    op->warned = true;
    if (control_) control_->late(group, op, false);
  }
}

void World::left(int rank, Farewell farewell) {
  std::scoped_lock lock(mutex_);
  left_[rank] = std::move(farewell);
}

std::string World::progress() {
  const auto lock = lock_soon();
  std::ostringstream s;
  if (!lock) return {};
  for (const auto& group : groups_) s << ' ' << group->number << ':' << group->finished;
  return s.str();
}

/// Collectives that a rank had not finished when it left do not end; messages may have been sent before that. The lock
/// is held.
bool World::needs_one_who_left(Group& group, Operation& op) {
  for (const auto& [rank, farewell] : left_) {
    const auto here = std::find(group.ranks.begin(), group.ranks.end(), rank);
    if (here == group.ranks.end()) continue;
    if (!farewell.why.empty() && !farewell.itself && now() - std::max(farewell.heard_at, op.queued_at) < kGrace)
      continue;
    if (is_point_to_point(op.call.kind)) {
      const bool peer = op.call.root < 0 || op.call.root == here - group.ranks.begin();
      if (!peer || now() - std::max(farewell.heard_at, op.queued_at) < kGrace) continue;
    } else {
      const auto finished = farewell.finished.find(group.number);
      if (finished != farewell.finished.end() && op.sequence <= finished->second) continue;
    }
    const std::string who = group.title(op) + " failed: rank " + std::to_string(rank);
    break_off(group, op,
              farewell.why.empty() ? who + " has left the group (" + farewell.who + " ended, or destroyed it)"
              : farewell.itself    ? who + " (" + farewell.who + ") ended by " + farewell.why
                                   : who + " (" + farewell.who + ") gave up: " + farewell.why);
    return true;
  }
  return false;
}

void World::give_up(const std::shared_ptr<Group>& group, const std::shared_ptr<Operation>& op, const std::string& why) {
  std::scoped_lock lock(mutex_);
  break_off(*group, *op, why);
}

// ---- the thread

void World::try_progress() {
  try {
    engine_->progress();
  } catch (const EngineGaveUp& error) {
    gave_up_itself(error.what());
  } catch (const Error&) {  // operations report it
  }
}

void World::run() {
  constexpr auto kSoon = std::chrono::milliseconds(1), kLater = std::chrono::milliseconds(20);
  constexpr int kQuiet = 1000;  // looks without work, 1 ms apart
  // Beside a computing thread of the program on each rank.
  const bool spare = engine_->ranks_per_processor() <= 0.5;
  Pause pause(spare ? 1000 : 0, 1000, spare ? 2 : 200);
  uint64_t seen = 0;
  int idle = 0;
  while (!stopping_) {
    if (const uint64_t all = submitted_; all != seen) {
      seen = all;
      idle = 0;
      pause.reset();
    }
    const bool driven = drivers_ > 0;
    if (!driven && poll()) {
      pause.next();
      idle = 0;
      continue;
    }
    pause.reset();
    std::unique_lock lock(mutex_);
    if (!driven && !entering_ && broken_.empty() && gave_up_at_ == 0)
      try_progress();  // what others have sent, or take from here
    if (device_engine_ && broken_.empty()) device_engine_->progress();
    dozes_ = idle >= kQuiet;
    wake_.wait_for(lock, dozes_ ? kLater : kSoon, [&] { return stopping_ || submitted_ != seen; });
    if (!driven) ++idle;
  }
}

}  // namespace facula::distributed

// Manages the processes that work together: their engine, the groups among them, and the thread that looks after
// operations under way.
//
// Operations of a group run one after another. Groups, and messages between two ranks, are independent of each other. A
// collective has two steps. First the ranks agree: they reduce the fingerprint of what each has called, by the same
// transfer for every kind, so that it pairs also when they call different things. All waiting for late ranks happens in
// this step, and the program's memory is not in the engine's hands yet. Then the elements move.
//
// Whoever waits for an operation drives the engine itself; a thread of the world drives it while nobody waits. A wait
// polls for 1 ms (where ranks share processors for 20 us, and then yields), and then sleeps longer and longer, up to
// 250 us. An operation that is not done before its deadline is an error. Memory that a transfer may still touch is
// never freed then.
//
// Tensors of a device have an engine of their own (NCCL), in groups that request it. Their ranks agree as others do, on
// the host, by the first engine. Then the transfers are queued behind the work of the calling stream, and the operation
// is the device's. Whoever waits for it makes its stream wait. The world watches the event behind it: when it is late,
// or a rank is lost, the engine ends what is queued, and the next call that waits for the device throws.
//
// operation.h draws the phases of an operation. One mutex guards the class, whose functions are in four files:
// operations and the thread (world.cpp), operations on devices (world_devices.cpp), groups (world_groups.cpp), and what
// is known of waits and failures (world_state.cpp). Liveness is Control's (control.h).
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "distributed/deadlock.h"
#include "distributed/operation.h"
#include "distributed/recorder.h"
#include "distributed/store.h"

namespace facula::distributed {

/// "rank 0", "ranks 1 2 3".
std::string ranks_text(const std::vector<int>& ranks);

struct Group {
  int id = 0;          // the engine's
  int number = 0;      // the same on all ranks, and that of no other group of theirs
  bool nccl = false;   // tensors of devices go from device to device
  int device_id = -1;  // the device engine's
  std::string name;
  std::vector<int> ranks;  // of the world
  int rank = 0;            // of this process, in the group
  uint64_t issued = 0, finished = 0, messages = 0;
  std::deque<std::shared_ptr<Operation>> queue;
  std::string last;              // what was finished last
  std::string broken;            // why it cannot be used
  CallSite gave_up;              // what it gave up first
  std::shared_ptr<Batch> batch;  // of messages that are being submitted
  int size() const { return static_cast<int>(ranks.size()); }
  std::string title(const Operation& op) const;
  /// The same on all its ranks, and that of no other group.
  std::string key() const;
};

class Control;

/// How far a rank was in each of its groups, by their numbers, when it left.
struct Farewell {
  std::string who, why;  // why it gave up, or nothing
  bool itself = false;   // by an exception of its program, and not by what happened to others
  double heard_at = 0;
  std::map<int, uint64_t> finished;
};

class World : public std::enable_shared_from_this<World> {
 public:
  /// `nccl`: of the group of all.
  World(std::unique_ptr<Engine> engine, std::shared_ptr<Store> store, int rank, int size, bool threaded,
        bool nccl = false);
  ~World();

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::shared_ptr<Store>& store() const { return store_; }
  const std::shared_ptr<Group>& everybody() const { return everybody_; }

  /// Called by all ranks of the world, or with `locally` by those of the group; null where this rank is none of them.
  std::shared_ptr<Group> make_group(const std::vector<int>& ranks, const std::string& name, bool locally,
                                    double timeout, CallSite site, bool nccl = false);
  /// Connects the group's devices now. All its ranks call it.
  void connect(const std::shared_ptr<Group>& group, Device device, double timeout);
  void drop_group(const std::shared_ptr<Group>& group);

  std::shared_ptr<Operation> submit(const std::shared_ptr<Group>& group, Call call);
  /// What is submitted to the group from the first call to the second is started together, where that makes a
  /// difference.
  void begin_batch(Group& group);
  void end_batch(Group& group);
  /// Submits it and waits.
  std::shared_ptr<Operation> run(const std::shared_ptr<Group>& group, Call call);
  /// Waits until it is done and throws its error; false when `timeout` seconds are over (negative: its own deadline).
  /// What is left to a device is waited for by the current stream, and by the host only with a timeout.
  bool wait(Operation& op, double timeout = -1);
  bool is_done(const Operation& op);
  /// Runs `f` when it is done, or the device's, on any thread.
  void when_done(const std::shared_ptr<Operation>& op, std::function<void()> f);

  /// Nothing works any more, and why.
  void fail_all(const std::string& why);
  /// What this rank gave up first, and why; empty while all is well.
  std::string trouble();
  /// A rank has left in order: what still needs it gives up.
  void left(int rank, Farewell farewell);
  /// How far this rank is, for others: "number:finished" for each group.
  std::string progress();
  /// The operation gives up, and its group.
  void give_up(const std::shared_ptr<Group>& group, const std::shared_ptr<Operation>& op, const std::string& why);
  /// The process leaves in order: others are notified, threads end. `exception`: by which its program ends, or nothing.
  void leave(const std::string& exception = {});

  /// What the program waits for, for long; nothing awaited where it may go on otherwise.
  Waiting waiting();
  /// Ends an operation of this rank, as give_up(), if it is not done.
  void give_up(const std::string& group, uint64_t sequence, const std::string& why);

  /// One line for each group: what this rank does there.
  std::string state();
  /// The last operations.
  std::deque<Record> records();
  /// Why nothing works any more, or nothing.
  std::string broken();

 private:
  friend class Control;
  struct Driving;
  class LongWait;
  struct Message {
    std::shared_ptr<Group> group;
    std::shared_ptr<Operation> op;
  };
  int spins() const;
  int longest_nap() const;
  bool poll();
  bool advance(Group& group, Operation& op);
  bool agree(Group& group, Operation& op);
  std::unique_lock<std::mutex> lock_soon();
  std::unique_lock<std::mutex> lock_engine();
  int enter_group(const std::vector<int>& ranks, int number, double timeout, const std::shared_ptr<Operation>& meeting);
  void fail_all_locked(const std::string& why);
  void gave_up_itself(const char* why);
  void try_progress();
  bool describe(Group& group, Operation& op);
  bool needs_one_who_left(Group& group, Operation& op);
  void disagree(Group& group, Operation& op);
  bool move_on(Group& group, Operation& op);
  void join_batch(Group& group, Operation& op);
  void leave_to_device(Group& group, Operation& op);
  bool look(Group& group, Operation& op);
  void end_on_device(Group& group, const std::string& why);
  bool wait_for_device(Operation& op, double timeout);
  void drain_devices();
  void join_devices(Group& group, const std::vector<int>& ranks, int number);
  Engine& engine_of(const Operation& op) { return op.route == Route::Device ? *device_engine_ : *engine_; }
  static int id_of(const Group& group, const Operation& op) {
    return op.route == Route::Device ? group.device_id : group.id;
  }
  void complete(Group& group, Operation& op);
  void break_off(Group& group, Operation& op, std::string why, Trouble trouble = Trouble::Backend);
  void watch_clock(const std::shared_ptr<Group>& group, const std::shared_ptr<Operation>& op);
  void check_process() const;
  std::vector<uint64_t> long_waits();
  bool has_several_groups();
  bool may_go_on_by_message() const;
  void run();

  std::unique_ptr<Engine> engine_, device_engine_;
  bool threaded_;
  std::shared_ptr<Store> store_;
  int rank_, size_;
  pid_t process_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> drivers_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> dozes_{false};  // the thread looks seldom
  std::atomic<uint64_t> submitted_{0};
  std::shared_ptr<Group> everybody_;
  std::list<std::shared_ptr<Group>> groups_;
  std::list<Message> messages_, on_device_;
  std::string broken_, trouble_;
  bool entering_ = false;   // the engine makes a group, without the lock: nobody else calls it
  double gave_up_at_ = 0;   // the engine
  std::string engine_end_;  // why
  std::map<int, Farewell> left_;
  FlightRecorder recorder_;
  std::map<std::string, int> local_groups_;
  std::map<uint64_t, const Operation*> long_waits_;  // by the number of the wait
  uint64_t last_wait_ = 0;
  std::unique_ptr<Control> control_;
  std::thread thread_;
};

/// Notifies the others that this rank is here, so that they hear when it is no more; before all others are waited for.
void announce(Store& store, int rank);
/// Who is gone since, for people; empty as long as all are there.
std::string lost_one(Store& store);
/// Joins the ranks of a store by MPI. All call it, after `announce`; where one of them is gone meanwhile, the others
/// fail.
std::shared_ptr<World> join_world(const std::shared_ptr<Store>& store, int rank, int size, double timeout,
                                  bool nccl = false);

}  // namespace facula::distributed

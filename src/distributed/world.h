// The processes that work together: their engine, the groups among them, and the thread that looks after what is
// under way.
//
// Operations of a group run one after another; groups, and messages between two ranks, are independent of each other.
// A collective has two steps. First the ranks agree: they reduce the fingerprint of what each has called, by the same
// transfer for every kind, so that it pairs also when they call different things; there is all the waiting for late
// ranks, and the program's memory is not in the engine's hands yet. Then the elements move.
//
// Who waits for an operation drives the engine itself; a thread of the world drives it while nobody waits. Waits look
// for 1 ms (where ranks share processors for 20 us, and then yield), and then sleep longer and longer. What cannot be
// done before its deadline is an error; memory that a transfer may still touch is kept for ever then.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "distributed/operation.h"
#include "distributed/recorder.h"
#include "distributed/store.h"

namespace facula::distributed {

struct Group {
  int id = 0;  // the engine's
  std::string name;
  std::vector<int> ranks;  // of the world
  int rank = 0;            // of this process, in the group
  uint64_t issued = 0, finished = 0, messages = 0;
  std::deque<std::shared_ptr<Operation>> queue;
  std::string last;    // what was finished last
  std::string broken;  // why it cannot be used
  int size() const { return static_cast<int>(ranks.size()); }
  std::string title(const Operation& op) const;
};

class Control;

class World : public std::enable_shared_from_this<World> {
 public:
  World(std::unique_ptr<Engine> engine, std::shared_ptr<Store> store, int rank, int size, bool threaded);
  ~World();

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::shared_ptr<Store>& store() const { return store_; }
  const std::shared_ptr<Group>& everybody() const { return everybody_; }

  /// Called by all ranks of the world, or with `locally` by those of the group; null where this rank is none of them.
  std::shared_ptr<Group> make_group(const std::vector<int>& ranks, const std::string& name, bool locally,
                                    double timeout, CallSite site);
  void drop_group(const std::shared_ptr<Group>& group);

  std::shared_ptr<Operation> submit(const std::shared_ptr<Group>& group, Call call);
  /// Submits it and waits.
  std::shared_ptr<Operation> run(const std::shared_ptr<Group>& group, Call call);
  /// Waits until it is done and throws its error; false when `timeout` seconds are over (negative: its own deadline).
  bool wait(Operation& op, double timeout = -1);
  /// Runs `f` when it is done, on any thread.
  void when_done(const std::shared_ptr<Operation>& op, std::function<void()> f);

  /// Nothing works any more, and why.
  void fail_all(const std::string& why);
  /// The operation gives up, and its group.
  void give_up(const std::shared_ptr<Group>& group, const std::shared_ptr<Operation>& op, const std::string& why);
  /// The process leaves in order: others are told, threads end.
  void leave();

  /// One line for each group: what this rank does there.
  std::string state();
  /// The last operations.
  std::deque<Record> records();
  /// Why nothing works any more, or nothing.
  std::string broken();

 private:
  friend class Control;
  struct Driving;
  struct Message {
    std::shared_ptr<Group> group;
    std::shared_ptr<Operation> op;
  };
  int spins() const;
  bool poll();
  bool advance(Group& group, Operation& op);
  bool agree(Group& group, Operation& op);
  void disagree(Group& group, Operation& op);
  bool move_on(Group& group, Operation& op);
  void complete(Group& group, Operation& op);
  void break_off(Group& group, Operation& op, std::string why, Trouble trouble = Trouble::Backend);
  void watch_clock(const std::shared_ptr<Group>& group, const std::shared_ptr<Operation>& op);
  void check_process() const;
  void run();

  std::unique_ptr<Engine> engine_;
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
  std::list<Message> messages_;
  std::string broken_;
  Recorder recorder_;
  std::map<std::string, int> local_groups_;
  std::unique_ptr<Control> control_;
  std::thread thread_;
};

}  // namespace facula::distributed

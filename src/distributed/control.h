// Implements what the ranks send each other beside their data, through the store: a log that every rank reads on a
// thread of its own. The server writes into it when the connection of a rank ends ("lost"), or says nothing for 12 s
// ("silent"); ranks write that they leave in order ("left"), query what the others do ("query"), which each answers
// under a key, and say that they have found that ranks wait for each other ("stuck"; deadlock.h).
//
// Liveness is in control.cpp, reports about operations that wait are in control_report.cpp. How a world begins is in
// join.cpp.
#pragma once

#include <map>
#include <set>

#include "distributed/world.h"

namespace facula::distributed {

/// The lines that the program runs now, innermost first; empty when they cannot be seen. Installed by the bindings.
extern std::string (*program_stack)();

class Control {
 public:
  Control(World& world, std::shared_ptr<Store> store);
  ~Control();
  /// An operation waits for long (a warning), or for too long (its end): queries the others why.
  void late(const std::shared_ptr<Group>& group, const std::shared_ptr<Operation>& op, bool final);
  /// What the others say of an operation that is late, or that waits for this rank as well: for people. It queries
  /// them.
  std::string why_late(const std::shared_ptr<Group>& group, const std::shared_ptr<Operation>& op, bool final);
  /// Whether ranks wait for each other; their operations end then.
  void look_for_deadlock();
  /// Notifies the others, and ends the thread.
  void leave(const std::string& exception = {});
  /// Whether the thread has ended: else it needs this object, and the world.
  bool ended() const { return ended_; }

 private:
  void run();
  void read_log();
  void watch_processes();
  void heard(const std::string& word, const std::string& rest);
  void lost(int rank, const std::string& who);
  void left(int rank, const std::string& line, const std::string& why, bool itself);
  void answer(const std::string& query);
  static std::string title_of_report(const Group& group, const Operation& op, bool final);
  void look_for_deadlock(Store& store);
  std::string report(Store& store, const Group& group, const Operation& op, bool final);

  World& world_;
  std::shared_ptr<Store> store_, other_;  // one waits, the other sends requests
  std::mutex mutex_;
  std::set<int> silent_, left_;
  std::map<int, std::string> lost_;
  std::map<int, std::string> seen_;  // other ranks that the system shows here
  std::string end_of_holder_;        // why who holds the store ended, if not in order
  Deadlock doubt_;                   // one that other threads may end
  int64_t lines_ = 0;
  size_t read_ = 0;
  int queries_ = 0;
  std::string store_host_ = "the launcher", store_process_;  // for people, and for the system
  std::atomic<bool> leaving_{false}, ended_{false}, store_gone_{false}, heard_{false};
  std::atomic<int> looks_{0};  // requested and not done
  std::thread thread_;
};

}  // namespace facula::distributed

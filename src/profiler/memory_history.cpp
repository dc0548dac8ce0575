#include "profiler/memory_history.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "core/host.h"
#include "observe/observer.h"

namespace facula::profiler {
namespace {

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

thread_local std::vector<uint16_t> running_ops;  // innermost last

class Historian final : public Observer {
 public:
  Historian() { follows_memory = true; }

  void begin(int64_t changes, bool stacks) {
    std::lock_guard guard(lock_);
    live_.clear();
    changes_.clear();
    forgotten_ = 0;
    most_ = static_cast<size_t>(changes);
    stacks_ = stacks;
  }
  void op_begins(const OpCall& call) override { running_ops.push_back(call.op); }
  void op_ends(const OpCall&, bool) override {
    if (!running_ops.empty()) running_ops.pop_back();  // it may have begun before
  }
  void memory_changes(const MemoryEvent& change) override {
    MemoryRecord record{reinterpret_cast<int64_t>(change.storage),
                        change.bytes,
                        running_ops.empty() ? uint16_t{0} : running_ops.back(),
                        stacks_ && host.capture_stack ? host.capture_stack() : 0,
                        now(),
                        static_cast<int64_t>(syscall(SYS_gettid)),
                        memory_cause()};
    std::lock_guard guard(lock_);
    note(record);
    if (most_ == 0) return;
    if (changes_.size() == most_) {
      changes_.pop_front();
      ++forgotten_;
    }
    changes_.push_back(record);
  }
  MemoryHistory history() {
    std::lock_guard guard(lock_);
    MemoryHistory found;
    for (const auto& [storage, record] : live_) found.live.push_back(record);
    std::sort(found.live.begin(), found.live.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
    found.changes.assign(changes_.begin(), changes_.end());
    found.forgotten = forgotten_;
    return found;
  }

 private:
  // A storage that grows stays the one that was made; one that is older than the history is not in it.
  void note(const MemoryRecord& record) {
    auto known = live_.find(record.storage);
    if (known == live_.end()) {
      if (record.bytes > 0) live_.emplace(record.storage, record);
    } else if ((known->second.bytes += record.bytes) <= 0) {
      live_.erase(known);
    }
  }

  std::mutex lock_;
  std::unordered_map<int64_t, MemoryRecord> live_;
  std::deque<MemoryRecord> changes_;
  int64_t forgotten_ = 0;
  size_t most_ = 0;
  std::atomic<bool> stacks_{false};
};

// Never destroyed: threads may be about to notify it.
Historian& historian() {
  static Historian* instance = new Historian;
  return *instance;
}
std::mutex switch_lock;
bool runs = false;

}  // namespace

void start_memory_history(int64_t changes, bool stacks) {
  FACULA_CHECK(changes >= 0, ErrorKind::Value, "record_memory_history: max_entries is not negative, got ", changes);
  std::lock_guard guard(switch_lock);
  historian().begin(changes, stacks);
  if (!runs) add_observer(&historian(), Watched::AllThreads);
  runs = true;
}

void stop_memory_history() {
  std::lock_guard guard(switch_lock);
  if (runs) remove_observer(&historian(), Watched::AllThreads);
  runs = false;
}

bool memory_history_runs() {
  std::lock_guard guard(switch_lock);
  return runs;
}

MemoryHistory memory_history() { return historian().history(); }

}  // namespace facula::profiler

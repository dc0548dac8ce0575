#include "autograd/node_lock.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/host.h"

namespace facula {

thread_local constinit const void* goes_on_for __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

struct Waiting {
  const void* thread;
  const Node* node;
};

// Who waits for which node. Few threads ever do.
SpinLock waiting_lock;
std::vector<Waiting> waiting;

/// For who holds the lock: whether the runner of the node waits for a node whose runner waits ... for `thread`.
bool closes_circle(const Node* node, const void* thread) {
  for (size_t steps = 0; steps <= waiting.size(); ++steps) {
    const void* runner = node->runner.load(std::memory_order_acquire);
    if (runner == thread) return true;
    const auto found = std::ranges::find(waiting, runner, &Waiting::thread);
    if (!runner || found == waiting.end()) return false;
    node = found->node;
  }
  return false;
}

/// The entry of this thread, for as long as it waits.
class Entry {
 public:
  Entry(const void* thread, const Node* node) : thread_(thread), node_(node) {
    Locked guard(waiting_lock);
    waiting.push_back({thread, node});
  }
  ~Entry() {
    if (listed_) leave();
  }
  Entry(const Entry&) = delete;
  /// Whether nobody else can go on before this thread does; it waits no longer then.
  bool closes() {
    Locked guard(waiting_lock);
    if (!closes_circle(node_, thread_)) return false;
    std::erase_if(waiting, [this](const Waiting& w) { return w.thread == thread_; });
    listed_ = false;
    return true;
  }

 private:
  void leave() {
    Locked guard(waiting_lock);
    std::erase_if(waiting, [this](const Waiting& w) { return w.thread == thread_; });
  }
  const void* thread_;
  const Node* node_;
  bool listed_ = true;
};

constexpr int kYields = 256;  // then the thread sleeps: what it waits for is long
constexpr auto kNap = std::chrono::microseconds(100);
constexpr int kNapsPerQuestion = 1000;

}  // namespace

bool NodeLock::wait() {
  Entry entry(me(), &node_);
  for (int round = 0;; ++round) {
    const void* nobody = nullptr;
    if (node_.runner.compare_exchange_strong(nobody, me(), std::memory_order_acquire)) return true;
    if (entry.closes()) return false;
    if (round < kYields) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(kNap);
    if (round % kNapsPerQuestion == 0 && host.check_interrupt) host.check_interrupt();
  }
}

}  // namespace facula

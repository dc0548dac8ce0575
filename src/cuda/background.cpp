#include "cuda/background.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda/driver.h"

namespace facula::cuda {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPause = std::chrono::milliseconds(500);
std::atomic<Clock::rep> last_foreground{0};

struct List {
  size_t most_threads;
  int niceness;
  bool pauses;  // while the program itself compiles
  std::deque<std::function<void()>> waiting = {};
  std::vector<std::thread> threads = {};
  size_t working = 0;
  int hurries = 0;  // who waits for all of it
};
struct Lists {
  std::mutex lock;
  std::condition_variable changed;
  List all[2] = {{1, 0, false}, {2, 10, true}};  // by Urgency
  bool ends = false;
};
/// Replaced in a forked child, which has none of the threads and may have a lock that one of them held.
std::atomic<Lists*>& present() {
  static std::atomic<Lists*> lists{new Lists};
  return lists;
}
Lists& lists() { return *present().load(); }

Clock::time_point quiet_from() { return Clock::time_point(Clock::duration(last_foreground.load())) + kPause; }

void work_off(Lists& l, List& list) {
  // of this thread alone: Linux counts them as processes here
  if (list.niceness) setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), list.niceness);
  std::unique_lock lock(l.lock);
  for (;;) {
    l.changed.wait(lock, [&] { return l.ends || !list.waiting.empty(); });
    if (l.ends) return;
    if (const auto begin = quiet_from(); list.pauses && !list.hurries && Clock::now() < begin) {
      l.changed.wait_until(lock, begin);
      continue;
    }
    const std::function<void()> work = std::move(list.waiting.front());
    list.waiting.pop_front();
    ++list.working;
    lock.unlock();
    work();
    lock.lock();
    --list.working;
    l.changed.notify_all();
  }
}

/// What a library tears down when the process ends must not be in use.
void end() {
  Lists& l = lists();
  {
    std::lock_guard guard(l.lock);
    l.ends = true;
  }
  l.changed.notify_all();
  for (List& list : l.all)
    for (std::thread& thread : list.threads) thread.join();
}

}  // namespace

void in_background(Urgency urgency, std::function<void()> work) {
  static const bool prepared = [] {
    compiler();  // is loaded, so that it ends after the threads
    std::atexit(end);
    pthread_atfork(nullptr, nullptr, [] { present() = new Lists; });
    return true;
  }();
  static_cast<void>(prepared);
  Lists& l = lists();
  List& list = l.all[static_cast<size_t>(urgency)];
  std::lock_guard guard(l.lock);
  if (l.ends) return;
  list.waiting.push_back(std::move(work));
  if (list.threads.size() < list.most_threads && list.threads.size() < list.working + list.waiting.size())
    list.threads.emplace_back([&l, &list] { work_off(l, list); });
  l.changed.notify_all();
}

size_t waiting_in_background(Urgency urgency) {
  Lists& l = lists();
  std::lock_guard guard(l.lock);
  return l.all[static_cast<size_t>(urgency)].waiting.size();
}

void finish_background(Urgency urgency) {
  Lists& l = lists();
  List& list = l.all[static_cast<size_t>(urgency)];
  std::unique_lock lock(l.lock);
  ++list.hurries;
  l.changed.notify_all();
  l.changed.wait(lock, [&] { return list.waiting.empty() && !list.working; });
  --list.hurries;
}

void note_foreground_work() { last_foreground = Clock::now().time_since_epoch().count(); }

}  // namespace facula::cuda

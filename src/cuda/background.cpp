#include "cuda/background.h"

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

#include "cuda/driver.h"

namespace facula::cuda {
namespace {

struct Queue {
  std::mutex lock;
  std::condition_variable changed;
  std::deque<std::function<void()>> waiting;
  bool works = false, ends = false;
  std::thread thread;
};
Queue& queue() {
  static Queue* instance = new Queue;
  return *instance;
}

void work_off() {
  Queue& q = queue();
  std::unique_lock lock(q.lock);
  for (;;) {
    q.changed.wait(lock, [&] { return q.ends || !q.waiting.empty(); });
    if (q.ends) return;
    const std::function<void()> work = std::move(q.waiting.front());
    q.waiting.pop_front();
    q.works = true;
    lock.unlock();
    work();
    lock.lock();
    q.works = false;
    q.changed.notify_all();
  }
}

/// What a library tears down when the process ends must not be in use.
void end() {
  if (is_forked_child) return;
  Queue& q = queue();
  {
    std::lock_guard guard(q.lock);
    q.ends = true;
  }
  q.changed.notify_all();
  q.thread.join();
}

}  // namespace

void in_background(std::function<void()> work) {
  Queue& q = queue();
  std::lock_guard guard(q.lock);
  if (!q.thread.joinable()) {
    compiler();  // is loaded, so that it ends after the thread
    std::atexit(end);
    q.thread = std::thread(work_off);
  }
  q.waiting.push_back(std::move(work));
  q.changed.notify_all();
}

void finish_background() {
  Queue& q = queue();
  std::unique_lock lock(q.lock);
  q.changed.wait(lock, [&] { return q.waiting.empty() && !q.works; });
}

}  // namespace facula::cuda

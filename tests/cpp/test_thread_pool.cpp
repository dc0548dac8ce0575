// The pool of threads: every piece once, whoever does it, also with more callers than it helps at a time.
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.h"
#include "core/parallel.h"
#include "core/thread_pool.h"

namespace {

using namespace facula;

struct Counted {
  std::vector<std::atomic<int>> done;
  std::atomic<int> inside{0}, most{0};
  explicit Counted(int pieces) : done(static_cast<size_t>(pieces)) {}

  static void piece(void* context, int i) {
    Counted& self = *static_cast<Counted*>(context);
    const int now = ++self.inside;
    for (int most = self.most; now > most && !self.most.compare_exchange_weak(most, now);) {
    }
    ++self.done[static_cast<size_t>(i)];
    CHECK(thread_pool::in_piece());
    --self.inside;
  }

  bool each_once() const {
    for (const auto& count : done)
      if (count != 1) return false;
    return true;
  }
};

void pieces_are_done_once() {
  for (int round = 0; round < 3000; ++round) {
    const int pieces = 1 + round % 17, threads = 1 + round % 5;
    Counted counted(pieces);
    thread_pool::run(threads, pieces, Counted::piece, &counted);
    CHECK(counted.each_once());
    CHECK(counted.most <= threads);
    CHECK(!thread_pool::in_piece());
  }
}

void many_callers() {
  std::vector<std::thread> callers;
  for (int i = 0; i < 20; ++i) callers.emplace_back(pieces_are_done_once);
  for (std::thread& caller : callers) caller.join();
}

// Between some jobs the workers have long fallen asleep.
void workers_wake() {
  std::set<std::thread::id> seen;
  std::mutex adding;
  auto piece = [&](int) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const std::lock_guard lock(adding);
    seen.insert(std::this_thread::get_id());
  };
  auto call = [](void* of, int i) { (*static_cast<decltype(piece)*>(of))(i); };
  for (int round = 0; round < 20 && seen.size() < 2; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    thread_pool::run(2, 8, call, &piece);
  }
  CHECK(seen.size() == 2);
}

void exceptions_leave_the_loop() {
  set_num_threads(4);
  bool caught = false;
  try {
    parallel_for(0, 1 << 20, 1 << 10, [](int64_t from, int64_t to) {
      if (from <= 777777 && 777777 < to) throw std::runtime_error("here");
    });
  } catch (const std::runtime_error&) {
    caught = true;
  }
  CHECK(caught);
  std::atomic<int64_t> sum = 0;
  parallel_for(0, 1 << 20, 1 << 10, [&](int64_t from, int64_t to) { sum += to - from; });
  CHECK(sum == 1 << 20);
}

}  // namespace

int main() {
  pieces_are_done_once();
  many_callers();
  workers_wake();
  exceptions_leave_the_loop();
}

// Liveness: what the log says of other ranks, and how this one leaves. Reports are in control_report.cpp.
#include "distributed/control.h"

#include <algorithm>
#include <cstdlib>

#include "distributed/control_log.h"
#include "distributed/processes.h"

namespace facula::distributed {

namespace {

constexpr const char* kHeard = "heard";  // how many others know that the holder of the store leaves, or have left
constexpr double kBeat = 5;   // seconds that a rank waits for news before it sends a request, which shows that it lives
constexpr int kMaySleep = 7;  // beyond that: 12 s without a sign of life
constexpr char kUnit = '\x1f';     // in the place of line ends, in a line of the log
constexpr double kNews = 0.5;      // until it is heard why another has left
constexpr double kFarewell = 0.3;  // how long the holder of the store waits until all have heard that it leaves
constexpr double kForever = 1e8;

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

Control::Control(World& world, std::shared_ptr<Store> store)
    : world_(world), store_(std::move(store)), other_(store_->clone()) {
  for (Store* s : {store_.get(), other_.get()}) s->set_timeout(kBeat);
  store_->set_until(std::min(kBeat, world.store()->until()));
  if (!served_by_launcher()) {
    store_process_ = store_->get(key_of("who", 0));
    store_host_ = "rank 0 (" + store_process_ + ")";
  }
  Texts keys;
  for (int r = 0; r < world_.size(); ++r) keys.push_back(key_of("who", r));
  const Texts who = store_->has(keys) ? store_->multi_get(keys) : Texts();
  for (int r = 0; r < static_cast<int>(who.size()); ++r)
    if (r != world_.rank() && process_state(who[static_cast<size_t>(r)])) seen_[r] = who[static_cast<size_t>(r)];
  store_->call({StoreOp::Will, {kLog}, {std::to_string(world_.rank())}, kMaySleep}, 10);
  store_->set_until(-1);
  store_->set_grace(kForever);  // who holds the store may be stopped, and go on
  thread_ = std::thread([this] { run(); });
}

Control::~Control() { leave(); }

void Control::run() {
  struct Ending {
    std::atomic<bool>& ended;
    ~Ending() { ended = true; }
  } ending{ended_};
  try {
    while (!leaving_) {
      const Reply reply = store_->call({StoreOp::WaitCount, {std::string(kLog) + kLines}, {}, lines_ + 1}, kBeat);
      if (reply.answer == Answer::Done) {
        lines_ = reply.number;
        read_log();
      }
    }
    store_->call({StoreOp::Will, {kLog}, {""}, -1}, 1);
  } catch (const std::exception&) {
    if (leaving_) return;
    std::unique_lock lock(mutex_);
    store_gone_ = true;
    const bool left = !served_by_launcher() && left_.count(0);
    const std::string why = end_of_holder_;
    lock.unlock();
    if (left && why.empty()) return watch_processes();  // it went in order, and the store with it
    if (left) {
      for (const Deadline news = Deadline::after(kNews); !news.passed() && !leaving_;)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (!leaving_) world_.fail_all(why + ", and with it the store");
      return;
    }
    world_.fail_all(store_host_ + ", which holds the store," + end_of_process(store_process_));
  }
}

/// Without the store nothing is heard of the others; of those here the system knows at least whether they live.
void Control::watch_processes() {
  constexpr std::chrono::milliseconds kPause(20);
  while (!leaving_) {
    std::this_thread::sleep_for(kPause);
    std::scoped_lock lock(mutex_);
    std::erase_if(seen_, [&](const auto& seen) {
      const char state = process_state(seen.second);
      if (state && state != 'Z' && state != 'X') return left_.count(seen.first) > 0;
      if (left_.insert(seen.first).second)
        world_.left(seen.first, {seen.second, "its process has ended", false, now(), {}});
      return true;
    });
  }
}

void Control::read_log() {
  const std::string log = store_->get(kLog);
  while (read_ < log.size()) {
    const size_t end = log.find('\n', read_);
    if (end == std::string::npos) return;
    const std::string line = log.substr(read_, end - read_);
    read_ = end + 1;
    const size_t space = line.find(' ');
    if (space != std::string::npos) heard(line.substr(0, space), line.substr(space + 1));
  }
}

void Control::heard(const std::string& word, const std::string& rest) {
  if (word == "query") return answer(rest);
  if (word == "stuck") return look_for_deadlock();
  const int rank = std::atoi(rest.c_str());
  if (rank == world_.rank()) return;
  if (word == "lost") return lost(rank, store_->get(key_of("who", rank)));
  if (word == "left") return left(rank, rest, {}, false);
  if (word == "gave" || word == "raised") {
    const size_t end = rest.find(kUnit);
    std::string why = end == std::string::npos ? "it failed" : rest.substr(end + 1);
    std::replace(why.begin(), why.end(), kUnit, '\n');
    return left(rank, rest.substr(0, end), why, word == "raised");
  }
  std::scoped_lock lock(mutex_);
  if (word == "silent") silent_.insert(rank);
  if (word == "back") silent_.erase(rank);
}

void Control::lost(int rank, const std::string& who) {
  {
    std::scoped_lock lock(mutex_);
    lost_[rank] = who;
  }
  world_.fail_all("rank " + std::to_string(rank) + " (" + who + ")" + end_of_process(who));
}

/// "2 0:118 5:3": the rank, and what it has finished in its groups.
void Control::left(int rank, const std::string& line, const std::string& why, bool itself) {
  Farewell farewell{store_->get(key_of("who", rank)), why, itself, now(), {}};
  for (const std::string& part : split(line, ' ')) {
    const size_t colon = part.find(':');
    if (colon != std::string::npos)
      farewell.finished[std::atoi(part.c_str())] = std::strtoull(part.c_str() + colon + 1, nullptr, 10);
  }
  world_.left(rank, std::move(farewell));
  std::scoped_lock lock(mutex_);
  left_.insert(rank);
  if (rank == 0 && !why.empty()) end_of_holder_ = store_host_ + (itself ? " ended by " : " gave up: ") + why;
  if (rank == 0 && !heard_.exchange(true)) store_->add(kHeard, 1);
}

void Control::leave(const std::string& exception) {
  if (leaving_.exchange(true)) return;
  const std::string trouble = world_.trouble();
  std::string why = trouble.empty() ? exception : trouble;
  std::replace(why.begin(), why.end(), '\n', kUnit);
  std::string line = (why.empty()       ? "left "
                      : trouble.empty() ? "raised "
                                        : "gave ") +
                     std::to_string(world_.rank()) + world_.progress();
  if (!why.empty()) line += kUnit + why;
  const auto say = [store = other_->clone(), line, others = world_.size() - 1, rank = world_.rank(),
                    once = !heard_.exchange(true)] {
    append_to_log(*store, line);
    if (rank != 0 && once) store->add(kHeard, 1);
    if (rank == 0 && !served_by_launcher()) store->wait_count(kHeard, others, kFarewell);
  };
  // Who holds it may be stopped for a moment: who is not heard would be taken for lost.
  const Deadline enough = Deadline::after(kShort);
  const auto may_answer = [&] { return is_busy(store_process_) || !enough.passed(); };
  const bool is_said = !store_gone_ && within(kFarewell + 0.1, say, may_answer);  // it wakes us as well
  const Deadline deadline = Deadline::after(is_said || store_gone_ ? 1 : 0);
  while (!ended_ && !deadline.passed()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  if (ended_) thread_.join();
  else thread_.detach();  // the store does not answer
}

}  // namespace facula::distributed

#include "distributed/control.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace facula::distributed {
namespace {

constexpr const char* kLog = "log";
constexpr double kBeat = 5;   // seconds that a rank waits for news before it asks again, which shows that it lives
constexpr int kMaySleep = 7;  // beyond that: 12 s without a sign of life
constexpr double kAsk = 2;    // how long a report waits for answers
constexpr double kGrace = 1;  // how long operations with ranks that have left may still end

std::string key_of(const std::string& what, int rank) { return what + "/" + std::to_string(rank); }

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Texts split(const std::string& text, char at) {
  Texts parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

std::string seconds_text(double seconds) {
  std::ostringstream s;
  s << seconds << " s";
  return s.str();
}

bool served_by_launcher() {
  const char* set = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  return set && std::string_view(set) == "True";
}

/// What a rank said of one of its groups, and where its program is.
struct State {
  bool answered = false;
  uint64_t issued = 0, finished = 0;
  std::string last, site, stack;
};

State state_of(const std::string& text, int group) {
  State state;
  for (const std::string& line : split(text, '\n')) {
    const Texts fields = split(line, '\t');
    if (fields.size() == 2 && fields[0] == "now") state.stack = fields[1];
    if (fields.size() < 4 || fields[0] != std::to_string(group)) continue;
    state.issued = std::strtoull(fields[1].c_str(), nullptr, 10);
    state.finished = std::strtoull(fields[2].c_str(), nullptr, 10);
    state.last = fields[3];
    if (fields.size() > 4) state.site = fields[4];
    state.answered = true;
  }
  return state;
}

}  // namespace

Control::Control(World& world, std::shared_ptr<Store> store)
    : world_(world), store_(std::move(store)), other_(store_->clone()) {
  for (Store* s : {store_.get(), other_.get()}) s->set_timeout(kBeat);
  store_->set(key_of("who", world_.rank()), host_name() + " pid " + std::to_string(getpid()));
  store_->call({StoreOp::Will, {kLog}, {std::to_string(world_.rank())}, kMaySleep}, 10);
  thread_ = std::thread([this] { run(); });
}

Control::~Control() { leave(); }

void Control::run() {
  struct Ending {
    std::atomic<bool>& ended;
    ~Ending() { ended = true; }
  } ending{ended_};
  try {
    const std::string host = store_->get(key_of("who", 0));
    if (!served_by_launcher()) store_host_ = "rank 0 (" + host + ")";
    while (!leaving_) {
      const bool waits_for_left = left_at_ > 0;
      const Reply reply = store_->call({StoreOp::WaitCount, {std::string(kLog) + kLines}, {}, lines_ + 1},
                                       waits_for_left ? kGrace / 4 : kBeat);
      if (reply.answer == Answer::Done) {
        lines_ = reply.number;
        read_log();
      }
      look_for_left();
    }
    store_->call({StoreOp::Will, {kLog}, {""}, -1}, 1);
  } catch (const std::exception&) {
    if (leaving_) return;
    std::unique_lock lock(mutex_);
    store_gone_ = true;
    if (!left_.empty()) return;  // it went in order, and the store with it
    lock.unlock();
    world_.fail_all(store_host_ + ", which holds the store, is gone: its process ended, or its connection broke");
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
  const int rank = std::atoi(rest.c_str());
  if (rank == world_.rank()) return;
  if (word == "lost") return lost(rank, store_->get(key_of("who", rank)));
  std::scoped_lock lock(mutex_);
  if (word == "silent") silent_.insert(rank);
  if (word == "back") silent_.erase(rank);
  if (word == "left") {
    left_.insert(rank);
    left_at_ = now();
  }
}

void Control::lost(int rank, const std::string& who) {
  {
    std::scoped_lock lock(mutex_);
    lost_[rank] = who;
  }
  world_.fail_all("rank " + std::to_string(rank) + " (" + who +
                  ") is gone: its process ended, or its connection broke");
}

/// Operations with ranks that have left do not end: after a moment they are given up.
void Control::look_for_left() {
  std::vector<std::pair<std::shared_ptr<Group>, std::shared_ptr<Operation>>> waiting;
  std::set<int> left;
  {
    std::scoped_lock lock(mutex_);
    if (left_.empty() || now() - left_at_ < kGrace) return;
    left = left_;
  }
  {
    std::scoped_lock lock(world_.mutex_);
    for (const auto& group : world_.groups_)
      if (!group->queue.empty()) waiting.emplace_back(group, group->queue.front());
    for (const auto& m : world_.messages_) waiting.emplace_back(m.group, m.op);
  }
  const double since =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count() - kGrace;
  for (const auto& [group, op] : waiting) {
    if (op->queued_at > since) continue;
    for (int rank : group->ranks) {
      const bool peer = !is_point_to_point(op->call.kind) || op->call.root < 0 ||
                        group->ranks[static_cast<size_t>(op->call.root)] == rank;
      if (left.count(rank) && peer) {
        world_.give_up(group, op,
                       group->title(*op) + " failed: rank " + std::to_string(rank) + " has left the group (" +
                           other_->get(key_of("who", rank)) + " ended, or destroyed it)");
        break;
      }
    }
  }
}

void Control::tell(Store& store, const std::string& line) {
  store.append(kLog, line + "\n");
  store.add(std::string(kLog) + kLines, 1);
}

void Control::answer(const std::string& query) {
  std::string text = world_.state();
  if (program_stack) text += "now\t" + program_stack() + "\n";
  store_->set("answer/" + query + "/" + std::to_string(world_.rank()), text);
}

void Control::late(const std::shared_ptr<Group>& group, const std::shared_ptr<Operation>& op, bool final) {
  auto world = world_.weak_from_this().lock();
  if (!world) return;
  std::thread([world, this, group, op, final] {
    std::string text;
    try {
      text = report(*other_->clone(), *group, *op, final);
    } catch (const std::exception&) {
      text = group->title(*op) + (final ? " gave up after " : " has waited ") + seconds_text(op->call.timeout);
    }
    if (op->done()) return;
    if (final) world->give_up(group, op, text);
    else std::fprintf(stderr, "facula.distributed: %s\n", text.c_str());
  }).detach();
}

std::string Control::report(Store& store, const Group& group, const Operation& op, bool final) {
  std::string id;
  {
    std::scoped_lock lock(mutex_);
    id = std::to_string(world_.rank()) + "." + std::to_string(++queries_);
  }
  tell(store, "query " + id);
  const bool message = is_point_to_point(op.call.kind);
  std::vector<int> asked = group.ranks;
  if (message && op.call.root >= 0) asked = {group.ranks[static_cast<size_t>(op.call.root)]};
  std::map<int, State> states;
  for (const Deadline deadline = Deadline::after(kAsk); states.size() < asked.size() && !deadline.passed();) {
    for (int rank : asked) {
      const std::string key = "answer/" + id + "/" + std::to_string(rank);
      if (!states.count(rank) && store.has({key})) states[rank] = state_of(store.get(key), group.id);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::string missing;
  std::map<std::string, std::string> arrived;
  int here = 0;
  for (int rank : asked) {
    const State& s = states[rank];
    if (!message && s.answered && s.issued >= op.sequence) {
      ++here;
      arrived[s.site] += " " + std::to_string(rank);
      continue;
    }
    missing += "\n  missing  rank " + std::to_string(rank) + "  " + store.get(key_of("who", rank)) + "  ";
    std::scoped_lock lock(mutex_);
    if (silent_.count(rank)) missing += "no sign of life for 12 s (stopped, or host unreachable)";
    else if (!s.answered) missing += "does not answer (stopped, or host unreachable)";
    else {
      missing += "alive";
      if (s.finished) missing += ", last finished #" + std::to_string(s.finished) + " (" + s.last + ")";
      if (!s.stack.empty()) missing += ", now at " + s.stack;
    }
  }
  std::string text = group.title(op) + (final ? " gave up after " + seconds_text(op.call.timeout) : " waits");
  if (!message) text += ": " + std::to_string(here) + " of " + std::to_string(asked.size()) + " ranks arrived.";
  text += missing;
  for (const auto& [site, ranks] : arrived) text += "\n  arrived  ranks" + ranks + (site.empty() ? "" : " at " + site);
  return text;
}

void Control::leave() {
  if (leaving_.exchange(true)) return;
  try {
    const std::string how = world_.broken().empty() ? "left " : "gave up ";
    if (!store_gone_) tell(*other_, how + std::to_string(world_.rank()));  // wakes us as well
  } catch (const std::exception&) {
  }
  const Deadline deadline = Deadline::after(1);
  while (!ended_ && !deadline.passed()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  if (ended_) thread_.join();
  else thread_.detach();  // the store does not answer
}

}  // namespace facula::distributed

#include "distributed/control.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>

namespace facula::distributed {

std::string (*program_stack)() = nullptr;

namespace {

constexpr const char* kLog = "log";
constexpr const char* kWaits = "waits";  // what a rank that waits has said, by rank
constexpr const char* kHeard = "heard";  // how many others know that the holder of the store leaves, or have left
constexpr const char* kGone = " is gone: its process ended, or its connection broke";
constexpr double kBeat = 5;        // seconds that a rank waits for news before it asks again, which shows that it lives
constexpr int kMaySleep = 7;       // beyond that: 12 s without a sign of life
constexpr char kUnit = '\x1f';     // in the place of line ends, in a line of the log
constexpr double kAsk = 0.6;       // how long a report waits for answers
constexpr double kAskBusy = 3;     // and for those of processes that the system says are running
constexpr double kShort = 1;       // what a store may take for an answer when a rank reports or leaves
constexpr double kNews = 0.5;      // until it is heard why another has left
constexpr double kFarewell = 0.3;  // how long the holder of the store waits until all have heard that it leaves
constexpr double kForever = 1e8;

std::string key_of(const std::string& what, int rank) { return what + "/" + std::to_string(rank); }

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

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

/// What the system says of a process on this machine, "host pid 7", from the letter that ps shows on; empty if nothing.
std::string process_facts(const std::string& who) {
  const size_t pid = who.rfind(" pid ");
  if (pid == std::string::npos || who.substr(0, pid) != host_name()) return {};
  std::ifstream file("/proc/" + who.substr(pid + 5) + "/stat");
  std::string facts;
  std::getline(file, facts);
  const size_t name = facts.rfind(") ");
  return name == std::string::npos ? std::string() : facts.substr(name + 2);
}
char process_state(const std::string& who) {
  const std::string facts = process_facts(who);
  return facts.empty() ? 0 : facts[0];
}
bool is_stopped(const std::string& who) {
  const char state = process_state(who);
  return state == 'T' || state == 't';
}
/// Runs here, or wants to: it answers when the machine is less busy.
bool is_busy(const std::string& who) {
  const char state = process_state(who);
  return state == 'R' || state == 'S' || state == 'D';
}

/// How the process ended, as far as the system still knows: its parent has not asked yet.
std::string gone(const std::string& who) {
  constexpr size_t kExitCode = 49;  // fields behind the letter
  const Texts facts = split(process_facts(who), ' ');
  const int code = facts.size() > kExitCode ? std::atoi(facts[kExitCode].c_str()) : 0;
  if (const int signal = code & 0x7f)
    return " is gone: killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  if (code >> 8) return " is gone: it ended with exit code " + std::to_string(code >> 8);
  return kGone;
}

/// Runs `f` on a thread of its own; whether it was done in time, or later while there is `hope`. It may go on for
/// longer.
bool within(double seconds, std::function<void()> f, const std::function<bool()>& hope = {}) {
  auto done = std::make_shared<std::promise<void>>();
  auto result = done->get_future();
  std::thread([done, f = std::move(f)] {
    try {
      f();
    } catch (const std::exception&) {
    }
    done->set_value();
  }).detach();
  const auto is_done = [&](double s) {
    return result.wait_for(std::chrono::duration<double>(s)) == std::future_status::ready;
  };
  if (is_done(seconds)) return true;
  for (const Deadline last = Deadline::after(kAskBusy); hope && hope() && !last.passed();)
    if (is_done(0.1)) return true;
  return false;
}

void tell(Store& store, const std::string& line) {
  store.append(kLog, line + "\n");
  store.add(std::string(kLog) + kLines, 1);
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

void announce(Store& store, int rank) {
  store.multi_set({key_of("who", rank), key_of(kWaits, rank)}, {host_name() + " pid " + std::to_string(getpid()), ""});
  constexpr int64_t kSilence = 1 << 30;  // its own thread gives signs of life later
  store.call({StoreOp::Will, {kLog}, {std::to_string(rank)}, kSilence}, 10);
}

std::string lost_one(Store& store) {
  if (!store.has({kLog})) return {};
  for (const std::string& line : split(store.get(kLog), '\n')) {
    if (line.rfind("lost ", 0) != 0) continue;
    const int rank = std::atoi(line.c_str() + 5);
    const std::string who = store.get(key_of("who", rank));
    return "rank " + std::to_string(rank) + " (" + who + ")" + gone(who);
  }
  return {};
}

namespace {

constexpr std::chrono::milliseconds kLook(20);  // between looks whether somebody is gone, while MPI brings all together

/// For people; who it is as far as the store still says it.
std::string store_holder(Store& store) {
  if (served_by_launcher()) return "the launcher";
  try {
    return "rank 0 (" + store.get(key_of("who", 0)) + ")";
  } catch (const DistError&) {
    return "rank 0";
  }
}

/// Waits for MPI, and looks whether somebody is gone meanwhile.
std::unique_ptr<Engine> wait_for_engine(std::future<std::unique_ptr<Engine>>& engine, Store& watch, double timeout) {
  const std::string host = store_holder(watch);
  const auto look = [&] {
    try {
      return lost_one(watch);
    } catch (const NoAnswer&) {
      return std::string();
    } catch (const DistError&) {
      return host + ", which holds the store," + kGone;
    }
  };
  const Deadline deadline = Deadline::after(timeout);
  while (engine.wait_for(kLook) != std::future_status::ready) {
    Interruptible::check();
    if (const std::string lost = look(); !lost.empty()) fail(Trouble::Backend, "init_process_group: ", lost);
    if (deadline.passed())
      fail(Trouble::Backend, "init_process_group: MPI did not bring the ranks together within ", seconds_text(timeout),
           ", though all of them came: one may be stopped, or cannot be reached");
  }
  try {
    return engine.get();
  } catch (const DistError&) {  // somebody may be gone, of which the store hears as soon
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (const std::string lost = look(); !lost.empty()) fail(Trouble::Backend, "init_process_group: ", lost);
    throw;
  }
}

}  // namespace

std::shared_ptr<World> join_world(const std::shared_ptr<Store>& store, int rank, int size, double timeout, bool nccl) {
  // MPI waits for the others without a deadline: on a thread of its own, which is left behind when they do not come
  const auto made = std::make_shared<std::promise<std::unique_ptr<Engine>>>();
  auto engine = made->get_future();
  const auto own = store->clone(), watch = store->clone();
  for (const auto& s : {own, watch}) s->set_until(std::min(timeout, store->until()));
  std::thread([made, own, rank, size, timeout] {
    try {
      made->set_value(make_mpi_engine(own, rank, size, timeout));
    } catch (...) {
      made->set_exception(std::current_exception());
    }
  }).detach();
  watch->set_timeout(kShort);
  watch->set_grace(kShort);
  const auto end = [rank] {
    forget_shared_names();
    if (rank == 0 && !served_by_launcher()) std::this_thread::sleep_for(4 * kLook);  // with the store: others look, too
  };
  try {
    auto world = std::make_shared<World>(wait_for_engine(engine, *watch, timeout), store, rank, size, true, nccl);
    store->call({StoreOp::Will, {kLog}, {""}, -1}, kShort);  // the world's own connection tells from here on
    return world;
  } catch (const DistError& error) {
    end();
    if (error.trouble() != Trouble::Network) throw;
    const bool silent = dynamic_cast<const NoAnswer*>(&error);
    fail(Trouble::Backend, "init_process_group: ", store_holder(*watch), ", which holds the store,",
         silent ? " does not answer" : kGone, " (", error.what(), ")");
  } catch (...) {
    end();
    throw;
  }
}

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
    world_.fail_all(store_host_ + ", which holds the store," + gone(store_process_));
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
  world_.fail_all("rank " + std::to_string(rank) + " (" + who + ")" + gone(who));
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

void Control::answer(const std::string& query) {
  const std::string key = "answer/" + query + "/" + std::to_string(world_.rank()), state = world_.state();
  store_->set(key, state);
  if (program_stack) store_->set(key, state + "now\t" + program_stack() + "\n");  // may wait for the interpreter lock
}

void Control::late(const std::shared_ptr<Group>& group, const std::shared_ptr<Operation>& op, bool final) {
  auto world = world_.weak_from_this().lock();
  if (!world) return;
  std::thread([world, this, group, op, final] {
    const std::string text = why_late(group, op, final);
    if (op->done()) return;
    if (final) world->give_up(group, op, text);
    else std::fprintf(stderr, "facula.distributed: %s\n", text.c_str());
  }).detach();
}

std::string Control::why_late(const std::shared_ptr<Group>& group, const std::shared_ptr<Operation>& op, bool final) {
  const auto found = std::make_shared<std::string>();
  const auto ask = [world = world_.shared_from_this(), this, group, op, final, found] {
    const auto store = other_->clone();
    store->set_grace(kShort);
    *found = report(*store, *group, *op, final);
  };
  const bool asked = within(kAsk + 0.2, ask, [this] { return is_busy(store_process_); });
  if (asked && !found->empty()) return *found;
  // Who holds the store may have left, and have said why: that is heard soon.
  for (const Deadline news = Deadline::after(asked ? kNews : 0); !news.passed() && !op->done();)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::string title = title_of_report(*group, *op, final);
  if (store_gone_) return title + "\n  nobody can be asked: " + store_host_ + " has left, and with it the store";
  return title + "\n  missing  " + store_host_ +
         ", which holds the store, does not answer (stopped, or host unreachable)";
}

void Control::look_for_deadlock() {
  auto world = world_.weak_from_this().lock();
  if (!world || looks_.fetch_add(1) > 0) return;
  std::thread([world, this] {
    int asked;
    do {
      asked = looks_;
      try {
        const auto store = other_->clone();
        store->set_grace(kShort);
        look_for_deadlock(*store);
      } catch (const std::exception&) {  // the store is gone: that is heard elsewhere
      }
    } while (looks_.fetch_sub(asked) != asked);
  }).detach();
}

void Control::look_for_deadlock(Store& store) {
  Waiting mine = world_.waiting();
  if (mine.awaited.empty()) return;
  store.set(key_of(kWaits, world_.rank()), encode(mine));
  std::map<int, Waiting> said;
  said.emplace(world_.rank(), std::move(mine));
  for (size_t before = 0; said.size() != before;) {
    before = said.size();
    std::set<int> more;
    for (const auto& [rank, waiting] : said)
      for (const auto& op : waiting.awaited)
        for (int r : op.ranks)
          if (!said.count(r)) more.insert(r);
    Texts keys;
    for (int r : more) keys.push_back(key_of(kWaits, r));
    const Texts found = store.multi_get(keys);
    size_t i = 0;
    for (int r : more) said.emplace(r, decode_waiting(found[i++]));
  }
  const Deadlock deadlock = find_deadlock(said, world_.rank());
  {
    std::scoped_lock lock(mutex_);
    doubt_ = deadlock;
  }
  if (deadlock.text.empty() || !deadlock.certain) return;
  world_.give_up(
      deadlock.group, deadlock.sequence,
      " cannot end: the ranks do not agree on the order of their calls, and wait for each other:" + deadlock.text);
  tell(store, "stuck " + std::to_string(world_.rank()));
}

std::string Control::title_of_report(const Group& group, const Operation& op, bool final) {
  return group.title(op) + (final ? " gave up after " + seconds_text(op.call.timeout) : " waits");
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
  const auto known = [&](const State& s) {
    return s.answered && (!s.stack.empty() || (!message && s.issued >= op.sequence));
  };
  std::map<int, std::string> who;  // of those who do not answer at once
  const auto may_answer = [&](int rank) {
    if (who[rank].empty()) who[rank] = store.get(key_of("who", rank));
    return is_busy(who[rank]);
  };
  const Deadline soon = Deadline::after(kAsk), later = Deadline::after(kAskBusy);
  for (;;) {
    bool all = true, hope = false;
    for (int rank : asked) {
      const std::string key = "answer/" + id + "/" + std::to_string(rank);
      if (!known(states[rank]) && store.has({key})) states[rank] = state_of(store.get(key), group.number);
      if (known(states[rank])) continue;
      all = false;
      hope = hope || !soon.passed() || (!later.passed() && may_answer(rank));
    }
    if (all || !hope) break;
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
    const std::string process = store.get(key_of("who", rank));
    missing += "\n  missing  rank " + std::to_string(rank) + "  " + process + "  ";
    std::scoped_lock lock(mutex_);
    if (silent_.count(rank)) missing += "no sign of life for 12 s (stopped, or host unreachable)";
    else if (!s.answered && is_stopped(process)) missing += "does not answer (stopped by a signal)";
    else if (!s.answered) missing += "does not answer (stopped, too busy, or host unreachable)";
    else {
      missing += "alive";
      if (s.finished) missing += ", last finished #" + std::to_string(s.finished) + " (" + s.last + ")";
      if (!s.stack.empty()) missing += ", now at " + s.stack;
    }
  }
  std::string text = title_of_report(group, op, final);
  if (!message) text += ": " + std::to_string(here) + " of " + std::to_string(asked.size()) + " ranks arrived.";
  text += missing;
  for (const auto& [site, ranks] : arrived) text += "\n  arrived  ranks" + ranks + (site.empty() ? "" : " at " + site);
  std::scoped_lock lock(mutex_);
  if (!message && !doubt_.text.empty() && doubt_.group == group.key() && doubt_.sequence == op.sequence)
    text += "\n  unless another of their threads calls what is missing, ranks wait for each other:" + doubt_.text;
  return text;
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
    tell(*store, line);
    if (rank != 0 && once) store->add(kHeard, 1);
    if (rank == 0 && !served_by_launcher()) store->wait_count(kHeard, others, kFarewell);
  };
  // Who holds it may be stopped for a moment: who is not heard would be taken for lost.
  const Deadline enough = Deadline::after(kShort);
  const auto may_answer = [&] { return is_busy(store_process_) || !enough.passed(); };
  const bool told = !store_gone_ && within(kFarewell + 0.1, say, may_answer);  // it wakes us as well
  const Deadline deadline = Deadline::after(told || store_gone_ ? 1 : 0);
  while (!ended_ && !deadline.passed()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  if (ended_) thread_.join();
  else thread_.detach();  // the store does not answer
}

}  // namespace facula::distributed

// Reports about operations that wait: who is missing, and whether ranks wait for each other.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "distributed/control.h"
#include "distributed/control_log.h"
#include "distributed/processes.h"

namespace facula::distributed {

std::string (*program_stack)() = nullptr;

namespace {

constexpr double kAnswer = 0.6;  // seconds that a report waits for answers
constexpr double kNews = 0.5;    // seconds until it is heard why another has left

}  // namespace

namespace {

/// What a rank said of one of its groups, and where its program is.
struct RankState {
  bool answered = false;
  uint64_t issued = 0, finished = 0;
  std::string last, site, stack;
};

RankState state_of(const std::string& text, int group) {
  RankState state;
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

/// A report about one operation, while the answers of the ranks come in.
class LateReport {
 public:
  LateReport(Store& store, const Group& group, const Operation& op, const std::string& query)
      : store_(store), group_(group), op_(op), query_(query), is_message_(is_point_to_point(op.call.kind)) {
    ranks_ = group.ranks;
    if (is_message_ && op.call.root >= 0) ranks_ = {group.ranks[static_cast<size_t>(op.call.root)]};
  }

  /// Waits for answers: a short time for all, longer for those of processes that run.
  void collect() {
    const Deadline soon = Deadline::after(kAnswer), later = Deadline::after(kAskBusy);
    for (;;) {
      bool all = true, hope = false;
      for (int rank : ranks_) {
        if (has_answered(rank)) continue;
        all = false;
        hope = hope || !soon.passed() || (!later.passed() && is_busy(process_of(rank)));
      }
      if (all || !hope) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  /// A line for each rank that is missing, then for the places where others have arrived.
  std::string text(const std::set<int>& silent) {
    std::string missing;
    std::map<std::string, std::string> arrived;  // ranks by the line that they call from
    int here = 0;
    for (int rank : ranks_) {
      const RankState& s = states_[rank];
      if (!is_message_ && s.answered && s.issued >= op_.sequence) {
        ++here;
        arrived[s.site] += " " + std::to_string(rank);
      } else {
        missing += "\n  missing  rank " + std::to_string(rank) + "  " + process_of(rank) + "  " +
                   why_missing(s, process_of(rank), silent.count(rank) > 0);
      }
    }
    std::string text;
    if (!is_message_) text += ": " + std::to_string(here) + " of " + std::to_string(ranks_.size()) + " ranks arrived.";
    text += missing;
    for (const auto& [site, ranks] : arrived)
      text += "\n  arrived  ranks" + ranks + (site.empty() ? "" : " at " + site);
    return text;
  }

 private:
  bool has_answered(int rank) {
    RankState& state = states_[rank];
    const auto is_enough = [&] {
      return state.answered && (!state.stack.empty() || (!is_message_ && state.issued >= op_.sequence));
    };
    if (is_enough()) return true;
    const std::string key = "answer/" + query_ + "/" + std::to_string(rank);
    if (store_.has({key})) state = state_of(store_.get(key), group_.number);
    return is_enough();
  }

  const std::string& process_of(int rank) {
    std::string& who = who_[rank];
    if (who.empty()) who = store_.get(key_of("who", rank));
    return who;
  }

  static std::string why_missing(const RankState& s, const std::string& process, bool is_silent) {
    if (is_silent) return "no sign of life for 12 s (stopped, or host unreachable)";
    if (!s.answered)
      return is_stopped(process) ? "does not answer (stopped by a signal)"
                                 : "does not answer (stopped, too busy, or host unreachable)";
    std::string text = "alive";
    if (s.finished) text += ", last finished #" + std::to_string(s.finished) + " (" + s.last + ")";
    if (!s.stack.empty()) text += ", now at " + s.stack;
    return text;
  }

  Store& store_;
  const Group& group_;
  const Operation& op_;
  const std::string query_;
  const bool is_message_;
  std::vector<int> ranks_;  // those that are queried
  std::map<int, RankState> states_;
  std::map<int, std::string> who_;
};

}  // namespace

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
  const auto query = [world = world_.shared_from_this(), this, group, op, final, found] {
    const auto store = other_->clone();
    store->set_grace(kShort);
    *found = report(*store, *group, *op, final);
  };
  const bool is_answered = within(kAnswer + 0.2, query, [this] { return is_busy(store_process_); });
  if (is_answered && !found->empty()) return *found;
  // Who holds the store may have left, and have said why: that is heard soon.
  for (const Deadline news = Deadline::after(is_answered ? kNews : 0); !news.passed() && !op->done();)
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
    int requested;
    do {
      requested = looks_;
      try {
        const auto store = other_->clone();
        store->set_grace(kShort);
        look_for_deadlock(*store);
      } catch (const std::exception&) {  // the store is gone: that is heard elsewhere
      }
    } while (looks_.fetch_sub(requested) != requested);
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
  append_to_log(store, "stuck " + std::to_string(world_.rank()));
}

std::string Control::title_of_report(const Group& group, const Operation& op, bool final) {
  return group.title(op) + (final ? " gave up after " + seconds_text(op.call.timeout) : " waits");
}

std::string Control::report(Store& store, const Group& group, const Operation& op, bool final) {
  std::string query;
  {
    std::scoped_lock lock(mutex_);
    query = std::to_string(world_.rank()) + "." + std::to_string(++queries_);
  }
  append_to_log(store, "query " + query);
  LateReport report(store, group, op, query);
  report.collect();
  std::set<int> silent;
  {
    std::scoped_lock lock(mutex_);
    silent = silent_;
  }
  std::string text = title_of_report(group, op, final) + report.text(silent);
  std::scoped_lock lock(mutex_);
  const bool is_doubted = !doubt_.text.empty() && doubt_.group == group.key() && doubt_.sequence == op.sequence;
  if (is_doubted && !is_point_to_point(op.call.kind))
    text += "\n  unless another of their threads calls what is missing, ranks wait for each other:" + doubt_.text;
  return text;
}

}  // namespace facula::distributed

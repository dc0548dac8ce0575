#include "distributed/deadlock.h"

#include <algorithm>
#include <set>

#include "distributed/wire.h"

namespace facula::distributed {

int (*program_threads)() = nullptr;
namespace {

/// One of `stuck` that has not called the operation; -1 when there is none: then it may end.
int who_holds_up(const Waiting::Awaited& op, const std::map<int, Waiting>& said, const std::set<int>& stuck) {
  for (int rank : op.ranks) {
    if (!stuck.count(rank)) continue;
    const auto& issued = said.at(rank).issued;
    const auto found = issued.find(op.group);
    if (found != issued.end() && found->second < op.sequence) return rank;
  }
  return -1;
}

/// `all`: also those of which it is not certain that nothing else of theirs can call anything.
std::set<int> ranks_that_cannot_go_on(const std::map<int, Waiting>& said, bool all) {
  std::set<int> stuck;
  for (const auto& [rank, waiting] : said)
    if (!waiting.awaited.empty() && (all || waiting.certain)) stuck.insert(rank);
  const auto goes_on = [&](int rank) {
    const auto& awaited = said.at(rank).awaited;
    return std::any_of(awaited.begin(), awaited.end(),
                       [&](const auto& op) { return who_holds_up(op, said, stuck) < 0; });
  };
  while (std::erase_if(stuck, goes_on) > 0) {
  }
  return stuck;
}

}  // namespace

std::string encode(const Waiting& waiting) {
  Writer w;
  w.number(static_cast<uint8_t>(waiting.certain));
  w.number(static_cast<uint32_t>(waiting.awaited.size()));
  for (const auto& op : waiting.awaited) {
    w.text(op.group);
    w.text(op.title);
    w.number(op.sequence);
    w.number(static_cast<uint32_t>(op.ranks.size()));
    for (int rank : op.ranks) w.number(rank);
  }
  w.number(static_cast<uint32_t>(waiting.issued.size()));
  for (const auto& [group, count] : waiting.issued) {
    w.text(group);
    w.number(count);
  }
  return w.take();
}

Waiting decode_waiting(std::string_view bytes) {
  Waiting waiting;
  if (bytes.empty()) return waiting;
  Reader r(bytes);
  waiting.certain = r.number<uint8_t>() != 0;
  for (auto n = r.number<uint32_t>(); n > 0; --n) {
    auto& op = waiting.awaited.emplace_back();
    op.group = r.text();
    op.title = r.text();
    op.sequence = r.number<uint64_t>();
    for (auto ranks = r.number<uint32_t>(); ranks > 0; --ranks) op.ranks.push_back(r.number<int>());
  }
  for (auto n = r.number<uint32_t>(); n > 0; --n) {
    std::string group = r.text();
    waiting.issued[std::move(group)] = r.number<uint64_t>();
  }
  r.end();
  return waiting;
}

Deadlock find_deadlock(const std::map<int, Waiting>& said, int rank) {
  std::set<int> stuck = ranks_that_cannot_go_on(said, false);
  Deadlock found;
  found.certain = stuck.count(rank) > 0;
  if (!found.certain) stuck = ranks_that_cannot_go_on(said, true);
  if (!stuck.count(rank)) return found;
  found.group = said.at(rank).awaited[0].group;
  found.sequence = said.at(rank).awaited[0].sequence;
  for (std::set<int> named; named.insert(rank).second;) {
    const auto& op = said.at(rank).awaited[0];
    const int next = who_holds_up(op, said, stuck);
    found.text += "\n  rank " + std::to_string(rank) + ": " + op.title + ", waits for rank " + std::to_string(next);
    rank = next;
  }
  return found;
}

}  // namespace facula::distributed

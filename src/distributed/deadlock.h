// Finds ranks that wait for each other in different groups. Each has called first what the other calls second, so no
// deadline is needed to know that nothing will come.
//
// A rank that waits for longer than 0.3 s (more with more than 16 ranks), and is in several groups, writes into the
// store what its program waits for and how many operations it has called in each group. It reads what the others have
// written there. An operation can end when all its ranks have called it, or when those that have not can go on. A rank
// can go on unless it has said that it waits for operations that cannot end. The ranks that are left wait for ever, and
// all of them are notified at once.
//
// This is no guess. What a rank has said may be old, and of another moment than what others said. Still, for the first
// one of those that are left to go on, one of them would have had to go on before it. So it is said only of ranks that
// can do nothing else: all threads that run Python wait for an operation without a timeout of its own and with a
// deadline of 5 s at least (a shorter one may mean that the program goes on without it), none of a message, and what
// callbacks may call counts as waited for. Work that was started and is not waited for holds nobody up. Where a rank
// has other threads, which may call what is missing, the error comes at the deadline, and then, as in the warning
// before, with what is known.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace facula::distributed {

/// How many threads of the program may call something; 0 when that cannot be seen. Installed by the bindings.
extern int (*program_threads)();

/// What a rank says that waits.
struct Waiting {
  /// After which its program goes on.
  struct Awaited {
    std::string group, title;
    std::vector<int> ranks;  // of the group
    uint64_t sequence = 0;
  };
  bool certain = false;  // no thread can call anything before
  std::vector<Awaited> awaited;
  std::map<std::string, uint64_t> issued;  // operations, by group
};
std::string encode(const Waiting& waiting);
/// Of nothing, what has nothing to say.
Waiting decode_waiting(std::string_view bytes);

/// Who waits for whom, from `rank` on, when it cannot go on.
struct Deadlock {
  bool certain = false;
  std::string text;   // a line for each rank; empty when there is none
  std::string group;  // of what `rank` waits for
  uint64_t sequence = 0;
};
Deadlock find_deadlock(const std::map<int, Waiting>& said, int rank);

}  // namespace facula::distributed

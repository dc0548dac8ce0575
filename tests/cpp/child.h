// Tests of what belongs to a process, the emulated CUDA device above all, run in processes of their own.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "check.h"

struct Outcome {
  int status;  // as from waitpid
  std::string text;
  bool is_good() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
  /// By a signal, or by a sanitizer in its place.
  bool was_killed() const { return WIFSIGNALED(status) || met_sanitizer(); }
  bool met_sanitizer() const { return text.find("Sanitizer: SEGV") != std::string::npos; }
};

/// What a sanitizer finds in a child fails the test; accesses that the test wants are SEGV.
inline void expect_clean(const std::string& text) {
  for (const char* report : {"WARNING: ThreadSanitizer", "runtime error: ", "ERROR: AddressSanitizer: "}) {
    const size_t at = text.find(report);
    if (at == std::string::npos || text.compare(at + std::strlen(report), 4, "SEGV") == 0) continue;
    std::fprintf(stderr, "%s\n", text.c_str());
    std::_Exit(1);
  }
}

/// Runs `body` in a child that has these variables, and collects what it writes to standard error.
template <class F>
Outcome in_child(std::vector<std::string> environment, F body) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], 2);
    close(ends[0]);
    for (std::string& pair : environment) putenv(pair.data());
    body();
    std::_Exit(0);
  }
  close(ends[1]);
  Outcome outcome{};
  char piece[512];
  for (ssize_t n; (n = read(ends[0], piece, sizeof piece)) > 0;) outcome.text.append(piece, static_cast<size_t>(n));
  close(ends[0]);
  CHECK(waitpid(child, &outcome.status, 0) == child);
  expect_clean(outcome.text);
  return outcome;
}

inline void expect_good(const char* name, const Outcome& outcome) {
  if (outcome.is_good()) return;
  std::fprintf(stderr, "%s: status %d, %s\n", name, outcome.status, outcome.text.c_str());
  std::_Exit(1);
}

inline void expect_report(const char* name, const Outcome& outcome, const char* report) {
  if (outcome.is_good() && outcome.text.find(report) != std::string::npos) return;
  std::fprintf(stderr, "%s: the report '%s' is missing, got: %s\n", name, report, outcome.text.c_str());
  std::_Exit(1);
}

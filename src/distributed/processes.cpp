#include "distributed/processes.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace facula::distributed {
namespace {

constexpr const char* kGone = " is gone: its process ended, or its connection broke";

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
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
}  // namespace

std::string process_name() { return host_name() + " pid " + std::to_string(getpid()); }

char process_state(const std::string& who) {
  const std::string facts = process_facts(who);
  return facts.empty() ? 0 : facts[0];
}
bool is_stopped(const std::string& who) {
  const char state = process_state(who);
  return state == 'T' || state == 't';
}
bool is_busy(const std::string& who) {
  const char state = process_state(who);
  return state == 'R' || state == 'S' || state == 'D';
}

std::string end_of_process(const std::string& who) {
  constexpr size_t kExitCode = 49;               // fields behind the letter
  std::istringstream facts(process_facts(who));  // until the parent has collected the code
  std::string field;
  for (size_t i = 0; i <= kExitCode; ++i)
    if (!std::getline(facts, field, ' ')) return kGone;
  const int code = std::atoi(field.c_str());
  if (const int signal = code & 0x7f)
    return " is gone: killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  if (code >> 8) return " is gone: it ended with exit code " + std::to_string(code >> 8);
  return kGone;
}

}  // namespace facula::distributed

#include "distributed/control_log.h"

#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <sstream>
#include <thread>

namespace facula::distributed {

std::string key_of(const std::string& what, int rank) { return what + "/" + std::to_string(rank); }

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

bool within(double seconds, std::function<void()> f, const std::function<bool()>& hope) {
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

void append_to_log(Store& store, const std::string& line) {
  store.append(kLog, line + "\n");
  store.add(std::string(kLog) + kLines, 1);
}

bool served_by_launcher() {
  const char* set = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  return set && std::string_view(set) == "True";
}

}  // namespace facula::distributed

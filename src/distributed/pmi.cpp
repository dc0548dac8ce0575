#include "distributed/pmi.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <thread>

namespace facula::distributed {
namespace {

using Fields = std::map<std::string, std::string>;

/// "cmd=put kvsname=a key=b value=c d": the value is the rest of the line.
Fields parse(const std::string& line) {
  Fields fields;
  for (size_t at = 0; at < line.size();) {
    const size_t equals = line.find('=', at);
    if (equals == std::string::npos) break;
    const std::string key = line.substr(at, equals - at);
    const size_t end = key == "value" ? line.size() : std::min(line.find(' ', equals), line.size());
    fields[key] = line.substr(equals + 1, end - equals - 1);
    at = end + 1;
  }
  return fields;
}

class Server {
 public:
  Server(std::shared_ptr<Store> store, PmiJob job, int fd) : store_(std::move(store)), job_(std::move(job)), fd_(fd) {}

  void run() {
    std::string pending;
    char piece[4096];
    for (ssize_t n; (n = ::recv(fd_.fd(), piece, sizeof piece, 0)) > 0 || (n < 0 && errno == EINTR);) {
      if (n > 0) pending.append(piece, static_cast<size_t>(n));
      for (size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1))
        if (!answer(parse(pending.substr(0, end)))) return;
    }
  }

 private:
  /// False after the last request.
  bool answer(const Fields& fields) {
    const std::string command = field(fields, "cmd");
    if (command == "init") say("cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1");
    else if (command == "get_maxes") say("cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024");
    else if (command == "get_appnum") say("cmd=appnum rc=0 appnum=0");
    else if (command == "get_my_kvsname") say("cmd=my_kvsname rc=0 kvsname=" + job_.name);
    else if (command == "get_universe_size") say("cmd=universe_size rc=0 size=" + std::to_string(job_.size));
    else if (command == "put") put(field(fields, "key"), field(fields, "value"));
    else if (command == "get") get(field(fields, "key"));
    else if (command == "barrier_in") barrier();
    else if (command == "finalize") say("cmd=finalize_ack rc=0");
    else if (command == "abort")
      std::fprintf(stderr, "facula.distributed: MPI gave up: %s\n", field(fields, "error_msg").c_str());
    else say("cmd=" + command + "_result rc=-1 msg=unknown");
    return command != "finalize" && command != "abort";
  }
  static std::string field(const Fields& fields, const char* name) {
    const auto found = fields.find(name);
    return found == fields.end() ? "" : found->second;
  }
  void say(std::string line) {
    line += '\n';
    (void)!::send(fd_.fd(), line.data(), line.size(), MSG_NOSIGNAL);
  }
  std::string key(const std::string& k) const { return "pmi/" + job_.name + "/" + k; }
  template <class F>
  bool tried(F request) {  // the store may be gone
    try {
      request();
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }
  void put(const std::string& k, const std::string& value) {
    say(tried([&] { store_->set(key(k), value); }) ? "cmd=put_result rc=0" : "cmd=put_result rc=-1 msg=store");
  }
  void get(const std::string& k) {
    std::string value;
    const bool ours = k.rfind("PMI_", 0) == 0;
    if (k == "PMI_process_mapping") value = job_.mapping;
    else if (!ours) tried([&] { value = store_->get(key(k)); });
    say(value.empty() ? "cmd=get_result rc=-1 msg=key_not_found" : "cmd=get_result rc=0 value=" + value);
  }
  void barrier() {
    const std::string k = key("barrier" + std::to_string(++barriers_));
    say(tried([&] { store_->barrier(k, job_.size, job_.timeout); }) ? "cmd=barrier_out rc=0"
                                                                    : "cmd=barrier_out rc=-1 msg=store");
  }

  std::shared_ptr<Store> store_;
  PmiJob job_;
  Socket fd_;
  int barriers_ = 0;
};

}  // namespace

int serve_pmi(std::shared_ptr<Store> store, PmiJob job) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    fail(Trouble::Backend, "init_process_group: no socket pair: ", std::strerror(errno));
  store->set_timeout(job.timeout);
  auto* server = new Server(std::move(store), std::move(job), ends[0]);
  std::thread([server] {
    server->run();
    delete server;
  }).detach();
  return ends[1];
}

std::string process_mapping(const std::vector<std::string>& machines) {
  std::vector<std::string> seen;
  std::string text = "(vector";
  for (size_t i = 0; i < machines.size();) {
    size_t end = i + 1;
    while (end < machines.size() && machines[end] == machines[i]) ++end;
    const auto found = std::find(seen.begin(), seen.end(), machines[i]);
    const auto number = found - seen.begin();
    if (found == seen.end()) seen.push_back(machines[i]);
    text += ",(" + std::to_string(number) + ",1," + std::to_string(end - i) + ")";
    i = end;
  }
  return text + ")";
}

}  // namespace facula::distributed

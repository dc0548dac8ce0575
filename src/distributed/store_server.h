// Implements the server of a TCPStore: one thread that answers all clients.
#pragma once

#include <optional>
#include <thread>

#include "distributed/store.h"

namespace facula::distributed {

constexpr uint32_t kMagic = 0x53414346;  // "FCAS"
constexpr uint32_t kVersion = 1;
constexpr size_t kLongestToken = 256;
constexpr uint32_t kLongestMessage = 1u << 30;

class StoreServer {
 public:
  StoreServer(Socket listener, std::string token);
  ~StoreServer();
  int port() const { return port_; }

 private:
  struct Client;
  void run();
  void accept_client();
  void make_room();
  void watch_listener();
  void receive(Client& client);
  bool take_message(Client& client);
  void greet(Client& client, std::string_view hello);
  void serve(Client& client, std::string_view message);
  void answer(Client& client, const Reply& reply);
  void flush(Client& client);
  void drop(Client& client);
  void bequeath(Client& client);
  void append_line(const std::string& log, const std::string& line);
  void changed(const Request& request);
  void look_at_clock();
  int until_next() const;

  Socket listener_, epoll_, wake_;
  std::string token_;
  int port_;
  pid_t process_;
  StoreTable table_;
  std::unordered_map<int, std::unique_ptr<Client>> clients_;
  std::vector<int> gone_;
  std::optional<Deadline> accepts_again_;  // while there are no descriptors for new clients
  std::thread thread_;
};

}  // namespace facula::distributed

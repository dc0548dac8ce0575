// Implements TCPStore: a server in one process, which the others reach over TCP.
//
// Protocol, version 1. A client opens with kMagic, its version and a token. The server answers with kMagic, its
// version, and Done or the reason why it refuses. Then requests and replies follow each other, each after its length in
// 32 bits. A request says how long it may wait. If FACULA_STORE_TOKEN is set, clients without this token are refused.
#pragma once

#include <atomic>

#include "distributed/store.h"

namespace facula::distributed {

class StoreServer;

struct TcpStoreOptions {
  std::string host;
  int port = 0;  // 0: any, of a server
  int64_t world_size = -1;
  bool is_master = false;
  double timeout = 300;
  bool wait_for_workers = true;
  bool multi_tenant = false;  // a server of this process on that port is used instead of a new one
  int listen_fd = -1;         // a socket that listens already
  std::string token;
};

class TcpStore final : public Store {
 public:
  explicit TcpStore(const TcpStoreOptions& options);
  ~TcpStore() override;
  Reply call(const Request& request, double timeout) override;
  std::shared_ptr<Store> clone() override;
  void set_grace(double seconds) override { grace_ = seconds; }
  void set_until(double seconds) override;
  double until() const override;
  const std::string& host() const { return host_; }
  int port() const { return port_; }
  bool serves() const { return server_ != nullptr; }

 private:
  TcpStore(const TcpStore& other);
  void connect(const Deadline& deadline);
  Reply exchange(const Request& request, double timeout);
  void meet_workers(const TcpStoreOptions& options);

  std::string host_, token_;
  int port_;
  double grace_ = 10;
  std::atomic<double> until_ = kNever;   // on the clock of deadlines
  bool served_ = false;                  // whether a server has answered
  std::shared_ptr<StoreServer> server_;  // here, or null
  std::mutex mutex_;                     // one request at a time
  Socket socket_;
};

/// FACULA_STORE_TOKEN, or nothing.
std::string store_token();

}  // namespace facula::distributed

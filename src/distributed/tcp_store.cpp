#include "distributed/tcp_store.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>

#include "distributed/store_server.h"
#include "distributed/wire.h"

namespace facula::distributed {
namespace {

constexpr const char* kWorkers = "init/";  // how many processes have come; PyTorch's store counts it as a key as well

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::shared_ptr<StoreServer> serve(const TcpStoreOptions& options) {
  static std::mutex mutex;
  static auto& servers = *new std::map<int, std::weak_ptr<StoreServer>>;
  std::scoped_lock lock(mutex);
  if (options.multi_tenant && options.port != 0) {
    if (auto running = servers[options.port].lock()) return running;
  }
  const char* bind = std::getenv("FACULA_STORE_BIND");
  Socket listener = options.listen_fd >= 0
                        ? adopt_listener(options.listen_fd)
                        : listen_on(bind ? bind : options.host, options.port, Deadline::after(options.timeout));
  auto server = std::make_shared<StoreServer>(std::move(listener), options.token);
  servers[server->port()] = server;
  return server;
}

}  // namespace

std::string store_token() {
  const char* token = std::getenv("FACULA_STORE_TOKEN");
  return token ? token : "";
}

TcpStore::TcpStore(const TcpStoreOptions& options)
    : Store(options.timeout), host_(options.host), token_(options.token), port_(options.port) {
  FACULA_CHECK(token_.size() <= kLongestToken, ErrorKind::Value, "TCPStore: FACULA_STORE_TOKEN has at most ",
               kLongestToken, " bytes, got ", token_.size());
  if (options.is_master) {
    server_ = serve(options);
    port_ = server_->port();
  }
  FACULA_CHECK(port_ != 0, ErrorKind::Value, "TCPStore: port 0 is for the process that holds the store, got 0");
  connect(Deadline::after(options.timeout));
  if (options.wait_for_workers && options.world_size >= 0) meet_workers(options);
}

TcpStore::TcpStore(const TcpStore& other)
    : Store(other.timeout()),
      host_(other.host_),
      token_(other.token_),
      port_(other.port_),
      served_(other.served_),
      server_(other.server_) {}

TcpStore::~TcpStore() = default;

std::shared_ptr<Store> TcpStore::clone() { return std::shared_ptr<Store>(new TcpStore(*this)); }

void TcpStore::meet_workers(const TcpStoreOptions& options) {
  add(kWorkers, 1);
  if (!server_) return;
  const Reply reply = call({StoreOp::WaitCount, {kWorkers}, {}, options.world_size}, options.timeout);
  if (reply.answer == Answer::Done) return;
  fail(Trouble::Store, "TCPStore: ", reply.number, " of ", options.world_size, " processes came to port ", port_,
       " of ", host_, " within ", options.timeout, " s");
}

void TcpStore::connect(const Deadline& deadline) {
  Socket socket = connect_to(host_, port_, deadline, served_);
  Writer hello;
  hello.number(kMagic);
  hello.number(kVersion);
  hello.text(token_);
  socket.send_all(hello.take(), deadline);
  std::string head, ends;
  try {
    head = socket.receive(sizeof kMagic + sizeof kVersion, Deadline::after(std::min(deadline.seconds_left(), grace_)));
  } catch (const NoAnswer&) {
    if (served_) throw;  // it did before
  } catch (const DistError&) {
    if (served_) throw;
    ends = ", or one that is ending: the connection was closed before it said what it is";
  }
  const std::string place = "port " + std::to_string(port_) + " of " + host_;
  Reader reader(head);
  if (head.size() != sizeof kMagic + sizeof kVersion || reader.number<uint32_t>() != kMagic)
    fail(Trouble::Network, "TCPStore: what listens on ", place, " is no store of Facula", ends,
         ": check MASTER_ADDR and MASTER_PORT");
  const auto version = reader.number<uint32_t>();
  if (version != kVersion)
    fail(Trouble::Network, "TCPStore: the store on ", place, " speaks version ", version, ", this process version ",
         kVersion, ": all processes need one version of Facula");
  const auto length = Reader(socket.receive(sizeof(uint32_t), deadline)).number<uint32_t>();
  const Reply reply = decode_reply(socket.receive(std::min<size_t>(length, 4096), deadline));
  if (reply.answer != Answer::Done)
    fail(Trouble::Network, "TCPStore: the store on ", place, " refuses: ", reply.values.at(0));
  socket_ = std::move(socket);
  served_ = true;
}

void TcpStore::set_until(double seconds) { until_ = seconds < 0 ? kNever : now() + seconds; }
double TcpStore::until() const { return std::max(until_ - now(), 0.0); }

Reply TcpStore::exchange(const Request& request, double timeout) {
  constexpr double kNoAnswer = 0.5;
  const double left = until();
  timeout = std::min(timeout, left);
  const Deadline deadline = Deadline::after(std::min(timeout + grace_, left + kNoAnswer));
  if (!socket_) connect(Deadline::after(std::max(timeout, std::min(left, kNoAnswer))));
  Writer message;
  const std::string body = encode(request);
  FACULA_CHECK(body.size() < kLongestMessage, ErrorKind::Value, "store: a message has at most ", kLongestMessage,
               " bytes, got ", body.size());
  message.number(static_cast<uint32_t>(body.size() + sizeof(double)));
  message.number(timeout);
  socket_.send_all(message.take() + body, deadline);
  const auto length = Reader(socket_.receive(sizeof(uint32_t), deadline)).number<uint32_t>();
  return decode_reply(socket_.receive(length, deadline));
}

Reply TcpStore::call(const Request& request, double timeout) {
  std::scoped_lock lock(mutex_);
  try {
    return exchange(request, timeout);
  } catch (...) {
    socket_.close();  // an answer that comes later would be taken for the next one
    throw;
  }
}

}  // namespace facula::distributed

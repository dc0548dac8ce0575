#include "distributed/store_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "distributed/wire.h"

namespace facula::distributed {
namespace {

constexpr double kHandshake = 10;  // seconds for a client to say who it is
constexpr double kFull = 0.1;      // seconds without new clients when descriptors have run out
constexpr size_t kLongestHello = 3 * sizeof(uint32_t) + kLongestToken;

/// Takes the same time wherever the first difference is.
bool same_token(std::string_view a, std::string_view b) {
  unsigned difference = a.size() != b.size();
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ b[b.empty() ? 0 : i % b.size()]);
  return difference == 0;
}

}  // namespace

struct StoreServer::Client {
  Socket socket;
  std::string in, out;
  bool greeted = false, writes = false, ends = false, closing = false;
  Deadline handshake = Deadline::after(kHandshake);
  // a request that waits
  bool waits = false;
  Request request{StoreOp::Wait};
  Deadline deadline;
  std::string missing;
  // what is done when the client goes or falls silent
  std::string will_key, will;
  double may_be_silent = 0;
  Deadline speaks_until;
  bool silent = false;
};

StoreServer::StoreServer(Socket listener, std::string token)
    : listener_(std::move(listener)), token_(std::move(token)), port_(port_of(listener_)), process_(getpid()) {
  epoll_ = Socket(epoll_create1(EPOLL_CLOEXEC));
  wake_ = Socket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{EPOLLIN, {.fd = wake_.fd()}};
  epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, wake_.fd(), &event);
  watch_listener();
  thread_ = std::thread([this] { run(); });
}

StoreServer::~StoreServer() {
  if (getpid() != process_) {  // a forked child has no such thread
    thread_.detach();
    return;
  }
  const uint64_t one = 1;
  (void)!::write(wake_.fd(), &one, sizeof one);
  thread_.join();
}

void StoreServer::run() {
  epoll_event events[64];
  for (;;) {
    const int n = epoll_wait(epoll_.fd(), events, 64, until_next());
    for (int i = 0; i < n; ++i) {
      const int fd = events[i].data.fd;
      if (fd == wake_.fd()) return;
      if (fd == listener_.fd()) {
        accept_client();
        continue;
      }
      const auto found = clients_.find(fd);
      if (found == clients_.end()) continue;
      if (events[i].events & EPOLLOUT) flush(*found->second);
      if (events[i].events & ~EPOLLOUT) receive(*found->second);
    }
    look_at_clock();
    for (int fd : gone_) clients_.erase(fd);
    gone_.clear();
  }
}

/// One client for each time that epoll says so: accept4 wants a descriptor before it looks whether somebody is there.
void StoreServer::accept_client() {
  const int fd = ::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) return make_room();
  if (fd < 0) return;
  auto client = std::make_unique<Client>();
  client->socket = Socket(fd);
  epoll_event event{EPOLLIN | EPOLLRDHUP, {.fd = fd}};
  epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, fd, &event);
  clients_[fd] = std::move(client);
}

/// When descriptors have run out: of those who have not said who they are, the one who has been connected longest has
/// to go. Where there is none, new clients wait in the system's queue: to look again and again would take a core.
void StoreServer::make_room() {
  Client* oldest = nullptr;
  for (auto& [fd, client] : clients_) {
    const bool stranger = !client->greeted && !client->closing;
    if (stranger && (!oldest || client->handshake.seconds_left() < oldest->handshake.seconds_left()))
      oldest = client.get();
  }
  if (oldest) return drop(*oldest);
  accepts_again_ = Deadline::after(kFull);
  epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, listener_.fd(), nullptr);
}

void StoreServer::watch_listener() {
  epoll_event event{EPOLLIN, {.fd = listener_.fd()}};
  epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, listener_.fd(), &event);
  accepts_again_.reset();
}

void StoreServer::receive(Client& client) {
  char piece[65536];
  for (;;) {
    const ssize_t n = ::recv(client.socket.fd(), piece, sizeof piece, 0);
    if (n > 0) {
      client.in.append(piece, static_cast<size_t>(n));
      while (take_message(client)) {
      }
      if (client.closing) return;
      continue;
    }
    if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) drop(client);
    return;
  }
}

/// Takes one whole message from what has come; false when there is none.
bool StoreServer::take_message(Client& client) {
  if (client.closing || client.ends) return false;
  const std::string_view in = client.in;
  const size_t head = client.greeted ? sizeof(uint32_t) : 3 * sizeof(uint32_t);  // the length is what it ends with
  if (in.size() < head) return false;
  const uint32_t length = Reader(in.substr(head - sizeof(uint32_t))).number<uint32_t>();
  if (length > (client.greeted ? kLongestMessage + sizeof(double) : kLongestToken)) {
    drop(client);
    return false;
  }
  if (in.size() - head < length) return false;
  try {
    if (client.greeted) serve(client, in.substr(head, length));
    else greet(client, in.substr(0, head + length));
  } catch (const std::exception&) {  // not one of ours: nothing that it says is answered
    drop(client);
    return false;
  }
  client.in.erase(0, head + length);
  return true;
}

void StoreServer::greet(Client& client, std::string_view hello) {
  Reader reader(hello);
  if (reader.number<uint32_t>() != kMagic) return drop(client);
  const auto version = reader.number<uint32_t>();
  Reply reply;
  if (version != kVersion) reply = {Answer::Refused, {"it speaks another version"}};
  else if (!same_token(reader.text(), token_))
    reply = {Answer::Refused, {"the token is not that of this job: set FACULA_STORE_TOKEN alike in all processes"}};
  Writer head;
  head.number(kMagic);
  head.number(kVersion);
  client.out += head.take();
  client.greeted = true;
  client.ends = reply.answer != Answer::Done;
  answer(client, reply);
}

void StoreServer::serve(Client& client, std::string_view message) {
  if (client.waits) fail(Trouble::Network, "store: a client sent a request before it was answered");
  Reader reader(message);
  const auto timeout = reader.number<double>();
  const Request request = decode_request(message.substr(sizeof timeout));
  if (request.op == StoreOp::Will) {
    client.will_key = request.number < 0 ? "" : request.keys[0];
    client.will = request.values[0];
    client.may_be_silent = static_cast<double>(request.number);
  }
  if (client.may_be_silent > 0)
    client.speaks_until = Deadline::after(client.may_be_silent + std::clamp(timeout, 0.0, 1e9));
  if (std::exchange(client.silent, false)) append_line(client.will_key, "back " + client.will);
  if (request.op == StoreOp::Will) return answer(client, {});
  const Reply reply = table_.apply(request);
  if (reply.answer == Answer::Waiting) {
    client.waits = true;
    client.request = request;
    client.deadline = Deadline::after(timeout);
    client.missing = reply.values[0];
    return;
  }
  answer(client, reply);
  if (changes(request)) changed(request);
}

void StoreServer::answer(Client& client, const Reply& reply) {
  Writer w;
  w.text(encode(reply));
  client.out += w.take();
  flush(client);
}

void StoreServer::flush(Client& client) {
  while (!client.out.empty()) {
    const ssize_t n = ::send(client.socket.fd(), client.out.data(), client.out.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return drop(client);
    if (n < 0) break;
    client.out.erase(0, static_cast<size_t>(n));
  }
  if (client.out.empty() && client.ends) return drop(client);
  const bool writes = !client.out.empty();
  if (writes == client.writes) return;
  client.writes = writes;
  epoll_event event{EPOLLIN | EPOLLRDHUP | (writes ? EPOLLOUT : 0u), {.fd = client.socket.fd()}};
  epoll_ctl(epoll_.fd(), EPOLL_CTL_MOD, client.socket.fd(), &event);
}

/// The client is forgotten once the events of this round are done.
void StoreServer::drop(Client& client) {
  if (client.closing) return;
  client.closing = true;
  client.waits = false;
  epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, client.socket.fd(), nullptr);
  gone_.push_back(client.socket.fd());
  bequeath(client);
}

void StoreServer::bequeath(Client& client) {
  if (client.will_key.empty()) return;
  client.may_be_silent = 0;
  append_line(std::exchange(client.will_key, {}), "lost " + client.will);
}

/// A line for a log, and one more for the number of its lines.
void StoreServer::append_line(const std::string& log, const std::string& line) {
  for (const Request& request :
       {Request{StoreOp::Append, {log}, {line + "\n"}}, Request{StoreOp::Add, {log + kLines}, {}, 1}}) {
    table_.apply(request);
    changed(request);
  }
}

/// Answers those who waited for what a request has set.
void StoreServer::changed(const Request& request) {
  std::vector<Client*> ready;
  for (auto& [fd, client] : clients_) {
    if (client->waits && std::find(request.keys.begin(), request.keys.end(), client->missing) != request.keys.end())
      ready.push_back(client.get());
  }
  for (Client* client : ready) {
    if (!client->waits) continue;
    const Reply reply = table_.apply(client->request);
    if (reply.answer == Answer::Waiting) {
      client->missing = reply.values[0];
      continue;
    }
    client->waits = false;
    answer(*client, reply);
    if (changes(client->request)) changed(client->request);
  }
}

void StoreServer::look_at_clock() {
  if (accepts_again_ && accepts_again_->passed()) watch_listener();
  for (auto& [fd, client] : clients_) {
    if (client->closing) continue;
    if (!client->greeted && client->handshake.passed()) {
      drop(*client);
    } else if (client->waits && client->deadline.passed()) {
      Reply reply = table_.apply(client->request);
      client->waits = false;
      reply.answer = Answer::Timeout;
      answer(*client, reply);
    } else if (client->may_be_silent > 0 && !client->silent && client->speaks_until.passed()) {
      client->silent = true;
      append_line(client->will_key, "silent " + client->will);
    }
  }
}

/// Milliseconds to the next thing that the clock decides; -1 when there is none.
int StoreServer::until_next() const {
  int next = -1;
  const auto sooner = [&](const Deadline& d) {
    const int left = d.milliseconds_left(1 << 30);
    if (next < 0 || left < next) next = left;
  };
  if (accepts_again_) sooner(*accepts_again_);
  for (const auto& [fd, client] : clients_) {
    if (!client->greeted) sooner(client->handshake);
    if (client->waits) sooner(client->deadline);
    if (client->may_be_silent > 0 && !client->silent) sooner(client->speaks_until);
  }
  return next;
}

}  // namespace facula::distributed

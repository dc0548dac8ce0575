#include "distributed/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "core/host.h"
#include "distributed/port_holder.h"

namespace facula::distributed {
namespace {

// ---- descriptors that a forked child must not keep open

std::mutex descriptors_mutex;
std::vector<int>& descriptors() {
  static auto* list = new std::vector<int>;  // outlives every static object
  return *list;
}

void close_in_child() {
  for (int fd : descriptors()) ::close(fd);
  descriptors().clear();
  descriptors_mutex.unlock();
}

void remember(int fd) {
  static const int once =
      pthread_atfork([] { descriptors_mutex.lock(); }, [] { descriptors_mutex.unlock(); }, close_in_child);
  (void)once;
  std::scoped_lock lock(descriptors_mutex);
  descriptors().push_back(fd);
}

bool forget(int fd) {
  std::scoped_lock lock(descriptors_mutex);
  return std::erase(descriptors(), fd) > 0;
}

// ---- addresses

struct Addresses {
  addrinfo* first = nullptr;
  ~Addresses() {
    if (first) freeaddrinfo(first);
  }
};

/// Kubernetes gives a pod its name some time after it has started: there a name that is not known may come.
bool names_come_later() { return std::getenv("KUBERNETES_SERVICE_HOST") != nullptr; }

void resolve(const std::string& host, int port, Addresses& found, const Deadline& deadline) {
  FACULA_CHECK(port >= 0 && port <= 65535, ErrorKind::Value, "TCPStore: a port is 0 to 65535, got ", port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  for (;;) {
    const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found.first);
    if (error == 0) return;
    if (!names_come_later() || deadline.passed())
      fail(Trouble::Network, "TCPStore: the address '", host, "' is not known (", gai_strerror(error),
           "): check MASTER_ADDR");
    std::this_thread::sleep_for(std::chrono::milliseconds(deadline.milliseconds_left(200)));
    Interruptible::check();
  }
}

void set_blocking(int fd, bool blocking) {
  const int flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

/// Connected, or an empty socket with errno set.
Socket try_connect(const addrinfo& address, const Deadline& deadline) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return {};
  int error = ::connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  while (error == EINPROGRESS) {
    pollfd p{socket.fd(), POLLOUT, 0};
    if (poll(&p, 1, deadline.milliseconds_left(100)) > 0) {
      socklen_t size = sizeof error;
      getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    } else if (deadline.passed()) {
      error = ETIMEDOUT;
    }
    Interruptible::check();
  }
  if (error) {
    errno = error;
    return {};
  }
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

[[noreturn]] void cannot_listen(const std::string& host, int port, int error) {
  if (error == EADDRINUSE)
    fail(Trouble::Network, "TCPStore: address already in use: port ", port, " of ", host, " is held by ",
         holder_of_port(port), "; end it or choose another MASTER_PORT");
  if (error == EADDRNOTAVAIL)
    fail(Trouble::Network, "TCPStore: '", host, "' is no address of this machine, so nothing can listen there: rank 0 ",
         "must run where MASTER_ADDR points (FACULA_STORE_BIND names another address to listen on)");
  fail(Trouble::Network, "TCPStore: cannot listen on port ", port, " of ", host, ": ", std::strerror(error));
}

}  // namespace

thread_local bool Interruptible::here = false;

void Interruptible::check() {
  if (here && host.check_interrupt) host.check_interrupt();
}

Deadline Deadline::after(double seconds) {
  Deadline deadline;
  const double bounded = seconds > 0 ? std::min(seconds, 1e9) : 0;  // also what is no number
  deadline.at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(bounded));
  return deadline;
}

int Deadline::milliseconds_left(int most) const {
  const double left = seconds_left() * 1e3 + 0.999;
  return static_cast<int>(std::clamp(left, 0.0, static_cast<double>(most)));
}

Socket::Socket(int fd) : fd_(fd) {
  if (fd >= 0) remember(fd);
}

void Socket::close() {
  if (fd_ >= 0 && forget(fd_)) ::close(fd_);  // not in a forked child, where it is closed already
  fd_ = -1;
}

/// Whether the socket is ready before the deadline.
bool Socket::ready(short events, const Deadline& deadline) const {
  for (;;) {
    pollfd p{fd_, events, 0};
    const int n = poll(&p, 1, deadline.milliseconds_left(100));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) fail(Trouble::Network, "store: poll failed: ", std::strerror(errno));
    Interruptible::check();
    if (deadline.passed()) return false;
  }
}

void Socket::send_all(std::string_view bytes, const Deadline& deadline) const {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!ready(POLLOUT, deadline)) throw NoAnswer("store: the other side takes no bytes, its process may hang");
    } else if (errno != EINTR) {
      fail(Trouble::Network, "store: the connection is lost (", std::strerror(errno), ")");
    }
  }
}

std::string Socket::receive(size_t count, const Deadline& deadline) const {
  std::string bytes;
  char piece[16384];
  while (bytes.size() < count) {
    const ssize_t n = ::recv(fd_, piece, std::min(sizeof piece, count - bytes.size()), 0);
    if (n > 0) {
      bytes.append(piece, static_cast<size_t>(n));
    } else if (n == 0) {
      fail(Trouble::Network, "store: the connection was closed by the process that holds the store; it may have ended");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!ready(POLLIN, deadline)) throw NoAnswer("store: no answer in time, the process that holds it may hang");
    } else if (errno != EINTR) {
      fail(Trouble::Network, "store: the connection is lost (", std::strerror(errno), ")");
    }
  }
  return bytes;
}

Socket connect_to(const std::string& host, int port, const Deadline& deadline, bool listened) {
  constexpr double kRefuses = 0.2;  // seconds
  const Deadline refused = Deadline::after(kRefuses);
  Addresses found;
  resolve(host, port, found, deadline);
  int error = 0;
  for (auto pause = std::chrono::milliseconds(2);; pause = std::min(pause * 2, std::chrono::milliseconds(200))) {
    for (const addrinfo* a = found.first; a; a = a->ai_next) {
      if (Socket socket = try_connect(*a, deadline)) return socket;
      error = errno;
    }
    if (deadline.passed()) break;
    if (listened && error == ECONNREFUSED && refused.passed())
      fail(Trouble::Network, "store: nobody listens on port ", port, " of ", host,
           " any more: the process that holds the store has ended, or its connections are closed");
    std::this_thread::sleep_for(pause);
    Interruptible::check();
  }
  fail(Trouble::Network, "TCPStore: nobody listens on port ", port, " of ", host, " (", std::strerror(error),
       "): check MASTER_ADDR and MASTER_PORT, and that rank 0 has started");
}

Socket listen_on(const std::string& host, int port, const Deadline& deadline) {
  Addresses found;
  resolve(host, port, found, deadline);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* a = found.first; a; a = a->ai_next) {
    Socket socket(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) continue;
    const int on = 1;
    setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(socket.fd(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(socket.fd(), 4096) == 0) return socket;
    if (error != EADDRINUSE) error = errno;
  }
  cannot_listen(host, port, error);
}

Socket adopt_listener(int fd) {
  int listening = 0;
  socklen_t size = sizeof listening;
  FACULA_CHECK(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening, ErrorKind::Value,
               "TCPStore: master_listen_fd must be a socket that listens, got descriptor ", fd);
  set_blocking(fd, false);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  return Socket(fd);
}

int port_of(const Socket& listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address), &size);
  const in_port_t port = address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                                       : reinterpret_cast<sockaddr_in&>(address).sin_port;
  return ntohs(port);
}

}  // namespace facula::distributed

// Implements TCP connections with deadlines. Every wait ends: at its deadline, when the other side is gone, or, on a
// thread that runs Python code, at Ctrl-C.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "distributed/error.h"

namespace facula::distributed {

class Deadline {
 public:
  static Deadline after(double seconds);
  bool passed() const { return Clock::now() >= at_; }
  double seconds_left() const { return std::chrono::duration<double>(at_ - Clock::now()).count(); }
  /// Until the deadline, at least 0 and at most `most`.
  int milliseconds_left(int most) const;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point at_;
};

/// Lets waits of this thread look for Ctrl-C, which takes the interpreter lock.
class Interruptible {
 public:
  Interruptible() : before_(std::exchange(here, true)) {}
  ~Interruptible() { here = before_; }
  static void check();

 private:
  bool before_;
  static thread_local bool here;
};

/// Owns a descriptor, which a forked child closes: a connection ends with the process that made it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd);
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() { close(); }
  void close();
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  void send_all(std::string_view bytes, const Deadline& deadline) const;
  /// Waits for exactly `count` bytes.
  std::string receive(size_t count, const Deadline& deadline) const;

 private:
  bool ready(short events, const Deadline& deadline) const;
  int fd_ = -1;
};

/// Tries until the deadline; who listens may come later. Who has `listened` before and refuses now has gone.
Socket connect_to(const std::string& host, int port, const Deadline& deadline, bool listened = false);
/// Listens on the addresses of `host` only; port 0 is any. The deadline is for a name that is not known yet.
Socket listen_on(const std::string& host, int port, const Deadline& deadline = Deadline::after(0));
/// Takes a socket that listens already.
Socket adopt_listener(int fd);
int port_of(const Socket& listener);

}  // namespace facula::distributed

// What tests of several processes share: threads in the place of processes, and a store that they ask.
#pragma once

#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "check.h"
#include "distributed/tcp_store.h"

namespace facula::distributed {

constexpr const char* kHost = "127.0.0.1";

template <class F>
void in_threads(int count, F f) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&f, i] {
      try {
        f(i);
      } catch (const std::exception& error) {
        std::printf("thread %d: %s\n", i, error.what());
        ++failures;
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

/// What the error says, or nothing.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

inline bool has(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return true;
  std::printf("'%s' is not in: %s\n", std::string(part).c_str(), text.c_str());
  return false;
}

inline std::shared_ptr<TcpStore> served(std::string token = "") {
  return std::make_shared<TcpStore>(TcpStoreOptions{.host = kHost, .is_master = true, .token = std::move(token)});
}
inline std::shared_ptr<TcpStore> client_of(const TcpStore& master, std::string token = "") {
  return std::make_shared<TcpStore>(TcpStoreOptions{.host = kHost, .port = master.port(), .token = std::move(token)});
}

inline Reply leave_will(Store& store, const std::string& who, int64_t silence) {
  return store.call({StoreOp::Will, {"log"}, {who}, silence}, 0);
}

/// Bytes as a broken or hostile sender would change them.
inline std::string changed_somewhere(std::string bytes, std::mt19937& random) {
  const auto below = [&](size_t n) { return random() % n; };
  for (size_t n = 1 + below(3); n > 0; --n) {
    const size_t at = below(bytes.size());
    switch (below(4)) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes[at] = static_cast<char>(0xff); break;
      case 2: bytes.resize(at + 1); break;
      default: bytes.insert(at, std::string(1 + below(8), static_cast<char>(below(3)))); break;
    }
  }
  return bytes;
}

}  // namespace facula::distributed

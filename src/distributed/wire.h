// Encodes what travels between processes as bytes: numbers in little-endian order, strings and lists after their
// length. A Reader trusts no length: what it reads may come from anybody who found the port.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/error.h"

namespace facula::distributed {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

class Writer {
 public:
  template <class T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view s) {
    number(static_cast<uint32_t>(s.size()));
    bytes_.append(s);
  }
  void texts(const std::vector<std::string>& list) {
    number(static_cast<uint32_t>(list.size()));
    for (const std::string& s : list) text(s);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  template <class T>
  T number() {
    T value;
    const std::string_view raw = consume(sizeof value);
    std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(consume(number<uint32_t>())); }
  std::vector<std::string> texts() {
    const auto count = number<uint32_t>();
    if (count > left_.size() / sizeof(uint32_t)) malformed();  // each has a length at least
    std::vector<std::string> list(count);
    for (std::string& s : list) s = text();
    return list;
  }
  void end() const {
    if (!left_.empty()) malformed();
  }

 private:
  [[noreturn]] static void malformed() { fail(Trouble::Network, "store: received bytes that are not a message"); }
  std::string_view consume(size_t n) {
    if (n > left_.size()) malformed();
    const std::string_view taken = left_.substr(0, n);
    left_.remove_prefix(n);
    return taken;
  }
  std::string_view left_;
};

}  // namespace facula::distributed

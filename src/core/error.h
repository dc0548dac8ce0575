// Errors of the core: one exception type; `kind` says which Python class it becomes.
// A message begins with the public op name, says what was expected and ends with what was received.
#pragma once

#include <cstdint>
#include <exception>
#include <sstream>
#include <string>
#include <utility>

namespace facula {

enum class ErrorKind : uint8_t {
  Runtime,
  Value,
  Type,
  Index,
  NotImplemented,
  OutOfMemory,
  Attribute,
  Assertion,
  LinAlg,
  Buffer,
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
  std::string message_;
};

template <class... Args>
[[noreturn, gnu::cold, gnu::noinline]] void throw_error(ErrorKind kind, const Args&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Error(kind, text.str());
}

}  // namespace facula

#define FACULA_CHECK(condition, kind, ...)                                           \
  do {                                                                               \
    if (__builtin_expect(!(condition), 0)) ::facula::throw_error(kind, __VA_ARGS__); \
  } while (0)

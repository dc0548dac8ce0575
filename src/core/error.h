// Defines the errors of the core: one exception type, whose `kind` says which Python class it becomes. A message begins
// with the public op name, says what was expected and ends with what was received.
#pragma once

#include <cstdint>
#include <exception>
#include <initializer_list>
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

/// One part of a message: a value, and how it is printed.
struct MessagePart {
  const void* value;
  void (*print)(std::ostream& out, const void* value);
  template <class T>
  static void print_as(std::ostream& out, const void* value) {
    out << *static_cast<const T*>(value);
  }
  static void print_text(std::ostream& out, const void* value) { out << static_cast<const char*>(value); }
  template <class T>
  MessagePart(const T& part) : value(&part), print(&print_as<T>) {}
  template <size_t N>
  MessagePart(const char (&text)[N]) : value(text), print(&print_text) {}
};

[[gnu::cold]] std::string message_of(std::initializer_list<MessagePart> parts);
[[noreturn, gnu::cold]] void throw_message(ErrorKind kind, std::initializer_list<MessagePart> parts);

// The parts lose their types here: a function for each combination of them would be a tenth of what is compiled.
template <class... Args>
[[noreturn, gnu::cold, gnu::always_inline]] inline void throw_error(ErrorKind kind, const Args&... parts) {
  throw_message(kind, {MessagePart(parts)...});
}

}  // namespace facula

#define FACULA_CHECK(condition, kind, ...)                                           \
  do {                                                                               \
    if (__builtin_expect(!(condition), 0)) ::facula::throw_error(kind, __VA_ARGS__); \
  } while (0)

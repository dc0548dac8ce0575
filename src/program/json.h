// Reads JSON (RFC 8259) that may come from anybody: strictly, into a tree that lies side by side in a few blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace facula {

/// A value of a JsonDocument; sixteen bytes, valid as long as the document.
class Json {
 public:
  enum class Kind : uint8_t { Null, Bool, Int, Float, String, Array, Object };
  struct Member;

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::Null; }
  /// What it is, for messages: "a number", "an object".
  const char* described() const;

  // What is inside; a ValueError says what was expected when the kind is another one. Integers have 64 bits, larger
  // ones are numbers like any other.
  bool to_bool() const;
  int64_t to_int() const;
  double to_float() const;
  std::string_view to_string() const;
  std::span<const Json> items() const;
  /// Of an object, sorted by name; no name is there twice.
  std::span<const Member> members() const;
  /// The member of an object; null where there is none.
  const Json* find(std::string_view name) const;
  /// A ValueError where there is none.
  const Json& at(std::string_view name) const;
  /// The single member of an object, by which PyTorch writes one of several things.
  const Member& only() const;

 private:
  friend class JsonDocument;
  friend class JsonParser;
  [[noreturn]] void mismatch(const char* wanted) const;
  const Json& expect(Kind kind, const char* wanted) const;

  Kind kind_ = Kind::Null;
  uint32_t count_ = 0;
  union {
    bool truth;
    int64_t integer;
    double number;
    const char* text;
    const Json* items;
    const Member* members;
  } as_{};
};
static_assert(sizeof(Json) == 16);

struct Json::Member {
  Json name;
  Json value;
  std::string_view key() const { return name.to_string(); }
};

class JsonDocument {
 public:
  static constexpr size_t kMostBytes = size_t{512} << 20;
  static constexpr int kDeepest = 200;

  /// Throws a ValueError that says at which byte what was expected.
  explicit JsonDocument(std::string text);
  JsonDocument(const JsonDocument&) = delete;
  const Json& root() const { return root_; }

 private:
  friend class JsonParser;
  Json* room(size_t count);

  std::string text_;
  std::deque<std::string> unescaped_;
  std::vector<std::unique_ptr<Json[]>> blocks_;
  size_t left_ = 0;
  Json* next_ = nullptr;
  Json root_;
};

/// Whether bytes are UTF-8.
bool is_utf8(std::string_view text);
/// Its beginning, with what cannot be printed as '?'.
std::string text_of(std::string_view text, size_t most = 60);

}  // namespace facula

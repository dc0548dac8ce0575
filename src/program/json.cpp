#include "program/json.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"

namespace facula {
namespace {

constexpr size_t kBlock = 4096;  // values that are allocated together

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The number of bytes of the character that begins at `at`; 0: none does.
size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<uint8_t>(text[at + i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4 || !follows(1)) return 0;
  if (first < 0xe0) return 2;
  if (first < 0xf0) {
    const bool shortest = first != 0xe0 || second >= 0xa0, surrogate = first == 0xed && second >= 0xa0;
    return shortest && !surrogate && follows(2) ? 3 : 0;
  }
  const bool in_range = (first != 0xf0 || second >= 0x90) && (first != 0xf4 || second < 0x90);
  return in_range && follows(2) && follows(3) ? 4 : 0;
}

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&](uint32_t bits) { out += static_cast<char>(bits); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) put(0xe0 | code >> 12);
    else put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (size_t at = 0, step = 0; at < text.size(); at += step) {
    step = utf8_length(text, at);
    if (step == 0) return false;
  }
  return true;
}

std::string text_of(std::string_view text, size_t most) {
  std::string out(text.substr(0, most));
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text.size() > most ? out + "..." : out;
}

class JsonParser {
 public:
  explicit JsonParser(JsonDocument& document) : document_(document), text_(document.text_) {}

  Json run() {
    Json root = value(0);
    skip_spaces();
    if (at_ < text_.size()) fail("the end");
    return root;
  }

 private:
  [[noreturn, gnu::cold]] void fail(const char* wanted) const {
    throw_error(ErrorKind::Value, "JSON: expected ", wanted, " at byte ", at_, ", got ",
                at_ < text_.size() ? "'" + text_of(text_.substr(at_), 20) + "'" : "the end");
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }
  char next() {
    skip_spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool consume(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }

  Json value(int depth) {
    switch (next()) {
      case '{': return object(depth + 1);
      case '[': return array(depth + 1);
      case '"': return string();
      case 't': return truth("true", true);
      case 'f': return truth("false", false);
      case 'n': word("null"); return {};
      default: return number();
    }
  }
  void word(std::string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) fail("a value");
    at_ += wanted.size();
  }
  Json truth(std::string_view wanted, bool v) {
    word(wanted);
    Json made;
    made.kind_ = Json::Kind::Bool;
    made.as_.truth = v;
    return made;
  }

  void open(int depth) {
    FACULA_CHECK(depth <= JsonDocument::kDeepest, ErrorKind::Value, "JSON: nested at most ", JsonDocument::kDeepest,
                 " deep, got more at byte ", at_);
    ++at_;
  }
  // Values of open arrays and objects wait in a list; a closed one's go side by side into the document.
  Json closed(Json::Kind kind, size_t begin) {
    const size_t count = open_.size() - begin;
    FACULA_CHECK(count <= UINT32_MAX, ErrorKind::Value, "JSON: a list of at most ", UINT32_MAX, " values, got ", count);
    Json made;
    made.kind_ = kind;
    made.count_ = static_cast<uint32_t>(count);
    if (count) {
      Json* room = document_.room(count);
      std::copy(open_.begin() + static_cast<ptrdiff_t>(begin), open_.end(), room);
      made.as_.items = room;
    }
    open_.resize(begin);
    return made;
  }
  Json array(int depth) {
    open(depth);
    const size_t begin = open_.size();
    if (!consume(']')) {
      do open_.push_back(value(depth));
      while (consume(','));
      if (!consume(']')) fail("',' or ']'");
    }
    return closed(Json::Kind::Array, begin);
  }
  Json object(int depth) {
    open(depth);
    const size_t begin = open_.size();
    if (!consume('}')) {
      do {
        if (next() != '"') fail("a name in quotes");
        open_.push_back(string());
        if (!consume(':')) fail("':'");
        open_.push_back(value(depth));
      } while (consume(','));
      if (!consume('}')) fail("',' or '}'");
    }
    Json made = closed(Json::Kind::Object, begin);
    made.count_ /= 2;
    sort(made);
    return made;
  }
  void sort(Json& object) const {
    if (!object.count_) return;
    auto* members = reinterpret_cast<Json::Member*>(const_cast<Json*>(object.as_.items));
    const auto by_name = [](const Json::Member& a, const Json::Member& b) { return a.key() < b.key(); };
    std::sort(members, members + object.count_, by_name);
    for (uint32_t i = 1; i < object.count_; ++i) {
      FACULA_CHECK(members[i - 1].key() != members[i].key(), ErrorKind::Value,
                   "JSON: a name appears twice before byte ", at_, ", got '", text_of(members[i].key()), "'");
    }
    object.as_.members = members;
  }

  Json number() {
    const size_t begin = at_;
    const auto digits = [&] {
      const size_t first = at_;
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
      if (at_ == first) fail(first == begin ? "a value" : "a digit");
    };
    const auto sees = [&](char a, char b) { return at_ < text_.size() && (text_[at_] == a || text_[at_] == b); };
    if (sees('-', '-')) ++at_;
    const size_t first = at_;
    digits();
    if (text_[first] == '0' && at_ - first > 1) at_ = first + 1, fail("the end of a number that begins with 0");
    bool whole = true;
    if (sees('.', '.')) whole = false, ++at_, digits();
    if (sees('e', 'E')) {
      whole = false, ++at_;
      if (sees('+', '-')) ++at_;
      digits();
    }
    return converted(text_.substr(begin, at_ - begin), whole);
  }
  Json converted(std::string_view text, bool whole) {
    Json made;
    const char *first = text.data(), *last = first + text.size();
    if (whole && std::from_chars(first, last, made.as_.integer).ec == std::errc()) {
      made.kind_ = Json::Kind::Int;
      return made;
    }
    made.kind_ = Json::Kind::Float;
    if (std::from_chars(first, last, made.as_.number).ec != std::errc()) fail("a number that a double can be before");
    return made;
  }

  Json string() {
    const size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\') step();
    if (at_ < text_.size() && text_[at_] == '"') return text_value(text_.substr(begin, at_++ - begin));
    std::string& made = document_.unescaped_.emplace_back(text_.substr(begin, at_ - begin));
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') {
        escape(made);
      } else {
        const size_t from = at_;
        step();
        made.append(text_.substr(from, at_ - from));
      }
    }
    if (at_ >= text_.size()) fail("'\"'");
    ++at_;
    return text_value(made);
  }
  Json text_value(std::string_view text) const {
    Json made;
    made.kind_ = Json::Kind::String;
    made.count_ = static_cast<uint32_t>(text.size());
    made.as_.text = text.data();
    return made;
  }
  /// Over one character as it stands.
  void step() {
    if (static_cast<uint8_t>(text_[at_]) < 0x20) fail("a character, and no control");
    const size_t length = utf8_length(text_, at_);
    if (length == 0) fail("UTF-8");
    at_ += length;
  }
  void escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const char c = ++at_ < text_.size() ? text_[at_] : '\0';
    if (c == 'u') {
      ++at_;
      return append_utf8(out, code_point());
    }
    const size_t i = c ? kNames.find(c) : std::string_view::npos;
    if (i == std::string_view::npos) fail("an escape of JSON");
    out += kMeant[i];
    ++at_;
  }
  uint32_t code_point() {
    const uint32_t first = hexadecimal();
    if (first < 0xd800 || first > 0xdfff) return first;
    const bool pair = first < 0xdc00 && text_.substr(at_).starts_with("\\u");
    if (pair) at_ += 2;
    const uint32_t second = pair ? hexadecimal() : 0;
    if (second < 0xdc00 || second > 0xdfff) fail("two halves of a character before");
    return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
  }
  uint32_t hexadecimal() {
    uint32_t code = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || digits.size() != 4 || end != digits.data() + 4) fail("four hexadecimal digits");
    at_ += 4;
    return code;
  }

  JsonDocument& document_;
  const std::string_view text_;
  size_t at_ = 0;
  std::vector<Json> open_;
};

JsonDocument::JsonDocument(std::string text) : text_(std::move(text)) {
  FACULA_CHECK(text_.size() <= kMostBytes, ErrorKind::Value, "JSON: at most ", kMostBytes, " bytes, got ",
               text_.size());
  root_ = JsonParser(*this).run();
}

Json* JsonDocument::room(size_t count) {
  if (count > left_) {
    const size_t size = std::max(count, kBlock);
    blocks_.push_back(std::make_unique<Json[]>(size));
    if (size - count < left_) return blocks_.back().get();  // the block before has more left
    next_ = blocks_.back().get();
    left_ = size;
  }
  Json* const found = next_;
  next_ += count;
  left_ -= count;
  return found;
}

const char* Json::described() const {
  constexpr const char* kNames[] = {"null", "a bool", "an integer", "a number", "a text", "a list", "an object"};
  return kNames[static_cast<size_t>(kind_)];
}
void Json::mismatch(const char* wanted) const {
  throw_error(ErrorKind::Value, "JSON: expected ", wanted, ", got ", described());
}
const Json& Json::expect(Kind kind, const char* wanted) const {
  if (kind_ != kind) mismatch(wanted);
  return *this;
}

bool Json::to_bool() const { return expect(Kind::Bool, "a bool").as_.truth; }
int64_t Json::to_int() const { return expect(Kind::Int, "an integer of 64 bits").as_.integer; }
double Json::to_float() const {
  if (kind_ == Kind::Int) return static_cast<double>(as_.integer);
  return expect(Kind::Float, "a number").as_.number;
}
std::string_view Json::to_string() const {
  return {expect(Kind::String, "a text").as_.text, static_cast<size_t>(count_)};
}
std::span<const Json> Json::items() const { return {expect(Kind::Array, "a list").as_.items, count_}; }
std::span<const Json::Member> Json::members() const { return {expect(Kind::Object, "an object").as_.members, count_}; }

const Json* Json::find(std::string_view name) const {
  const auto all = members();
  const auto found = std::lower_bound(all.begin(), all.end(), name, [](const Member& member, std::string_view wanted) {
    return member.key() < wanted;
  });
  return found != all.end() && found->key() == name ? &found->value : nullptr;
}
const Json& Json::at(std::string_view name) const {
  const Json* found = find(name);
  FACULA_CHECK(found, ErrorKind::Value, "JSON: '", name, "' is missing");
  return *found;
}
const Json::Member& Json::only() const {
  const auto all = members();
  FACULA_CHECK(all.size() == 1, ErrorKind::Value, "JSON: expected an object with one member, got ", all.size());
  return all[0];
}

}  // namespace facula

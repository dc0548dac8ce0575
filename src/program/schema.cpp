// Schemas of operators in PyTorch's notation, as programs write them.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "program/custom.h"

namespace facula {
namespace {

using Base = BoxedType::Base;

constexpr size_t kLongest = 1 << 14;
constexpr size_t kMostArguments = 64, kMostResults = 16;

constexpr std::pair<std::string_view, Base> kWords[] = {
    {"Tensor", Base::Tensor}, {"Scalar", Base::Scalar},       {"int", Base::Int},
    {"SymInt", Base::Int},    {"float", Base::Float},         {"bool", Base::Bool},
    {"str", Base::String},    {"ScalarType", Base::DType},    {"Device", Base::Device},
    {"Layout", Base::Layout}, {"Generator", Base::Generator}, {"MemoryFormat", Base::MemoryFormat},
    {"number", Base::Scalar}, {"DeviceIndex", Base::Int},
};
class SchemaReader {
 public:
  explicit SchemaReader(std::string_view text) : text_(text) {}

  BoxedOp read() {
    FACULA_CHECK(text_.size() <= kLongest, ErrorKind::Runtime, "schema: at most ", kLongest,
                 " characters are expected, got ", text_.size());
    BoxedOp op;
    op.name = identifier("a name");
    while (consume("::")) op.name += "::" + identifier("a name");
    if (consume(".")) op.overload = identifier("an overload");
    need("(");
    bool keywords = false;
    if (!consume(")")) {
      do {
        if (consume("*")) keywords = true;
        else op.arguments.push_back(argument(keywords));
        expect(op.arguments.size() <= kMostArguments, "at most " + std::to_string(kMostArguments) + " arguments");
      } while (consume(","));
      need(")");
    }
    need("->");
    results(op);
    skip();
    expect(at_ == text_.size(), "the end");
    return op;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const std::string_view rest = text_.substr(at_, 20);
    throw_error(ErrorKind::Runtime, "schema '", text_.substr(0, 200), "': ", what, " is expected at position ", at_,
                ", got '", rest, "'");
  }
  void expect(bool holds, const std::string& what) const {
    if (!holds) fail(what);
  }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip() {
    while (at_ < text_.size() && (peek() == ' ' || peek() == '\n' || peek() == '\t' || peek() == '\r')) ++at_;
  }
  bool consume(std::string_view word) {
    skip();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void need(std::string_view word) {
    if (!consume(word)) fail("'" + std::string(word) + "'");
  }
  std::string identifier(const std::string& what) {
    skip();
    const size_t begin = at_;
    if (is_letter(peek())) {
      while (is_letter(peek()) || is_digit(peek())) ++at_;
    }
    if (at_ == begin) fail(what);
    return std::string(text_.substr(begin, at_ - begin));
  }

  /// "Tensor(a!)[2]?", where `written` becomes whether it is written to.
  BoxedType type(bool& written) {
    skip();
    const size_t begin = at_;
    const std::string word = identifier("a type");
    BoxedType found;
    bool known = false;
    for (const auto& [name, base] : kWords) {
      if (name != word) continue;
      found.base = base;
      known = true;
    }
    if (!known) {
      at_ = begin;
      fail("a type that operators can take here");
    }
    alias(written);
    const bool item = consume("?");
    if (consume("[")) {
      found.list = true;
      int64_t size = 0;
      if (!consume("]")) {
        size = integer();
        expect(size > 0 && size <= std::numeric_limits<int8_t>::max(), "a short length");
        need("]");
      }
      found.list_size = static_cast<int8_t>(size);
      alias(written);
      expect(!item, "a list whose items are all there");
      found.optional = consume("?");
      expect(!consume("["), "no list of lists");
    } else {
      found.optional = item;
    }
    return found;
  }
  void alias(bool& written) {
    if (!consume("(")) return;
    while (peek() && peek() != ')') {
      written = written || peek() == '!';
      ++at_;
    }
    need(")");
  }

  BoxedArgument argument(bool keyword_only) {
    BoxedArgument made;
    made.type = type(made.written);
    made.name = identifier("the argument's name");
    made.keyword_only = keyword_only;
    made.required = !consume("=");
    if (!made.required) made.default_value = default_of(made.type);
    return made;
  }

  void results(BoxedOp& op) {
    if (!consume("(")) {
      result(op, false);
      return;
    }
    if (consume(")")) return;
    do result(op, true);
    while (consume(","));
    need(")");
  }
  void result(BoxedOp& op, bool may_have_name) {
    bool written = false;
    op.results.push_back(type(written));
    expect(op.results.size() <= kMostResults, "at most " + std::to_string(kMostResults) + " results");
    skip();
    if (may_have_name && is_letter(peek())) op.result_names.push_back(identifier("a result's name"));
  }

  int64_t integer() {
    skip();
    int64_t value = 0;
    const char* end = text_.data() + text_.size();
    const auto [rest, error] = std::from_chars(text_.data() + at_, end, value);
    expect(error == std::errc(), "an integer");
    at_ = static_cast<size_t>(rest - text_.data());
    return value;
  }
  /// An integer, unless it has a fraction or an exponent.
  Value number() {
    skip();
    if (consume("inf")) return INFINITY;
    if (consume("-inf")) return -INFINITY;
    if (consume("nan")) return NAN;
    const char *begin = text_.data() + at_, *end = text_.data() + text_.size();
    double value = 0;
    const auto [rest, error] = std::from_chars(begin, end, value);
    expect(error == std::errc(), "a number");
    const std::string_view digits(begin, static_cast<size_t>(rest - begin));
    if (digits.find_first_of(".eE") == std::string_view::npos) return integer();
    at_ += digits.size();
    return value;
  }
  int64_t integer_or_constant() {  // as losses call their reductions
    if (consume("Mean")) return 1;
    if (consume("Sum")) return 2;
    return integer();
  }
  bool truth() {
    if (consume("True")) return true;
    need("False");
    return false;
  }
  std::string quoted() {
    skip();
    const char quote = peek();
    expect(quote == '"' || quote == '\'', "a text in quotes");
    const size_t begin = ++at_;
    while (peek() && peek() != quote) ++at_;
    expect(peek() == quote, "the end of the text");
    return std::string(text_.substr(begin, at_++ - begin));
  }

  Value list_of(const BoxedType& type);
  Value default_of(const BoxedType& type);

  std::string_view text_;
  size_t at_ = 0;
};

Value SchemaReader::list_of(const BoxedType& type) {
  std::vector<Value> items;
  if (consume("[")) {
    if (!consume("]")) {
      do items.push_back(type.base == Base::Bool ? Value(truth()) : number());
      while (consume(","));
      need("]");
    }
  } else {  // one for all
    items.assign(static_cast<size_t>(std::max<int>(type.list_size, 1)),
                 type.base == Base::Bool ? Value(truth()) : number());
  }
  if (type.base == Base::Float) {
    std::vector<double> values;
    for (const Value& item : items) values.push_back(item.to_float());
    return values;
  }
  if (type.base == Base::Bool) {
    std::vector<bool> values;
    for (const Value& item : items) values.push_back(item.to_bool());
    return values;
  }
  std::vector<int64_t> values;
  for (const Value& item : items) {
    expect(item.kind() == Value::Kind::Int, "a list of integers");
    values.push_back(item.to_int());
  }
  return values;
}

Value SchemaReader::default_of(const BoxedType& type) {
  if (type.optional && consume("None")) return {};
  if (type.list && type.is_tensor()) {
    need("[");
    need("]");
    return std::vector<Tensor>{};
  }
  if (type.list) return list_of(type);
  switch (type.base) {
    case Base::Bool: return truth();
    case Base::String: return quoted();
    case Base::Int: return integer_or_constant();
    case Base::Float: return number().to_float();
    case Base::Scalar: return number();
    case Base::MemoryFormat:
      if (consume("contiguous_format")) return MemoryFormat::Contiguous;
      if (consume("preserve_format")) return MemoryFormat::Preserve;
      break;
    default: break;
  }
  fail("a default of this type");
}

}  // namespace

BoxedOp parse_schema(std::string_view text) { return SchemaReader(text).read(); }

}  // namespace facula

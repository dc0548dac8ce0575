// The text form of a program, written and read again:
//
//     symbol s0 in [2, 1024] sample 3
//     guard s0 <= 512 @ model.py:12
//     input parameter "lin.weight" %p_lin_weight: float32[16, 8] requires_grad
//     input user "x" %x: float32[s0, 8]
//     %linear: float32[s0, 16] = linear.default(%x, %p_lin_weight, none) in "lin" @ model.py:20
//     %abs: float32[s0, 16] = abs.default(%linear) no_grad
//     %values: float32[s0, 3], %indices: int64[s0, 3] = topk.default(%linear, 3, -1, true, true)
//     [%a: float32[2], %b: float32[2]] = split.Tensor(%y, 2, 0)
//     return %linear, [%a, none], 3
//
// Constants: 3, 0.5, true, none, "text", complex(1.0, 2.0), dtype:float32, device:cpu, layout:strided,
// format:channels_last, {2*s0}, lists in brackets, graph "text of a program". Names and texts are quoted with escapes.
#include <cctype>
#include <charconv>
#include <cmath>

#include "program/program.h"
#include "program/run.h"

namespace facula {
namespace {

constexpr const char* kFormats[] = {"contiguous", "channels_last", "channels_last_3d", "preserve"};

// Writing

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (c == '\n') out += "\\n";
    else out += c;
  }
  return out + "\"";
}

std::string number_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char room[40];
  const auto end = std::to_chars(room, room + sizeof room, v).ptr;
  std::string text(room, end);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

template <class List, class F>
std::string listed(const List& list, F&& text_of) {
  std::string text = "[";
  for (const auto& item : list) text += (text.size() > 1 ? ", " : "") + text_of(item);
  return text + "]";
}

std::string expr_text(const Expr& e) { return e.is_integer() ? e.text() : "{" + e.text() + "}"; }

std::string text_of(const Value& v) {
  using Kind = Value::Kind;
  switch (v.kind()) {
    case Kind::None: return "none";
    case Kind::Int: return std::to_string(v.to_int());
    case Kind::Float: return number_text(v.to_float());
    case Kind::Bool: return v.to_bool() ? "true" : "false";
    case Kind::DType: return "dtype:" + std::string(name(v.to_dtype()));
    case Kind::Device: return "device:" + to_string(v.to_device());
    case Kind::Layout: return "layout:strided";
    case Kind::MemoryFormat: return std::string("format:") + kFormats[static_cast<size_t>(v.to_memory_format())];
    case Kind::String: return quoted(v.to_string());
    case Kind::Ints: return listed(v.ints(), [](int64_t i) { return std::to_string(i); });
    case Kind::Bools: return listed(v.bools(), [](bool b) { return std::string(b ? "true" : "false"); });
    case Kind::Symbolic: return "{" + v.expr().text() + "}";
    case Kind::Symbolics: return listed(v.exprs(), expr_text);
    case Kind::Floats: {
      std::vector<double> room;
      return listed(v.floats(room), number_text);
    }
    case Kind::Graph: return "graph " + quoted(v.graph()->program().text());
    case Kind::Complex: {
      const auto c = v.to_scalar().to_complex();
      return "complex(" + number_text(c.real()) + ", " + number_text(c.imag()) + ")";
    }
    case Kind::Tensors:
      if (v.tensors().empty()) return "[]";
      [[fallthrough]];
    default: throw_error(ErrorKind::Value, "program: a ", name(v.kind()), " has no text form");
  }
}

class Writer {
 public:
  explicit Writer(const Program& program) : program_(program) {}

  std::string run() {
    for (const Symbol& s : program_.symbols) {
      out_ += "symbol " + s.name + " in [" + std::to_string(s.least) + ", " +
              (s.most ? std::to_string(*s.most) : "inf") + "] sample " + std::to_string(s.sample) + "\n";
    }
    for (const Guard& g : program_.guards) out_ += "guard " + g.text() + at(g.source) + "\n";
    for (const ProgramInput& i : program_.inputs) {
      out_ += std::string("input ") + name(i.kind) + " " + quoted(i.path) + " " + defined(i.value);
      if (!i.persistent) out_ += " not persistent";
      out_ += i.constant.is_none() ? "\n" : " is " + text_of(i.constant) + "\n";
    }
    for (const ProgramNode& node : program_.nodes) write(node);
    for (size_t i = 0; i < program_.roles.size(); ++i) {
      const OutputRole& role = program_.roles[i];
      out_ += std::string("role ") + name(role.kind) + (role.target.empty() ? "" : " " + quoted(role.target)) + "\n";
    }
    out_ += "return" + std::string(program_.outputs.empty() ? "" : " ") + arguments(program_.outputs) + "\n";
    return std::move(out_);
  }

 private:
  static std::string at(const std::string& source) { return source.empty() ? "" : " @ " + source; }
  std::string name_of(int value) const { return "%" + program_.values[static_cast<size_t>(value)].name; }
  std::string defined(int value) const {
    const ProgramValue& v = program_.values[static_cast<size_t>(value)];
    return name_of(value) + ": " + (v.kind == Value::Kind::Tensor ? v.meta.text() : name(v.kind));
  }
  std::string text(const Arg& arg) const {
    if (arg.kind == Arg::Kind::Ref) return name_of(arg.ref);
    if (arg.kind == Arg::Kind::Constant) return text_of(arg.constant);
    return listed(arg.items, [&](const Arg& item) { return text(item); });
  }
  std::string arguments(const std::vector<Arg>& args) const {
    std::string out;
    for (const Arg& arg : args) out += (out.empty() ? "" : ", ") + text(arg);
    return out;
  }
  void write(const ProgramNode& node) {
    std::string results;
    for (size_t i = 0; i < node.results.size(); ++i) {
      const auto one = [&](int value) { return defined(value); };
      results += (i ? ", " : "") + (node.op->results[i].list ? listed(node.results[i], one) : one(node.results[i][0]));
    }
    out_ += results + " = " + node.op->key() + "(" + arguments(node.arguments) + ")";
    if (!node.module.empty()) out_ += " in " + quoted(node.module);
    if (node.no_grad) out_ += " no_grad";
    out_ += at(node.source) + "\n";
  }

  const Program& program_;
  std::string out_;
};

// Reading

constexpr int kDeepest = 16;  // graphs in graphs

class LineReader {
 public:
  LineReader(Program& program, std::string_view text, int line) : program_(program), text_(text), line_(line) {}

  bool read() {
    if (consume("symbol ")) return symbol();
    if (consume("guard ")) return guard();
    if (consume("input ")) return input();
    if (consume("role ")) return role();
    if (consume("return")) {
      skip();
      while (at_ < text_.size()) {
        program_.outputs.push_back(argument());
        if (!consume(",")) break;
      }
      end();
      return true;
    }
    node();
    return false;
  }

 private:
  [[noreturn]] void fail(const std::string& wanted) const {
    throw_error(ErrorKind::Value, "program: line ", line_, ": expected ", wanted, " at column ", at_ + 1, ", got '",
                text_.substr(std::min(at_, text_.size()), 60), "'");
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
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
  void end() {
    skip();
    if (at_ < text_.size()) fail("the end of the line");
  }
  std::string rest() {
    const std::string found(text_.substr(at_));
    at_ = text_.size();
    return found;
  }
  /// Up to one of the characters, which is not taken.
  std::string until(std::string_view stops) {
    const size_t stop = std::min(text_.find_first_of(stops, at_), text_.size());
    const std::string found(text_.substr(at_, stop - at_));
    at_ = stop;
    return found;
  }
  std::string word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' ||
                                  text_[at_] == '.' || text_[at_] == '+' || text_[at_] == '-'))
      ++at_;
    if (begin == at_) fail("a word");
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string quoted_text() {
    need("\"");
    std::string found;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        ++at_;
        found += text_[at_] == 'n' ? '\n' : text_[at_];
      } else {
        found += text_[at_];
      }
      ++at_;
    }
    need("\"");
    return found;
  }
  template <class T>
  T whole(const std::string& text) const {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) fail("a number in range");
    return value;
  }

  bool symbol() {
    Symbol s;
    s.name = word();
    need("in");
    need("[");
    s.least = whole<int64_t>(word());
    need(",");
    const std::string most = word();
    if (most != "inf") s.most = whole<int64_t>(most);
    need("]");
    need("sample");
    s.sample = whole<int64_t>(word());
    end();
    program_.symbols.push_back(std::move(s));
    return false;
  }
  bool guard() {
    Guard g = Guard::parse(until("@"));
    if (consume("@")) {
      skip();
      g.source = rest();
    }
    program_.guards.push_back(std::move(g));
    return false;
  }
  bool input() {
    using Kind = ProgramInput::Kind;
    ProgramInput i;
    const std::string kind = word();
    const Kind kinds[] = {Kind::User, Kind::Parameter, Kind::Buffer, Kind::Constant};
    const auto found = std::find_if(std::begin(kinds), std::end(kinds), [&](Kind k) { return kind == name(k); });
    if (found == std::end(kinds)) fail("user, parameter, buffer or constant");
    i.kind = *found;
    i.path = quoted_text();
    i.value = definition();
    i.persistent = !consume("not persistent");
    if (consume("is ")) i.constant = argument().constant;
    end();
    program_.inputs.push_back(std::move(i));
    return false;
  }
  bool role() {
    using Kind = OutputRole::Kind;
    OutputRole made;
    const std::string kind = word();
    const Kind kinds[] = {Kind::Result, Kind::Loss, Kind::ParameterGradient, Kind::InputGradient};
    const auto found = std::find_if(std::begin(kinds), std::end(kinds), [&](Kind k) { return kind == name(k); });
    if (found == std::end(kinds)) fail("result, loss, parameter_gradient or input_gradient");
    made.kind = *found;
    skip();
    if (at_ < text_.size()) made.target = quoted_text();
    end();
    program_.roles.push_back(std::move(made));
    return false;
  }

  std::vector<Expr> sizes() {
    std::vector<Expr> found;
    need("[");
    if (consume("]")) return found;
    do {
      skip();
      size_t depth = 0, stop = at_;
      for (; stop < text_.size(); ++stop) {
        const char c = text_[stop];
        if (depth == 0 && (c == ',' || c == ']')) break;
        if (c == '(') ++depth;
        if (c == ')' && depth > 0) --depth;
      }
      found.push_back(Expr::parse(text_.substr(at_, stop - at_)));
      at_ = stop;
    } while (consume(","));
    need("]");
    return found;
  }
  DType dtype(const std::string& word) const {
    for (int i = 0; i < kDTypes; ++i) {
      if (kDTypeInfo[static_cast<size_t>(i)].name == word) return static_cast<DType>(i);
    }
    fail("a dtype or a kind of value");
  }
  /// "%name: float32[2, 3]"
  int definition() {
    need("%");
    std::string own = word();
    need(":");
    for (auto kind :
         {Value::Kind::Int, Value::Kind::Float, Value::Kind::Bool, Value::Kind::String, Value::Kind::None}) {
      const size_t before = at_;
      if (consume(name(kind)) &&
          (at_ == text_.size() || (text_[at_] != '[' && !std::isalnum(static_cast<unsigned char>(text_[at_])))))
        return program_.add_named(std::move(own), kind, {});
      at_ = before;
    }
    skip();
    TensorMeta meta;
    meta.dtype = dtype(until("["));
    meta.sizes = sizes();
    if (consume("strides")) meta.strides = sizes();
    if (consume("on ")) meta.device = parse_device(device_word());
    meta.requires_grad = consume("requires_grad");
    return program_.add_named(std::move(own), Value::Kind::Tensor, std::move(meta));
  }
  std::string device_word() {
    std::string text = word();
    if (at_ < text_.size() && text_[at_] == ':' && at_ + 1 < text_.size() &&
        std::isdigit(static_cast<unsigned char>(text_[at_ + 1]))) {
      ++at_;
      text += ":" + word();
    }
    return text;
  }

  void node() {
    ProgramNode node;
    std::vector<bool> lists;
    do {
      const bool list = consume("[");
      std::vector<int> made;
      if (!list || !consume("]")) {
        do made.push_back(definition());
        while (list && consume(","));
        if (list) need("]");
      }
      node.results.push_back(std::move(made));
      lists.push_back(list);
    } while (consume(","));
    need("=");
    skip();
    const std::string key = until("(");
    node.op = find_boxed(key);
    if (!node.op) fail("an op of the schema before the parentheses, not '" + key + "',");
    need("(");
    if (!consume(")")) {
      do node.arguments.push_back(argument());
      while (consume(","));
      need(")");
    }
    if (consume("in \"")) {
      --at_;
      node.module = quoted_text();
    }
    node.no_grad = consume("no_grad");
    if (consume("@ ")) node.source = rest();
    end();
    program_.nodes.push_back(std::move(node));
  }

  Arg argument() {
    skip();
    if (consume("%")) {
      const std::string used = word();
      const int value = program_.find_value(used);
      if (value < 0) fail("a value that is defined before, not '" + used + "',");
      return Arg::of(value);
    }
    if (consume("[")) return list();
    if (consume("{")) {
      const Expr e = Expr::parse(until("}"));
      need("}");
      return Value(e);
    }
    if (at_ < text_.size() && text_[at_] == '"') return Value(quoted_text());
    if (consume("graph ")) return graph();
    if (consume("dtype:")) return Value(dtype(word()));
    if (consume("device:")) return Value(parse_device(device_word()));
    if (consume("layout:strided")) return Value(Layout::Strided);
    if (consume("format:")) return format(word());
    if (consume("complex(")) {
      const double real = number(word());
      need(",");
      const double imaginary = number(word());
      need(")");
      return Value(std::complex<double>(real, imaginary));
    }
    const std::string text = word();
    if (text == "none") return Value();
    if (text == "true" || text == "false") return Value(text == "true");
    const bool is_float = text.find_first_not_of("-0123456789") != std::string::npos;
    return is_float ? Value(number(text)) : Value(whole<int64_t>(text));
  }
  Value graph() {
    static thread_local int depth = 0;
    struct Deeper {
      Deeper() { ++depth; }
      ~Deeper() { --depth; }
    } const deeper;
    FACULA_CHECK(depth < kDeepest, ErrorKind::Value, "program: line ", line_, ": graphs nested more than ", kDeepest,
                 " deep");
    return std::make_shared<const Runner>(std::make_shared<const Program>(Program::parse(quoted_text())));
  }
  Value format(const std::string& text) const {
    for (size_t i = 0; i < std::size(kFormats); ++i) {
      if (text == kFormats[i]) return static_cast<MemoryFormat>(i);
    }
    fail("a memory format");
  }
  double number(const std::string& text) const {
    if (text == "nan") return NAN;
    if (text == "inf") return INFINITY;
    return text == "-inf" ? -INFINITY : whole<double>(text);
  }

  /// Of constants of one kind a constant, else a list of arguments.
  Arg list() {
    std::vector<Arg> items;
    FACULA_CHECK(++depth_ < 16, ErrorKind::Value, "program: line ", line_, ": lists nested more than 16 deep");
    if (!consume("]")) {
      do items.push_back(argument());
      while (consume(","));
      need("]");
    }
    --depth_;
    using Kind = Value::Kind;
    const auto all = [&](auto... kinds) {
      return std::all_of(items.begin(), items.end(), [&](const Arg& a) {
        return a.kind == Arg::Kind::Constant && ((a.constant.kind() == kinds) || ...);
      });
    };
    if (all(Kind::Int)) {
      std::vector<int64_t> ints;
      for (const Arg& a : items) ints.push_back(a.constant.to_int());
      return Value(std::move(ints));
    }
    if (all(Kind::Int, Kind::Symbolic)) {
      std::vector<Expr> exprs;
      for (const Arg& a : items)
        exprs.push_back(a.constant.kind() == Kind::Int ? Expr(a.constant.to_int()) : a.constant.expr());
      return Value(std::move(exprs));
    }
    if (all(Kind::Int, Kind::Float)) {
      std::vector<double> floats;
      for (const Arg& a : items) floats.push_back(a.constant.to_float());
      return Value(std::move(floats));
    }
    if (all(Kind::Bool)) {
      std::vector<bool> bools;
      for (const Arg& a : items) bools.push_back(a.constant.to_bool());
      return Value(std::move(bools));
    }
    return Arg::list(std::move(items));
  }

  Program& program_;
  std::string_view text_;
  size_t at_ = 0;
  int line_;
  int depth_ = 0;
};

}  // namespace

std::string Program::text() const { return Writer(*this).run(); }

Program Program::parse(std::string_view text) {
  Program program;
  int line = 0;
  bool returned = false;
  while (!text.empty()) {
    const size_t stop = std::min(text.find('\n'), text.size());
    const std::string_view one = text.substr(0, stop);
    text.remove_prefix(std::min(stop + 1, text.size()));
    ++line;
    if (one.find_first_not_of(" \r\t") == std::string_view::npos) continue;
    FACULA_CHECK(!returned, ErrorKind::Value, "program: line ", line, ": nothing may follow `return`");
    returned = LineReader(program, one, line).read();
  }
  FACULA_CHECK(returned, ErrorKind::Value, "program: expected a line with `return`, got ", line, " lines without");
  return program;
}

}  // namespace facula

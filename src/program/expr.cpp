#include "program/expr.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "core/checked.h"
#include "core/error.h"

namespace facula {

struct Expr::Node {
  Op op;
  std::string name;
  std::vector<Expr> operands;
};

namespace {

constexpr int kDeepest = 256;      // of what is read
constexpr size_t kMostTerms = 64;  // of what is multiplied out

int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

std::optional<int64_t> apply(Expr::Op op, int64_t a, int64_t b) {
  if ((op == Expr::Op::FloorDiv || op == Expr::Op::Mod) && b == 0) return std::nullopt;
  const auto whole = [](Checked c) { return c.fits() ? std::optional<int64_t>(c.value_or(0)) : std::nullopt; };
  switch (op) {
    case Expr::Op::Add: return whole(Checked(a) + b);
    case Expr::Op::Mul: return whole(Checked(a) * b);
    case Expr::Op::FloorDiv: return b == -1 ? whole(Checked(0) - a) : floor_quotient(a, b);
    case Expr::Op::Mod: return b == -1 ? 0 : a - floor_quotient(a, b) * b;
    case Expr::Op::Max: return std::max(a, b);
    default: return std::min(a, b);
  }
}

// Sums as terms with a factor each, products as factors: by text, so that like ones meet.
using Terms = std::map<std::string, std::pair<Expr, int64_t>>;

std::pair<Expr, int64_t> split_factor(const Expr& e) {
  if (e.op() != Expr::Op::Mul || !e.operands()[0].is_integer()) return {e, 1};
  Expr rest(1);
  for (size_t i = 1; i < e.operands().size(); ++i) rest = rest * e.operands()[i];
  return {rest, e.operands()[0].integer()};
}

bool collect(Terms& terms, const Expr& e, int64_t& constant) {
  if (e.op() == Expr::Op::Add) {
    return std::all_of(e.operands().begin(), e.operands().end(),
                       [&](const Expr& part) { return collect(terms, part, constant); });
  }
  if (e.is_integer()) {
    const auto sum = apply(Expr::Op::Add, constant, e.integer());
    if (sum) constant = *sum;
    return sum.has_value();
  }
  auto [rest, factor] = split_factor(e);
  auto [at, fresh] = terms.try_emplace(rest.text(), rest, 0);
  const auto sum = apply(Expr::Op::Add, at->second.second, factor);
  if (sum) at->second.second = *sum;
  return sum.has_value();
}

}  // namespace

Expr Expr::symbol(std::string name) {
  return Expr(std::make_shared<const Node>(Node{Op::Symbol, std::move(name), {}}));
}
Expr Expr::make(Op op, std::vector<Expr> operands) {
  return Expr(std::make_shared<const Node>(Node{op, {}, std::move(operands)}));
}

Expr::Op Expr::op_of_node() const { return node_->op; }
const std::string& Expr::name() const { return node_->name; }
const std::vector<Expr>& Expr::operands() const {
  static const std::vector<Expr> none;
  return node_ ? node_->operands : none;
}
bool Expr::operator==(const Expr& other) const {
  if (is_integer() || other.is_integer()) return node_ == other.node_ && integer_ == other.integer_;
  return node_ == other.node_ || text() == other.text();
}

Expr operator+(const Expr& a, const Expr& b) {
  Terms terms;
  int64_t constant = 0;
  if (!collect(terms, a, constant) || !collect(terms, b, constant)) return Expr::make(Expr::Op::Add, {a, b});
  std::vector<Expr> parts;
  for (const auto& [text, term] : terms) {
    if (term.second != 0) parts.push_back(Expr(term.second) * term.first);
  }
  if (constant != 0 || parts.empty()) parts.emplace_back(constant);
  return parts.size() == 1 ? parts[0] : Expr::make(Expr::Op::Add, std::move(parts));
}

Expr operator-(const Expr& a, const Expr& b) { return a + Expr(-1) * b; }

Expr operator*(const Expr& a, const Expr& b) {
  const auto terms = [](const Expr& e) { return e.op() == Expr::Op::Add ? e.operands().size() : size_t{1}; };
  if (terms(a) + terms(b) > 2 && terms(a) * terms(b) <= kMostTerms) {  // multiplied out
    const Expr &sum = a.op() == Expr::Op::Add ? a : b, &other = a.op() == Expr::Op::Add ? b : a;
    Expr total(0);
    for (const Expr& part : sum.operands()) total = total + part * other;
    return total;
  }
  int64_t constant = 1;
  std::vector<Expr> factors;
  for (const Expr* side : {&a, &b}) {
    const std::vector<Expr> own = {*side};
    for (const Expr& f : side->op() == Expr::Op::Mul ? side->operands() : own) {
      const auto product = f.is_integer() ? apply(Expr::Op::Mul, constant, f.integer()) : std::nullopt;
      if (product) constant = *product;
      else factors.push_back(f);
    }
  }
  if (constant == 0) return Expr(0);
  std::sort(factors.begin(), factors.end(), [](const Expr& x, const Expr& y) { return x.text() < y.text(); });
  if (factors.empty()) return Expr(constant);
  if (constant == 1 && factors.size() == 1) return factors[0];
  if (constant != 1) factors.insert(factors.begin(), Expr(constant));
  return Expr::make(Expr::Op::Mul, std::move(factors));
}

Expr floor_div(const Expr& a, const Expr& b) {
  if (b == Expr(1)) return a;
  if (a.is_integer() && b.is_integer()) {
    if (const auto value = apply(Expr::Op::FloorDiv, a.integer(), b.integer())) return Expr(*value);
  }
  if (a == b && !b.is_integer()) return Expr(1);
  // (4*s0 + 8) // 4, where every term divides
  if (b.is_integer() && b.integer() != 0 && b.integer() != -1) {
    Terms terms;
    int64_t constant = 0;
    const int64_t d = b.integer();
    bool divides = collect(terms, a, constant) && constant % d == 0;
    for (const auto& [text, term] : terms) divides = divides && term.second % d == 0;
    if (divides) {
      Expr total(constant / d);
      for (const auto& [text, term] : terms) total = total + Expr(term.second / d) * term.first;
      return total;
    }
  } else if (a.op() == Expr::Op::Mul) {  // s0*s1 // s1
    const auto& factors = a.operands();
    const auto found = std::find(factors.begin(), factors.end(), b);
    if (found != factors.end()) {
      Expr rest(1);
      for (auto it = factors.begin(); it != factors.end(); ++it) rest = it == found ? rest : rest * *it;
      return rest;
    }
  }
  return Expr::make(Expr::Op::FloorDiv, {a, b});
}

Expr modulo(const Expr& a, const Expr& b) {
  if (a.is_integer() && b.is_integer()) {
    if (const auto value = apply(Expr::Op::Mod, a.integer(), b.integer())) return Expr(*value);
  }
  const Expr quotient = floor_div(a, b);
  return quotient.op() == Expr::Op::FloorDiv ? Expr::make(Expr::Op::Mod, {a, b}) : a - quotient * b;
}

Expr maximum(const Expr& a, const Expr& b) {
  if (a.is_integer() && b.is_integer()) return Expr(std::max(a.integer(), b.integer()));
  return a == b ? a : Expr::make(Expr::Op::Max, {a, b});
}
Expr minimum(const Expr& a, const Expr& b) {
  if (a.is_integer() && b.is_integer()) return Expr(std::min(a.integer(), b.integer()));
  return a == b ? a : Expr::make(Expr::Op::Min, {a, b});
}

namespace {

Expr combine(Expr::Op op, const Expr& a, const Expr& b) {
  switch (op) {
    case Expr::Op::Add: return a + b;
    case Expr::Op::Mul: return a * b;
    case Expr::Op::FloorDiv: return floor_div(a, b);
    case Expr::Op::Mod: return modulo(a, b);
    case Expr::Op::Max: return maximum(a, b);
    default: return minimum(a, b);
  }
}

}  // namespace

std::optional<int64_t> Expr::evaluate(const Lookup& lookup) const {
  if (is_integer()) return integer();
  if (op() == Op::Symbol) return lookup(name());
  std::optional<int64_t> total;
  for (const Expr& part : operands()) {
    const auto value = part.evaluate(lookup);
    if (!value) return std::nullopt;
    total = total ? apply(op(), *total, *value) : value;
    if (!total) return std::nullopt;
  }
  return total;
}

Expr Expr::substitute(const std::function<std::optional<Expr>(const std::string&)>& find) const {
  if (is_integer()) return *this;
  if (op() == Op::Symbol) return find(name()).value_or(*this);
  Expr total = operands()[0].substitute(find);
  for (size_t i = 1; i < operands().size(); ++i) total = combine(op(), total, operands()[i].substitute(find));
  return total;
}

void Expr::each_symbol(const std::function<void(const std::string&)>& see) const {
  if (op() == Op::Symbol) see(name());
  for (const Expr& part : operands()) part.each_symbol(see);
}

// text

namespace {

std::string in_parentheses(const Expr& e) {
  const bool simple = e.op() == Expr::Op::Symbol || e.op() == Expr::Op::Max || e.op() == Expr::Op::Min ||
                      (e.is_integer() && e.integer() >= 0);
  return simple ? e.text() : "(" + e.text() + ")";
}

std::string joined(const std::vector<Expr>& parts, const char* between, bool bare) {
  std::string text;
  for (const Expr& part : parts) {
    text += (text.empty() ? "" : between) + (bare ? part.text() : in_parentheses(part));
  }
  return text;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Expr sum() {
    FACULA_CHECK(++depth_ < kDeepest, ErrorKind::Value, "expression: nested more than ", kDeepest, " deep");
    Expr total = product();
    while (skip_spaces(), at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) {
      const bool minus = text_[at_++] == '-';
      total = minus ? total - product() : total + product();
    }
    --depth_;
    return total;
  }
  bool consume(std::string_view word) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void end() {
    skip_spaces();
    if (at_ < text_.size()) fail();
  }
  [[noreturn]] void fail() const {
    throw_error(ErrorKind::Value, "expression: cannot be read from character ", at_, " on, got '", text_.substr(0, 200),
                "'");
  }

 private:
  Expr product() {
    Expr total = atom();
    while (true) {
      if (consume("//")) total = floor_div(total, atom());
      else if (consume("*")) total = total * atom();
      else if (consume("%")) total = modulo(total, atom());
      else return total;
    }
  }
  Expr atom() {
    FACULA_CHECK(++depth_ < kDeepest, ErrorKind::Value, "expression: nested more than ", kDeepest, " deep");
    const Expr found = plain_atom();
    --depth_;
    return found;
  }
  Expr plain_atom() {
    if (consume("(")) return closed(sum());
    if (consume("-")) return Expr(-1) * atom();
    if (consume("max(")) return closed(pair(maximum));
    if (consume("min(")) return closed(pair(minimum));
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (word.empty()) fail();
    if (!std::isdigit(static_cast<unsigned char>(word[0]))) return Expr::symbol(word);
    if (word.size() > 18 || !std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c); }))
      fail();
    return Expr(static_cast<int64_t>(std::stoll(word)));
  }
  Expr pair(Expr (*join)(const Expr&, const Expr&)) {
    const Expr first = sum();
    if (!consume(",")) fail();
    return join(first, sum());
  }
  Expr closed(Expr e) {
    if (!consume(")")) fail();
    return e;
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string Expr::text() const {
  switch (op()) {
    case Op::Integer: return std::to_string(integer());
    case Op::Symbol: return name();
    case Op::Add: return joined(operands(), " + ", true);
    case Op::Mul: return joined(operands(), "*", false);
    case Op::FloorDiv: return joined(operands(), " // ", false);
    case Op::Mod: return joined(operands(), " % ", false);
    case Op::Max: return "max(" + joined(operands(), ", ", true) + ")";
    default: return "min(" + joined(operands(), ", ", true) + ")";
  }
}

Expr Expr::parse(std::string_view text) {
  Reader reader(text);
  Expr found = reader.sum();
  reader.end();
  return found;
}

// guards

namespace {
constexpr std::pair<const char*, Guard::Relation> kRelations[] = {{"==", Guard::Relation::Equal},
                                                                  {"!=", Guard::Relation::NotEqual},
                                                                  {"<=", Guard::Relation::LessEqual},
                                                                  {"<", Guard::Relation::Less}};
}

std::optional<bool> Guard::holds(const Expr::Lookup& lookup) const {
  const auto a = left.evaluate(lookup), b = right.evaluate(lookup);
  if (!a || !b) return std::nullopt;
  switch (relation) {
    case Relation::Equal: return *a == *b;
    case Relation::NotEqual: return *a != *b;
    case Relation::Less: return *a < *b;
    default: return *a <= *b;
  }
}

std::string Guard::text() const {
  for (const auto& [word, known] : kRelations) {
    if (known == relation) return left.text() + " " + word + " " + right.text();
  }
  return "";
}

Guard Guard::parse(std::string_view text) {
  Reader reader(text);
  Guard guard{reader.sum(), Relation::Equal, {}, {}};
  for (const auto& [word, relation] : kRelations) {
    if (!reader.consume(word)) continue;
    guard.relation = relation;
    guard.right = reader.sum();
    reader.end();
    return guard;
  }
  reader.fail();
}

}  // namespace facula

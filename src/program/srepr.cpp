#include "program/srepr.h"

#include <cctype>
#include <charconv>

#include "core/error.h"

namespace facula {
namespace {

constexpr size_t kMostText = 10'000;
constexpr size_t kMostTerms = 512;  // of what an expression stands for, with powers written out
constexpr int kDeepest = 100;

struct Unreadable {};

/// An expression, and how many terms it has written out.
struct Part {
  Expr expr;
  size_t terms = 1;
};

using Join = Expr (*)(const Expr&, const Expr&);
constexpr std::pair<std::string_view, Join> kLists[] = {
    {"Add", operator+ }, {"Mul", operator* }, {"Max", maximum}, {"Min", minimum}};
constexpr std::pair<std::string_view, Join> kPairs[] = {
    {"FloorDiv", floor_div}, {"CleanDiv", floor_div}, {"Mod", modulo}, {"PythonMod", modulo}};

class SreprReader {
 public:
  explicit SreprReader(std::string_view text) : text_(text) {}

  Expr run() {
    const Part whole = part(0);
    skip_spaces();
    if (at_ < text_.size()) throw Unreadable();
    return whole.expr;
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool consume(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void need(char c) {
    if (!consume(c)) throw Unreadable();
  }
  std::string_view word() {
    skip_spaces();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    if (begin == at_) throw Unreadable();
    return text_.substr(begin, at_ - begin);
  }
  int64_t integer() {
    skip_spaces();
    int64_t value = 0;
    const char *first = text_.data() + at_, *last = text_.data() + text_.size();
    const auto [end, error] = std::from_chars(first, last, value);
    if (error != std::errc()) throw Unreadable();
    at_ += static_cast<size_t>(end - first);
    return value;
  }

  Part part(int depth) {
    if (depth > kDeepest) throw Unreadable();
    const std::string_view name = word();
    need('(');
    if (name == "Symbol") return symbol();
    if (name == "Integer") return closed({Expr(integer())});
    for (const auto& [own, join] : kLists) {
      if (name == own) return joined(join, depth, SIZE_MAX);
    }
    for (const auto& [own, join] : kPairs) {
      if (name == own) return joined(join, depth, 2);
    }
    if (name == "Pow") return power(depth);
    throw Unreadable();
  }
  Part closed(Part found) {
    need(')');
    if (found.terms > kMostTerms) throw Unreadable();
    return found;
  }
  /// Symbol('s0', positive=True, integer=True)
  Part symbol() {
    need('\'');
    const std::string_view name = word();
    need('\'');
    while (consume(',')) {
      word();
      need('=');
      word();
    }
    if (std::isdigit(static_cast<unsigned char>(name[0]))) throw Unreadable();
    return closed({Expr::symbol(std::string(name))});
  }
  Part joined(Join join, int depth, size_t most) {
    Part all = part(depth + 1);
    size_t count = 1;
    for (; consume(','); ++count) {
      const Part next = part(depth + 1);
      all.terms += next.terms;
      if (all.terms > kMostTerms) throw Unreadable();
      all.expr = join(all.expr, next.expr);
    }
    if (count > most || (most == 2 && count < 2)) throw Unreadable();
    return closed(all);
  }
  Part power(int depth) {
    const Part base = part(depth + 1);
    need(',');
    if (word() != "Integer") throw Unreadable();
    need('(');
    const int64_t exponent = integer();
    need(')');
    if (exponent < 1 || exponent > 15 || base.terms * static_cast<size_t>(exponent) > kMostTerms) throw Unreadable();
    Part all{base.expr, base.terms * static_cast<size_t>(exponent)};
    for (int64_t i = 1; i < exponent; ++i) all.expr = all.expr * base.expr;
    return closed(all);
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<Expr> parse_srepr(std::string_view text) {
  if (text.size() > kMostText) return std::nullopt;
  try {
    return SreprReader(text).run();
  } catch (const Unreadable&) {
    return std::nullopt;
  }
}

}  // namespace facula

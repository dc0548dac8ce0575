// Defines integer expressions over symbols: sizes that vary, and what programs compute from them. They are immutable
// and shared; an integer, which most sizes are, takes no memory of its own. Expressions are simplified as they are
// made: sums and products are stored flat, with like terms joined and in one order, so that equal polynomials have
// equal texts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace facula {

class Expr {
 public:
  enum class Op : uint8_t { Integer, Symbol, Add, Mul, FloorDiv, Mod, Max, Min };

  Expr() = default;
  Expr(int64_t value) : integer_(value) {}
  static Expr symbol(std::string name);

  Op op() const { return node_ ? op_of_node() : Op::Integer; }
  /// Of an Integer.
  int64_t integer() const { return integer_; }
  /// Of a Symbol.
  const std::string& name() const;
  /// Of the others; none of an Integer.
  const std::vector<Expr>& operands() const;
  bool is_integer() const { return !node_; }

  /// Values of symbols by name; none where a symbol has no value.
  using Lookup = std::function<std::optional<int64_t>(const std::string&)>;
  /// None when a symbol has no value, a divisor is zero or a number leaves 64 bits.
  std::optional<int64_t> evaluate(const Lookup& lookup) const;
  /// The expression with symbols replaced; a symbol that `find` does not know stays.
  Expr substitute(const std::function<std::optional<Expr>(const std::string&)>& find) const;
  void each_symbol(const std::function<void(const std::string&)>& see) const;

  /// As Python writes it: "2*s0 + 1", "s0 // 4", "max(s0, 1)".
  std::string text() const;
  /// The same read again; a ValueError that names what cannot be read.
  static Expr parse(std::string_view text);

  bool operator==(const Expr& other) const;

  struct Node;

 private:
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  Op op_of_node() const;
  static Expr make(Op op, std::vector<Expr> operands);
  friend Expr operator+(const Expr&, const Expr&);
  friend Expr operator*(const Expr&, const Expr&);
  friend Expr floor_div(const Expr&, const Expr&);
  friend Expr modulo(const Expr&, const Expr&);
  friend Expr maximum(const Expr&, const Expr&);
  friend Expr minimum(const Expr&, const Expr&);
  int64_t integer_ = 0;
  std::shared_ptr<const Node> node_;  // null: an Integer
};

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
/// As Python's //, towards minus infinity.
Expr floor_div(const Expr& a, const Expr& b);
/// As Python's %, with the sign of the divisor.
Expr modulo(const Expr& a, const Expr& b);
Expr maximum(const Expr& a, const Expr& b);
Expr minimum(const Expr& a, const Expr& b);

/// A comparison that held while a program was recorded, and has to hold when it runs.
struct Guard {
  enum class Relation : uint8_t { Equal, NotEqual, Less, LessEqual };
  Expr left;
  Relation relation;
  Expr right;
  std::string source;  // file:line of the comparison

  std::optional<bool> holds(const Expr::Lookup& lookup) const;
  std::string text() const;  // "s0 <= 512"
  static Guard parse(std::string_view text);
  bool operator==(const Guard& other) const {
    return relation == other.relation && left == other.left && right == other.right;
  }
};

}  // namespace facula

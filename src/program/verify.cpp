// What has to hold of a program before it may run, whoever made it.
#include <set>
#include <sstream>

#include "program/program.h"
#include "program/run.h"

namespace facula {
namespace {

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program), defined_(program.values.size()) {}

  void run() {
    for (const Symbol& s : program_.symbols) {
      where_ = "symbol '" + s.name + "'";
      expect(known_.insert(s.name).second, "has a name of its own");
      expect(!s.most || s.least <= *s.most, "has a range that is not empty");
    }
    for (const ProgramInput& input : program_.inputs) {
      where_ = "input '" + input.path + "'";
      define(input.value);
      bind(input);
    }
    in_nodes_ = true;
    for (node_ = 0; node_ < program_.nodes.size(); ++node_) check(program_.nodes[node_]);
    in_nodes_ = false;
    where_ = "the outputs";
    expect(program_.roles.size() <= program_.outputs.size(), "are as many as there are roles of them");
    for (const Arg& output : program_.outputs) check_refs(output);
    where_ = "guards";
    for (const Guard& guard : program_.guards) {
      symbols_of(guard.left);
      symbols_of(guard.right);
    }
    where_ = "symbols";
    for (const Symbol& s : program_.symbols)
      expect(bound_.contains(s.name), [&] { return "are bound by inputs, not so '" + s.name + "'"; });
  }

 private:
  // `what`: a text, or what makes one where it is needed.
  template <class Text>
  void expect(bool holds, const Text& what) const {
    if (__builtin_expect(holds, 1)) return;
    std::string text;
    if constexpr (std::is_invocable_v<Text>) text = what();
    else text = what;
    throw_error(ErrorKind::Value, "program: ", where(), " ", text);
  }
  std::string where() const {
    if (!in_nodes_) return where_;
    const BoxedOp* op = program_.nodes[node_].op;
    return "node " + std::to_string(node_) + (op ? " (" + op->key() + ")" : "");
  }
  void define(int value) {
    expect(value >= 0 && static_cast<size_t>(value) < defined_.size(), "defines a value that there is");
    expect(!defined_[static_cast<size_t>(value)], "defines a value that is not defined yet");
    defined_[static_cast<size_t>(value)] = true;
  }
  // A dimension that is a symbol itself says what the symbol is.
  void bind(const ProgramInput& input) {
    for (const Expr& size : program_.values[static_cast<size_t>(input.value)].meta.sizes) {
      if (size.op() == Expr::Op::Symbol) bound_.insert(size.name());
    }
  }
  void symbols_of(const Expr& e) const {
    e.each_symbol([&](const std::string& name) {
      expect(known_.contains(name), [&] { return "has an unknown symbol '" + name + "'"; });
    });
  }
  void check_refs(const Arg& arg) const {
    arg.each_ref([&](int ref) {
      expect(ref >= 0 && static_cast<size_t>(ref) < defined_.size() && defined_[static_cast<size_t>(ref)],
             "uses a value before it is made");
    });
    if (arg.constant.kind() == Value::Kind::Symbolic) symbols_of(arg.constant.expr());
    if (arg.constant.kind() == Value::Kind::Symbolics) {
      for (const Expr& e : arg.constant.exprs()) symbols_of(e);
    }
    if (arg.constant.kind() == Value::Kind::Graph) {
      for (const ProgramInput& input : arg.constant.graph()->program().inputs)
        expect(input.kind == ProgramInput::Kind::User, "has a graph that is given all that it needs");
    }
    for (const Arg& item : arg.items) check_refs(item);
  }

  Value::Kind kind_of(int ref) const { return program_.values[static_cast<size_t>(ref)].kind; }
  static bool fits(BoxedType type, Value::Kind kind) {
    if (kind == Value::Kind::Tensor) return type.is_tensor();
    if (kind == Value::Kind::Int) return type.accepts(Value(int64_t{0}));
    if (kind == Value::Kind::Float) return type.accepts(Value(0.0));
    return kind == Value::Kind::Bool && type.accepts(Value(false));
  }
  bool accepts(const BoxedArgument& wanted, const Arg& arg) const {
    if (arg.kind == Arg::Kind::Constant) return wanted.accepts(arg.constant);
    return accepts(wanted.type, arg, wanted.has_gaps());
  }
  bool accepts(const BoxedType& type, const Arg& arg, bool gaps) const {
    if (arg.kind == Arg::Kind::Constant) return type.accepts(arg.constant);
    if (arg.kind == Arg::Kind::Ref) return !type.list && fits(type, kind_of(arg.ref));
    if (!type.list) return false;
    BoxedType item = type;
    item.list = false;
    item.optional = gaps;
    for (const Arg& each : arg.items) {
      if (each.kind == Arg::Kind::List || !accepts(item, each, false)) return false;
    }
    return true;
  }

  void check(const ProgramNode& n) {
    expect(n.op != nullptr, "has an op");
    expect(n.arguments.size() == n.op->arguments.size(), [&] {
      return "has " + std::to_string(n.arguments.size()) + " arguments, not the " +
             std::to_string(n.op->arguments.size()) + " of " + n.op->signature();
    });
    for (size_t k = 0; k < n.arguments.size(); ++k) {
      check_refs(n.arguments[k]);
      const BoxedArgument& wanted = n.op->arguments[k];
      expect(accepts(wanted, n.arguments[k]),
             [&] { return "has another value than a " + wanted.type.text() + " for '" + wanted.name + "'"; });
    }
    expect(n.results.size() == n.op->results.size(), [&] { return "has as many results as " + n.op->signature(); });
    for (size_t k = 0; k < n.results.size(); ++k) {
      expect(n.op->results[k].list || n.results[k].size() == 1, "has one value for each result that is no list");
      for (int value : n.results[k]) define(value);
    }
  }

  const Program& program_;
  std::vector<bool> defined_;
  std::set<std::string> known_, bound_;
  std::string where_;      // but in a node:
  bool in_nodes_ = false;  // in that one
  size_t node_ = 0;
};

}  // namespace

void Program::verify() const { Verifier(*this).run(); }

}  // namespace facula

// Describes element-wise steps by operations for which a vector unit has one instruction, or a few. They are those of
// the scalar functions in src/kernels, operation by operation, so results have the same bits, except for the sign of a
// NaN.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/dtype.h"

namespace facula::cpu::emit {

/// The number of a node.
using NodeId = uint16_t;

enum class Do : uint8_t {
  Load,      // elements of memory, converted to the compute dtype; bytes of truth values as whole numbers
  Number,    // one for all elements
  Constant,  // the same, known here
  Add,
  Sub,
  Mul,
  Div,
  Smaller,  // a < b ? a : b
  Larger,   // a > b ? a : b
  Root,
  Round,
  MulAdd,  // a * b + c, rounded once
  MulSub,  // c - a * b, rounded once
  And,
  Or,
  Xor,
  AddBits,
  ShiftBits,  // to the right
  IsAbove,    // of whole numbers
  Compare,    // all bits of a lane where it holds
  Choose,     // where all bits of a are set b, else c
  ChooseBy,   // Compare(a, b) ? c : d
  Narrow,     // to float16 or float32, and back
  Store,
};

enum class Test : uint8_t { Equal = 0, Unordered = 3, NotEqual = 4, Less = 0x11, LessEqual = 0x12 };
enum class Rounding : uint8_t { Even = 8, Down = 9, Up = 10, ToZero = 11 };

struct Node {
  Do what;
  uint8_t how = 0;  // Test, Rounding, or bits to shift
  uint8_t inputs = 0;
  bool fixed = false;  // the same for all elements
  DType dtype = DType::Float32;
  uint16_t argument = 0;  // of the code: what is loaded, stored, or the number
  uint16_t offset = 0;    // bytes, of a number
  std::array<NodeId, 4> in = {};
  uint64_t bits = 0;
};

class StepGraph {
 public:
  explicit StepGraph(DType compute) : compute_(compute) {}
  const std::vector<Node>& nodes() const { return nodes_; }
  DType compute() const { return compute_; }
  bool is_double() const { return compute_ == DType::Float64; }

  NodeId load(uint16_t argument, DType dtype);
  NodeId number(uint16_t argument, uint16_t offset);
  void store(uint16_t argument, DType dtype, NodeId value);
  NodeId bits(uint64_t pattern);
  NodeId constant(double value);

  NodeId add(NodeId a, NodeId b) { return node(Do::Add, {a, b}); }
  NodeId sub(NodeId a, NodeId b) { return node(Do::Sub, {a, b}); }
  NodeId mul(NodeId a, NodeId b) { return node(Do::Mul, {a, b}); }
  NodeId div(NodeId a, NodeId b) { return node(Do::Div, {a, b}); }
  NodeId smaller(NodeId a, NodeId b) { return node(Do::Smaller, {a, b}); }
  NodeId larger(NodeId a, NodeId b) { return node(Do::Larger, {a, b}); }
  NodeId root(NodeId a) { return node(Do::Root, {a}); }
  NodeId round(Rounding how, NodeId a) { return node(Do::Round, {a}, static_cast<uint8_t>(how)); }
  NodeId mul_add(NodeId a, NodeId b, NodeId c) { return node(Do::MulAdd, {a, b, c}); }
  NodeId mul_sub(NodeId a, NodeId b, NodeId c) { return node(Do::MulSub, {a, b, c}); }
  NodeId both(NodeId a, NodeId b) { return node(Do::And, {a, b}); }
  NodeId either(NodeId a, NodeId b) { return node(Do::Or, {a, b}); }
  NodeId differ(NodeId a, NodeId b) { return node(Do::Xor, {a, b}); }
  NodeId compare(Test test, NodeId a, NodeId b) { return node(Do::Compare, {a, b}, static_cast<uint8_t>(test)); }
  NodeId choose(NodeId truth, NodeId a, NodeId b) { return node(Do::Choose, {truth, a, b}); }
  NodeId choose_by(Test test, NodeId a, NodeId b, NodeId yes, NodeId no) {
    return node(Do::ChooseBy, {a, b, yes, no}, static_cast<uint8_t>(test));
  }
  NodeId negated(NodeId truth) { return differ(truth, bits(~uint64_t{0})); }
  NodeId magnitude(NodeId a) { return both(a, bits(is_double() ? ~uint64_t{0} >> 1 : 0x7fffffff)); }
  NodeId opposite(NodeId a) { return differ(a, bits(is_double() ? uint64_t{1} << 63 : 0x80000000)); }

  NodeId truth_of(NodeId number) { return compare(Test::NotEqual, number, constant(0)); }
  NodeId number_of(NodeId truth) { return both(truth, constant(1)); }
  NodeId truth_of_bytes(NodeId bytes);
  /// The number as it comes back from elements of a narrower dtype.
  NodeId narrowed(DType to, NodeId a);

 private:
  NodeId node(Do what, std::initializer_list<NodeId> in, uint8_t how = 0);
  NodeId bfloat(NodeId a);

  DType compute_;
  std::vector<Node> nodes_;
};

/// How a step is made of such operations.
struct Rule {
  enum class Form : uint8_t {
    Number,  // numbers give a number
    Test,    // numbers give a truth value
    Logic,   // truth values do
    Where,   // a truth value chooses one of two numbers
  };
  uint16_t loop;
  Form form;
  uint8_t params;  // numbers beside the inputs
  NodeId (*make)(StepGraph&, const NodeId* in, const NodeId* params);
  NodeId (*make_plain)(StepGraph&, const NodeId* in) = nullptr;  // where the only one of them is 1
  bool keeps_digits = false;                                     // the result has those of the input: nothing to round
  uint8_t factors = 0;  // inputs, as bits, of a product that is rounded together with a sum
};

/// Null where a loop stays a call.
const Rule* rule_of(uint16_t loop, DType compute);

}  // namespace facula::cpu::emit

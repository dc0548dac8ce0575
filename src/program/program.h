// Defines a program: ops in the order in which they ran, as data. It holds no addresses and no Python.
//   - Values are numbered. Each is an input or made by one node, before its uses. A node that writes into a tensor
//     returns that tensor as its result, and later uses name the result, so the order is also visible in the data.
//   - Views, writes and draws of random numbers stay as they were. A run repeats them, on the same generators.
//   - Sizes that vary are symbols, bound by the shapes of the inputs. Integers among the arguments may be expressions.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/boxed.h"

namespace facula {

/// What is known of a tensor without running: when it was recorded, or from a file.
struct TensorMeta {
  DType dtype = DType::Float32;
  std::vector<Expr> sizes;
  std::vector<Expr> strides;  // empty: contiguous
  Device device = kCPU;
  bool requires_grad = false;

  static TensorMeta of(const Tensor& t);
  std::string text() const;  // "float32[s0, 8]"
  bool operator==(const TensorMeta& other) const = default;
};

/// An argument of a node: a constant (which may be an expression over symbols), a value, or a list of these.
struct Arg {
  enum class Kind : uint8_t { Constant, Ref, List };
  Kind kind = Kind::Constant;
  Value constant;
  int ref = -1;
  std::vector<Arg> items;

  Arg() = default;
  Arg(Value v) : constant(std::move(v)) {}
  static Arg of(int ref);
  static Arg list(std::vector<Arg> items);
  /// Calls f(int&) or f(int) for every value that it names.
  template <class F>
  void each_ref(F&& f) {
    if (kind == Kind::Ref) f(ref);
    for (Arg& item : items) item.each_ref(f);
  }
  template <class F>
  void each_ref(F&& f) const {
    if (kind == Kind::Ref) f(ref);
    for (const Arg& item : items) item.each_ref(f);
  }
  bool operator==(const Arg& other) const = default;
};

struct ProgramNode {
  const BoxedOp* op = nullptr;
  std::vector<Arg> arguments;             // as many as the op has
  std::vector<std::vector<int>> results;  // for each result the values made: several where it is a list
  std::string module;                     // path of the module whose forward() ran: "layers.0.attention"
  std::string source;                     // "model.py:17"
  bool no_grad = false;                   // it ran where gradients were switched off

  /// It must run even when nobody uses its results: itself, or what is in a graph that it calls.
  bool has_effects() const;
  /// It writes to what its row says is written.
  bool writes() const;
};

struct ProgramValue {
  std::string name;
  Value::Kind kind = Value::Kind::Tensor;  // Tensor, Int, Float or Bool
  TensorMeta meta;                         // of a Tensor
};

struct ProgramInput {
  enum class Kind : uint8_t { User, Parameter, Buffer, Constant };
  Kind kind = Kind::User;
  int value = -1;
  std::string path;        // of a user's input: what the caller calls it; of the others: where the module holds it
  bool persistent = true;  // of a buffer: it is part of the state
  Tensor tensor;           // of all but a user's: what the program holds
  Value constant;          // of a user's input that is not a tensor and must be this
};
const char* name(ProgramInput::Kind kind);

/// What an output is, where it is more than a result.
struct OutputRole {
  enum class Kind : uint8_t { Result, Loss, ParameterGradient, InputGradient };
  Kind kind = Kind::Result;
  std::string target;  // of a gradient: the path of the parameter, or of the user's input
};
const char* name(OutputRole::Kind kind);

struct Symbol {
  std::string name;
  int64_t least = 0;
  std::optional<int64_t> most;
  int64_t sample = 0;  // its value when the program was recorded
};

class LoadedProgram;

class Program {
 public:
  /// Reads a ".pt2" and makes it callable: program/loaded.h, which who calls it includes.
  static LoadedProgram load(const std::string& path);

  std::vector<ProgramValue> values;
  std::vector<ProgramInput> inputs;
  std::vector<ProgramNode> nodes;
  std::vector<Arg> outputs;
  std::vector<OutputRole> roles;  // of the outputs, in order; those beyond the list are results
  std::vector<Symbol> symbols;
  std::vector<Guard> guards;

  /// The number of a new value, whose name is made unique: "add", "add_1".
  int add_value(std::string_view name, Value::Kind kind = Value::Kind::Tensor, TensorMeta meta = {});
  /// The name as it is; for readers, which check that no two values have the same.
  int add_named(std::string name, Value::Kind kind, TensorMeta meta);
  int find_value(std::string_view name);  // -1: none
  /// Keeps the values of these, by number; `number` has for every value the one that it gets, -1: it goes.
  void keep_values(const std::vector<int>& number);
  const Symbol* find_symbol(std::string_view name) const;
  /// Gives a parameter, a buffer or a constant its tensor; a ValueError where it is not as the program says.
  void hold(ProgramInput& input, const Tensor& tensor);

  /// Throws a ValueError that names the node and what is wrong: unknown values, uses before definitions, arguments of
  /// another kind than the op takes, results in wrong number, symbols that no input binds.
  void verify() const;

  /// A line for every input, node and output (program/text.cpp says how). Tensors that the program holds are not in it.
  std::string text() const;
  static Program parse(std::string_view text);

 private:
  struct Named {
    int value;
    int next = 1;  // what add_value() tries first behind this name
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
  };
  void index_names();
  std::unordered_map<std::string, Named, Hash, std::equal_to<>> by_name_;
  size_t indexed_ = 0;  // how many values are in it: the others are put there when a name is first requested
};

}  // namespace facula

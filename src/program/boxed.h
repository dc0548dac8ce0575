// Defines the boxed table: every form of every op of the schema, and what programs need besides (program/builtins.cpp),
// as a function over values. It serves code that knows an op by its name only: recorder, interpreter, readers of files,
// other languages. Rows are generated (codegen/emit_boxed.py) and small; their texts are read when somebody first
// requests the op.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "observe/op_call.h"
#include "program/value.h"

namespace facula {

/// Calls `function` with as many arguments as it has; results are written to `results`.
using Thunk = void (*)(void (*function)(), const Value* const* arguments, Value* results);
struct BoxedFunction {
  void (*function)();
  Thunk thunk;
};

/// What an argument or a result is, as the schema says it.
struct BoxedType {
  enum class Base : uint8_t {
    Tensor,
    Operand,
    Scalar,
    Int,
    Float,
    Bool,
    String,
    DType,
    Device,
    Layout,
    MemoryFormat,
    Generator,
    Graph,
  };
  Base base = Base::Tensor;
  bool list = false;
  bool optional = false;
  int8_t list_size = 0;  // of an int[N]: one integer stands for N

  static BoxedType parse(std::string_view text);
  std::string text() const;
  /// Whether a value fits: exactly, or as one that can stand for it.
  bool accepts(const Value& value) const;
  bool is_tensor() const { return base == Base::Tensor || base == Base::Operand; }
};

struct BoxedArgument {
  std::string name;
  BoxedType type;
  bool keyword_only = false;
  bool required = true;
  bool written = false;  // the op writes to this tensor
  Value default_value;

  /// A list of tensors that may lack some: indices of dimensions, of which those without one are taken whole.
  bool has_gaps() const { return type.is_tensor() && type.list && name == "indices"; }
  /// Whether a value fits here.
  bool accepts(const Value& value) const;
};

struct BoxedOp {
  std::string name;      // of the form: "add", "add_", "add.out" has name "add" and form Out
  std::string overload;  // "" for the only one
  OpForm form = OpForm::Function;
  uint16_t id = 0;                       // in the schema; 0: a builtin
  std::vector<BoxedArgument> arguments;  // as the C++ function takes them: out= tensors come first
  std::vector<BoxedType> results;
  std::vector<std::string> result_names;  // none for a single one
  bool draws = false;                     // may draw random numbers, or raise what nobody else would notice
  bool may_alias = true;                  // results may share memory with arguments
  bool unordered = false;                 // on a CUDA device, sums of floats in any order: other bits the next time
  bool fills = false;                     // fills(): all of what it writes, whatever was there
  int inplace = -1;                       // the argument that says whether it writes at all; -1: none
  std::string aten;  // PyTorch's name, "softmax.int"; several by operands: see aten_name(); "" for none
  BoxedFunction function{};

  /// Writes to an argument or draws: what must run even when nobody uses its results.
  bool has_effects() const;
  size_t outs() const { return form == OpForm::Out ? results.size() : 0; }
  /// "add.Tensor", "add_.Tensor", "add.out": name, overload and form, by which find() knows it.
  std::string key() const;
  std::string signature() const;
  /// `results` has results.size() places. Arguments are as many as the op has.
  void call(const Value* const* given, Value* made) const {
    function.thunk(function.function, given, made);
    if (__builtin_expect(form == OpForm::Out, 0)) {
      for (size_t i = 0; i < results.size(); ++i) made[i] = *given[i];
    }
  }
  /// PyTorch's name for a call with these arguments; "" where it has none.
  std::string aten_name(std::span<const bool> is_tensor) const;
};

/// The row of an op, by the number and the form in which it is recorded; null when there is none.
const BoxedOp* find_boxed(uint16_t id, OpForm form);
/// By key().
const BoxedOp* find_boxed(std::string_view key);
/// By PyTorch's name, "add.Tensor" or "add_.Tensor".
const BoxedOp* find_aten(std::string_view name);
/// Every row, for tests and listings.
std::vector<const BoxedOp*> all_boxed();

// What the generated files and builtins.cpp hold.

struct BoxedRow {
  uint16_t id;
  uint8_t form;  // OpForm
  BoxedFunction function;
};
struct BoxedText {
  uint16_t id;
  const char* results;  // "Tensor values, Tensor indices"
  const char* aten;     // "add.Tensor", "TT:pow.Tensor_Tensor TS:pow.Tensor_Scalar", "" for its own name, "-" for none
  const char* writes;   // names of arguments that it writes to, "running_mean running_var"; "+" where it is unordered
};
struct BuiltinRow {
  const char* name;
  const char* overload;
  const char* arguments;
  const char* results;
  const char* aten;
  BoxedFunction function;
};
std::span<const std::span<const BoxedRow>> boxed_rows();
std::span<const BoxedText> boxed_texts();
std::span<const BuiltinRow> builtin_rows();  // sizes, integers, conversions
std::span<const BuiltinRow> core_ir_rows();
std::span<const BuiltinRow> control_rows();
std::span<const BuiltinRow> nn_rows();
std::span<const BuiltinRow> backward_rows();
std::span<const BuiltinRow> resample_rows();
/// Names of PyTorch's for what has another one there as well, with the same arguments.
struct AtenAlias {
  const char* name;
  const char* own;
};
std::span<const AtenAlias> aten_aliases();

}  // namespace facula

// Parses arguments for generated bindings. Static rows describe each signature, the common positional call builds no
// tuple and no dict, and a call that fits no signature says which ones exist and what it received.
#pragma once

#include "python/objects.h"

namespace facula::python {

enum class ArgType : uint8_t {
  Tensor,
  OptTensor,
  TensorList,
  Operand,
  Scalar,
  OptScalar,
  Int,
  OptInt,
  Float,
  OptFloat,
  Bool,
  OptBool,
  IntList,
  OptIntList,
  IntListOrDefault,  // None: as if it were not given
  FloatList,
  OptFloatList,
  Str,
  OptStr,
  DType,
  OptDType,
  OptDevice,
  OptLayout,
  OptMemoryFormat,
  OptGenerator,
  OutTensor,
  OutTuple,
};

struct ArgSpec {
  const char* name;
  ArgType type;
  bool required;
  bool keyword_only;
  int8_t list_size;  // of an int[N]
  PyObject* interned = nullptr;
};

struct Signature {
  const char* text;
  ArgSpec* args;
  int8_t count;
  int8_t self_index;  // which argument a method's object is
};

struct FunctionSpec {
  const char* name;
  const char* shown;  // what errors call it
  Signature* signatures;
  int8_t count;
};

constexpr int kMaxArgs = 24;
constexpr int kFailed = -1;   // a Python error is set
constexpr int kHandled = -2;  // an override answered; its result is in slots[0]

/// Finds the signature that fits and puts the arguments into `slots` (null: not given). `self` is null for functions.
int parse(FunctionSpec& function, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
          PyObject** slots);

// Slot -> C++ value. The lists convert implicitly to what C++ functions take and live until the end of the call.

inline bool given(PyObject* slot) { return slot && slot != Py_None; }
extern const Tensor undefined_tensor;
/// What becomes of private layouts (core/tensor.h): only ops that say `layout: keep` take them as they are.
enum class Layouts { Plain, Keep };
template <Layouts layouts = Layouts::Plain>
const Tensor& arg_tensor(PyObject* slot) {
  if (!given(slot)) return undefined_tensor;
  return layouts == Layouts::Keep ? tensor_of(slot) : operand_tensor_of(slot);
}

/// The tensor that an in-place form writes to.
inline const Tensor& arg_written(const char* op, PyObject* slot) {
  FACULA_CHECK(slot && is_tensor(slot), ErrorKind::Type, op, "_: expected a Tensor to write to, got ",
               slot ? Py_TYPE(slot)->tp_name : "nothing");
  return tensor_of(slot);
}

template <Layouts layouts = Layouts::Plain>
Operand arg_operand(PyObject* slot) {
  return is_tensor(slot) ? Operand(arg_tensor<layouts>(slot)) : Operand(to_scalar(slot));
}

std::vector<Tensor> arg_tensors(PyObject* slot, Layouts layouts = Layouts::Plain);

/// The integers of x.view(2, 3), between parse() and the conversion that follows it. What runs other calls in between
/// puts them back.
struct SpreadArguments {
  PyObject* const* items;
  size_t count;
};
SpreadArguments& present_spread_arguments();

struct IntsArg {
  Dims values;
  operator IntList() const { return values; }
};
IntsArg arg_ints(PyObject* slot, int list_size);

struct OptIntsArg {
  std::optional<Dims> values;
  operator std::optional<IntList>() const { return values ? std::optional<IntList>(IntList(*values)) : std::nullopt; }
};
inline OptIntsArg arg_opt_ints(PyObject* slot, int list_size) {
  return given(slot) ? OptIntsArg{arg_ints(slot, list_size).values} : OptIntsArg{};
}

struct FloatsArg {
  std::vector<double> values;
  operator FloatList() const { return values; }
};
FloatsArg arg_floats(PyObject* slot);
struct OptFloatsArg {
  std::optional<std::vector<double>> values;
  operator std::optional<FloatList>() const {
    return values ? std::optional<FloatList>(FloatList(*values)) : std::nullopt;
  }
};
inline OptFloatsArg arg_opt_floats(PyObject* slot) {
  return given(slot) ? OptFloatsArg{arg_floats(slot).values} : OptFloatsArg{};
}

std::string_view arg_string(PyObject* slot);

template <class T, class F>
std::optional<T> arg_optional(PyObject* slot, F convert) {
  return given(slot) ? std::optional<T>(convert(slot)) : std::nullopt;
}

/// The tensor k of `out=`, for ops with several results.
const Tensor& arg_out(PyObject* slot, int k);

}  // namespace facula::python

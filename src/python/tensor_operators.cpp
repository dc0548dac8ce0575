// Operators of facula.Tensor: arithmetic, conversions to numbers, comparison, and what sequences do.
#include <cstring>
#include <unordered_map>

#include "core/warn.h"
#include "functions.h"
#include "op_ids_matmul.h"
#include "python/args.h"
#include "python/arrays.h"
#include "python/free_threading.h"
#include "python/record.h"
#include "python/tensor_type.h"

namespace facula::python {
namespace {

using BinaryOp = Tensor (*)(const Operand&, const Operand&);
using InplaceOp = const Tensor& (*)(const Tensor&, const Operand&);

bool plain_operand(PyObject* o) {
  return is_plain_tensor(o) || PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o);
}

// An operator that takes no such operands leaves them to the other one's class.
PyObject* or_not_implemented(PyObject* result) {
  if (result || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
  PyErr_Clear();
  Py_RETURN_NOTIMPLEMENTED;
}

// `a + b` is the method of `a` when that is a tensor, else the reflected method of `b`.
PyObject* override_operator(const char* name, PyObject* a, PyObject* b) {
  if (is_tensor(a)) return or_not_implemented(call_override(name, true, a, &b, 1, nullptr));
  static const std::unordered_map<std::string_view, const char*> reflected = {{"add", "__radd__"},
                                                                              {"sub", "__rsub__"},
                                                                              {"mul", "__rmul__"},
                                                                              {"div", "__rtruediv__"},
                                                                              {"floor_divide", "__rfloordiv__"},
                                                                              {"remainder", "__rmod__"},
                                                                              {"bitwise_and", "__rand__"},
                                                                              {"bitwise_or", "__ror__"},
                                                                              {"bitwise_xor", "__rxor__"},
                                                                              {"bitwise_left_shift", "__rlshift__"},
                                                                              {"bitwise_right_shift", "__rrshift__"},
                                                                              {"pow", "__rpow__"},
                                                                              {"matmul", "__rmatmul__"}};
  auto found = reflected.find(name);
  if (found == reflected.end() || !is_tensor(b)) Py_RETURN_NOTIMPLEMENTED;
  return or_not_implemented(call_override(found->second, true, b, &a, 1, nullptr));
}

PyObject* binary_operator(const char* name, BinaryOp op, PyObject* a, PyObject* b) {
  bool plain = plain_operand(a) && plain_operand(b) && !(thread_state.modes & kModePython);
  if (__builtin_expect(!plain, 0)) {
    bool known_a = is_tensor(a) || is_number(a), known_b = is_tensor(b) || is_number(b);
    bool overrides_a = !is_plain_tensor(a) && has_override(a), overrides_b = !is_plain_tensor(b) && has_override(b);
    if ((!known_a && !overrides_a) || (!known_b && !overrides_b)) Py_RETURN_NOTIMPLEMENTED;
    bool overridden = overrides_a || overrides_b || (thread_state.modes & kModePython);
    if (overridden && !overrides_disabled()) return override_operator(name, a, b);
    if (!known_a || !known_b) Py_RETURN_NOTIMPLEMENTED;
  }
  return guarded([&] { return wrap(op(arg_operand<Layouts::Keep>(a), arg_operand<Layouts::Keep>(b))); });
}

PyObject* inplace_operator(const char* name, InplaceOp op, PyObject* a, PyObject* b) {
  if (!is_tensor(a)) Py_RETURN_NOTIMPLEMENTED;
  bool overridden = ((!is_plain_tensor(a) && has_override(a)) || (!is_plain_tensor(b) && has_override(b)) ||
                     (thread_state.modes & kModePython)) &&
                    !overrides_disabled();
  if (overridden) {
    return or_not_implemented(call_override(name, true, a, &b, 1, nullptr));
  }
  if (!is_tensor(b) && !is_number(b)) Py_RETURN_NOTIMPLEMENTED;
  return guarded([&] {
    op(tensor_of(a), arg_operand<Layouts::Keep>(b));
    return Py_NewRef(a);
  });
}

#define BINARY(slot, name, expression)                                                                           \
  PyObject* slot(PyObject* a, PyObject* b) {                                                                     \
    return binary_operator(name, [](const Operand& x, const Operand& y) -> Tensor { return expression; }, a, b); \
  }
#define INPLACE(slot, name, expression)                                                             \
  PyObject* slot(PyObject* a, PyObject* b) {                                                        \
    return inplace_operator(                                                                        \
        name, [](const Tensor& x, const Operand& y) -> const Tensor& { return expression; }, a, b); \
  }

const Scalar kOne(1);
BINARY(nb_add, "add", add(x, y, kOne))
BINARY(nb_subtract, "sub", sub(x, y, kOne))
BINARY(nb_multiply, "mul", mul(x, y))
BINARY(nb_true_divide, "div", div(x, y))
BINARY(nb_floor_divide, "floor_divide", floor_divide(x, y))
BINARY(nb_remainder, "remainder", remainder(x, y))
BINARY(nb_and, "bitwise_and", bitwise_and(x, y))
BINARY(nb_or, "bitwise_or", bitwise_or(x, y))
BINARY(nb_xor, "bitwise_xor", bitwise_xor(x, y))
BINARY(nb_lshift, "bitwise_left_shift", bitwise_left_shift(x, y))
BINARY(nb_rshift, "bitwise_right_shift", bitwise_right_shift(x, y))
BINARY(power, "pow", pow(x, y))
INPLACE(nb_inplace_add, "add_", add_(x, y, kOne))
INPLACE(nb_inplace_subtract, "sub_", sub_(x, y, kOne))
INPLACE(nb_inplace_multiply, "mul_", mul_(x, y))
INPLACE(nb_inplace_true_divide, "div_", div_(x, y))
INPLACE(nb_inplace_floor_divide, "floor_divide_", floor_divide_(x, y))
INPLACE(nb_inplace_remainder, "remainder_", remainder_(x, y))
INPLACE(nb_inplace_and, "bitwise_and_", bitwise_and_(x, y))
INPLACE(nb_inplace_or, "bitwise_or_", bitwise_or_(x, y))
INPLACE(nb_inplace_xor, "bitwise_xor_", bitwise_xor_(x, y))
INPLACE(nb_inplace_lshift, "bitwise_left_shift_", bitwise_left_shift_(x, y))
INPLACE(nb_inplace_rshift, "bitwise_right_shift_", bitwise_right_shift_(x, y))
INPLACE(inplace_power, "pow_", pow_(x, y))
PyObject* nb_power(PyObject* a, PyObject* b, PyObject*) { return power(a, b); }
PyObject* nb_inplace_power(PyObject* a, PyObject* b, PyObject*) { return inplace_power(a, b); }

PyObject* nb_matrix_multiply(PyObject* a, PyObject* b) {
  bool tensors = is_tensor(a) && is_tensor(b);
  bool overridden = ((!is_plain_tensor(a) && has_override(a)) || (!is_plain_tensor(b) && has_override(b)) ||
                     (thread_state.modes & kModePython)) &&
                    !overrides_disabled();
  if (overridden) return override_operator("matmul", a, b);
  if (!tensors) Py_RETURN_NOTIMPLEMENTED;
  return guarded([&] {
    PyObject* operands[] = {a, b};
    CompositeScope scope(op_id::matmul, OpForm::Function, operands, 2);
    if (scope.answered()) return scope.answer();
    return wrap(matmul(operand_tensor_of(a), operand_tensor_of(b)));
  });
}

template <class F>
PyObject* unary_operator(const char* name, PyObject* a, F&& f) {
  bool overridden =
      ((!is_plain_tensor(a) && has_override(a)) || (thread_state.modes & kModePython)) && !overrides_disabled();
  if (overridden) return call_override(name, true, a, nullptr, 0, nullptr);
  return guarded([&] { return wrap(f(tensor_of(a))); });
}
PyObject* nb_negative(PyObject* a) {
  return unary_operator("neg", a, [](const Tensor& t) { return neg(t); });
}
PyObject* nb_positive(PyObject* a) {
  return unary_operator("positive", a, [](const Tensor& t) { return positive(t); });
}
PyObject* nb_absolute(PyObject* a) {
  return unary_operator("abs", a, [](const Tensor& t) { return abs(t); });
}
PyObject* nb_invert(PyObject* a) {
  return unary_operator("bitwise_not", a, [](const Tensor& t) {
    FACULA_CHECK(is_bits(t.dtype()), ErrorKind::Type, "bitwise_not: expected an integer or bool tensor, got ",
                 t.dtype());
    return bitwise_not(t);
  });
}

int nb_bool(PyObject* a) {
  try {
    const Tensor& t = tensor_of(a);
    value_needed(t, "bool()");
    FACULA_CHECK(t.numel() == 1, ErrorKind::Runtime, "bool: the truth of a Tensor with ",
                 t.numel() == 0 ? "no" : "more than one", " value is ambiguous (use any() or all()), got shape ",
                 t.sizes());
    return t.item().to_bool();
  } catch (...) {
    translate_exception();
    return -1;
  }
}

// int(t), float(t), complex(t): a ValueError where item() itself raises RuntimeError, as users' handlers expect.
Scalar real_item(const Tensor& t, const char* op) {
  value_needed(t, op);
  FACULA_CHECK(t.numel() == 1, ErrorKind::Value, op,
               ": a tensor of one element can be converted to a Python number, got shape ", t.sizes());
  Scalar value = t.item();
  FACULA_CHECK(!value.is_complex() || value.to_complex().imag() == 0, ErrorKind::Runtime, op,
               ": expected a real number, got a complex one");
  return value.is_complex() ? Scalar(value.to_complex().real()) : value;
}

PyObject* nb_int(PyObject* a) {
  return guarded([&]() -> PyObject* {
    Scalar value = real_item(tensor_of(a), "int");
    if (value.is_floating()) return PyLong_FromDouble(value.to_double());
    if (value.is_bool()) return PyLong_FromLong(value.to_bool());
    return wrap(value);
  });
}
PyObject* nb_float(PyObject* a) {
  return guarded([&] {
    const double value = real_item(tensor_of(a), "float").to_double();
    warn_of_lost_history(tensor_of(a));
    return PyFloat_FromDouble(value);
  });
}
PyObject* nb_index(PyObject* a) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(a);
    value_needed(t, "index()");
    FACULA_CHECK(is_bits(t.dtype()) && t.numel() == 1, ErrorKind::Type,
                 "index: an integer tensor of one element is an index, got ", t.dtype(), " ", t.sizes());
    Scalar value = t.item();
    return value.is_bool() ? PyLong_FromLong(value.to_bool()) : wrap(value);
  });
}

/// Of a tensor and an array, element by element: NumPy leaves these two operators to the tensor (__array_priority__).
PyObject* equality(const char* name, BinaryOp f, PyObject* a, PyObject* b) {
  PyObject* result = binary_operator(name, f, a, b);
  if (result != Py_NotImplemented || std::strcmp(Py_TYPE(b)->tp_name, "numpy.ndarray") != 0) return result;
  Py_DECREF(result);
  return guarded([&] {
    Owned other(wrap(tensor_from_data(b, std::nullopt, std::nullopt, false)));
    return check(binary_operator(name, f, a, other.get()));
  });
}

PyObject* compare(PyObject* a, PyObject* b, int op) {
  switch (op) {
    case Py_EQ:
      return equality("__eq__", [](const Operand& x, const Operand& y) -> Tensor { return eq(x.tensor(), y); }, a, b);
    case Py_NE:
      return equality("__ne__", [](const Operand& x, const Operand& y) -> Tensor { return ne(x.tensor(), y); }, a, b);
    case Py_LT:
      return binary_operator(
          "__lt__", [](const Operand& x, const Operand& y) -> Tensor { return lt(x.tensor(), y); }, a, b);
    case Py_LE:
      return binary_operator(
          "__le__", [](const Operand& x, const Operand& y) -> Tensor { return le(x.tensor(), y); }, a, b);
    case Py_GT:
      return binary_operator(
          "__gt__", [](const Operand& x, const Operand& y) -> Tensor { return gt(x.tensor(), y); }, a, b);
    default:
      return binary_operator(
          "__ge__", [](const Operand& x, const Operand& y) -> Tensor { return ge(x.tensor(), y); }, a, b);
  }
}

Py_hash_t identity_hash(PyObject* self) {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_HashPointer(self);
#else
  return _Py_HashPointer(self);
#endif
}

Py_ssize_t length(PyObject* self) {
  const Tensor& t = tensor_of(self);
  if (t.dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len: a 0-d tensor has no length");
    return -1;
  }
  return static_cast<Py_ssize_t>(t.size(0));
}

PyObject* sequence_item(PyObject* self, Py_ssize_t i) {
  return guarded([&] {
    const Tensor& t = tensor_of(self);
    FACULA_CHECK(t.dim() > 0 && i >= 0 && i < t.size(0), ErrorKind::Index, "index: out of range for length ",
                 t.dim() ? t.size(0) : 0, ", got ", i);
    return wrap(select(t, 0, i));
  });
}

// Slots that facula/_tensor implements: a built-in type does not notice methods put into its dict.
PyObject* call_method_in_python(PyObject* self, const char* name, PyObject* arg = nullptr) {
  return guarded([&] {
    const Owned key(check(PyUnicode_FromString(name)));
    const Item function = dict_item(TensorType.tp_dict, key.get());
    if (!function.get())
      return PyErr_Format(PyExc_NotImplementedError, "Tensor.%s: the Python half of facula is not loaded", name);
    const Owned owned(function.new_reference());
    return call_python(PyObject_CallFunctionObjArgs, owned.get(), self, arg, nullptr);
  });
}
PyObject* repr_slot(PyObject* self) { return call_method_in_python(self, "__repr__"); }
PyObject* iter_slot(PyObject* self) { return call_method_in_python(self, "__iter__"); }
int contains_slot(PyObject* self, PyObject* element) {
  Owned answer(call_method_in_python(self, "__contains__", element));
  return answer ? PyObject_IsTrue(answer.get()) : -1;
}

PyNumberMethods number;
PyMappingMethods mapping = {length, getitem, setitem};
PySequenceMethods sequence;
PyBufferProcs buffer = {tensor_buffer, release_tensor_buffer};

}  // namespace

void warn_of_lost_history(const Tensor& t) {
  if (!requires_grad(t) || !GradMode::enabled()) return;
  static std::atomic<bool> given = false;
  warn_once(given, "float: the number of a tensor that requires a gradient has none (detach() the tensor to say so)");
}

void set_tensor_operators(PyTypeObject& type) {
  number.nb_add = nb_add;
  number.nb_subtract = nb_subtract;
  number.nb_multiply = nb_multiply;
  number.nb_true_divide = nb_true_divide;
  number.nb_floor_divide = nb_floor_divide;
  number.nb_remainder = nb_remainder;
  number.nb_power = nb_power;
  number.nb_and = nb_and;
  number.nb_or = nb_or;
  number.nb_xor = nb_xor;
  number.nb_lshift = nb_lshift;
  number.nb_rshift = nb_rshift;
  number.nb_matrix_multiply = nb_matrix_multiply;
  number.nb_inplace_add = nb_inplace_add;
  number.nb_inplace_subtract = nb_inplace_subtract;
  number.nb_inplace_multiply = nb_inplace_multiply;
  number.nb_inplace_true_divide = nb_inplace_true_divide;
  number.nb_inplace_floor_divide = nb_inplace_floor_divide;
  number.nb_inplace_remainder = nb_inplace_remainder;
  number.nb_inplace_power = nb_inplace_power;
  number.nb_inplace_and = nb_inplace_and;
  number.nb_inplace_or = nb_inplace_or;
  number.nb_inplace_xor = nb_inplace_xor;
  number.nb_inplace_lshift = nb_inplace_lshift;
  number.nb_inplace_rshift = nb_inplace_rshift;
  number.nb_negative = nb_negative;
  number.nb_positive = nb_positive;
  number.nb_absolute = nb_absolute;
  number.nb_invert = nb_invert;
  number.nb_bool = nb_bool;
  number.nb_int = nb_int;
  number.nb_float = nb_float;
  number.nb_index = nb_index;
  sequence.sq_length = length;
  sequence.sq_item = sequence_item;
  sequence.sq_contains = contains_slot;

  type.tp_as_number = &number;
  type.tp_as_mapping = &mapping;
  type.tp_as_sequence = &sequence;
  type.tp_as_buffer = &buffer;
  type.tp_richcompare = compare;
  type.tp_hash = identity_hash;
  type.tp_repr = repr_slot;
  type.tp_iter = iter_slot;
}

}  // namespace facula::python

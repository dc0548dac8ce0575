#include "python/values.h"

#include "python/args.h"
#include "python/program_object.h"

namespace facula::python {
namespace {

template <class List, class F>
PyObject* wrap_items(const List& list, F&& wrap_item) {
  Owned made(check(PyList_New(static_cast<Py_ssize_t>(list.size()))));
  Py_ssize_t i = 0;
  for (const auto& item : list) PyList_SET_ITEM(made.get(), i++, check(wrap_item(item)));
  return made.release();
}

PyObject* wrap_text(const std::string& text) {
  return check(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

/// The class of integers with an expression, set by Python.
PyObject* symint_class = nullptr;

PyObject* wrap_expr(const Expr& e) {
  if (e.is_integer()) return wrap(e.integer());
  return wrap_text(e.text());
}

bool is_symbolic(PyObject* o) {
  return symint_class && !PyLong_CheckExact(o) && PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(symint_class));
}

Expr to_expr(PyObject* o) {
  if (!is_symbolic(o)) return Expr(to_int(o));
  Owned text(check(PyObject_GetAttrString(o, "_expr")));
  return Expr::parse(utf8(text.get()));
}

bool is_sequence(PyObject* o) { return PyTuple_Check(o) || PyList_Check(o); }

template <class F>
bool all_items(PyObject* o, F&& holds) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    if (!holds(PySequence_Fast_GET_ITEM(o, i))) return false;
  }
  return true;
}
template <class F>
void each_item(PyObject* o, F&& use) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    Owned item = Owned::share(PySequence_Fast_GET_ITEM(o, i));
    use(item.get());
  }
}

bool is_tensor_or_none(PyObject* o) { return o == Py_None || is_tensor(o); }
bool is_integer(PyObject* o) { return is_int(o) && !is_tensor(o); }

/// As it is now: the program can change, what holds it does not.
Value runner_of(PyObject* o) {
  const Program& program = *reinterpret_cast<PyProgram*>(o)->program;
  return std::make_shared<const Runner>(std::make_shared<const Program>(program));
}

Value tensors_of(PyObject* o) {
  std::vector<Tensor> tensors;
  each_item(o, [&](PyObject* item) { tensors.push_back(item == Py_None ? Tensor() : operand_tensor_of(item)); });
  return tensors;
}
Value ints_of(PyObject* o) {
  std::vector<Expr> exprs;
  each_item(o, [&](PyObject* item) { exprs.push_back(to_expr(item)); });
  return exprs;
}
Value floats_of(PyObject* o) {
  std::vector<double> floats;
  each_item(o, [&](PyObject* item) { floats.push_back(to_float(item)); });
  return floats;
}

Value number_of(PyObject* o) {
  if (is_symbolic(o)) return to_expr(o);
  return to_scalar(o);
}

Value list_of(PyObject* o, const BoxedType& type, const char* op, const char* argument) {
  const auto expect = [&](bool holds) {
    FACULA_CHECK(holds, ErrorKind::Type, op, ": argument '", argument, "' is a ", type.text(), ", got ",
                 Py_TYPE(o)->tp_name);
  };
  if (type.base == BoxedType::Base::Tensor) {
    const bool gaps = std::string_view(argument) == "indices";
    expect(is_sequence(o) && all_items(o, gaps ? is_tensor_or_none : is_tensor));
    return tensors_of(o);
  }
  if (type.base == BoxedType::Base::Bool) {
    expect(is_sequence(o) && all_items(o, [](PyObject* item) { return PyBool_Check(item) != 0; }));
    std::vector<bool> bools;
    each_item(o, [&](PyObject* item) { bools.push_back(item == Py_True); });
    return bools;
  }
  if (type.base == BoxedType::Base::Float) {
    expect(is_sequence(o) && all_items(o, is_number));
    return floats_of(o);
  }
  if (!is_sequence(o)) {
    expect(is_integer(o) || is_tensor(o));
    return std::vector<Expr>(static_cast<size_t>(std::max<int>(type.list_size, 1)), to_expr(o));
  }
  expect(all_items(o, [](PyObject* item) { return is_integer(item) || is_tensor(item); }));
  Value ints = ints_of(o);
  const bool single = type.list_size > 1 && PySequence_Fast_GET_SIZE(o) == 1;
  if (!single) return ints;
  return std::vector<Expr>(static_cast<size_t>(type.list_size), to_expr(PySequence_Fast_GET_ITEM(o, 0)));
}

}  // namespace

PyObject* expression_of(PyObject* o) { return is_symbolic(o) ? PyObject_GetAttrString(o, "_expr") : nullptr; }

PyObject* wrap_value(const Value& v) {
  using Kind = Value::Kind;
  switch (v.kind()) {
    case Kind::None: Py_RETURN_NONE;
    case Kind::Int:
    case Kind::Float:
    case Kind::Bool:
    case Kind::Complex: {
      const Scalar number = v.to_scalar();
      return number.is_bool() ? PyBool_FromLong(number.to_bool()) : wrap(number);
    }
    case Kind::DType: return wrap_dtype(v.to_dtype());
    case Kind::Device: return wrap_device(v.to_device());
    case Kind::Layout: return wrap_layout(v.to_layout());
    case Kind::MemoryFormat: return wrap_memory_format(v.to_memory_format());
    case Kind::Generator: return wrap_generator(v.to_generator());
    case Kind::Tensor: return wrap(v.tensor());
    case Kind::Tensors: return wrap_items(v.tensors(), [](const Tensor& t) { return wrap(t); });
    case Kind::String: return wrap_text(std::string(v.to_string()));
    case Kind::Ints: return wrap_items(v.ints(), [](int64_t i) { return wrap(i); });
    case Kind::Bools: return wrap_items(v.bools(), [](bool b) { return wrap(b); });
    case Kind::Graph: return wrap_program(std::make_shared<Program>(v.graph()->program()));
    case Kind::Symbolic: return wrap_expr(v.expr());
    case Kind::Symbolics: return wrap_items(v.exprs(), wrap_expr);
    default: break;
  }
  std::vector<double> room;
  return wrap_items(v.floats(room), [](double d) { return wrap(d); });
}

Value to_value(PyObject* o) {
  if (o == Py_None) return {};
  if (is_tensor(o)) return operand_tensor_of(o);
  if (is_number(o)) return number_of(o);
  if (PyUnicode_Check(o)) return std::string(utf8(o));
  if (is_dtype(o)) return to_dtype_value(o);
  if (is_device(o)) return to_device_value(o);
  if (PyObject_TypeCheck(o, &LayoutType)) return to_layout(o);
  if (PyObject_TypeCheck(o, &MemoryFormatType)) return to_memory_format(o);
  if (PyObject_TypeCheck(o, &GeneratorType)) return to_generator(o);
  if (PyObject_TypeCheck(o, &ProgramType)) return runner_of(o);
  if (is_sequence(o)) {
    if (all_items(o, is_integer)) return ints_of(o);
    if (all_items(o, is_tensor_or_none)) return tensors_of(o);
    if (all_items(o, [](PyObject* item) { return PyBool_Check(item); })) {
      std::vector<bool> bools;
      each_item(o, [&](PyObject* item) { bools.push_back(to_bool(item)); });
      return bools;
    }
    if (all_items(o, is_number)) return floats_of(o);
  }
  throw_error(ErrorKind::Type, "program: expected a tensor, a number, a str, a dtype or a list of these, got ",
              Py_TYPE(o)->tp_name);
}

bool takes_number(const BoxedType& type) {
  using Base = BoxedType::Base;
  return type.base == Base::Int || type.base == Base::Float || type.base == Base::Scalar;
}

Value to_value(PyObject* o, const BoxedType& type, const char* op, const char* argument) {
  using Base = BoxedType::Base;
  if (o == Py_None && type.optional) return {};
  if (type.list) return list_of(o, type, op, argument);
  if (takes_number(type) && is_tensor(o) && tensor_of(o).numel() == 1) {
    const Owned number(check(wrap(to_scalar(o))));
    return to_value(number.get(), type, op, argument);
  }
  Value v;
  switch (type.base) {
    case Base::Int: v = is_integer(o) ? number_of(o) : to_value(o); break;
    case Base::Float: v = is_symbolic(o) || !is_number(o) ? to_value(o) : Value(to_float(o)); break;
    case Base::Device: v = is_device(o) || PyUnicode_Check(o) ? Value(to_device_value(o)) : to_value(o); break;
    default: v = to_value(o);
  }
  FACULA_CHECK(type.accepts(v), ErrorKind::Type, op, ": argument '", argument, "' is a ", type.text(), ", got ",
               Py_TYPE(o)->tp_name);
  return v;
}

static PyObject* set_symint_class(PyObject*, PyObject* type) {
  symint_class = Py_NewRef(type);
  Py_RETURN_NONE;
}

static PyObject* simplify(PyObject*, PyObject* text) {
  return guarded([&] { return wrap_text(Expr::parse(utf8(text)).text()); });
}
// _evaluate(text, values): None where a symbol has no value
static PyObject* evaluate(PyObject*, PyObject* args) {
  PyObject *text = nullptr, *values = nullptr;
  if (!PyArg_ParseTuple(args, "UO!", &text, &PyDict_Type, &values)) return nullptr;
  return guarded([&] {
    const auto find = [&](const std::string& name) -> std::optional<int64_t> {
      PyObject* found = PyDict_GetItemString(values, name.c_str());
      return found ? std::optional<int64_t>(to_int(found)) : std::nullopt;
    };
    const auto value = Expr::parse(utf8(text)).evaluate(find);
    return value ? wrap(*value) : Py_NewRef(Py_None);
  });
}

static PyMethodDef functions[] = {
    {"_simplify", simplify, METH_O, "The text of an expression over sizes, simplified."},
    {"_evaluate", evaluate, METH_VARARGS, "_evaluate(text, values): the number that an expression is."},
    {"_set_symint_class", set_symint_class, METH_O, "Sets which class integers with an expression have."},
    {}};

void init_values(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python

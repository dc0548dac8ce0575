#include "python/op_values.h"

#include <array>

#include "python/args.h"

namespace facula::python {

std::string name_of(const OpCall& call) {
  std::string name = call.info().name;
  if (call.form == OpForm::InPlace && name.back() == '_') return name;
  return name + (call.form == OpForm::InPlace ? "_" : call.form == OpForm::Out ? "_out" : "");
}

namespace {

PyObject* wrap_floats(FloatList values) {
  Owned list(check(PyList_New(static_cast<Py_ssize_t>(values.size()))));
  for (size_t i = 0; i < values.size(); ++i) PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), wrap(values[i]));
  return list.release();
}
PyObject* wrap_int_list(IntList values) {
  Owned list(check(PyList_New(static_cast<Py_ssize_t>(values.size()))));
  for (size_t i = 0; i < values.size(); ++i) PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), wrap(values[i]));
  return list.release();
}
PyObject* wrap_text(std::string_view text) {
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}
PyObject* wrap_list(TensorList tensors) {
  Owned list(check(PyList_New(static_cast<Py_ssize_t>(tensors.size()))));
  for (size_t i = 0; i < tensors.size(); ++i) PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), wrap(tensors[i]));
  return list.release();
}

template <class T, PyObject* (*Wrap)(T)>
PyObject* plain(const Argument& a) {
  return Wrap(a.as<T>());
}
template <class T, PyObject* (*Wrap)(T)>
PyObject* optional(const Argument& a) {
  const auto& value = a.as<std::optional<T>>();
  return value ? Wrap(*value) : Py_NewRef(Py_None);
}
PyObject* wrap_number(Scalar s) { return wrap(s); }
PyObject* wrap_int(int64_t v) { return wrap(v); }
PyObject* wrap_float(double v) { return wrap(v); }
PyObject* wrap_bool(bool v) { return wrap(v); }
PyObject* wrap_tensor(const Argument& a) { return wrap(a.as<Tensor>()); }
PyObject* wrap_operand(const Argument& a) {
  const Operand& o = a.as<Operand>();
  return o.is_tensor() ? wrap(o.tensor()) : wrap(o.scalar());
}
PyObject* wrap_generator_argument(const Argument& a) {
  Generator* generator = a.as<Generator*>();
  return generator ? wrap_generator(generator) : Py_NewRef(Py_None);
}

// In the order of Argument::Kind.
using WrapArgument = PyObject* (*)(const Argument&);
constexpr std::array<WrapArgument, 24> kWraps = {
    wrap_tensor,
    plain<TensorList, wrap_list>,
    wrap_operand,
    plain<Scalar, wrap_number>,
    optional<Scalar, wrap_number>,
    plain<int64_t, wrap_int>,
    optional<int64_t, wrap_int>,
    plain<double, wrap_float>,
    optional<double, wrap_float>,
    plain<bool, wrap_bool>,
    optional<bool, wrap_bool>,
    plain<IntList, wrap_int_list>,
    optional<IntList, wrap_int_list>,
    plain<FloatList, wrap_floats>,
    optional<FloatList, wrap_floats>,
    plain<std::string_view, wrap_text>,
    optional<std::string_view, wrap_text>,
    plain<DType, wrap_dtype>,
    optional<DType, wrap_dtype>,
    optional<Device, wrap_device>,
    optional<Layout, wrap_layout>,
    plain<MemoryFormat, wrap_memory_format>,
    optional<MemoryFormat, wrap_memory_format>,
    wrap_generator_argument,
};
static_assert(kWraps.size() == static_cast<size_t>(Argument::Kind::Generator) + 1);

PyObject* wrap_slot(const ResultSlot& slot) {
  switch (slot.kind()) {
    case ResultSlot::Kind::Tensor: return wrap(slot.as<Tensor>());
    case ResultSlot::Kind::TensorList: return wrap_list(slot.as<std::vector<Tensor>>());
    case ResultSlot::Kind::Bool: return wrap(slot.as<bool>());
    case ResultSlot::Kind::Int: return wrap(slot.as<int64_t>());
    case ResultSlot::Kind::Float: return wrap(slot.as<double>());
    default: return wrap(slot.as<Scalar>());
  }
}

}  // namespace

PyObject* wrap_argument(const Argument& argument) { return kWraps[static_cast<size_t>(argument.kind())](argument); }

PyObject* wrap_arguments(List<Argument> arguments) {
  Owned tuple(check(PyTuple_New(static_cast<Py_ssize_t>(arguments.size()))));
  for (size_t i = 0; i < arguments.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), check(wrap_argument(arguments[i])));
  }
  return tuple.release();
}

PyObject* wrap_slots(List<ResultSlot> slots) {
  Owned tuple(check(PyTuple_New(static_cast<Py_ssize_t>(slots.size()))));
  for (size_t i = 0; i < slots.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), check(wrap_slot(slots[i])));
  }
  return tuple.release();
}

void fill_slot(const ResultSlot& slot, PyObject* value, const char* op) {
  const auto expect = [&](bool fits, const char* what) {
    FACULA_CHECK(fits, ErrorKind::Type, op, ": __torch_dispatch__ must give ", what, ", got ", Py_TYPE(value)->tp_name);
  };
  switch (slot.kind()) {
    case ResultSlot::Kind::Tensor:
      expect(is_tensor(value) || value == Py_None, "a Tensor");
      slot.as<Tensor>() = value == Py_None ? Tensor() : tensor_of(value);
      break;
    case ResultSlot::Kind::TensorList:
      expect(PyList_Check(value) || PyTuple_Check(value), "a list of Tensors");
      slot.as<std::vector<Tensor>>() = arg_tensors(value);
      break;
    case ResultSlot::Kind::Bool: slot.as<bool>() = to_bool(value); break;
    case ResultSlot::Kind::Int: slot.as<int64_t>() = to_int(value); break;
    case ResultSlot::Kind::Float: slot.as<double>() = to_float(value); break;
    case ResultSlot::Kind::Scalar: slot.as<Scalar>() = to_scalar(value); break;
  }
}

}  // namespace facula::python

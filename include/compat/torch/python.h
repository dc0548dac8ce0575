// Tensors and what goes with them as Python objects, by pybind11.
#pragma once

#if !__has_include(<pybind11/pybind11.h>)
#error "<torch/extension.h> needs the package pybind11: pip install pybind11"
#endif
#if !__has_include(<Python.h>)
#error "<torch/extension.h> needs the headers of Python; on Debian or Ubuntu: apt-get install python3-dev"
#endif

#include <Python.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/detail/boxing.h>

#include "python/extension_values.h"

namespace py = pybind11;

namespace torch::detail {

inline const facula::PythonValues& python_values() {
  const facula::PythonValues* found = facula::python_values();
  if (!found) throw pybind11::error_already_set();
  return *found;
}
inline bool load_value(pybind11::handle source, const facula::BoxedType& type, facula::Value& value) {
  return source && python_values().from_object(source.ptr(), type, value);
}
inline pybind11::handle cast_value(const facula::Value& value) {
  PyObject* made = python_values().to_object(value);
  if (!made) throw pybind11::error_already_set();
  return made;
}

/// Errors of the library become Python's of their kind.
inline const bool kErrorsAreTranslated = [] {
  if (!Py_IsInitialized()) return false;
  pybind11::register_local_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const facula::Error& known) {
      const facula::PythonValues* values = facula::python_values();
      if (values) values->set_error(known);
    }
  });
  return true;
}();

/// A caster of what is a value of a kind of its own.
template <class T, facula::BoxedType::Base base>
class ValueCaster {
 public:
  bool load(pybind11::handle source, bool) {
    facula::Value given;
    facula::BoxedType type;
    type.base = base;
    if (!load_value(source, type, given)) return false;
    value = Parameter<T>(given).value;
    return true;
  }
  static pybind11::handle cast(const T& from, pybind11::return_value_policy, pybind11::handle) {
    return cast_value(Parameter<T>::boxed(from));
  }
  /// As casters of pybind11 give what they hold.
  template <class U>
  using cast_op_type = pybind11::detail::movable_cast_op_type<U>;
  operator T*() { return &value; }
  operator T&() { return value; }
  operator T&&() && { return std::move(value); }

 protected:
  T value = made();

 private:
  static T made() {
    if constexpr (std::is_same_v<T, Device>) return Device(kCPU);
    else return T();
  }
};

}  // namespace torch::detail

namespace pybind11::detail {

#define FACULA_CASTER(Type, Kind, Name)                                                              \
  template <>                                                                                        \
  class type_caster<Type> : public torch::detail::ValueCaster<Type, facula::BoxedType::Base::Kind> { \
   public:                                                                                           \
    static constexpr auto name = const_name(Name);                                                   \
  };
FACULA_CASTER(torch::Tensor, Tensor, "torch.Tensor")
FACULA_CASTER(torch::Scalar, Scalar, "Union[Number, bool]")
FACULA_CASTER(torch::ScalarType, DType, "torch.dtype")
FACULA_CASTER(torch::Device, Device, "torch.device")
FACULA_CASTER(torch::Layout, Layout, "torch.layout")
FACULA_CASTER(torch::MemoryFormat, MemoryFormat, "torch.memory_format")
FACULA_CASTER(torch::Generator, Generator, "torch.Generator")
#undef FACULA_CASTER

/// Integers, and torch.Size; a list lives as long as the call.
template <>
class type_caster<torch::IntArrayRef> {
 public:
  PYBIND11_TYPE_CASTER(torch::IntArrayRef, const_name("Tuple[int, ...]"));
  bool load(handle source, bool) {
    facula::BoxedType type;
    type.base = facula::BoxedType::Base::Int;
    type.list = true;
    facula::Value given;
    if (!source || !PySequence_Check(source.ptr()) || !torch::detail::load_value(source, type, given)) return false;
    held_ = given.ints();
    value = held_;
    return true;
  }
  static handle cast(torch::IntArrayRef from, return_value_policy, handle) {
    return torch::detail::cast_value(from.vec());
  }

 private:
  std::vector<int64_t> held_;
};

template <>
class type_caster<torch::TensorList> {
 public:
  PYBIND11_TYPE_CASTER(torch::TensorList, const_name("Sequence[torch.Tensor]"));
  bool load(handle source, bool convert) {
    list_caster<std::vector<torch::Tensor>, torch::Tensor> list;
    if (!list.load(source, convert)) return false;
    held_ = std::move(static_cast<std::vector<torch::Tensor>&>(list));
    value = held_;
    return true;
  }
  static handle cast(torch::TensorList from, return_value_policy, handle) {
    return torch::detail::cast_value(torch::detail::cores(from));
  }

 private:
  std::vector<torch::Tensor> held_;
};

}  // namespace pybind11::detail

// ---- tensors for sources that talk to Python themselves

inline bool THPVariable_Check(PyObject* object) {
  facula::Value value;
  return torch::detail::load_value(object, facula::BoxedType(), value);
}
inline torch::Tensor THPVariable_Unpack(PyObject* object) {
  facula::Value value;
  if (!torch::detail::load_value(object, facula::BoxedType(), value))
    throw torch::Error(facula::ErrorKind::Type,
                       std::string("operator: a Tensor is expected, got ") + Py_TYPE(object)->tp_name);
  return torch::detail::tensor_in(value);
}
inline PyObject* THPVariable_Wrap(const torch::Tensor& tensor) {
  return torch::detail::cast_value(tensor.core()).ptr();
}

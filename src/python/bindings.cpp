#include "python/bindings.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "python/free_threading.h"
#include "python/record.h"

namespace facula::python {

struct CompositeScope::Opened {
  std::vector<std::vector<Tensor>> tensor_lists;  // of lists of tensors
  std::vector<TensorList> lists;
  std::vector<Argument> arguments;
  std::optional<OpScope> scope;
  int exceptions = std::uncaught_exceptions();
};

void CompositeScope::open(uint16_t op, OpForm form, PyObject* const* slots, int count) {
  const SpreadArguments given_spread = present_spread_arguments();
  answer_ = dispatch_composite(op, form, slots, count);
  present_spread_arguments() = given_spread;
  if (answer_ || !(watching() & (kWatchObservers | kUnknownThread))) return;
  opened_ = new Opened;
  opened_->tensor_lists.reserve(static_cast<size_t>(count));
  opened_->lists.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    PyObject* slot = slots[i];
    const bool sequence =
        given(slot) && (PyList_Check(slot) || PyTuple_Check(slot)) && PySequence_Fast_GET_SIZE(slot) > 0;
    const Item first = sequence ? list_item(slot, 0) : Item();
    if (first.get() && is_tensor(first)) {
      opened_->tensor_lists.push_back(arg_tensors(slot));
      opened_->lists.emplace_back(opened_->tensor_lists.back());
      opened_->arguments.emplace_back(opened_->lists.back());
    } else {
      opened_->arguments.emplace_back(given(slot) && is_tensor(slot) ? tensor_of(slot) : undefined_tensor);
    }
  }
  const SpreadArguments spread = present_spread_arguments();
  opened_->scope.emplace(op, OpForm::Composite, opened_->arguments, List<ResultSlot>());
  present_spread_arguments() = spread;
}

void CompositeScope::close() {
  if (std::uncaught_exceptions() == opened_->exceptions) opened_->scope->done();
  delete opened_;
}

void BindingTables::add(const Binding* functions, const Binding* methods, ResultTuple* const* results) {
  for (; functions->op; ++functions) functions_.push_back(functions);
  for (; methods->op; ++methods) methods_.push_back(methods);
  for (; *results; ++results) results_.push_back(*results);
}

namespace {

PyObject* extension = nullptr;
std::unordered_map<std::string, BoundFunction> bound_functions, bound_methods;

void remember(std::unordered_map<std::string, BoundFunction>& table, const Binding& binding) {
  table.emplace(binding.op, reinterpret_cast<BoundFunction>(reinterpret_cast<void*>(binding.method.ml_meth)));
}
std::map<std::string, std::pair<ResultTuple*, bool>> result_types;  // by name; true: of out=

// The submodule of the extension for a dotted path, made when needed: "nn.functional" is _C.nn_functional.
PyObject* submodule(PyObject* module, std::string path) {
  if (path.empty()) return module;
  for (char& c : path) c = c == '.' ? '_' : c;
  if (PyObject* found = PyObject_GetAttrString(module, path.c_str())) {
    Py_DECREF(found);
    return found;
  }
  PyErr_Clear();
  const std::string name = "facula._C." + path;
  PyObject* made = check(PyModule_New(name.c_str()));
  check(PyDict_SetItemString(PyImport_GetModuleDict(), name.c_str(), made));  // where pickle looks for its functions
  check(PyModule_AddObject(module, path.c_str(), made));
  return made;
}

// One field a line, as values are matrices more often than numbers.
PyObject* repr_results(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  std::string text = std::string(type->tp_name) + "(";
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
    PyObject* value = PyObject_Repr(PyTuple_GET_ITEM(self, i));
    const char* utf8 = value ? PyUnicode_AsUTF8(value) : nullptr;
    if (utf8) text += std::string(i ? ",\n" : "\n") + type->tp_members[i].name + "=" + utf8;
    Py_XDECREF(value);
    if (!utf8) return nullptr;
  }
  return PyUnicode_FromString((text + ")").c_str());
}

/// Takes no lock, since making a type may run the garbage collector, and that any program: of two threads that make one
/// at once the second takes that of the first.
PyTypeObject* made_type(ResultTuple& results, bool out) {
  std::atomic<PyTypeObject*>& made = results.made[out];
  if (PyTypeObject* type = made.load(std::memory_order_acquire)) return type;
  auto* fields = new PyStructSequence_Field[results.count + 1]();
  for (int i = 0; i < results.count; ++i) fields[i].name = results.fields[i];
  auto* name = new std::string(std::string("torch.return_types.") + results.op + (out ? "_out" : ""));
  PyStructSequence_Desc description{name->c_str(), nullptr, fields, results.count};  // owned by the type
  PyTypeObject* type = PyStructSequence_NewType(&description);
  if (!type) throw PythonError{};
  type->tp_repr = repr_results;
  PyType_Modified(type);
  PyTypeObject* first = nullptr;
  return made.compare_exchange_strong(first, type, std::memory_order_acq_rel) ? type : first;
}

/// `_C._result_tuple(name)`: the type of that name, or None.
PyObject* find_result_type(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) throw PythonError{};
    const auto found = result_types.find(text);
    if (found == result_types.end()) return Py_NewRef(Py_None);
    return Py_NewRef(reinterpret_cast<PyObject*>(made_type(*found->second.first, found->second.second)));
  });
}

/// `_C._result_tuples()`.
PyObject* list_result_types(PyObject*, PyObject*) {
  return guarded([&] {
    Owned names(check(PyList_New(0)));
    for (const auto& [name, _] : result_types) {
      Owned text(check(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()))));
      if (PyList_Append(names.get(), text.get()) < 0) throw PythonError{};
    }
    return names.release();
  });
}

PyMethodDef result_functions[] = {
    {"_result_tuple", find_result_type, METH_O, nullptr},
    {"_result_tuples", list_result_types, METH_NOARGS, nullptr},
    {},
};

void remember_results(PyObject* module, const std::vector<ResultTuple*>& results) {
  for (ResultTuple* r : results) {
    result_types.emplace(r->op, std::pair(r, false));
    result_types.emplace(std::string(r->op) + "_out", std::pair(r, true));
  }
  if (PyModule_AddFunctions(module, result_functions) < 0) throw PythonError{};
}

}  // namespace

PyObject* make_results(ResultTuple* type, bool out, std::initializer_list<PyObject*> items) {
  const auto count = static_cast<Py_ssize_t>(items.size());
  PyObject* results = check(type ? PyStructSequence_New(made_type(*type, out)) : PyTuple_New(count));
  std::copy(items.begin(), items.end(), reinterpret_cast<PyTupleObject*>(results)->ob_item);
  return results;
}

BoundFunction find_binding(const std::string& name, bool method) {
  const auto& table = method ? bound_methods : bound_functions;
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

void init_generated(PyObject* module) {
  extension = module;
  BindingTables tables;
  register_all(tables);
  remember_results(module, tables.results());
  for (const Binding* b : tables.functions()) {
    PyObject* home = submodule(module, b->module);
    auto* definition = const_cast<PyMethodDef*>(&b->method);
    remember(bound_functions, *b);
    PyObject* name = PyModule_GetNameObject(home);
    check(PyModule_AddObject(home, b->method.ml_name, check(immortal(PyCFunction_NewEx(definition, nullptr, name)))));
    Py_XDECREF(name);
  }
  for (const Binding* b : tables.methods()) {
    auto* definition = const_cast<PyMethodDef*>(&b->method);
    PyObject* descriptor = check(immortal(PyDescr_NewMethod(&TensorType, definition)));
    remember(bound_methods, *b);
    check(PyDict_SetItemString(TensorType.tp_dict, b->method.ml_name, descriptor));
    Py_DECREF(descriptor);
  }
  PyType_Modified(&TensorType);
}

}  // namespace facula::python

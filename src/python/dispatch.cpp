// `__torch_dispatch__`: classes and modes in Python that stand in for the kernels of ops, below autograd (src/observe).
// What is called and in which order is facula/utils/_python_dispatch.py's; here are the conversions and the switches.
#include "python/dispatch.h"

#include "autograd/node.h"
#include "core/class_hooks.h"
#include "core/host.h"
#include "observe/observer.h"
#include "program/boxed.h"
#include "python/args.h"
#include "python/bindings.h"
#include "python/free_threading.h"
#include "python/op_values.h"

namespace facula::python {
namespace {

PyObject* disabled_implementation = nullptr;
thread_local int disabled_depth = 0;
PyObject* handler = nullptr;  // handle(name, overload, form, signature, values)

PyObject* dispatch_name() {
  static std::atomic<PyObject*> name;
  return made_once(name, [] { return PyUnicode_InternFromString("__torch_dispatch__"); });
}

// Below autograd and below __torch_function__, as long as Python decides.
class Below {
 public:
  Below() : grad_(false), forward_(std::exchange(thread_state.forward_grad_enabled, false)) {
    change_overrides_disabled(1);
  }
  ~Below() {
    change_overrides_disabled(-1);
    thread_state.forward_grad_enabled = forward_;
  }
  Below(const Below&) = delete;

 private:
  GradMode grad_;
  bool forward_;
};

constexpr const char* kForms[] = {"function", "inplace", "out", "composite"};

void fill_results(const OpCall& call, PyObject* given_result) {
  if (call.results.empty()) return;  // what it writes to has been written
  const char* op = call.info().name;
  if (call.results.size() == 1) {
    fill_slot(call.results[0], given_result, op);
    return;
  }
  Owned items(snapshot(given_result, "__torch_dispatch__ must give a sequence"));
  if (!items) throw PythonError{};
  const auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(items.get()));
  FACULA_CHECK(count == call.results.size(), ErrorKind::Type, op, ": __torch_dispatch__ must give ",
               call.results.size(), " results, got ", count);
  for (size_t i = 0; i < count; ++i) {
    fill_slot(call.results[i], PySequence_Fast_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i)), op);
  }
}

// The module that finds who stands in installs the handler; a program need not have imported it.
bool have_handler() {
  if (disabled_depth > 0) return false;
  if (!handler) Owned(check(PyImport_ImportModule("facula.utils._python_dispatch")));
  return handler != nullptr;
}

bool dispatch_to_python(const OpCall& call) {
  if (disabled_depth > 0) return false;
  WithLock lock;
  if (!have_handler()) return false;
  Below below;
  const OpInfo& info = call.info();
  Owned values(check(wrap_arguments(call.arguments)));
  Owned result(check(call_python(PyObject_CallFunction, handler, "sssOO", info.name, info.overload,
                                 kForms[static_cast<int>(call.form)], values.get(),
                                 Owned(check(PyUnicode_FromString(info.arguments))).get())));
  fill_results(call, result.get());
  return true;
}

Tensor detach_by_handler(const Tensor& self) {
  WithLock lock;
  if (!have_handler()) return make_view(self, self.sizes(), self.strides(), 0, false);
  Below below;
  Owned values(check(Py_BuildValue("(N)", wrap(self))));
  Owned result(check(
      call_python(PyObject_CallFunction, handler, "sssOs", "detach", "", "function", values.get(), "Tensor self")));
  FACULA_CHECK(is_tensor(result.get()), ErrorKind::Type, "detach: __torch_dispatch__ must give a Tensor, got ",
               Py_TYPE(result.get())->tp_name);
  return tensor_of(result.get());
}

bool item_by_handler(const Tensor& self, Scalar& number) {
  if (disabled_depth > 0) return false;
  WithLock lock;
  if (!have_handler()) return false;
  Owned arguments(check(Py_BuildValue("(N)", wrap(self))));
  Owned result(dispatch_call("_item", arguments.get()));
  if (!result.get()) return false;
  FACULA_CHECK(is_number(result.get()), ErrorKind::Type, "item: __torch_dispatch__ must give a number, got ",
               Py_TYPE(result.get())->tp_name);
  number = to_scalar(result.get());
  return true;
}

bool copy_by_handler(const Tensor& self, const Tensor& made) {
  if (disabled_depth > 0) return false;
  WithLock lock;
  if (!have_handler()) return false;
  Owned arguments(check(Py_BuildValue("(NN)", wrap(self), wrap(made))));
  return Owned(dispatch_call("_copy", arguments.get())).get() != nullptr;
}

// What a composite was called with: NotImplemented stands for what was not given.
PyObject* given_values(PyObject* const* slots, int count) {
  Owned values(check(PyTuple_New(count)));
  for (int i = 0; i < count; ++i) {
    const bool spread = slots[i] && !is_tensor(slots[i]) && Py_TYPE(slots[i]) == &PyBaseObject_Type;
    PyObject* value = spread     ? check(wrap_size(arg_ints(slots[i], 0).values))
                      : slots[i] ? Py_NewRef(slots[i])
                                 : Py_NewRef(Py_NotImplemented);
    PyTuple_SET_ITEM(values.get(), i, value);
  }
  return values.release();
}

struct Looks {
  bool seen = (watching() & kWatchDispatch) != 0, recorded = false;
  void operator()(const Tensor& t) {
    if (!t.defined()) return;
    seen = seen || (t.flags() & kPythonDispatch);
    recorded = recorded || (t.flags() & kBatched) || (GradMode::enabled() && (requires_grad(t) || (t.flags() & kDual)));
  }
  void operator()(PyObject* slot) {
    if (!slot) return;
    if (is_tensor(slot)) return (*this)(tensor_of(slot));
    if (!PyList_Check(slot) && !PyTuple_Check(slot)) return;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(slot); ++i) {
      const Item item = list_item(slot, i);
      if (item.get() && is_tensor(item)) (*this)(tensor_of(item));
    }
  }
};

PyObject* set_handler(PyObject*, PyObject* callable) {
  handler = Py_NewRef(callable);
  Py_RETURN_NONE;
}
PyObject* set_mode_active(PyObject*, PyObject* active) {
  set_watch(kWatchDispatch, PyObject_IsTrue(active) == 1);
  Py_RETURN_NONE;
}
PyObject* change_disabled(PyObject*, PyObject* change) {
  disabled_depth += static_cast<int>(PyLong_AsLong(change));
  Py_RETURN_NONE;
}
PyObject* dispatch_possible(PyObject*, PyObject*) {
  const bool any = (watching() & kWatchDispatch) || classes_stand_in.load(std::memory_order_relaxed);
  return PyBool_FromLong(any && disabled_depth == 0);
}
// The same tensor for kernels: no class stands in for them.
PyObject* without_dispatch(PyObject*, PyObject* o) {
  return guarded([&] {
    FACULA_CHECK(is_tensor(o), ErrorKind::Type, "_without_dispatch: expected a Tensor, got ", Py_TYPE(o)->tp_name);
    const Tensor& t = tensor_of(o);
    Tensor plain = make_view(t, t.sizes(), t.strides(), 0, false);
    plain.impl()->flags &= ~static_cast<uint32_t>(kPythonDispatch);
    return wrap(std::move(plain));
  });
}
PyObject* disabled_call(PyObject*, PyObject* args) {
  PyObject *cls, *function, *types, *positional = nullptr, *keywords = nullptr;
  const bool with_class = PyTuple_GET_SIZE(args) == 5;
  if (!(with_class ? PyArg_ParseTuple(args, "OOOOO", &cls, &function, &types, &positional, &keywords)
                   : PyArg_ParseTuple(args, "OO|OO", &function, &types, &positional, &keywords)))
    return nullptr;
  ++disabled_depth;
  Owned given(positional ? PySequence_Tuple(positional) : PyTuple_New(0));
  PyObject* result = nullptr;
  if (keywords && keywords != Py_None && !PyDict_Check(keywords)) {
    PyErr_Format(PyExc_TypeError, "__torch_dispatch__: kwargs must be a dict, got %s", Py_TYPE(keywords)->tp_name);
  } else if (given) {
    result = call_python(PyObject_Call, function, given.get(), keywords == Py_None ? nullptr : keywords);
  }
  --disabled_depth;
  return result;
}

PyMethodDef disabled_definition = {"_disabled_torch_dispatch_impl", disabled_call, METH_VARARGS,
                                   "Declares a class that stands in for no kernel."};
PyMethodDef functions[] = {
    {"_set_dispatch_handler", set_handler, METH_O, "Sets which function finds who stands in for a kernel."},
    {"_set_dispatch_mode_active", set_mode_active, METH_O, "Whether dispatch modes must see every op of this thread."},
    {"_dispatch_possible", dispatch_possible, METH_NOARGS,
     "Whether a mode, or the class of a tensor, may stand in for kernels."},
    {"_change_dispatch_disabled", change_disabled, METH_O, "Adds to the depth of disabled dispatch of this thread."},
    {"_without_dispatch", without_dispatch, METH_O, "The tensor as kernels see it: a plain one on the same memory."},
    {}};

}  // namespace

std::atomic<bool> classes_stand_in{false};

PyObject* dispatch_call(const char* name, PyObject* arguments) {
  Owned module(check(PyImport_ImportModule("facula.utils._python_dispatch")));
  Owned function(check(PyObject_GetAttrString(module.get(), name)));
  Below below;
  Owned result(check(call_python(PyObject_CallObject, function.get(), arguments)));
  return result.get() == Py_NotImplemented ? nullptr : result.release();
}

bool dispatch_sees_whole(std::initializer_list<const Tensor*> tensors) {
  if (disabled_depth > 0) return false;
  Looks looks;
  for (const Tensor* t : tensors) looks(*t);
  return looks.seen && !looks.recorded && have_handler();
}

PyObject* dispatch_composite(uint16_t op, OpForm form, PyObject* const* slots, int count, bool whole) {
  if (disabled_depth > 0) return nullptr;
  Looks looks;
  for (int i = 0; i < count; ++i) looks(slots[i]);
  PyObject* out = form == OpForm::Function && find_boxed(op, OpForm::Out) ? slots[count] : nullptr;
  looks(out);
  if (!looks.seen || looks.recorded || !have_handler()) return nullptr;
  const OpInfo& info = op_info(op);
  Owned values(given_values(slots, count));
  const char* word = given(out) ? kForms[static_cast<int>(OpForm::Out)] : kForms[static_cast<int>(form)];
  Owned arguments(check(Py_BuildValue("(sssOOO)", info.name, info.overload, word, values.get(),
                                      given(out) ? out : Py_None, whole ? Py_True : Py_False)));
  return dispatch_call("_composite", arguments.get());
}

bool stands_in_for_kernels(PyTypeObject* type) {
  PyObject* found = PyObject_GetAttr(reinterpret_cast<PyObject*>(type), dispatch_name());
  if (!found) {
    PyErr_Clear();
    return false;
  }
  Py_DECREF(found);
  return found != disabled_implementation;
}

void init_dispatch(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  disabled_implementation = check(PyCFunction_New(&disabled_definition, nullptr));
  Py_INCREF(disabled_implementation);
  PyModule_AddObject(module, "_disabled_torch_dispatch_impl", disabled_implementation);
  host.dispatch = dispatch_to_python;
  host.detach_by_class = detach_by_handler;
  item_by_class = item_by_handler;
  copy_by_class = copy_by_handler;
}

}  // namespace facula::python

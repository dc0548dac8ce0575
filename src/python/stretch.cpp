#include "python/stretch.h"

#include "python/bindings.h"
#include "python/free_threading.h"

namespace facula::python {
namespace {

constexpr const char* kProgram = "facula.stretch";

Owned tuple_of(const std::vector<Tensor>& tensors) { return Owned(check(wrap(tensors))); }

/// The tensors of a tuple or a list, or a single one.
std::vector<Tensor> tensors_in(PyObject* given, const std::string& whose) {
  std::vector<Tensor> tensors;
  if (is_tensor(given)) return {tensor_of(given)};
  FACULA_CHECK(PyTuple_Check(given) || PyList_Check(given), ErrorKind::Type, whose,
               ": must give a tuple of tensors, got ", Py_TYPE(given)->tp_name);
  const Owned items(check(PySequence_Tuple(given)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    FACULA_CHECK(is_tensor(item), ErrorKind::Type, whose, ": must give a tensor as result ", i, ", got ",
                 Py_TYPE(item)->tp_name);
    tensors.push_back(tensor_of(item));
  }
  return tensors;
}

StretchProgram& program_of(PyObject* capsule) {
  return *static_cast<StretchProgram*>(PyCapsule_GetPointer(capsule, kProgram));
}

/// The ops of a stretch, one by one: a function of a sequence of tensors.
PyObject* run_program(PyObject* capsule, PyObject* given) {
  return guarded([&] { return wrap(program_of(capsule).run(tensors_in(given, "stretch"))); });
}
PyMethodDef run_definition = {"run_stretch", run_program, METH_O, "run_stretch(inputs): the results of its ops."};

Owned wrap_program(const StretchProgram& program) {
  const Owned capsule(
      check(PyCapsule_New(new StretchProgram(program), kProgram, [](PyObject* o) { delete &program_of(o); })));
  return Owned(check(PyCFunction_New(&run_definition, capsule.get())));
}

class PythonStretches final : public StretchHost {
 public:
  explicit PythonStretches(Owned object)
      : object_(object.release()), codes_(check(PyObject_GetAttrString(object_, "codes"))) {}
  ~PythonStretches() override {
    if (!Py_IsInitialized()) return;
    const WithLock lock;
    Py_DECREF(codes_);
    Py_DECREF(object_);
  }

  bool may_record() override {
    const WithLock lock;
    const Owned answer(check(call_python(PyObject_CallMethod, object_, "may_record", nullptr)));
    return PyObject_IsTrue(answer.get()) == 1;
  }

  int compile(const StretchProgram& program, const std::vector<Tensor>& originals,
              const std::vector<Tensor>& inputs) override {
    const WithLock lock;
    const Owned run = wrap_program(program), examples(check(PyTuple_New(static_cast<Py_ssize_t>(inputs.size()))));
    for (size_t i = 0; i < inputs.size(); ++i) {
      Owned example(check(wrap(originals[i])));
      if (!is_plain_tensor(example.get()))
        example = Owned(check(wrap(inputs[i])));  // what a class adds is not looked at
      PyTuple_SET_ITEM(examples.get(), static_cast<Py_ssize_t>(i), example.release());
    }
    const Owned code(check(call_python(PyObject_CallMethod, object_, "compile", "OOO", run.get(), examples.get(),
                                       program.records_gradients ? Py_True : Py_False)));
    return static_cast<int>(to_int(code.get()));
  }

  std::vector<Tensor> run(int code, const std::vector<Tensor>& inputs, size_t results) override {
    const WithLock lock;
    const Owned given = tuple_of(inputs);
    const Owned function(check(PySequence_GetItem(codes_, code)));
    const Owned made(check(call_python(PyObject_CallObject, function.get(), given.get())));
    std::vector<Tensor> tensors = tensors_in(made.get(), name());
    FACULA_CHECK(tensors.size() == results, ErrorKind::Runtime, name(), ": must give ", results, " results, got ",
                 tensors.size());
    return tensors;
  }

  std::string name() override {
    const WithLock lock;
    const Owned text(check(PyObject_GetAttrString(object_, "name")));
    return std::string(utf8(text.get()));
  }

 private:
  PyObject *const object_, *const codes_;
};

std::shared_ptr<StretchTree> tree_of(PyObject* pair, Py_ssize_t which) {
  PyObject* object = PyTuple_GET_ITEM(pair, which);
  if (object == Py_None) return nullptr;
  return std::make_shared<StretchTree>(std::make_shared<PythonStretches>(Owned::share(object)));
}

// _stretch_place(tensor): which elements it shows, and as what: equal for tensors that are the same to a stretch
PyObject* place_of(PyObject*, PyObject* object) {
  return guarded([&] {
    FACULA_CHECK(is_tensor(object), ErrorKind::Type, "_stretch_place: expected a Tensor, got ",
                 Py_TYPE(object)->tp_name);
    const Tensor& t = tensor_of(object);
    materialize_layout(t);
    const Owned sizes(check(wrap_ints(t.sizes()))), strides(check(wrap_ints(t.strides())));
    const auto storage = reinterpret_cast<uintptr_t>(t.storage());
    return check(Py_BuildValue("(KLiiOO)", static_cast<unsigned long long>(storage),
                               static_cast<long long>(t.storage_offset()), static_cast<int>(t.dtype()),
                               static_cast<int>(t.is_conj()), sizes.get(), strides.get()));
  });
}

PyMethodDef functions[] = {
    {"_stretch_place", place_of, METH_O, "_stretch_place(tensor): equal for tensors that show the same elements."}, {}};

}  // namespace

StretchTrees stretches_of(PyObject* settings, PyObject* compiled) {
  if (settings == Py_None || !has_attribute(settings, "stretches")) return {};
  const Owned pair(check(call_python(PyObject_CallMethod, settings, "stretches", "O", compiled)));
  FACULA_CHECK(PyTuple_Check(pair.get()) && PyTuple_GET_SIZE(pair.get()) == 2, ErrorKind::Type,
               "compile: settings.stretches() gives a pair, got ", Py_TYPE(pair.get())->tp_name);
  StretchTrees trees{tree_of(pair.get(), 0), tree_of(pair.get(), 1)};
  if (trees.backward) trees.backward->shows_inputs = false;
  return trees;
}

void init_stretches(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python

// facula.Generator, and the default generator's seed and state.
#include "core/generator.h"

#include "functions.h"
#include "python/args.h"

namespace facula::python {

PyTypeObject GeneratorType = {PyVarObject_HEAD_INIT(nullptr, 0)};

namespace {

struct PyGenerator {
  PyObject_HEAD Generator* generator;
  bool owned;
};

PyObject* default_object = nullptr;

Generator& generator_of(PyObject* o) { return *reinterpret_cast<PyGenerator*>(o)->generator; }

PyObject* generator_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"device", nullptr};
  PyObject* device = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", const_cast<char**>(names), &device)) return nullptr;
  return guarded([&] {
    if (device != Py_None) {
      Device wanted = to_device_value(device);
      FACULA_CHECK(wanted.is_cpu(), ErrorKind::Runtime, "Generator: only the CPU has a generator in this build, got ",
                   wanted);
    }
    PyObject* o = check(type->tp_alloc(type, 0));
    reinterpret_cast<PyGenerator*>(o)->generator = new Generator;
    reinterpret_cast<PyGenerator*>(o)->owned = true;
    return o;
  });
}

}  // namespace

PyObject* wrap_generator(Generator* generator) {
  if (default_object && generator == &generator_of(default_object)) return Py_NewRef(default_object);
  PyObject* o = check(GeneratorType.tp_alloc(&GeneratorType, 0));
  reinterpret_cast<PyGenerator*>(o)->generator = generator;
  return o;
}

namespace {

void generator_dealloc(PyObject* o) {
  auto* self = reinterpret_cast<PyGenerator*>(o);
  if (self->owned) delete self->generator;
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
}

// Seeds are any integer of 64 bits; negative ones wrap around.
uint64_t to_seed(PyObject* o) {
  Owned number(check(PyNumber_Index(o)));
  int overflow = 0;
  long long value = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
  if (!overflow) return static_cast<uint64_t>(value);
  unsigned long long big = overflow > 0 ? PyLong_AsUnsignedLongLong(number.get()) : 0;
  if (overflow < 0 || PyErr_Occurred()) {
    PyErr_Clear();
    throw_error(ErrorKind::Value, "manual_seed: a seed of -2**63 to 2**64 - 1 (overflow), got one outside");
  }
  return big;
}

PyObject* manual_seed(PyObject* o, PyObject* seed) {
  return guarded([&] {
    Generator& g = generator_of(o);
    uint64_t value = to_seed(seed);
    std::lock_guard<std::mutex> guard(g.mutex);
    g.seed(value);
    return Py_NewRef(o);
  });
}
PyObject* fresh_seed(PyObject* o, PyObject*) {
  return guarded([&] {
    Generator& g = generator_of(o);
    std::lock_guard<std::mutex> guard(g.mutex);
    return PyLong_FromUnsignedLongLong(g.seed());
  });
}
PyObject* initial_seed(PyObject* o, PyObject*) { return PyLong_FromUnsignedLongLong(generator_of(o).initial_seed()); }
PyObject* get_state(PyObject* o, PyObject*) {
  return guarded([&] {
    Generator& g = generator_of(o);
    Tensor state = empty({static_cast<int64_t>(Generator::kStateBytes)}, DType::UInt8);
    std::lock_guard<std::mutex> guard(g.mutex);
    g.get_state(state.data<uint8_t>());
    return wrap(state);
  });
}
PyObject* set_state(PyObject* o, PyObject* value) {
  return guarded([&] {
    FACULA_CHECK(is_tensor(value) && tensor_of(value).dtype() == DType::UInt8, ErrorKind::Type,
                 "set_state: a uint8 tensor from get_state, got ",
                 is_tensor(value) ? "another dtype" : Py_TYPE(value)->tp_name);
    Tensor state = contiguous(tensor_of(value), MemoryFormat::Contiguous);
    Generator& g = generator_of(o);
    std::lock_guard<std::mutex> guard(g.mutex);
    g.set_state(state.data<uint8_t>(), static_cast<size_t>(state.numel()));
    return Py_NewRef(o);
  });
}
PyObject* clone_state(PyObject* o, PyObject*) {
  return guarded([&] {
    Owned state(check(get_state(o, nullptr)));
    Owned fresh(check(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&GeneratorType))));
    Owned done(check(set_state(fresh.get(), state.get())));
    return fresh.release();
  });
}
PyObject* get_device(PyObject*, void*) { return wrap_device(kCPU); }

PyObject* generator_reduce(PyObject* o, PyObject*) {
  return guarded([&] {
    Owned state(check(get_state(o, nullptr)));
    Owned rebuild(check(
        PyObject_GetAttrString(Owned(check(PyImport_ImportModule("facula.random"))).get(), "_rebuild_generator")));
    return Py_BuildValue("O(O)", rebuild.get(), state.get());
  });
}

// What only counter-based generators of accelerators have.
PyObject* no_offset(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* { throw_error(ErrorKind::Runtime, "Generator: the CPU's has no offset"); });
}
PyObject* no_graphs(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* {
    throw_error(ErrorKind::NotImplemented,
                "Generator: graphsafe_get_state and graphsafe_set_state are for CUDA graphs");
  });
}

PyMethodDef methods[] = {
    {"manual_seed", manual_seed, METH_O, "manual_seed(seed): restarts the stream; returns the generator."},
    {"seed", fresh_seed, METH_NOARGS, "Restarts from the system's entropy; returns the seed."},
    {"initial_seed", initial_seed, METH_NOARGS, "The seed of the last restart."},
    {"get_state", get_state, METH_NOARGS, "The state as a uint8 tensor of 5,056 elements."},
    {"set_state", set_state, METH_O, "set_state(state): continues from a saved state."},
    {"clone_state", clone_state, METH_NOARGS, "Another generator in the same state."},
    {"get_offset", no_offset, METH_NOARGS, "Raises RuntimeError on the CPU."},
    {"set_offset", no_offset, METH_O, "Raises RuntimeError on the CPU."},
    {"graphsafe_get_state", no_graphs, METH_NOARGS, "Raises NotImplementedError."},
    {"graphsafe_set_state", no_graphs, METH_O, "Raises NotImplementedError."},
    {"__reduce__", generator_reduce, METH_NOARGS, nullptr},
    {}};
PyGetSetDef properties[] = {{"device", get_device, nullptr, "The device of the generator.", nullptr}, {}};

}  // namespace

Generator* to_generator(PyObject* o) { return &generator_of(o); }

void init_generator(PyObject* module) {
  GeneratorType.tp_name = "torch.Generator";
  GeneratorType.tp_basicsize = sizeof(PyGenerator);
  GeneratorType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  GeneratorType.tp_doc = "Generator(device='cpu'): a stream of random numbers.";
  GeneratorType.tp_new = generator_new;
  GeneratorType.tp_dealloc = generator_dealloc;
  GeneratorType.tp_methods = methods;
  GeneratorType.tp_getset = properties;
  check(PyType_Ready(&GeneratorType));
  Py_INCREF(&GeneratorType);
  PyModule_AddObject(module, "Generator", reinterpret_cast<PyObject*>(&GeneratorType));
  default_object = check(GeneratorType.tp_alloc(&GeneratorType, 0));
  reinterpret_cast<PyGenerator*>(default_object)->generator = &default_generator();
  Py_INCREF(default_object);
  PyModule_AddObject(module, "default_generator", default_object);
}

}  // namespace facula::python

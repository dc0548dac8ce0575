// facula.Generator, and the default generator's seed and state.
#include "cuda/generator.h"

#include "core/generator_looks.h"
#include "core/generators.h"
#include "functions.h"
#include "python/args.h"
#include "python/docs/types.h"
#include "python/free_threading.h"
#include "python/mismatch.h"

namespace facula::python {

PyTypeObject GeneratorType = {PyVarObject_HEAD_INIT(nullptr, 0)};

namespace {

struct PyGenerator {
  PyObject_HEAD std::shared_ptr<Generator> generator;
};

Generator& generator_of(PyObject* o) { return *reinterpret_cast<PyGenerator*>(o)->generator; }

PyObject* default_object = nullptr;  // of the CPU

PyObject* hold(PyTypeObject* type, std::shared_ptr<Generator> generator) {
  PyObject* o = check(type->tp_alloc(type, 0));
  new (&reinterpret_cast<PyGenerator*>(o)->generator) std::shared_ptr<Generator>(std::move(generator));
  return o;
}

PyObject* hold_new(PyTypeObject* type, std::unique_ptr<Generator> generator) {
  return hold(type, owned(std::move(generator)));
}

PyObject* generator_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"device", nullptr};
  PyObject* device = Py_None;
  if (!parse_keywords(args, kwargs, "|O:Generator", names, &device)) return nullptr;
  return guarded([&] { return hold_new(type, make_generator(device != Py_None ? to_device_value(device) : kCPU)); });
}

}  // namespace

PyObject* wrap_generator(Generator* generator) {
  if (default_object && generator == &generator_of(default_object)) return Py_NewRef(default_object);
  return hold(&GeneratorType, share(generator));
}

namespace {

void generator_dealloc(PyObject* o) {
  std::destroy_at(&reinterpret_cast<PyGenerator*>(o)->generator);
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
    Detaching guard(g.mutex);
    g.seed(value);
    return Py_NewRef(o);
  });
}
PyObject* fresh_seed(PyObject* o, PyObject*) {
  return guarded([&] {
    Generator& g = generator_of(o);
    const uint64_t seed = [&] {
      Detaching guard(g.mutex);
      return g.seed();
    }();
    return PyLong_FromUnsignedLongLong(seed);
  });
}
PyObject* initial_seed(PyObject* o, PyObject*) { return PyLong_FromUnsignedLongLong(generator_of(o).initial_seed()); }
PyObject* get_state(PyObject* o, PyObject*) {
  return guarded([&] {
    Generator& g = generator_of(o);
    Tensor state = empty({static_cast<int64_t>(g.state_bytes())}, DType::UInt8);
    {
      Detaching guard(g.mutex);
      g.get_state(state.data<uint8_t>());
      note_look(g);
    }
    return wrap(state);
  });
}
PyObject* set_state(PyObject* o, PyObject* value) {
  return guarded([&] {
    FACULA_CHECK(is_tensor(value) && tensor_of(value).dtype() == DType::UInt8 && tensor_of(value).is_cpu(),
                 ErrorKind::Type, "set_state: expected a uint8 tensor of the CPU from get_state, got ",
                 is_tensor(value) ? "another tensor" : Py_TYPE(value)->tp_name);
    Tensor state = contiguous(tensor_of(value), MemoryFormat::Contiguous);
    materialize_bytes(state);
    Generator& g = generator_of(o);
    Detaching guard(g.mutex);
    g.set_state(state.data<uint8_t>(), static_cast<size_t>(state.numel()));
    return Py_NewRef(o);
  });
}
PyObject* clone_state(PyObject* o, PyObject*) {
  return guarded([&] {
    Generator& g = generator_of(o);
    auto copy = [&] {
      Detaching guard(g.mutex);
      return g.clone();
    }();
    return hold_new(&GeneratorType, std::move(copy));
  });
}
PyObject* get_device(PyObject* o, void*) { return wrap_device(generator_of(o).device()); }

PyObject* generator_reduce(PyObject* o, PyObject*) {
  return guarded([&] {
    Owned state(check(get_state(o, nullptr)));
    Owned rebuild(check(
        PyObject_GetAttrString(Owned(check(PyImport_ImportModule("facula.random"))).get(), "_rebuild_generator")));
    Owned device(wrap_device(generator_of(o).device()));
    return Py_BuildValue("O(OO)", rebuild.get(), state.get(), device.get());
  });
}

PyObject* default_of_device(PyObject*, PyObject* device) {
  return guarded([&] { return hold(&GeneratorType, share(&default_generator(to_device_value(device)))); });
}
PyObject* seed_other(PyObject*, PyObject* seed) {
  return guarded([&] {
    seed_other_devices(to_seed(seed));
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"_default_generator", default_of_device, METH_O, "_default_generator(device): the device's own generator."},
    {"_seed_other_devices", seed_other, METH_O, "Seeds the default generators of all devices but the CPU's."},
    {}};

// What only counter-based generators have.
cuda::PhiloxGenerator& philox_of(PyObject* o, const char* what, ErrorKind error = ErrorKind::Runtime) {
  auto* philox = dynamic_cast<cuda::PhiloxGenerator*>(&generator_of(o));
  FACULA_CHECK(philox, error, what, ": expected a generator of a CUDA device, got one of ", generator_of(o).device());
  return *philox;
}
PyObject* get_offset(PyObject* o, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(philox_of(o, "get_offset").offset()); });
}
PyObject* set_offset(PyObject* o, PyObject* offset) {
  return guarded([&] {
    cuda::PhiloxGenerator& g = philox_of(o, "set_offset");
    const unsigned long long value = PyLong_Check(offset) ? PyLong_AsUnsignedLongLong(offset) : ~0ull;
    const bool is_offset = PyLong_Check(offset) && !PyErr_Occurred();
    PyErr_Clear();
    FACULA_CHECK(is_offset, ErrorKind::Type, "set_offset: expected a whole number from 0 on, got something else");
    Detaching guard(g.mutex);
    g.set_offset(value);
    return Py_NewRef(o);
  });
}
PyObject* shared_state(PyObject* o, PyObject*) {
  return guarded([&] {
    cuda::PhiloxGenerator& g = philox_of(o, "graphsafe_get_state", ErrorKind::NotImplemented);
    auto shared = [&] {
      Detaching guard(g.mutex);
      return g.shared();
    }();
    return hold_new(&GeneratorType, std::move(shared));
  });
}
PyObject* share_state(PyObject* o, PyObject* other) {
  return guarded([&] {
    cuda::PhiloxGenerator& g = philox_of(o, "graphsafe_set_state", ErrorKind::NotImplemented);
    FACULA_CHECK(PyObject_TypeCheck(other, &GeneratorType), ErrorKind::Type,
                 "graphsafe_set_state: expected a generator from graphsafe_get_state or clone_state, got ",
                 Py_TYPE(other)->tp_name);
    const cuda::PhiloxGenerator& given = philox_of(other, "graphsafe_set_state");
    Detaching guard(g.mutex);
    g.share(given);
    return Py_NewRef(o);
  });
}

PyMethodDef methods[] = {{"manual_seed", manual_seed, METH_O, docs::types::kManualSeed},
                         {"seed", fresh_seed, METH_NOARGS, docs::types::kSeed},
                         {"initial_seed", initial_seed, METH_NOARGS, docs::types::kInitialSeed},
                         {"get_state", get_state, METH_NOARGS, docs::types::kGetState},
                         {"set_state", set_state, METH_O, docs::types::kSetState},
                         {"clone_state", clone_state, METH_NOARGS, docs::types::kCloneState},
                         {"get_offset", get_offset, METH_NOARGS, docs::types::kGetOffset},
                         {"set_offset", set_offset, METH_O, docs::types::kSetOffset},
                         {"graphsafe_get_state", shared_state, METH_NOARGS, docs::types::kGraphsafeGetState},
                         {"graphsafe_set_state", share_state, METH_O, docs::types::kGraphsafeSetState},
                         {"__reduce__", generator_reduce, METH_NOARGS, nullptr},
                         {}};
PyGetSetDef properties[] = {{"device", get_device, nullptr, "The device of the generator.", nullptr}, {}};

}  // namespace

Generator* to_generator(PyObject* o) { return &generator_of(o); }

void init_generator(PyObject* module) {
  GeneratorType.tp_name = "torch.Generator";
  GeneratorType.tp_basicsize = sizeof(PyGenerator);
  GeneratorType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  GeneratorType.tp_doc = docs::types::kGenerator;
  GeneratorType.tp_new = generator_new;
  GeneratorType.tp_dealloc = generator_dealloc;
  GeneratorType.tp_methods = methods;
  GeneratorType.tp_getset = properties;
  check(PyType_Ready(&GeneratorType));
  Py_INCREF(&GeneratorType);
  PyModule_AddObject(module, "Generator", reinterpret_cast<PyObject*>(&GeneratorType));
  default_object = check(default_of_device(nullptr, Owned(wrap_device(kCPU)).get()));
  Py_INCREF(default_object);
  PyModule_AddObject(module, "default_generator", default_object);
  check(PyModule_AddFunctions(module, functions));
}

}  // namespace facula::python

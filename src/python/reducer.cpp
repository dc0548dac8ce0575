// The reducer of DistributedDataParallel, as facula.distributed._reducer uses it.
#include "distributed/reducer.h"

#include "python/args.h"
#include "python/distributed_objects.h"
#include "python/free_threading.h"
#include "python/objects.h"

namespace facula::python {
namespace {

using namespace distributed;

using ReducerRef = std::shared_ptr<Reducer>;

/// A Python object for code that runs without the interpreter lock.
std::shared_ptr<PyObject> owned(PyObject* object) {
  return {Py_NewRef(object), [](PyObject* o) {
            WithLock lock;
            Py_DECREF(o);
          }};
}

void call_with(PyObject* function, const char* format, auto... values) {
  WithLock lock;
  const Owned done(check(call_python(PyObject_CallFunction, function, format, values...)));
}

Reducer::Hooks hooks_of(PyObject* launch, PyObject* land) {
  return {.site =
              [] {
                WithLock lock;
                return call_site();
              },
          .launch =
              [f = owned(launch)](size_t bucket, const Tensor& storage) {
                WithLock lock;
                const Owned wrapped(check(wrap(storage)));
                call_with(f.get(), "nO", static_cast<Py_ssize_t>(bucket), wrapped.get());
              },
          .land =
              [f = owned(land)](size_t bucket, bool all_used) {
                call_with(f.get(), "nO", static_cast<Py_ssize_t>(bucket), all_used ? Py_True : Py_False);
              },
          .failed =
              [] {
                WithLock lock;
                translate_exception();
                PyObject *type, *value, *trace;
                PyErr_Fetch(&type, &value, &trace);
                const Owned owned_type(type), owned_value(value), owned_trace(trace);
                dump_records(type);
              }};
}

PyObject* make_reducer(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *names, *tensors, *group, *launch, *land;
    double timeout;
    parse(args, "OOOdOO", &names, &tensors, &group, &timeout, &launch, &land);
    std::vector<Reducer::Parameter> parameters;
    for (const Tensor& t : arg_tensors(tensors)) {
      PyObject* name = PyList_GetItem(names, static_cast<Py_ssize_t>(parameters.size()));
      parameters.push_back({std::string(utf8(check(name))), t});
    }
    const GroupRef& ref = held<GroupRef>(group);
    auto reducer = std::make_shared<Reducer>(parameters, ref.world, ref.group, timeout, hooks_of(launch, land));
    reducer->watch();
    return hold<ReducerRef>(std::move(reducer));
  });
}

PyObject* set_buckets(PyObject* self, PyObject* lists) {
  return guarded([&] {
    std::vector<std::vector<int>> buckets;
    const Owned outer(check(snapshot(lists, "expected a list of lists")));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(outer.get()); ++i) {
      const Owned inner(check(snapshot(PySequence_Fast_GET_ITEM(outer.get(), i), "expected a list")));
      std::vector<int>& numbers = buckets.emplace_back();
      for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(inner.get()); ++j)
        numbers.push_back(static_cast<int>(to_int(PySequence_Fast_GET_ITEM(inner.get(), j))));
    }
    const ReducerRef reducer = held<ReducerRef>(self);
    unlocked([&] { reducer->set_buckets(buckets); });
    return none();
  });
}

PyObject* gradients(PyObject* self, PyObject* number) {
  return guarded([&] { return wrap(held<ReducerRef>(self)->gradients(static_cast<size_t>(to_int(number)))); });
}

PyObject* order(PyObject* self, PyObject*) {
  return guarded([&] {
    const ReducerRef reducer = held<ReducerRef>(self);
    const std::vector<int> numbers = unlocked([&] { return reducer->order(); });
    Owned list(check(PyList_New(0)));
    for (int n : numbers) check(PyList_Append(list.get(), Owned(check(PyLong_FromLong(n))).get()));
    return list.release();
  });
}

PyObject* shadow(PyObject* self, PyObject*) {
  return guarded([&] {
    const ReducerRef reducer = held<ReducerRef>(self);
    unlocked([&] { reducer->shadow(); });
    return none();
  });
}

PyObject* set_options(PyObject* self, PyObject* args) {
  return guarded([&] {
    double divisor;
    int hooked, is_static;
    parse(args, "dpp", &divisor, &hooked, &is_static);
    Reducer& reducer = *held<ReducerRef>(self);
    reducer.set_divisor(divisor);
    reducer.set_hooked(hooked);
    reducer.set_static(is_static);
    return none();
  });
}

PyObject* enable(PyObject* self, PyObject* on) {
  held<ReducerRef>(self)->enable(on == Py_True);
  return none();
}
PyObject* enabled(PyObject* self, PyObject*) { return PyBool_FromLong(held<ReducerRef>(self)->enabled()); }
PyObject* passes(PyObject* self, PyObject*) { return PyLong_FromLong(held<ReducerRef>(self)->passes()); }
PyObject* times(PyObject* self, PyObject*) {
  return guarded([&] {
    const ReducerRef reducer = held<ReducerRef>(self);
    const Reducer::Times t = unlocked([&] { return reducer->times(); });
    return check(Py_BuildValue("(LLLL)", static_cast<long long>(t.first), static_cast<long long>(t.last),
                               static_cast<long long>(t.summing), static_cast<long long>(t.summed)));
  });
}
PyObject* remove_hooks(PyObject* self, PyObject*) {
  held<ReducerRef>(self)->remove();
  return none();
}

PyMethodDef methods[] = {
    {"set_buckets", set_buckets, METH_O, "(lists): numbers of parameters, bucket by bucket."},
    {"gradients", gradients, METH_O, "(bucket): views of its gradients."},
    {"order", order, METH_NOARGS, "Numbers of the parameters, as their gradients came at first."},
    {"shadow", shadow, METH_NOARGS, "Takes part in the averages of a pass with zeros."},
    {"set_options", set_options, METH_VARARGS, "(divisor, hooked, static)"},
    {"enable", enable, METH_O, "(bool): whether the next pass is averaged."},
    {"enabled", enabled, METH_NOARGS, "Whether it is."},
    {"passes", passes, METH_NOARGS, "How many passes were averaged."},
    {"times", times, METH_NOARGS, "Of the last pass: first and last gradient, sums begun and done."},
    {"remove", remove_hooks, METH_NOARGS, "Leaves the parameters alone from now on."},
    {}};

PyMethodDef functions[] = {
    {"_dist_reducer", make_reducer, METH_VARARGS,
     "(names, parameters, group, seconds, launch, land): averages gradients; `launch(bucket, storage)` and "
     "`land(bucket, all_used)` sum buckets that the program sums."},
    {}};

}  // namespace

void init_reducers(PyObject* module) {
  make_type<ReducerRef>(module, "facula._C._Reducer", methods, "Averages gradients while a backward pass runs.");
  check(PyModule_AddFunctions(module, functions));
}

}  // namespace facula::python

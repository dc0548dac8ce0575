// The fastest ways of matrix products, which facula.cuda.tunable finds and stores (cuda/tuning.h).
#include "cuda/tuning.h"
#include "python/cuda_arguments.h"

namespace facula::python {
namespace {

PyObject* tuning_set(PyObject*, PyObject* args) {
  const char* name;
  double value;
  if (!PyArg_ParseTuple(args, "sd", &name, &value)) return nullptr;
  return none_after([&] {
    cuda::Tuning& t = cuda::tuning();
    const std::string_view what = name;
    if (what == "enabled") t.enabled = value != 0;
    else if (what == "tunes") t.tunes = value != 0;
    else if (what == "records_untuned") t.records_untuned = value != 0;
    else if (what == "checks") t.checks = value != 0;
    else if (what == "most_milliseconds") t.most_milliseconds = static_cast<int>(value);
    else if (what == "most_iterations") t.most_iterations = static_cast<int>(value);
    else if (what == "atol") t.atol = value;
    else if (what == "rtol") t.rtol = value;
    else FACULA_CHECK(false, ErrorKind::Value, "_cuda_tuning_set: there is no setting ", name);
    ++t.version;
  });
}
PyObject* tuning_settings(PyObject*, PyObject*) {
  return guarded([] {
    const cuda::Tuning& t = cuda::tuning();
    Owned settings(check(PyDict_New()));
    put(settings.get(), "enabled", t.enabled);
    put(settings.get(), "tunes", t.tunes);
    put(settings.get(), "records_untuned", t.records_untuned);
    put(settings.get(), "most_milliseconds", t.most_milliseconds);
    put(settings.get(), "most_iterations", t.most_iterations);
    return settings.release();
  });
}
PyObject* tuning_results(PyObject*, PyObject*) {
  return guarded([] {
    Owned rows(check(PyList_New(0)));
    for (const auto& [key, way] : cuda::tuning().results()) {
      Owned row(
          check(Py_BuildValue("(sssd)", key.first.c_str(), key.second.c_str(), way.way.c_str(), way.milliseconds)));
      check(PyList_Append(rows.get(), row.get()));
    }
    return rows.release();
  });
}
PyObject* tuning_validators(PyObject*, PyObject* device) {
  return guarded([&] {
    Owned rows(check(PyList_New(0)));
    for (const auto& [name, value] : cuda::tuning().validators(static_cast<int>(to_int(device))))
      check(PyList_Append(rows.get(), Owned(check(Py_BuildValue("(ss)", name.c_str(), value.c_str()))).get()));
    return rows.release();
  });
}
PyObject* tuning_path(PyObject*, PyObject* device) {
  return guarded([&] { return text(cuda::tuning().path(static_cast<int>(to_int(device)))); });
}
PyObject* tuning_set_path(PyObject*, PyObject* args) {
  const char* path;
  int with_device;
  if (!PyArg_ParseTuple(args, "sp", &path, &with_device)) return nullptr;
  return none_after([&] { cuda::tuning().set_path(path, with_device); });
}
PyObject* tuning_read(PyObject*, PyObject* args) {
  const char* path;
  int device;
  if (!PyArg_ParseTuple(args, "si", &path, &device)) return nullptr;
  return guarded([&] { return wrap(cuda::tuning().read(path, device)); });
}

PyMethodDef functions[] = {
    {"_cuda_tuning_set", tuning_set, METH_VARARGS, "(name, value): a setting of src/cuda/tuning.h."},
    {"_cuda_tuning_settings", tuning_settings, METH_NOARGS, "The settings, as a dict."},
    {"_cuda_tuning_results", tuning_results, METH_NOARGS, "[(op, sizes, way, milliseconds)]"},
    {"_cuda_tuning_validators", tuning_validators, METH_O, "(device): [(name, value)] that a file must agree with."},
    {"_cuda_tuning_path", tuning_path, METH_O, "(device): the file."},
    {"_cuda_tuning_set_path", tuning_set_path, METH_VARARGS, "(path, whether the device's number goes into it)"},
    {"_cuda_tuning_read", tuning_read, METH_VARARGS, "(path, device): whether the file could be used."},
    {}};

}  // namespace

void init_cuda_tuning(PyObject* module);  // called by init_cuda
void init_cuda_tuning(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python

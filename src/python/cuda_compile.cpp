// Kernels for CUDA devices that need not be there: for tests of the sources, and to fill the disk cache.
#include "core/parallel.h"
#include "cuda/compile.h"
#include "cuda/family.h"
#include "cuda/group.h"
#include "cuda/jiterate.h"
#include "python/bindings.h"
#include "python/cuda_arguments.h"
#include "python/free_threading.h"

namespace facula::python {
namespace {

PyObject* compile(PyObject*, PyObject* arguments) {
  return guarded([&]() -> PyObject* {
    const char *source, *expression, *option = nullptr;
    int architecture;
    if (!PyArg_ParseTuple(arguments, "ssi|z", &source, &expression, &architecture, &option)) return nullptr;
    const cuda::KernelSource kernel{source, expression};
    const std::vector<std::string> options(option ? 1 : 0, option ? option : "");
    std::string log;
    cuda::CompiledKernel made;
    {
      WithoutLock lock;
      made = cuda::compile(kernel, architecture, options, &log);
    }
    return Py_BuildValue("sy#s", made.name.c_str(), made.image.data(), static_cast<Py_ssize_t>(made.image.size()),
                         log.c_str());
  });
}

PyObject* keep(PyObject*, PyObject* arguments) {
  return guarded([&]() -> PyObject* {
    const char *source, *expression;
    int architecture;
    if (!PyArg_ParseTuple(arguments, "ssi", &source, &expression, &architecture)) return nullptr;
    const cuda::KernelSource kernel{source, expression};
    bool was_cached = false;
    {
      WithoutLock lock;
      cuda::cached_or_compiled(kernel, architecture, &was_cached);
    }
    return PyBool_FromLong(!was_cached);
  });
}

std::vector<cuda::KernelSource> kernel_list(PyObject* given) {
  std::vector<cuda::KernelSource> kernels;
  const Owned items(check(snapshot(given, "kernels: a sequence of (source, expression)")));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    const char *source, *expression;
    if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(items.get(), i), "ss", &source, &expression)) throw PythonError{};
    kernels.push_back({source, expression});
  }
  return kernels;
}

PyObject* compile_together(PyObject*, PyObject* arguments) {
  return guarded([&]() -> PyObject* {
    PyObject* given;
    const char* option = nullptr;
    int architecture;
    if (!PyArg_ParseTuple(arguments, "Oi|z", &given, &architecture, &option)) return nullptr;
    const std::vector<cuda::KernelSource> kernels = kernel_list(given);
    const std::vector<std::string> options(option ? 1 : 0, option ? option : "");
    std::string log;
    std::vector<cuda::CompiledKernel> made;
    {
      WithoutLock lock;
      made = cuda::compile_together(kernels, architecture, options, &log);
    }
    const Owned names(check(PyList_New(0)));
    for (const cuda::CompiledKernel& kernel : made)
      check(PyList_Append(names.get(), Owned(check(PyUnicode_FromString(kernel.name.c_str()))).get()));
    const std::vector<char> image = made.empty() ? std::vector<char>() : made[0].image;
    return Py_BuildValue("Oy#s", names.get(), image.data(), static_cast<Py_ssize_t>(image.size()), log.c_str());
  });
}

PyObject* keep_together(PyObject*, PyObject* arguments) {
  return guarded([&]() -> PyObject* {
    PyObject* given;
    const char* library;
    int architecture;
    if (!PyArg_ParseTuple(arguments, "Ois", &given, &architecture, &library)) return nullptr;
    std::vector<cuda::KernelSource> kernels = kernel_list(given);
    size_t compiled;
    {
      WithoutLock lock;
      compiled = cuda::cache_together(std::move(kernels), architecture, library);
    }
    return PyLong_FromSize_t(compiled);
  });
}

PyObject* group_mode(PyObject*, PyObject* name) {
  return guarded([&] {
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) throw PythonError{};
    cuda::set_group_mode(text);
    return Py_NewRef(Py_None);
  });
}

PyObject* groups(PyObject*, PyObject*) {
  return guarded([&] {
    const cuda::GroupCounts c = cuda::count_groups();
    return Py_BuildValue("{sLsLsLsL}", "launches", static_cast<long long>(c.launches), "in_steps",
                         static_cast<long long>(c.in_steps), "compiled", static_cast<long long>(c.compiled), "bytes",
                         static_cast<long long>(c.bytes));
  });
}

PyObject* finish_groups(PyObject*, PyObject*) {
  return guarded([&] {
    WithoutLock lock;
    cuda::finish_groups();
    return Py_NewRef(Py_None);
  });
}

PyObject* families(PyObject*, PyObject*) {
  return guarded([&] {
    const cuda::FamilyCounts c = cuda::count_families();
    return Py_BuildValue("{sLsL}", "kernels", static_cast<long long>(c.kernels), "programs",
                         static_cast<long long>(c.programs));
  });
}

PyObject* finish_families(PyObject*, PyObject*) {
  return guarded([&] {
    WithoutLock lock;
    cuda::finish_families();
    return Py_NewRef(Py_None);
  });
}

// ---- kernels of a program's own

std::vector<Tensor> tensors_of(PyObject* tuple) {
  std::vector<Tensor> found;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    FACULA_CHECK(is_tensor(item), ErrorKind::Type, "jiterator: expected tensors, got ", Py_TYPE(item)->tp_name);
    found.push_back(strided_tensor_of(item));
  }
  return found;
}
PyObject* jiterate(PyObject*, PyObject* args) {
  const char* source;
  PyObject *results, *inputs, *values, *compute;
  if (!PyArg_ParseTuple(args, "sO!O!O!O", &source, &PyTuple_Type, &results, &PyTuple_Type, &inputs, &PyTuple_Type,
                        &values, &compute))
    return nullptr;
  return none_after([&] {
    const std::vector<Tensor> out = tensors_of(results), in = tensors_of(inputs), numbers = tensors_of(values);
    const DType dtype = to_dtype_value(compute);
    LockRelease release(true);
    cuda::jiterate(source, out, in, numbers, dtype);
  });
}

PyMethodDef functions[] = {
    {"_cuda_finish_families", finish_families, METH_NOARGS, "Wait for the families that are being compiled."},
    {"_cuda_families", families, METH_NOARGS,
     "How many kernels were compiled in the background since others of their family were used, and in how many "
     "programs."},
    {"_cuda_group_mode", group_mode, METH_O,
     "(name): groups of compiled functions are compiled in the \"background\", or calls \"wait\" for them, or ops run "
     "one by one, in \"steps\"."},
    {"_cuda_groups", groups, METH_NOARGS, "How many groups ran as one kernel and how many in steps, and other counts."},
    {"_cuda_finish_groups", finish_groups, METH_NOARGS, "Wait for the kernels that are being compiled."},
    {"_cuda_compile", compile, METH_VARARGS,
     "(source, expression, architecture, option=None) -> (name, image, log): compiles a kernel, for example for "
     "architecture 90; no device is needed."},
    {"_cuda_compile_together", compile_together, METH_VARARGS,
     "([(source, expression), ...], architecture, option=None) -> (names, image, log): compiles kernels as one "
     "program."},
    {"_cuda_keep_together", keep_together, METH_VARARGS,
     "([(source, expression), ...], architecture, library) -> how many were compiled, as one program, and put into the "
     "disk cache. With a name of a file, for the emulated device, that becomes their code."},
    {"_cuda_keep", keep, METH_VARARGS,
     "(source, expression, architecture) -> whether the kernel had to be compiled: afterwards it is in the disk "
     "cache."},
    {"_cuda_jiterate", jiterate, METH_VARARGS,
     "(source, results, inputs, values, compute dtype): queues the kernel around a program's function."},
    {}};

}  // namespace

void init_cuda_compile(PyObject* module);  // called by module.cpp
void init_cuda_compile(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python

// Kernels for CUDA devices that need not be there: for tests of the sources, and to fill the disk cache.
#include "cuda/compile.h"
#include "python/bindings.h"

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

PyMethodDef functions[] = {
    {"_cuda_compile", compile, METH_VARARGS,
     "(source, expression, architecture, option=None) -> (name, image, log): compiles a kernel, for example for "
     "architecture 90; no device is needed."},
    {"_cuda_keep", keep, METH_VARARGS,
     "(source, expression, architecture) -> whether the kernel had to be compiled: afterwards it is in the disk "
     "cache."},
    {}};

}  // namespace

void init_cuda_compile(PyObject* module);  // called by module.cpp
void init_cuda_compile(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python

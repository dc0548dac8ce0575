// The CPU's transforms are NumPy's (pocketfft), on the same memory.
#include "ops/fft.h"

#include "python/objects.h"

namespace facula::python {
namespace {

void fft_cpu(const Tensor& out, const Tensor& in, IntList dims, FftKind kind) {
  static PyObject* transform = nullptr;  // kept for ever
  WithLock lock;
  if (!transform) {
    Owned module(check(PyImport_ImportModule("facula.fft._transform")));
    transform = check(PyObject_GetAttrString(module.get(), "transform"));
  }
  Owned target(wrap(alias(out))), source(wrap(alias(in))), axes(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  for (size_t i = 0; i < dims.size(); ++i)
    PyTuple_SET_ITEM(axes.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(dims[i]));
  Owned done(
      check(PyObject_CallFunction(transform, "OOOi", target.get(), source.get(), axes.get(), static_cast<int>(kind))));
}

}  // namespace

void init_fft(PyObject*) { fft_kernel.set(DeviceType::CPU, fft_cpu); }

}  // namespace facula::python

// The CPU's transforms are NumPy's (pocketfft), on the same memory. This is the one kernel that is registered here and
// not in src/cpu, as it needs the interpreter: a C++ program without it gets NotImplementedError from fft_kernel.
#include "ops/fft.h"

#include "python/objects.h"

namespace facula::python {
namespace {

// What NumPy may read: the tensor itself, or the same memory for a device that lends the CPU's kernels.
Tensor on_the_cpu(const Tensor& t) {
  if (t.is_cpu()) return alias(t);
  Storage* s = t.storage();
  Storage* lent = borrow_storage(s->data, s->nbytes, kCPU, [](Storage*) {}, nullptr);
  Tensor shown = tensor_on_storage(lent, t.dtype(), t.storage_offset(), t.sizes(), t.strides(), "fft");
  release(lent);
  return shown;
}

void fft_cpu(const Tensor& out, const Tensor& in, IntList dims, FftKind kind) {
  static PyObject* transform = nullptr;  // kept for ever
  WithLock lock;
  if (!transform) {
    Owned module(check(PyImport_ImportModule("facula.fft._transform")));
    transform = check(PyObject_GetAttrString(module.get(), "transform"));
  }
  Owned target(wrap(on_the_cpu(out))), source(wrap(on_the_cpu(in))),
      axes(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  for (size_t i = 0; i < dims.size(); ++i)
    PyTuple_SET_ITEM(axes.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(dims[i]));
  Owned done(
      check(PyObject_CallFunction(transform, "OOOi", target.get(), source.get(), axes.get(), static_cast<int>(kind))));
}

}  // namespace

void init_fft(PyObject*) { fft_kernel.set(DeviceType::CPU, fft_cpu); }

}  // namespace facula::python

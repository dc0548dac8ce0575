// Declares objects of CUDA that several files make.
#pragma once

#include "core/storage.h"
#include "cuda/stream.h"
#include "python/python.h"

namespace facula::python {

cuda::Event& cuda_event_of(PyObject* capsule);
PyObject* wrap_cuda_event(cuda::Event event);
/// The object of a storage, of which the caller's reference becomes its own.
PyObject* adopt_storage(Storage* storage);

}  // namespace facula::python

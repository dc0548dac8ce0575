// Objects of facula.distributed that several files make.
#pragma once

#include "distributed/store.h"
#include "python/python.h"

namespace facula::python {

void init_process_groups(PyObject* module);
PyObject* wrap_store(std::shared_ptr<distributed::Store> store);
std::shared_ptr<distributed::Store> store_of(PyObject* object);

}  // namespace facula::python

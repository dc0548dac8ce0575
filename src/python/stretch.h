// Connects backends in Python: facula/compiler/_backends/stretches.py holds what is made of stretches
// (region/stretch.h).
#pragma once

#include "python/objects.h"
#include "region/stretch.h"

namespace facula::python {

/// The stretches of calls and of backward passes that settings request; null where there is no backend of its own.
struct StretchTrees {
  std::shared_ptr<StretchTree> forward, backward;
};
StretchTrees stretches_of(PyObject* settings, PyObject* compiled);

void init_stretches(PyObject* module);

}  // namespace facula::python

// Shows calls that are no kernel's (composites that are one operator to PyTorch, indexing, conversions) to classes and
// modes that stand in for kernels (`__torch_dispatch__`). See dispatch.cpp.
#pragma once

#include <atomic>
#include <initializer_list>

#include "observe/op_call.h"
#include "python/objects.h"

namespace facula::python {

/// There has been a tensor whose class stands in for kernels.
extern std::atomic<bool> classes_stand_in;
/// Whether a mode or a class may be there: a quick question, whose answer is mostly no.
inline bool dispatch_possible() {
  return __builtin_expect((watching() & kWatchDispatch) || classes_stand_in.load(std::memory_order_relaxed), 0);
}
/// Whether a call on these tensors is shown to a mode or a class in the place of kernels, whole: nothing is recorded
/// for derivatives.
bool dispatch_sees_whole(std::initializer_list<const Tensor*> tensors);
/// Of a composite that Python calls: what whoever stands in for kernels answers; null: nobody does. `whole`: it is one
/// operator to PyTorch.
PyObject* dispatch_composite(uint16_t op, OpForm form, PyObject* const* slots, int count, bool whole = false);
/// Of a class that stands in for kernels: calls come to it there, and not above as well, unless it says so.
void leave_calls_to_kernels(PyObject* cls);
/// A call of `name` of facula/utils/_python_dispatch.py, below autograd; null where it answers NotImplemented.
PyObject* dispatch_call(const char* name, PyObject* arguments);

}  // namespace facula::python

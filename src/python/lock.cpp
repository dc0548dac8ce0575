// The interpreter lock, taken by threads that may outlive the interpreter. CPython ends such a thread where it asks for
// the lock (pthread_exit, up to 3.13): an exception that would leave destructors, which ends the process instead
// (SIGABRT). Here the thread stays until the process has ended, as CPython 3.14 does it.
#include <unistd.h>

#include "python/python.h"

namespace facula::python {
namespace {

template <class F>
auto taken_or_never(F take) {
  try {
    return take();
  } catch (...) {  // never left: the end of a thread cannot be caught, only held up
    for (;;) pause();
  }
}

}  // namespace

PyGILState_STATE take_lock() {
  return taken_or_never([] { return PyGILState_Ensure(); });
}

void take_lock_back(PyThreadState* state) {
  taken_or_never([state] { PyEval_RestoreThread(state); });
}

}  // namespace facula::python

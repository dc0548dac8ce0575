// Threads that may outlive the interpreter. CPython ends such a thread where it requests the lock (pthread_exit, up to
// 3.13), which is when we do and whenever Python code runs: an unwinding that destructors and handlers of exceptions
// would end with the process (SIGABRT). Here the thread stays until the process has ended, as CPython 3.14 does it.
#include <unistd.h>

#include "python/python.h"

namespace facula::python {

void stay_until_the_process_ends() {
  for (;;) pause();
}

namespace {

template <class F>
auto taken_or_never(F take) {
  try {
    return take();
  } catch (abi::__forced_unwind&) {  // cannot be caught, only held up
    stay_until_the_process_ends();
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

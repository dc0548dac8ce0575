// Replays a call of a compiled function without Python's interpreter.
//
// facula/compiler/_replay/trusted.py reads the source of small functions and writes down what a call does: a flat list
// of steps. Each step is what the interpreter would do (a call of a function of the core, an operator, an attribute of
// a tensor), with the very objects that it would use. What the reader relied on (entries of dictionaries, classes,
// closure cells, code of functions) are facts, and a call is replayed only while all of them hold. So modes, gradients,
// subclasses and errors are those of the functions that are called, and nothing is stale.
#pragma once

#include "python/objects.h"

namespace facula::python {

enum class ReplayEnd : uint8_t {
  Done,     // the result, or null with an error that the steps raised
  Refused,  // these arguments, this thread's modes: Python is to make this call
  Stale,    // something that the program has read is another one now
};

/// Whether an object is a program of steps.
bool is_replay(PyObject* o);
/// Makes a call. Refused and Stale: nothing has happened, and no error is set.
PyObject* replay_call(PyObject* program, PyObject* const* args, size_t nargsf, PyObject* names, ReplayEnd& end);
/// Whether nobody looks on who could distinguish a replayed call from another one, or has code of the user's run within
/// ops.
bool is_quiet_thread();
/// Whether a replayed call does nothing that a second one would do again.
bool replay_is_pure(PyObject* program);
/// Whether the call that runs now can still be left to Python: who would warn of something, and so name a line of the
/// program, leaves instead. Sets an error then.
bool replay_left_for_warning();

void init_replay(PyObject* module);

}  // namespace facula::python

// Composes the error about a call that fits no signature.
#pragma once

#include "python/args.h"

namespace facula::python {

/// Another name under which an argument is known, or null.
const char* alias_of(std::string_view keyword);

/// Raise the TypeError: the signatures as Python writes them, what came, and the keyword that was meant.
void report_mismatch(const FunctionSpec& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);

/// PyArg_ParseTupleAndKeywords, for functions that have no generated signature. Of a keyword that the function has not
/// the error says which one was meant.
int parse_keywords(PyObject* args, PyObject* kwargs, const char* format, const char* const* names, ...);

}  // namespace facula::python

// Converts arguments and results of an op to Python values, and back.
#pragma once

#include <string>

#include "observe/op_call.h"
#include "python/objects.h"

namespace facula::python {

/// The op's name with its form: "mul", "mul_", "mul_out".
std::string name_of(const OpCall& call);

/// A new reference; None for what is not given.
PyObject* wrap_argument(const Argument& argument);
PyObject* wrap_arguments(List<Argument> arguments);  // a tuple
PyObject* wrap_slots(List<ResultSlot> slots);        // a tuple
/// Puts a value into the slot of a result; throws a TypeError that begins with `op` when it is of another kind.
void fill_slot(const ResultSlot& slot, PyObject* value, const char* op);

}  // namespace facula::python

// Declares the Python object of a program.
#pragma once

#include <memory>

#include "program/run.h"
#include "python/objects.h"

namespace facula::python {

struct PyProgram {
  PyObject_HEAD std::shared_ptr<Program> program;
  std::shared_ptr<const Runner> runner;  // made by the first run
};
extern PyTypeObject ProgramType;

PyObject* wrap_program(std::shared_ptr<Program> program);

}  // namespace facula::python

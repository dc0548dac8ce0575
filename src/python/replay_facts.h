// Holds the facts that a program of steps (python/replay.h) relies on, and checks whether they still hold.
//
// A dictionary or a class that has not changed since is recognized by its version, which CPython counts. After a change
// the entries that were read are compared. A value that is only passed to functions, and that decides nothing, may be
// exchanged for another of its kind (a parameter for a parameter, a number for a number); it is then read anew.
#pragma once

#include "python/objects.h"

namespace facula::python {

class ReplayFacts {
 public:
  /// `spec`: (objects, dicts, types, cells, functions), which lives as long as this (facula/compiler/_replay/facts.py).
  void read(PyObject* spec, PyObject* absent);
  /// Whether all is as it was; puts exchanged values among the constants.
  bool hold(std::vector<Owned>& constants);

 private:
  struct Entry {
    PyObject* key;
    PyObject* value;  // null: there is none
    int constant;     // of a value that may be exchanged; else -1
  };
  struct Object {
    PyObject* object;
    PyTypeObject* type;
    PyObject* dict;
  };
  struct Dict {
    PyObject* dict;
    PyObject* items;  // keys and values by turns, where a loop goes over them; else null
    std::vector<Entry> entries;
    uint64_t version;
  };
  struct Type {
    PyTypeObject* type;
    std::vector<Entry> entries;
    unsigned version;
  };
  struct Cell {
    PyObject* cell;
    Entry entry;
  };
  struct Function {
    PyFunctionObject* function;
    PyObject *code, *defaults, *keyword_defaults;  // null: none
  };
  static bool is_same(const Dict& fact, std::vector<Owned>& constants);
  static bool is_same(const Type& fact);

  std::vector<Object> objects_;
  std::vector<Dict> dicts_;
  std::vector<Type> types_;
  std::vector<Cell> cells_;
  std::vector<Function> functions_;
};

}  // namespace facula::python

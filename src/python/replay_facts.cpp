#include "python/replay_facts.h"

// Exported by every supported Python, declared in public headers only by some.
extern "C" PyObject* _PyType_Lookup(PyTypeObject* type, PyObject* name);
extern "C" PyObject** _PyObject_GetDictPtr(PyObject* object);

namespace facula::python {
namespace {

/// A number that changes with the dictionary; 0 where this Python counts no changes.
uint64_t version_of(PyObject* dict) {
#if PY_VERSION_HEX < 0x030C0000
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#else
  static_cast<void>(dict);
  return 0;
#endif
}

/// The same for a class and its bases; 0 where it has none now.
unsigned version_of(const PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030C0000
  if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
  return type->tp_version_tag;
}

bool may_stand_for(PyObject* other, PyObject* value) {
  if (is_plain_tensor(value)) return is_plain_tensor(other);
  return Py_TYPE(other) == Py_TYPE(value) && (PyFloat_CheckExact(value) || PyLong_CheckExact(value));
}

/// Whether `now` (null: nothing) is what was read, or may stand for it.
template <class Entry>
bool fits(const Entry& entry, PyObject* now, std::vector<Owned>& constants) {
  if (entry.constant < 0) return now == entry.value;
  Owned& constant = constants[static_cast<size_t>(entry.constant)];
  if (now == constant.get()) return true;
  if (!now || !may_stand_for(now, constant.get())) return false;
  constant = Owned::share(now);
  return true;
}

bool are_items(PyObject* dict, PyObject* items) {
  if (PyDict_GET_SIZE(dict) * 2 != PyTuple_GET_SIZE(items)) return false;
  PyObject *key, *value;
  Py_ssize_t place = 0;
  for (Py_ssize_t i = 0; PyDict_Next(dict, &place, &key, &value); i += 2) {
    if (key != PyTuple_GET_ITEM(items, i) || value != PyTuple_GET_ITEM(items, i + 1)) return false;
  }
  return true;
}

template <class Each>
void each(PyObject* spec, Py_ssize_t number, Each&& each) {
  PyObject* rows = PyTuple_GET_ITEM(spec, number);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows); ++i) each(PyTuple_GET_ITEM(rows, i));
}
PyObject* part(PyObject* row, Py_ssize_t i) { return PyTuple_GET_ITEM(row, i); }
PyObject* part_or_null(PyObject* row, Py_ssize_t i) { return part(row, i) == Py_None ? nullptr : part(row, i); }

}  // namespace

void ReplayFacts::read(PyObject* spec, PyObject* absent) {
  // (key, value, constant)
  const auto entry = [&](PyObject* row) {
    PyObject* value = part(row, 1);
    return Entry{part(row, 0), value == absent ? nullptr : value, static_cast<int>(PyLong_AsLong(part(row, 2)))};
  };
  const auto entries = [&](PyObject* rows) {
    std::vector<Entry> read;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows); ++i) read.push_back(entry(part(rows, i)));
    return read;
  };
  each(spec, 0, [&](PyObject* row) {
    objects_.push_back({part(row, 0), reinterpret_cast<PyTypeObject*>(part(row, 1)), part(row, 2)});
  });
  // no version yet: all is compared when the facts are first needed
  each(spec, 1,
       [&](PyObject* row) { dicts_.push_back({part(row, 0), part_or_null(row, 2), entries(part(row, 1)), 0}); });
  each(spec, 2, [&](PyObject* row) {
    types_.push_back({reinterpret_cast<PyTypeObject*>(part(row, 0)), entries(part(row, 1)), 0});
  });
  each(spec, 3, [&](PyObject* row) { cells_.push_back({part(row, 0), entry(row)}); });
  each(spec, 4, [&](PyObject* row) {
    functions_.push_back(
        {reinterpret_cast<PyFunctionObject*>(part(row, 0)), part(row, 1), part_or_null(row, 2), part_or_null(row, 3)});
  });
}

bool ReplayFacts::is_same(const Dict& fact, std::vector<Owned>& constants) {
  if (fact.items && !are_items(fact.dict, fact.items)) return false;
  for (const Entry& entry : fact.entries) {
    PyObject* now = PyDict_GetItemWithError(fact.dict, entry.key);
    if (!now && PyErr_Occurred()) PyErr_Clear();
    if (!fits(entry, now, constants)) return false;
  }
  return true;
}

bool ReplayFacts::is_same(const Type& fact) {
  for (const Entry& entry : fact.entries) {
    if (_PyType_Lookup(fact.type, entry.key) != entry.value) return false;
  }
  return true;
}

bool ReplayFacts::hold(std::vector<Owned>& constants) {
  for (const Object& fact : objects_) {
    if (Py_TYPE(fact.object) != fact.type) return false;
    PyObject** dict = _PyObject_GetDictPtr(fact.object);
    if (!dict || *dict != fact.dict) return false;
  }
  for (Type& fact : types_) {
    const unsigned version = version_of(fact.type);
    if (version && version == fact.version) continue;
    if (!is_same(fact)) return false;
    fact.version = version_of(fact.type);
  }
  for (Dict& fact : dicts_) {
    const uint64_t version = version_of(fact.dict);
    if (version && version == fact.version) continue;
    if (!is_same(fact, constants)) return false;
    fact.version = version;
  }
  for (const Cell& fact : cells_) {
    if (!fits(fact.entry, PyCell_GET(fact.cell), constants)) return false;
  }
  for (const Function& fact : functions_) {
    const PyFunctionObject* f = fact.function;
    if (f->func_code != fact.code || f->func_defaults != fact.defaults || f->func_kwdefaults != fact.keyword_defaults)
      return false;
  }
  return true;
}

}  // namespace facula::python

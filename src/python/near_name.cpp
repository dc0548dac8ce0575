#include "python/near_name.h"

#include <algorithm>
#include <array>

#include "python/free_threading.h"
#include "python/objects.h"

namespace facula::python {

namespace {

constexpr size_t kLongest = 63;  // letters; longer names are not compared

/// The edits between two names, or `most + 1` for more.
size_t edits(std::string_view a, std::string_view b, size_t most) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > most) return most + 1;
  std::array<size_t, kLongest + 1> before{}, last{}, row{};
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    size_t least = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
      least = std::min(least, row[j]);
    }
    if (least > most) return most + 1;
    before = last;
    last = row;
  }
  return last[b.size()];
}

PyObject* function_near_name(PyObject*, PyObject* args) {
  PyObject *name, *candidates;
  if (!PyArg_ParseTuple(args, "UO!:_near_name", &name, &PyList_Type, &candidates)) return nullptr;
  return guarded([&]() -> PyObject* {
    std::vector<std::string> known;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(candidates); ++i) {
      const Item item = list_item(candidates, i);
      if (item.get() && PyUnicode_Check(item.get())) known.push_back(printable(item.get()));
    }
    const std::string found = near_name(printable(name), known);
    return found.empty() ? Py_NewRef(Py_None)
                         : PyUnicode_FromStringAndSize(found.data(), static_cast<Py_ssize_t>(found.size()));
  });
}

PyMethodDef functions[] = {{"_near_name", function_near_name, METH_VARARGS,
                            "The name of a list that is nearest to another one, or None where none is near."},
                           {}};

}  // namespace

std::string near_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_edits = kLongest;
  for (const std::string& candidate : candidates) {
    if (candidate == name || candidate.empty() || std::max(name.size(), candidate.size()) > kLongest) continue;
    const size_t allowed = (name.size() + candidate.size() + 3) / 6;
    const size_t most = std::min(allowed, best_edits - 1);
    const size_t found = edits(name, candidate, most);
    if (found > most) continue;
    best = candidate;
    best_edits = found;
    if (found <= 1) break;
  }
  return best;
}

void init_near_name(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python

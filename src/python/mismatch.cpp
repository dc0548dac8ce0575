#include "python/mismatch.h"

#include <algorithm>
#include <cstdarg>

#include "core/near_name.h"
#include "python/free_threading.h"

namespace facula::python {

namespace {

constexpr std::string_view kOptional = " | None";

void describe(std::string& text, PyObject* o) {
  if (PyTuple_Check(o) || PyList_Check(o)) {
    text += PyTuple_Check(o) ? "tuple of (" : "list of [";
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    for (Py_ssize_t i = 0; i < n && i < 4; ++i) {
      if (i) text += ", ";
      const Item item = list_item(o, i);
      text += item.get() ? Py_TYPE(item.get())->tp_name : "none";
    }
    text += n > 4 ? ", ..." : "";
    text += PyTuple_Check(o) ? ")" : "]";
    return;
  }
  text += Py_TYPE(o)->tp_name;
}

/// What Python calls a type of the schema. `takes_one`: whether a single int may stand for the list.
std::string python_type(std::string_view type, bool takes_one) {
  if (type.ends_with('?')) return python_type(type.substr(0, type.size() - 1), takes_one) + std::string(kOptional);
  if (type.ends_with("[]")) {
    const std::string item(type.substr(0, type.size() - 2));
    return (takes_one ? item + " | " : "") + "Sequence[" + item + "]";
  }
  if (type == "Tensor or Number") return "Tensor | Number";
  if (type == "tuple of Tensors") return "Sequence[Tensor]";
  return type == "Scalar" ? "Number" : std::string(type);
}

/// Whether an int may stand for the list of the argument, as in sum(x, 0) and zeros(2).
bool takes_one(const Signature& s, const ArgSpec& argument, bool is_method) {
  if (argument.list_size > 0) return argument.type != ArgType::TensorList;
  const auto positional = [&](const ArgSpec& other) {
    return !other.keyword_only && !(is_method && &other - s.args == s.self_index);
  };
  return argument.type == ArgType::IntList && positional(argument) &&
         std::count_if(s.args, s.args + s.count, positional) == 1;
}

/// `int[]? dim=None` as `dim: int | Sequence[int] | None = None`.
std::string python_argument(const Signature& s, std::string_view stated, bool is_method) {
  const size_t sign = stated.find('=');
  const std::string_view before = stated.substr(0, sign);
  const size_t space = before.rfind(' ');
  if (space == before.npos) return std::string(stated);  // the star
  const std::string_view name = before.substr(space + 1);
  const ArgSpec* argument = std::find_if(s.args, s.args + s.count, [&](const ArgSpec& a) { return a.name == name; });
  std::string type =
      python_type(before.substr(0, space), argument != s.args + s.count && takes_one(s, *argument, is_method));
  if (sign == stated.npos) return std::string(name) + ": " + type;
  const std::string value(stated.substr(sign + 1));
  if (value == "None" && !type.ends_with(kOptional)) type += kOptional;
  return std::string(name) + ": " + type + " = " + value;
}

/// The signature as Python writes it, from `Tensor input, int[] dim, *, dtype? dtype=None`.
std::string python_signature(const Signature& s, bool is_method) {
  const std::string_view stated = s.text;
  std::string text = "(";
  int depth = 0;
  size_t begin = 0;
  for (size_t at = 0; at <= stated.size() && !stated.empty(); ++at) {
    const char letter = at < stated.size() ? stated[at] : ',';
    depth += letter == '[' || letter == '(' ? 1 : letter == ']' || letter == ')' ? -1 : 0;
    if (letter != ',' || depth != 0) continue;
    if (begin) text += ", ";
    text += python_argument(s, stated.substr(begin, at - begin), is_method);
    begin = at + 2;
  }
  return text + ")";
}

/// Say of a tensor that a list of tensors is expected in its place: the common mistake of hstack(a) and the like.
std::string list_wanted(const Signature& s, PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  Py_ssize_t at = 0;
  for (int i = 0; i < s.count && at < nargs; ++i) {
    if (self && i == s.self_index) continue;
    if (s.args[i].type == ArgType::TensorList && is_tensor(args[at]))
      return std::string("argument '") + s.args[i].name + "' must be tuple of Tensors, not Tensor; ";
    ++at;
  }
  return "";
}

/// Say of a text that a dtype is expected in its place.
std::string dtype_wanted(const FunctionSpec& f, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k) {
    if (!PyUnicode_Check(args[nargs + k]) || printable(PyTuple_GET_ITEM(kwnames, k)) != "dtype") continue;
    for (int i = 0; i < f.count; ++i)
      for (int a = 0; a < f.signatures[i].count; ++a)
        if (std::string_view(f.signatures[i].args[a].name) == "dtype")
          return "argument 'dtype' must be a dtype such as torch.float32, not the text '" + printable(args[nargs + k]) +
                 "'; ";
  }
  return "";
}

/// The names of all arguments, and with them the other names under which they are known.
std::vector<std::string> argument_names(const FunctionSpec& f) {
  std::vector<std::string> names;
  for (int i = 0; i < f.count; ++i)
    for (int k = 0; k < f.signatures[i].count; ++k) names.emplace_back(f.signatures[i].args[k].name);
  for (const char* other : {"axis", "keepdims", "axis0", "axis1"})
    if (std::find(names.begin(), names.end(), alias_of(other)) != names.end()) names.emplace_back(other);
  return names;
}

/// Say of a keyword that no signature has it, and which one was meant.
std::string unknown_keyword(const FunctionSpec& f, PyObject* kwnames) {
  const std::vector<std::string> names = argument_names(f);
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k) {
    const std::string given = printable(PyTuple_GET_ITEM(kwnames, k));
    const char* other = alias_of(given);
    const auto known = [&](const std::string& name) { return name == given || (other && name == other); };
    if (std::any_of(names.begin(), names.end(), known)) continue;
    std::string meant = near_name(given, names);
    if (const char* own = alias_of(meant); own && std::find(names.begin(), names.end(), own) != names.end())
      meant = own;
    return ": no argument is called '" + given + (meant.empty() ? "'" : "' (did you mean '" + meant + "'?)");
  }
  return "";
}

/// `tensor: no argument is called 'dtyp' (did you mean 'dtype'?); expected data, dtype`; empty where each is known.
std::string unknown_keyword(PyObject* kwargs, std::string_view function, const std::vector<std::string>& names) {
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(kwargs, &at, &key, &value);) {
    const std::string given = PyUnicode_Check(key) ? printable(key) : "";
    if (std::find(names.begin(), names.end(), given) != names.end()) continue;
    const std::string meant = near_name(given, names);
    std::string text = std::string(function) + ": no argument is called '" + given + "'";
    text += meant.empty() ? "; expected " : " (did you mean '" + meant + "'?); expected ";
    for (const std::string& name : names) text += (&name == names.data() ? "" : ", ") + name;
    return text;
  }
  return "";
}

/// The types of the arguments that came.
std::string received(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  std::string text = "got (";
  if (self) {
    describe(text, self);
    if (nargs) text += ", ";
  }
  constexpr Py_ssize_t kShown = 64;  // of what may be thousands of tensors, given one by one
  for (Py_ssize_t i = 0; i < std::min(nargs, kShown); ++i) {
    if (i) text += ", ";
    describe(text, args[i]);
  }
  if (nargs > kShown) text += ", ... (" + std::to_string(nargs) + " in all)";
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k) {
    if (nargs + k + (self ? 1 : 0)) text += ", ";
    text += printable(PyTuple_GET_ITEM(kwnames, k)) + "=";
    describe(text, args[nargs + k]);
  }
  return text + ")";
}

std::vector<std::string> texts_in(PyObject* sequence) {
  const Owned items(check(PySequence_List(sequence)));
  std::vector<std::string> texts;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    if (PyObject* item = PyList_GET_ITEM(items.get(), i); PyUnicode_Check(item)) texts.push_back(printable(item));
  }
  return texts;
}

PyObject* text_object(const std::string& text) {
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

PyObject* function_near_name(PyObject*, PyObject* args) {
  PyObject *name, *candidates;
  if (!PyArg_ParseTuple(args, "UO:_near_name", &name, &candidates)) return nullptr;
  return guarded([&]() -> PyObject* {
    const std::string found = near_name(printable(name), texts_in(candidates));
    return found.empty() ? Py_NewRef(Py_None) : text_object(found);
  });
}

PyObject* function_suggestion(PyObject*, PyObject* args) {
  PyObject *name, *candidates;
  if (!PyArg_ParseTuple(args, "OO:_suggestion", &name, &candidates)) return nullptr;
  return guarded([&]() -> PyObject* {
    return text_object(PyUnicode_Check(name) ? suggestion(printable(name), texts_in(candidates)) : "");
  });
}

PyObject* function_one_of(PyObject*, PyObject* args) {
  PyObject *given, *words;
  if (!PyArg_ParseTuple(args, "OO:_one_of", &given, &words)) return nullptr;
  return guarded([&]() -> PyObject* {
    const std::vector<std::string> known = texts_in(words);
    if (PyUnicode_Check(given)) return text_object(one_of(known, printable(given)));
    const Owned shown(check(PyObject_Repr(given)));
    return text_object(alternatives(known) + ", got " + printable(shown.get()));
  });
}

PyMethodDef functions[] = {
    {"_near_name", function_near_name, METH_VARARGS,
     "_near_name(name, names): return the name that is nearest to another one, or None where none is near."},
    {"_suggestion", function_suggestion, METH_VARARGS,
     "_suggestion(name, names): return `. Did you mean: 'zeros'?` where a name is near, else an empty text."},
    {"_one_of", function_one_of, METH_VARARGS,
     "_one_of(given, words): return `'left' or 'right', got 'lef'. Did you mean: 'left'?`, the end of an error."},
    {}};

}  // namespace

void report_mismatch(const FunctionSpec& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                     PyObject* kwnames) {
  std::string_view name = f.shown;
  if (constexpr std::string_view module = "functional_"; name.starts_with(module)) name.remove_prefix(module.size());
  std::string text = std::string(name) + ": ";
  if (f.count == 1) text += list_wanted(f.signatures[0], self, args, nargs);
  text += dtype_wanted(f, args, nargs, kwnames);
  text += "the arguments fit no signature" + unknown_keyword(f, kwnames) + "; expected ";
  text += f.count > 1 ? "one of:" : "";
  for (int i = 0; i < f.count; ++i)
    text += (f.count > 1 ? "\n * " : "") + python_signature(f.signatures[i], self != nullptr);
  text += (f.count > 1 ? "\n" : ", ") + received(self, args, nargs, kwnames);
  PyErr_SetString(PyExc_TypeError, text.c_str());
}

int parse_keywords(PyObject* args, PyObject* kwargs, const char* format, const char* const* names, ...) {
  va_list places;
  va_start(places, names);
  const int parsed = PyArg_VaParseTupleAndKeywords(args, kwargs, format, const_cast<char**>(names), places);
  va_end(places);
  if (parsed || !kwargs || !PyErr_ExceptionMatches(PyExc_TypeError)) return parsed;
  PyObject *type, *value, *trace;  // CPython's error, which does not say what was meant
  PyErr_Fetch(&type, &value, &trace);
  std::string text;
  guarded([&]() -> PyObject* {
    std::vector<std::string> known;
    for (const char* const* name = names; *name; ++name) {
      if (**name) known.emplace_back(*name);
    }
    const std::string_view stated = format;
    text = unknown_keyword(kwargs, stated.substr(stated.rfind(':') + 1), known);
    return nullptr;
  });
  PyErr_Restore(type, value, trace);
  if (!text.empty()) PyErr_SetString(PyExc_TypeError, text.c_str());
  return parsed;
}

void init_near_name(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python

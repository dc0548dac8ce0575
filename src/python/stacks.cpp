// Stacks: where Python is, as numbers. A stack is a line of code and the stack around it, so that stacks of one place
// share what is around them.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/host.h"
#include "core/places.h"
#include "python/bindings.h"
#include "python/free_threading.h"

#if PY_VERSION_HEX < 0x030B0000  // there Python.h does not declare PyFrame_GetBack
#include <frameobject.h>
#endif

namespace facula::python {
namespace {

struct Place {
  PyCodeObject* code;  // kept alive: its address is part of the key
  int line;
  uint32_t around;
  bool operator==(const Place&) const = default;
};
struct PlaceHash {
  size_t operator()(const Place& p) const {
    size_t h = std::hash<void*>()(p.code);
    return (h * 31 + static_cast<size_t>(p.line)) * 0x9E3779B97F4A7C15u + p.around;
  }
};
Mutex places_lock;                           // of what follows, up to the instructions
std::vector<Place> places{{nullptr, 0, 0}};  // number 0: nowhere
std::unordered_map<Place, uint32_t, PlaceHash> place_numbers;
constexpr int kDeepest = 64;

/// For who holds the lock.
uint32_t number_of(const Place& place) {
  auto [found, fresh] = place_numbers.try_emplace(place, static_cast<uint32_t>(places.size()));
  if (fresh) {
    Py_INCREF(place.code);
    places.push_back(place);
  }
  return found->second;
}

/// PyFrame_GetLineNumber reads the code's table of lines from its begin: what it found is cached.
int line_of(PyFrameObject* frame, [[maybe_unused]] PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030B0000
  static std::unordered_map<Place, int, PlaceHash> lines;  // the instruction is in the place of the line
  Holding guard(places_lock);
  const auto [found, fresh] = lines.try_emplace({code, PyFrame_GetLasti(frame), 0});
  if (fresh) {
    Py_INCREF(code);
    found->second = PyFrame_GetLineNumber(frame);
  }
  return found->second;
#else
  return PyFrame_GetLineNumber(frame);
#endif
}

// Only the lock's holder can walk frames; others, such as backward without the lock, are nowhere.
uint32_t stack_here() {
  if (!PyGILState_Check()) return 0;
  PyThreadState* state = PyThreadState_Get();
  PyFrameObject* frame = PyThreadState_GetFrame(state);
  Place chain[kDeepest];
  int depth = 0;
  while (frame && depth < kDeepest) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    chain[depth++] = {code, line_of(frame, code), 0};
    Py_DECREF(code);  // the frame holds it
    PyFrameObject* next = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = next;
  }
  Py_XDECREF(frame);
  uint32_t number = 0;
  Holding guard(places_lock);
  while (depth > 0) {
    chain[--depth].around = number;
    number = number_of(chain[depth]);
  }
  return number;
}

/// The package's folder, with a slash; null with an error set.
PyObject* own_folder() {
  Owned package(PyImport_ImportModule("facula"));
  Owned folders(package ? PyObject_GetAttrString(package.get(), "__path__") : nullptr);
  Owned first(folders ? PySequence_GetItem(folders.get(), 0) : nullptr);
  return first && PyUnicode_Check(first.get()) ? PyUnicode_FromFormat("%U/", first.get()) : nullptr;
}

/// Whether the code is this package's.
bool is_own(PyCodeObject* code) {
  static std::atomic<PyObject*> folder;
  PyObject* known = made_once(folder, [] {
    PyObject* found = own_folder();
    if (!found) PyErr_Clear();
    return found ? found : PyUnicode_FromString("?");
  });
  const char *start = PyUnicode_AsUTF8(known), *file = PyUnicode_AsUTF8(code->co_filename);
  if (!start || !file) PyErr_Clear();
  return start && file && std::string_view(file).starts_with(start);
}

#if PY_VERSION_HEX >= 0x030B0000
/// What is known of an instruction: of one that is not the package's, the number of its line as a stack of its own.
struct Instruction {
  PyCodeObject* code = nullptr;  // its line has a number, which keeps it alive
  int at = 0;
  uint32_t number = 0;
  bool own = false;
};
Instruction known_instruction(PyFrameObject* frame, PyCodeObject* code) {
  static std::array<Instruction, 256> known;
  const int at = PyFrame_GetLasti(frame);
  const uint64_t mixed = (reinterpret_cast<uintptr_t>(code) >> 4) + static_cast<uint64_t>(at);
  Instruction& slot = known[mixed * 0x9E3779B97F4A7C15u >> 56];
  {
    Holding guard(places_lock);
    if (slot.code == code && slot.at == at) return slot;
  }
  const int line = line_of(frame, code);
  const bool own = is_own(code);
  Holding guard(places_lock);
  return slot = {code, at, number_of({code, line, 0}), own};
}

/// The innermost line that is not this package's, or the innermost one.
uint32_t line_here() {
  if (!PyGILState_Check()) return 0;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  uint32_t number = 0;
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const Instruction here = known_instruction(frame, code);
    if (!number || !here.own) number = here.number;
    const bool found = !here.own;
    Py_DECREF(code);  // the frame holds it
    PyFrameObject* next = found ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = next;
  }
  return number;
}
#else
uint32_t line_here() { return stack_here(); }
#endif

/// The lines of a stack, innermost first; none where there is no such stack.
std::vector<Place> lines_of(size_t number) {
  Holding guard(places_lock);
  std::vector<Place> found;
  for (size_t at = number < places.size() ? number : 0; at != 0; at = places[at].around) found.push_back(places[at]);
  return found;
}

// _stack(number) -> [(file, line, function), ...], innermost first
PyObject* function_stack(PyObject*, PyObject* number) {
  return guarded([&] {
    const auto given_number = static_cast<size_t>(to_int(number));
    const std::vector<Place> lines = lines_of(given_number);
    FACULA_CHECK(given_number == 0 || !lines.empty(), ErrorKind::Value, "_stack: expected the number of a stack, got ",
                 given_number);
    Owned list(check(PyList_New(0)));
    for (const Place& place : lines) {
      Owned row(check(Py_BuildValue("(OiO)", place.code->co_filename, place.line, place.code->co_name)));
      check(PyList_Append(list.get(), row.get()));
    }
    return list.release();
  });
}
/// The innermost line that is not this package's, or the innermost one.
std::string place_text(uint32_t number) {
  WithLock lock;
  const std::vector<Place> lines = lines_of(number);
  if (lines.empty()) return {};
  auto chosen = std::find_if(lines.begin(), lines.end(), [](const Place& place) { return !is_own(place.code); });
  if (chosen == lines.end()) chosen = lines.begin();
  const char *file = PyUnicode_AsUTF8(chosen->code->co_filename), *name = PyUnicode_AsUTF8(chosen->code->co_name);
  PyErr_Clear();
  return std::string(file ? file : "?") + ":" + std::to_string(chosen->line) + " in " + (name ? name : "?");
}

PyObject* function_stack_here(PyObject*, PyObject*) { return PyLong_FromUnsignedLong(stack_here()); }

PyMethodDef functions[] = {
    {"_stack", function_stack, METH_O, "_stack(number): its lines as (file, line, function), innermost first."},
    {"_stack_here", function_stack_here, METH_NOARGS, "_stack_here(): the number of the present stack."},
    {}};

}  // namespace

void init_stacks(PyObject* module);  // called by init_observe
void init_stacks(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  host.capture_stack = stack_here;
  facula::place_text = place_text;
  facula::capture_line = line_here;
}

}  // namespace facula::python

// Programs of steps (python/replay.h), and the object that holds one.
//
// Policy.
//   - A step is what the interpreter would do there. None of them runs code of the user's: arguments and constants are
//     plain tensors, numbers, texts and the like, and functions are the core's. So facts that hold when the call begins
//     hold until its end.
//   - A condition on values of the call (shapes, mostly) is a step, too: where it is not as expected, Python makes the
//     call. Such steps come before everything that has an effect.
//   - An error before the first effect is forgotten, and Python makes the call, so that the traceback is the program's.
#include "python/replay.h"

#include <frameobject.h>

#include <algorithm>
#include <array>

#include "program/boxed.h"
#include "python/bindings.h"
#include "python/replay_facts.h"

namespace facula::python {
namespace {

constexpr size_t kMostRegisters = 512, kMostOperands = 64, kMostModes = 16, kMostDirect = 8;

enum class StepKind : uint8_t {
  Call,       // what(*operands), the last ones by the keywords `names`
  Method,     // a method of the first operand, `what` where it is a plain tensor
  Attribute,  // the attribute `name`
  Binary,     // kBinary[how]
  Inplace,    // kInplace[how]
  Unary,      // kUnary[how]
  Compare,    // by `how`, as PyObject_RichCompare
  Item,       // a[b]
  SetItem,    // a[b] = c
  Tuple,
  List,
  Dict,  // keys `names`
  Slice,
  Unpack,  // `how` values, in registers from `to` on
  Expect,  // that the operand is true, or not: `how`
  Grad,    // gradients are recorded from here on, or not: `how`
  GradBack,
};

constexpr std::array kBinary = {PyNumber_Add,         PyNumber_Subtract,      PyNumber_Multiply, PyNumber_TrueDivide,
                                PyNumber_FloorDivide, PyNumber_Remainder,     PyNumber_And,      PyNumber_Or,
                                PyNumber_Xor,         PyNumber_MatrixMultiply};
constexpr std::array kInplace = {PyNumber_InPlaceAdd,           PyNumber_InPlaceSubtract,    PyNumber_InPlaceMultiply,
                                 PyNumber_InPlaceTrueDivide,    PyNumber_InPlaceFloorDivide, PyNumber_InPlaceRemainder,
                                 PyNumber_InPlaceAnd,           PyNumber_InPlaceOr,          PyNumber_InPlaceXor,
                                 PyNumber_InPlaceMatrixMultiply};
constexpr std::array kUnary = {PyNumber_Negative, PyNumber_Positive, PyNumber_Invert};

struct Step {
  StepKind kind;
  bool effect;
  uint8_t how;
  uint16_t to;
  uint16_t operands, operand_count;  // where they begin in `numbers`
  uint16_t over, over_count;         // registers that nobody reads later
  PyObject* what;
  PyObject* name;
  PyObject* names;
  const BoxedOp* direct;  // the op behind `what`, where it takes nothing but tensors
  PyObject* places;       // ((file, function, line), ...), the outermost first
};

enum class ArgumentKind : uint8_t {
  Tensor,  // a plain one
  Number,  // of the class `value`
  Equal,   // the same as `value`, and of its class
  Same,    // the object `value`
};
struct Argument {
  ArgumentKind kind;
  PyObject* value;
};

struct ReplayProgram {
  PyObject_HEAD PyObject* spec;
  std::vector<Argument> arguments;
  PyObject* names;  // keywords of the call; null: none
  std::vector<Owned> constants;
  std::vector<uint16_t> without_dict;  // constants whose methods are called
  std::vector<Step> steps;
  std::vector<uint16_t> numbers;
  size_t registers;
  uint16_t result;
  bool pure;
  bool goes_back;  // has a backward pass
  int64_t calls;
  ReplayFacts facts;
};
ReplayProgram* program_of(PyObject* o) { return reinterpret_cast<ReplayProgram*>(o); }

PyTypeObject* replay_type = nullptr;

// ---- a call

/// A call that runs on this thread.
struct Running {
  bool effects = false, leaves = false;
};
thread_local constinit Running* running __attribute__((tls_model("initial-exec"))) = nullptr;

/// A tensor without attributes that the program has set on it, which could hide methods.
bool has_no_attributes(PyObject* o) {
  PyObject* dict = reinterpret_cast<PyTensor*>(o)->dict;
  return !dict || PyDict_GET_SIZE(dict) == 0;
}

bool fits(const Argument& argument, PyObject* o) {
  switch (argument.kind) {
    case ArgumentKind::Tensor: return is_plain_tensor(o) && has_no_attributes(o);
    case ArgumentKind::Number: return reinterpret_cast<PyObject*>(Py_TYPE(o)) == argument.value;
    case ArgumentKind::Same: return o == argument.value;
    case ArgumentKind::Equal: break;
  }
  if (o == argument.value) return true;
  if (Py_TYPE(o) != Py_TYPE(argument.value)) return false;  // classes whose comparisons do not fail
  return PyObject_RichCompareBool(o, argument.value, Py_EQ) == 1;
}

bool are_names(PyObject* names, PyObject* expected) {
  if (names == expected) return true;
  const Py_ssize_t count = names ? PyTuple_GET_SIZE(names) : 0;
  if (count != (expected ? PyTuple_GET_SIZE(expected) : 0)) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *a = PyTuple_GET_ITEM(names, i), *b = PyTuple_GET_ITEM(expected, i);
    if (a != b && PyUnicode_Compare(a, b) != 0) return false;
  }
  return true;
}

bool fits(const ReplayProgram& program, PyObject* const* args, size_t count, PyObject* names) {
  if (count != program.arguments.size() || !are_names(names, program.names)) return false;
  for (size_t i = 0; i < count; ++i) {
    if (!fits(program.arguments[i], args[i])) return false;
  }
  return true;
}

/// Whether a backward pass that ends at a tensor runs no code of the user's there.
bool is_quiet_leaf(PyObject* o) {
  if (!is_tensor(o)) return true;
  TensorImpl* impl = tensor_of(o).impl();
  if (!(live_flags(impl) & kRequiresGrad)) return true;
  const AutogradMeta* meta = autograd_meta(impl);
  if (!meta) return true;
  const AccumulateGrad* accumulator = meta->accumulator.load();
  return !grad_fn(impl) && (!accumulator || !accumulator->extra_if_any());
}

bool has_quiet_leaves(const ReplayProgram& program, PyObject* const* args) {
  const auto is_quiet = [](const Owned& constant) { return is_quiet_leaf(constant.get()); };
  return std::all_of(args, args + program.arguments.size(), is_quiet_leaf) &&
         std::ranges::all_of(program.constants, is_quiet);
}

bool hide_no_methods(const ReplayProgram& program) {
  return std::ranges::all_of(program.without_dict,
                             [&](uint16_t number) { return has_no_attributes(program.constants[number].get()); });
}

/// The values of a call. Arguments are borrowed; constants are not, since another thread may exchange them. What a
/// direct step gives has no object before one is needed.
class Registers {
 public:
  Registers(const ReplayProgram& program, PyObject* const* args)
      : first_(program.arguments.size()), count_(program.registers) {
    std::ranges::copy_n(args, static_cast<ptrdiff_t>(first_), objects_);
    size_t next = first_;
    for (const Owned& constant : program.constants) objects_[next++] = Py_NewRef(constant.get());
    std::fill(objects_ + next, objects_ + count_, nullptr);
    for (size_t i = 0; i < count_; ++i) new (values() + i) Value();
  }
  ~Registers() {
    for (size_t i = first_; i < count_; ++i) Py_XDECREF(objects_[i]);
    for (size_t i = 0; i < count_; ++i) values()[i].~Value();
  }
  Registers(const Registers&) = delete;

  PyObject* object(size_t i) {
    if (!objects_[i]) objects_[i] = check(wrap(values()[i].tensor()));
    return objects_[i];
  }
  /// As direct steps take it: null for what is no plain tensor, or has no plain layout.
  const Value* value(size_t i) {
    Value& value = values()[i];
    if (!value.is_tensor()) {
      if (objects_[i] == Py_None) return &value;
      if (!is_plain_tensor(objects_[i])) return nullptr;
      value = Value(tensor_of(objects_[i]));
    }
    return value.tensor_impl()->flags & kNotAsPromised ? nullptr : &value;
  }
  void set(size_t i, PyObject* owned) { objects_[i] = owned; }
  void set(size_t i, Value&& made) { values()[i] = std::move(made); }
  void drop(size_t i) {
    values()[i].reset();
    if (i >= first_) Py_CLEAR(objects_[i]);
  }

 private:
  Value* values() { return reinterpret_cast<Value*>(room_); }

  const size_t first_, count_;
  PyObject* objects_[kMostRegisters];
  alignas(Value) std::byte room_[kMostRegisters * sizeof(Value)];
};

PyObject* made_tuple(PyObject* const* a, size_t count) {
  PyObject* made = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; made && i < count; ++i) PyTuple_SET_ITEM(made, static_cast<Py_ssize_t>(i), Py_NewRef(a[i]));
  return made;
}
PyObject* made_list(PyObject* const* a, size_t count) {
  PyObject* made = PyList_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; made && i < count; ++i) PyList_SET_ITEM(made, static_cast<Py_ssize_t>(i), Py_NewRef(a[i]));
  return made;
}
PyObject* made_dict(PyObject* keys, PyObject* const* a, size_t count) {
  Owned made(PyDict_New());
  for (size_t i = 0; made && i < count; ++i) {
    if (PyDict_SetItem(made.get(), PyTuple_GET_ITEM(keys, static_cast<Py_ssize_t>(i)), a[i]) < 0) return nullptr;
  }
  return made.release();
}

size_t positional(const Step& step) {
  return step.operand_count - (step.names ? static_cast<size_t>(PyTuple_GET_SIZE(step.names)) : 0);
}

PyObject* method_result(const Step& step, PyObject* const* a) {
  const size_t count = positional(step) | PY_VECTORCALL_ARGUMENTS_OFFSET;
  if (is_plain_tensor(a[0])) return call_python(PyObject_Vectorcall, step.what, a, count, step.names);
  return call_python(PyObject_VectorcallMethod, step.name, a, count, step.names);
}

/// A new reference to what a step gives, or null with an error. `a[-1]` may be written.
PyObject* result_of(const Step& step, PyObject* const* a) {
  const size_t count = step.operand_count;
  switch (step.kind) {
    case StepKind::Call:
      return call_python(PyObject_Vectorcall, step.what, a, positional(step) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                         step.names);
    case StepKind::Method: return method_result(step, a);
    case StepKind::Attribute: return call_python(PyObject_GetAttr, a[0], step.name);
    case StepKind::Binary: return call_python(kBinary[step.how], a[0], a[1]);
    case StepKind::Inplace: return call_python(kInplace[step.how], a[0], a[1]);
    case StepKind::Unary: return call_python(kUnary[step.how], a[0]);
    case StepKind::Compare: return call_python(PyObject_RichCompare, a[0], a[1], static_cast<int>(step.how));
    case StepKind::Item: return call_python(PyObject_GetItem, a[0], a[1]);
    case StepKind::SetItem: return PyObject_SetItem(a[0], a[1], a[2]) < 0 ? nullptr : Py_NewRef(Py_None);
    case StepKind::Tuple: return made_tuple(a, count);
    case StepKind::List: return made_list(a, count);
    case StepKind::Dict: return made_dict(step.names, a, count);
    case StepKind::Slice: return PySlice_New(a[0], a[1], a[2]);
    default: PyErr_BadInternalCall(); return nullptr;
  }
}

/// Puts the values of a tuple into registers; false, with or without an error, where it is another one.
bool unpack(const Step& step, PyObject* from, Registers& registers) {
  if (!PyTuple_Check(from) || PyTuple_GET_SIZE(from) != step.how) {
    PyErr_Format(PyExc_ValueError, "expected a tuple of %d values to unpack", static_cast<int>(step.how));
    return false;
  }
  for (uint8_t i = 0; i < step.how; ++i) registers.set(step.to + i, Py_NewRef(PyTuple_GET_ITEM(from, i)));
  return true;
}

/// Adds to the error that is set where the program is.
void add_places(const Step& step) {
  if (!step.places) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Owned globals(PyDict_New());
  for (Py_ssize_t i = PyTuple_GET_SIZE(step.places); i-- > 0 && globals;) {
    PyObject* place = PyTuple_GET_ITEM(step.places, i);
    const char *file = PyUnicode_AsUTF8(PyTuple_GET_ITEM(place, 0)),
               *function = PyUnicode_AsUTF8(PyTuple_GET_ITEM(place, 1));
    if (!file || !function) break;
    const int line = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(place, 2)));
    Owned code(reinterpret_cast<PyObject*>(PyCode_NewEmpty(file, function, line)));
    if (!code) break;
    Owned frame(reinterpret_cast<PyObject*>(
        PyFrame_New(PyThreadState_Get(), reinterpret_cast<PyCodeObject*>(code.get()), globals.get(), nullptr)));
    if (!frame) break;
    PyErr_Restore(type, value, trace);
    PyTraceBack_Here(reinterpret_cast<PyFrameObject*>(frame.get()));
    PyErr_Fetch(&type, &value, &trace);
  }
  PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

/// Makes a call step by step.
class Play {
 public:
  Play(const ReplayProgram& program, PyObject* const* args)
      : program_(program), registers_(program, args), outer_(std::exchange(running, &state_)) {}
  ~Play() {
    if (modes_) thread_state.grad_enabled = before_[0];
    running = outer_;
  }
  Play(const Play&) = delete;

  PyObject* run(ReplayEnd& end) {
    const Step* step = program_.steps.data();
    const Step* const last = step + program_.steps.size();
    try {
      while (step != last && take(*step)) ++step;
      if (step == last) {
        PyObject* result = Py_NewRef(registers_.object(program_.result));
        end = ReplayEnd::Done;
        return result;
      }
    } catch (...) {
      translate_exception();
    }
    return failed(step == last ? program_.steps.back() : *step, end);
  }

 private:
  bool take(const Step& step) {
    const uint16_t* numbers = program_.numbers.data();
    if (!(step.direct && is_taken_directly(step)) && !is_taken(step)) return false;
    for (size_t i = 0; i < step.over_count; ++i) registers_.drop(numbers[step.over + i]);
    return true;
  }

  /// A function of the core that takes nothing but tensors is called without what Python's calls need.
  bool is_taken_directly(const Step& step) {
    const Value* given[kMostDirect];
    const uint16_t* numbers = program_.numbers.data() + step.operands;
    size_t count = 0;
    for (; count < step.operand_count; ++count) {
      given[count] = registers_.value(numbers[count]);
      if (!given[count]) return false;
    }
    for (; count < step.direct->arguments.size(); ++count) given[count] = &step.direct->arguments[count].default_value;
    Value made;
    step.direct->call(given, &made);
    registers_.set(step.to, std::move(made));
    return true;
  }

  bool is_taken(const Step& step) {
    PyObject* room[1 + kMostOperands];
    PyObject** a = room + 1;
    const uint16_t* numbers = program_.numbers.data();
    for (size_t i = 0; i < step.operand_count; ++i) a[i] = registers_.object(numbers[step.operands + i]);
    state_.effects |= step.effect;
    if (step.kind >= StepKind::Unpack) {
      if (!change(step, a)) return false;
    } else {
      PyObject* made = result_of(step, a);
      if (!made) return false;
      registers_.set(step.to, made);
    }
    return true;
  }

  /// Steps without a result of their own.
  bool change(const Step& step, PyObject* const* a) {
    switch (step.kind) {
      case StepKind::Unpack: return unpack(step, a[0], registers_);
      case StepKind::Expect: return PyObject_IsTrue(a[0]) == step.how;
      case StepKind::Grad:
        before_[modes_++] = thread_state.grad_enabled;
        thread_state.grad_enabled = step.how;
        return true;
      default: thread_state.grad_enabled = before_[--modes_]; return true;
    }
  }

  PyObject* failed(const Step& step, ReplayEnd& end) {
    const bool is_error = !PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception);  // not an interrupt
    if (!state_.effects && is_error) {
      PyErr_Clear();
      end = ReplayEnd::Refused;
      return nullptr;
    }
    add_places(step);
    end = ReplayEnd::Done;
    return nullptr;
  }

  const ReplayProgram& program_;
  Running state_;
  Registers registers_;
  Running* const outer_;
  bool before_[kMostModes];
  size_t modes_ = 0;
};

// ---- the object

uint16_t number_of(PyObject* o) {
  const long number = PyLong_AsLong(o);
  if (number < 0 || number > UINT16_MAX) throw PythonError{};
  return static_cast<uint16_t>(number);
}
PyObject* part(PyObject* row, Py_ssize_t i) { return PyTuple_GET_ITEM(row, i); }
PyObject* part_or_null(PyObject* row, Py_ssize_t i) { return part(row, i) == Py_None ? nullptr : part(row, i); }

void read_operands(ReplayProgram& program, Step& step, PyObject* operands) {
  step.operands = static_cast<uint16_t>(program.numbers.size());
  step.operand_count = static_cast<uint16_t>(PyTuple_GET_SIZE(operands));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands); ++i) program.numbers.push_back(number_of(part(operands, i)));
}

/// Notes behind which step each register is read last.
void find_ends(ReplayProgram& program) {
  std::vector<bool> is_read(program.registers);
  is_read[program.result] = true;
  for (auto step = program.steps.rbegin(); step != program.steps.rend(); ++step) {
    const size_t begin = program.numbers.size();
    const auto note = [&](size_t number) {
      if (!is_read[number]) program.numbers.push_back(static_cast<uint16_t>(number));
      is_read[number] = true;
    };
    for (size_t i = 0; i < step->operand_count; ++i) note(program.numbers[step->operands + i]);
    if (step->kind < StepKind::Unpack) note(step->to);
    step->over = static_cast<uint16_t>(begin);
    step->over_count = static_cast<uint16_t>(program.numbers.size() - begin);
  }
}

/// The op that a step may call directly, by its key; null where it takes more than that.
const BoxedOp* direct_op(PyObject* key, size_t operands) {
  const BoxedOp* op = key == Py_None ? nullptr : find_boxed(utf8(key));
  if (!op || op->arguments.size() > kMostDirect || op->arguments.size() < operands || op->results.size() != 1)
    return nullptr;
  for (size_t i = 0; i < op->arguments.size(); ++i) {
    const BoxedArgument& argument = op->arguments[i];
    if (i < operands ? !argument.type.is_tensor() || argument.type.list : argument.required) return nullptr;
  }
  return op;
}

// (kind, how, to, operands, what, name, names, effect, places, key of the op)
void read_step(ReplayProgram& program, PyObject* row) {
  Step step{};
  step.kind = static_cast<StepKind>(number_of(part(row, 0)));
  step.how = static_cast<uint8_t>(number_of(part(row, 1)));
  step.to = number_of(part(row, 2));
  read_operands(program, step, part(row, 3));
  step.what = part_or_null(row, 4);
  step.name = part_or_null(row, 5);
  step.names = part_or_null(row, 6);
  step.effect = part(row, 7) == Py_True;
  step.places = part_or_null(row, 8);
  step.direct = step.names || step.effect ? nullptr : direct_op(part(row, 9), step.operand_count);
  program.pure = program.pure && !step.effect;
  program.goes_back |= step.kind == StepKind::Method && PyUnicode_CompareWithASCIIString(step.name, "backward") == 0;
  program.steps.push_back(step);
}

// (arguments, keywords, constants, without dict, steps, registers, result, facts)
void read_program(ReplayProgram& program, PyObject* spec) {
  PyObject *arguments = part(spec, 0), *constants = part(spec, 2), *without = part(spec, 3), *steps = part(spec, 4);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
    PyObject* row = part(arguments, i);
    program.arguments.push_back({static_cast<ArgumentKind>(number_of(part(row, 0))), part(row, 1)});
  }
  program.names = part_or_null(spec, 1);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i)
    program.constants.push_back(Owned::share(part(constants, i)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(without); ++i)
    program.without_dict.push_back(number_of(part(without, i)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); ++i) read_step(program, part(steps, i));
  program.registers = number_of(part(spec, 5));
  program.result = number_of(part(spec, 6));
  FACULA_CHECK(program.registers <= kMostRegisters, ErrorKind::Value, "_Replay: at most ", kMostRegisters,
               " values, got ", program.registers);
  for (const Step& step : program.steps)
    FACULA_CHECK(step.operand_count <= kMostOperands, ErrorKind::Value, "_Replay: expected at most ", kMostOperands,
                 " operands, got ", step.operand_count);
  find_ends(program);
  program.facts.read(part(spec, 7), reinterpret_cast<PyObject*>(replay_type));
}

PyObject* program_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* spec;
  if (!PyArg_ParseTuple(args, "O!:_Replay", &PyTuple_Type, &spec)) return nullptr;
  PyObject* object = type->tp_alloc(type, 0);
  if (!object) return nullptr;
  ReplayProgram* program = program_of(object);
  new (&program->arguments) std::vector<Argument>();
  new (&program->constants) std::vector<Owned>();
  new (&program->without_dict) std::vector<uint16_t>();
  new (&program->steps) std::vector<Step>();
  new (&program->numbers) std::vector<uint16_t>();
  new (&program->facts) ReplayFacts();
  program->spec = Py_NewRef(spec);
  program->pure = true;
  program->goes_back = false;
  program->calls = 0;
  return guarded([&] {
    Owned made(object);
    read_program(*program, spec);
    return made.release();
  });
}

void program_dealloc(PyObject* object) {
  ReplayProgram* program = program_of(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  program->facts.~ReplayFacts();
  program->numbers.~vector();
  program->steps.~vector();
  program->without_dict.~vector();
  program->constants.~vector();
  program->arguments.~vector();
  Py_XDECREF(program->spec);
  type->tp_free(object);
  Py_DECREF(type);
}
int program_traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(program_of(object)->spec);
  for (const Owned& constant : program_of(object)->constants) Py_VISIT(constant.get());
  Py_VISIT(Py_TYPE(object));
  return 0;
}

PyObject* get_spec(PyObject* self, void*) { return Py_NewRef(program_of(self)->spec); }
PyObject* get_calls(PyObject* self, void*) { return PyLong_FromLongLong(program_of(self)->calls); }
PyGetSetDef program_properties[] = {
    {"spec", get_spec, nullptr, "What it was made of.", nullptr},
    {"calls", get_calls, nullptr, "Calls that it made.", nullptr},
    {},
};
PyType_Slot program_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(program_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(program_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(program_traverse)},
    {Py_tp_getset, program_properties},
    {Py_tp_doc, const_cast<char*>("_Replay(spec)\n\nSteps that make a call; see facula/compiler/_replay/trusted.py.")},
    {0, nullptr},
};
PyType_Spec program_spec = {"facula._C._Replay", static_cast<int>(sizeof(ReplayProgram)), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, program_slots};

}  // namespace

bool is_quiet_thread() {
  constexpr uint32_t kLoud = kModeAnomaly | kModePython | kModeSavedHooks | kModeVmap;
  if (watching() != 0 || (thread_state.modes & kLoud)) return false;
  const PyThreadState* thread = PyThreadState_Get();
  return !thread->c_tracefunc && !thread->c_profilefunc;
}

bool is_replay(PyObject* o) { return Py_TYPE(o) == replay_type; }
bool replay_is_pure(PyObject* program) { return program_of(program)->pure; }

PyObject* replay_call(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names, ReplayEnd& end) {
  ReplayProgram& program = *program_of(object);
  const size_t count = static_cast<size_t>(PyVectorcall_NARGS(nargsf) + (names ? PyTuple_GET_SIZE(names) : 0));
  end = ReplayEnd::Refused;
  if (!is_quiet_thread() || !fits(program, args, count, names)) return nullptr;
  if (!program.facts.hold(program.constants)) {
    end = ReplayEnd::Stale;
    return nullptr;
  }
  if (!hide_no_methods(program) || (program.goes_back && !has_quiet_leaves(program, args))) return nullptr;
  const Owned alive = Owned::share(object);  // another thread may take another one
  PyObject* result = Play(program, args).run(end);
  program.calls += end == ReplayEnd::Done;
  return result;
}

bool replay_left_for_warning() {
  if (!running || running->effects) return false;
  PyErr_SetString(PyExc_RuntimeError, "replay: Python makes this call");
  return true;
}

void init_replay(PyObject* module) {
  replay_type = reinterpret_cast<PyTypeObject*>(check(PyType_FromSpec(&program_spec)));
  check(PyModule_AddObjectRef(module, "_Replay", reinterpret_cast<PyObject*>(replay_type)));
}

}  // namespace facula::python
